"""From a key to a stored result: whose trouble it was, and never twice."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pytest

from pytest_a2a_bench.benchmarks.base import Outcome, TrialContext
from pytest_a2a_bench.errors import (
    AgentOutcomeError,
    CardError,
    ConfigurationError,
    EvaluatorError,
    HarnessError,
    JudgeMissingError,
    LLMError,
    TrialTimeoutError,
    TurnTimeoutError,
)
from pytest_a2a_bench.model import DialectFinding, Reward, TrialKey
from pytest_a2a_bench.results.store import Store
from pytest_a2a_bench.settings import Settings
from pytest_a2a_bench.trials import runner as runner_module
from pytest_a2a_bench.trials.runner import TRACEBACK_LIMIT, Runner, classify, describe, trial_seed

KEY = TrialKey("fake", "desk", "1", 2)


class Session:
    context_id = "c"
    metrics: tuple[Any, ...] = ()

    def __init__(self, metadata: Any) -> None:
        self.metadata = metadata
        self.finished = 0
        self.turn_seconds = [0.5, 1.5]
        self.findings = [DialectFinding("wire", "odd", turn=1)]

    def finish(self) -> None:
        self.finished += 1


class Connection:
    def __init__(self) -> None:
        self.opened: list[Session] = []

    def session(self, metadata: Any, tape: Any = None) -> Session:
        self.opened.append(Session(metadata))
        return self.opened[-1]


class Fake:
    name = "fake"

    def __init__(self, outcome: Outcome | Exception) -> None:
        self.outcome = outcome
        self.contexts: list[TrialContext] = []

    def run_trial(self, context: TrialContext) -> Outcome:
        self.contexts.append(context)
        if isinstance(self.outcome, Exception):
            raise self.outcome
        return self.outcome


def make(
    monkeypatch: pytest.MonkeyPatch, path: Path, outcome: Outcome | Exception, **options: Any
) -> tuple[Runner, Fake, Connection]:
    fake, connection = Fake(outcome), Connection()
    monkeypatch.setattr(runner_module, "get_benchmark", lambda name: fake)
    settings = options.pop("settings", Settings())
    return Runner(settings, lambda: connection, Store(path), "run-1", **options), fake, connection  # type: ignore[arg-type,return-value]


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (None, "evaluated"),
        (TurnTimeoutError("x"), "infrastructure_error"),
        (LLMError("x"), "infrastructure_error"),
        (CardError("x"), "infrastructure_error"),
        (ConfigurationError("x"), "infrastructure_error"),
        (JudgeMissingError("x"), "skipped"),
        (EvaluatorError("x"), "evaluator_error"),
        (HarnessError("x"), "harness_error"),
        (ZeroDivisionError("x"), "harness_error"),
        (AgentOutcomeError("x", state="failed"), "harness_error"),  # benchmarks turn it into a reward of 0
    ],
)
def test_whose_trouble_it_is(error: Exception | None, status: str) -> None:
    assert classify(error) == status


def test_seeds_are_those_of_tau2s_own_runner() -> None:
    random.seed(300)
    assert [trial_seed(300, i) for i in range(4)] == [random.randint(0, 1000000) for _ in range(4)]


def test_a_trial_of_this_run_is_never_run_twice(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    runner, fake, connection = make(monkeypatch, tmp_path, Outcome(reward=Reward(1.0)))
    first = runner.run(KEY)
    assert runner.run(KEY) == first
    assert (len(fake.contexts), connection.opened[0].finished) == (1, 1)
    assert first.success
    assert first.latency == 1.0
    assert first.seed == trial_seed(300, 2)
    # What was odd on the wire is kept beside what the dialect did not allow.
    assert [f.rule for f in first.findings] == ["wire"]


def test_results_of_another_run_and_damaged_files_are_replaced(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    runner, fake, _ = make(monkeypatch, tmp_path, Outcome(reward=Reward(0.0)))
    path = Path(str(runner.run(KEY).path))
    data = json.loads(path.read_text())
    path.write_text(json.dumps({**data, "run_id": "older"}))
    runner.run(KEY)
    path.write_text('{"schema_version": 99')
    assert runner.run(KEY).status == "evaluated"
    assert len(fake.contexts) == 3


def test_an_exception_becomes_a_result_with_its_traceback(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    runner, _, connection = make(monkeypatch, tmp_path, ZeroDivisionError("ours"))
    result = runner.run(KEY)
    assert (result.status, result.error_type) == ("harness_error", "ZeroDivisionError")
    assert "Traceback" in str(result.error)
    assert connection.opened[0].finished == 1
    assert Store(tmp_path).read(KEY) == result


def test_metadata_names_the_task_only_when_asked(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def prepare(key: TrialKey, metadata: dict[str, Any]) -> None:
        metadata["prepared"] = str(key)

    plain, _, connection = make(monkeypatch, tmp_path, Outcome())
    plain.run(KEY)
    assert connection.opened[0].metadata is None
    tagged, _, connection = make(
        monkeypatch,
        tmp_path,
        Outcome(),
        settings=Settings(tag_trials=True),
        metadata={"tenant": "t"},
        prepare=prepare,
    )
    tagged.run(TrialKey("fake", "desk", "2"))
    assert connection.opened[0].metadata == {
        "tenant": "t",
        "prepared": "fake/desk/2#0",
        "a2a_bench": {"task": "fake/desk/2", "trial": 0},
    }


def test_a_turn_that_ran_into_the_trials_limit_is_the_trials_timeout(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    runner, fake, _ = make(
        monkeypatch, tmp_path, Outcome(error=TurnTimeoutError("x")), settings=Settings(trial_timeout=1e-9)
    )
    assert runner.run(KEY).error_type == "TrialTimeoutError"
    with pytest.raises(TrialTimeoutError, match="--a2a-trial-timeout"):
        fake.contexts[0].checkpoint()


def test_the_traceback_of_a_bug_is_bounded_and_shows_where_and_what() -> None:
    def fail() -> None:
        raise ValueError("x" * 250_000 + "the end") from KeyError("the beginning")

    with pytest.raises(ValueError, match="the end") as caught:
        fail()
    text = describe(caught.value)
    assert len(text) < TRACEBACK_LIMIT + 100
    assert "the beginning" in text
    assert text.endswith("the end")
    assert "characters left out" in text
    assert describe(ConfigurationError("as it is")) == "as it is"
