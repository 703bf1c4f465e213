"""From a key to a stored result: whose trouble it was, and never twice."""

import dataclasses
import json
import random
import threading
import time
import traceback
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest
from one_test import in_one_test

from pytest_a2a_bench.benchmarks.base import FurtherAgent, Outcome, TrialContext
from pytest_a2a_bench.config.settings import Settings
from pytest_a2a_bench.errors import (
    AgentOutcomeError,
    AuthenticationError,
    CardError,
    ConfigurationError,
    EvaluatorError,
    HarnessError,
    JudgeMissingError,
    LLMError,
    TrialCancelledError,
    TrialTimeoutError,
    TurnTimeoutError,
)
from pytest_a2a_bench.model import (
    Briefing,
    DialectFinding,
    Event,
    ProtocolMetrics,
    Reward,
    TrialKey,
    TrialResult,
    Usage,
    UserFault,
    UserSaid,
)
from pytest_a2a_bench.results.store import Store
from pytest_a2a_bench.trials import runner as runner_module
from pytest_a2a_bench.trials.observers import Taped
from pytest_a2a_bench.trials.runner import Runner
from pytest_a2a_bench.trials.stopping import Breaker, Limits, Stopping
from pytest_a2a_bench.trials.trial import TRACEBACK_LIMIT, Client, Trial, TrialObserver, classify, describe, trial_seed

KEY = TrialKey("fake", "desk", "1", 2)


class Session:
    context_id = "c"
    metrics = (ProtocolMetrics("r", "http://x", "SendMessage", 200, 1.0, "2026-01-01T00:00:00Z"),)
    tainted: Any = None
    noise: Any = None
    usage = Usage(7, 3, 0.5)

    def __init__(self, metadata: Any) -> None:
        self.metadata = metadata
        self.finished = 0
        self.cancelled = False
        self.turn_seconds = [0.5, 1.5]
        self.findings = [DialectFinding("wire", "odd", turn=1)]

    def finish(self) -> None:
        self.finished += 1

    def cancel(self) -> None:
        self.cancelled = True


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


Make = Callable[..., tuple[Runner, Any, Connection]]


@pytest.fixture
def make(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Make:
    """Make a runner of a benchmark that is given, or comes to an outcome."""

    def make(
        what: Fake | Outcome | Exception,
        settings: Settings | None = None,
        stopping: Stopping | None = None,
        tapes: Any = None,
        observers: Sequence[TrialObserver] = (),
        **options: Any,
    ) -> tuple[Runner, Any, Connection]:
        fake, connection = what if isinstance(what, Fake) else Fake(what), Connection()
        monkeypatch.setattr(runner_module, "get_benchmark", lambda name: fake)
        client = Client(connection, **options)  # type: ignore[arg-type]
        every = [*([stopping] if stopping else []), *([Taped(tapes)] if tapes else []), *observers]
        limits = stopping.limits if stopping else None
        return Runner(settings or Settings(), client, Store(tmp_path), "run-1", every, limits), fake, connection

    return make


@in_one_test(
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
def test_blame_of_errors(error: Exception | None, status: str) -> None:
    assert classify(error) == status


def test_seeds_are_those_of_tau2s_own_runner() -> None:
    random.seed(300)
    assert [trial_seed(300, i) for i in range(4)] == [random.randint(0, 1000000) for _ in range(4)]
    assert [trial_seed(300, 0, again) for again in range(3)] == [626729, 775514, 914218], "stored runs have them"


def test_a_trial_of_this_run_is_never_run_twice(make: Make) -> None:
    runner, fake, connection = make(Outcome(reward=Reward(1.0)))
    first = runner.run(KEY)
    assert not runner._trials, "an ended trial is let go"
    assert runner.run(KEY) == first
    assert (len(fake.contexts), connection.opened[0].finished) == (1, 1)
    assert first.success
    assert first.provenance == {}
    assert first.latency == 1.0
    assert first.seed == trial_seed(300, 2)
    # What was odd on the wire is kept beside what the dialect did not allow.
    assert [f.rule for f in first.findings] == ["wire"]


def test_results_of_another_run_and_damaged_files_are_replaced(make: Make) -> None:
    runner, fake, _ = make(Outcome(reward=Reward(0.0)))
    path = Path(str(runner.run(KEY).path))
    data = json.loads(path.read_text())
    path.write_text(json.dumps({**data, "run_id": "older"}))
    runner.run(KEY)
    path.write_text('{"schema_version": 99')
    found = runner.run(KEY)
    assert (found.status, "replaced" in found.provenance) == ("evaluated", False)
    assert len(fake.contexts) == 3
    # A run that takes up what is there says which file it could not take up, and of which trials there was none.
    resumed, _, _ = make(Outcome(reward=Reward(0.0)), settings=Settings(resume=True))
    path.write_text('{"schema_version": 99')
    assert str(path) in resumed.run(KEY).provenance["replaced"]
    assert "replaced" not in resumed.run(TrialKey("fake", "desk", "2")).provenance


def test_a_benchmark_is_loaded_before_its_trials(make: Make) -> None:
    runner, fake, _ = make(Outcome())
    runner.load(["fake"])  # it need not have anything to load
    fake.load = Mock()
    runner.load(["fake"])
    fake.load.assert_called_once_with(runner.settings)


def test_a_conversation_that_may_have_lost_a_message_is_no_miss(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Session, "tainted", TurnTimeoutError("late"))
    result = make(Outcome(reward=Reward(0.0)))[0].run(KEY)
    assert (result.status, result.error_type, result.reward_info) == ("infrastructure_error", "TurnTimeoutError", None)


def test_observers_hear_of_each_turn(make: Make) -> None:
    heard: list[tuple[TrialKey, Any, str | None]] = []

    class Listener(TrialObserver):
        def on_turn(self, trial: Trial, briefing: Briefing, events: Sequence[Event], party: str | None = None) -> None:
            heard.append((trial.key, tuple(events), party))

    class Speaking(Fake):
        def run_trial(self, context: TrialContext) -> Outcome:
            listener: Any = context.session.listener
            listener(Briefing(""), [UserSaid("hello")])
            return super().run_trial(context)

    runner, _, _ = make(Speaking(Outcome(reward=Reward(1.0))), observers=[Listener()])
    assert runner.run(KEY).success
    assert heard == [(KEY, (UserSaid("hello"),), None)]


def test_an_observer_follows_a_trial_and_may_have_its_result(make: Make) -> None:
    called: list[str] = []
    instead = TrialResult(KEY, "evaluated", reward_info=Reward(0.5), run_id="run-1")

    class Following(TrialObserver):
        def __getattribute__(self, name: str) -> Any:
            called.append(name)
            return super().__getattribute__(name)

    assert make(Outcome(reward=Reward(1.0)), observers=[Following()])[0].run(KEY).reward == 1.0
    called = [name for name in called if not name.startswith("__")]
    assert called == ["before_trial", "before_conversation", "after_conversation", "conclude", "after_trial"]

    mine = type("Mine", (TrialObserver,), {"before_trial": lambda *_: instead})()
    runner, fake, _ = make(Outcome(reward=Reward(1.0)), observers=[mine])
    again = runner.run(dataclasses.replace(KEY, trial=7))
    assert (again.reward, runner.store.read(KEY), fake.contexts) == (0.5, again, [])


@pytest.mark.parametrize(("method", "returned"), [("conclude", None), ("before_trial", "x")])
def test_an_observer_that_returns_no_result_is_named(make: Make, method: str, returned: Any) -> None:
    mine = type("Mine", (TrialObserver,), {method: lambda *_: returned})()
    with pytest.raises(ConfigurationError, match=f"{method}.* returned {type(returned).__name__}; a TrialResult was"):
        make(Outcome(reward=Reward(1.0)), observers=[mine])[0].run(KEY)


def test_one_further_agent_of_a_role_is_known_without_its_name() -> None:
    def agents(*names: str) -> dict[str, Any]:
        further = [FurtherAgent(name, "transfer", None, "B 1", f"http://{name}") for name in names]  # type: ignore[arg-type]
        return runner_module._identities(further)

    assert agents("b") == {"transfer": ["http://b", "B 1"]}
    assert agents("b", "c") == {"transfer": [["b", "http://b", "B 1"], ["c", "http://c", "B 1"]]}


@pytest.mark.parametrize(
    ("outcome", "problem"),
    [
        *(
            (Outcome(reward=reward), "Reward(NUMBER from 0 to 1) was expected")  # type: ignore[arg-type]
            for reward in (None, Reward(float("nan")), Reward(-1.0), Reward(100.0), Reward(True), 1.0)
        ),
        (1.0, "the benchmark returned float; run_trial returns an Outcome"),
    ],
)
def test_a_reward_or_an_outcome_that_is_none_is_no_miss_of_the_agent(make: Make, outcome: Any, problem: str) -> None:
    result = make(outcome)[0].run(KEY)
    assert (result.status, result.reward_info) == ("evaluator_error", None)
    assert problem in str(result.error)


@pytest.mark.parametrize(
    ("outcome", "usage"),
    [
        (Outcome(reward=Reward(1.0)), Session.usage),
        (Outcome(reward=Reward(1.0), agent_usage=Usage(1, 1, 0.1)), Usage(1, 1, 0.1)),
        (TurnTimeoutError("x"), Session.usage),
    ],
)
def test_usage_is_the_sessions_unless_a_benchmark_says_another(make: Make, outcome: Any, usage: Usage) -> None:
    found = make(outcome)[0].run(KEY)
    assert (found.agent_usage, found.metrics) == (usage, Session.metrics)


def test_an_exception_becomes_a_result_with_its_traceback(make: Make, tmp_path: Path) -> None:
    runner, _, connection = make(ZeroDivisionError("ours"))
    result = runner.run(KEY)
    assert (result.status, result.error_type) == ("harness_error", "ZeroDivisionError")
    assert "Traceback" in str(result.error)
    assert connection.opened[0].finished == 1
    assert Store(tmp_path).read(KEY) == result


def test_metadata_names_the_task_only_when_asked(make: Make) -> None:
    def prepare(key: TrialKey, metadata: dict[str, Any]) -> None:
        metadata["prepared"] = str(key)

    plain, _, connection = make(Outcome())
    plain.run(KEY)
    assert connection.opened[0].metadata is None
    tagged, _, connection = make(
        Outcome(), settings=Settings(tag_trials=True), metadata={"tenant": "t"}, prepare=prepare
    )
    tagged.run(TrialKey("fake", "desk", "2"))
    assert connection.opened[0].metadata == {
        "tenant": "t",
        "prepared": "fake/desk/2#0",
        "a2a_bench": {"task": "fake/desk/2", "trial": 0},
    }


def test_a_turn_that_ran_into_the_trials_limit_is_the_trials_timeout(make: Make) -> None:
    runner, fake, _ = make(Outcome(error=TurnTimeoutError("x")), settings=Settings(trial_timeout=1e-9))
    assert runner.run(KEY).error_type == "TrialTimeoutError"
    with pytest.raises(TrialTimeoutError, match="--a2a-trial-timeout"):
        fake.contexts[0].checkpoint()


@pytest.mark.parametrize("how", ["raised", "returned"])
def test_a_trial_that_the_runs_end_has_ended_says_so(make: Make, monkeypatch: pytest.MonkeyPatch, how: str) -> None:
    late = TrialTimeoutError("took longer than --a2a-trial-timeout")
    limits = Limits(0.0, 5.0, time.monotonic() + 0.01)
    runner, fake, _ = make(late if how == "raised" else Outcome(error=late))
    runner.limits = limits
    monkeypatch.setattr(Limits, "is_over", property(lambda self: True))
    monkeypatch.setattr(Limits, "deadline", lambda self, began: began)
    result = runner.run(KEY)
    assert result.error_type == "RunTimeoutError"
    assert "--a2a-run-timeout (5 s)" in str(result.error)
    assert len(fake.contexts) == 1


class Hanging(Fake):
    """A benchmark that is stuck until it is let go, and then brings a good result."""

    def __init__(self) -> None:
        super().__init__(Outcome(reward=Reward(1.0)))
        self.begun, self.let_go = threading.Event(), threading.Event()

    def run_trial(self, context: TrialContext) -> Outcome:
        self.begun.set()
        assert self.let_go.wait(120)
        return super().run_trial(context)


def test_a_result_after_cancellation_is_dropped(make: Make, tmp_path: Path) -> None:
    runner, hanging, connection = make(Hanging(), settings=Settings(trial_timeout=1))
    assert runner.give_up(KEY) is None
    cancel, late = threading.Event(), []
    thread = threading.Thread(target=lambda: late.append(runner.run(KEY, cancel)))
    thread.start()
    assert hanging.begun.wait(60)
    error = runner.give_up(KEY)
    assert error is not None
    assert (error.status, error.error_type) == ("infrastructure_error", "TrialTimeoutError")
    assert "its thread had still not come back, so it was given up" in str(error.error)
    assert cancel.is_set()
    assert connection.opened[0].cancelled
    assert runner.give_up(KEY) is None
    hanging.let_go.set()
    thread.join(60)
    # The report says error, and so does the file.
    assert late[0].path is None
    stored = Store(tmp_path).read(KEY)
    assert stored is not None
    assert stored.error_type == "TrialTimeoutError"


class Again(Fake):
    """Its user is at fault, and what is held for that comes to something else."""

    def __init__(self, then: Outcome | Exception) -> None:
        super().__init__(Outcome(reward=Reward(0.0), user_fault=UserFault("ended_before_the_write")))
        self.then = then
        self.runner: list[Runner] = []
        self.given_up: list[TrialResult | None] = []

    def run_trial(self, context: TrialContext) -> Outcome:
        outcome = super().run_trial(context)
        self.outcome = self.then
        if len(self.contexts) > 1:
            self.given_up += [runner.give_up(context.key) for runner in self.runner]
        return outcome


@pytest.mark.parametrize(
    ("then", "message"),
    [
        (LLMError("no answer"), "LLMError: no answer"),
        (TrialTimeoutError("late"), "TrialTimeoutError: late"),
        (TrialCancelledError("stopping"), "TrialCancelledError: stopping"),
        (EvaluatorError("it raised"), "EvaluatorError: it raised"),
        (Outcome(error=AuthenticationError("no")), "AuthenticationError: no"),
    ],
)
def test_an_evaluated_trial_is_not_lost_to_another_try(
    make: Make, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, then: Outcome | Exception, message: str
) -> None:
    breaker = Breaker(1)
    noted: list[Any] = []
    stopping = Stopping(breaker, Limits(), tmp_path, "run-1", lambda: "")
    monkeypatch.setattr(stopping, "note", lambda key, error: noted.append(error))
    kept: list[int] = []

    class Tape:
        def __init__(self, number: int) -> None:
            self.number = number

        def keep(self) -> None:
            kept.append(self.number)

    tapes = iter(range(9))
    runner, fake, connection = make(Again(then), Settings(user_retry=3), stopping, lambda key: Tape(next(tapes)))
    result = runner.run(KEY)
    assert len(fake.contexts) == len(connection.opened) == 2
    assert (result.status, result.error, result.reward_info) == ("evaluated", None, Reward(0.0))
    assert result.user_fault == UserFault("ended_before_the_write")
    assert result.retry_error is not None
    assert result.retry_error.startswith(message)
    assert result.seed == fake.contexts[0].seed != fake.contexts[1].seed
    # Whoever counts trouble hears of it, and what is recorded is what counts.
    assert [type(error).__name__ for error in noted] == [message.partition(":")[0]]
    assert kept == [0]
    assert runner.store.read(KEY) == result


def test_an_evaluated_trial_is_kept_where_another_try_is_given_up(make: Make) -> None:
    runner, fake, _ = make(Again(Outcome(reward=Reward(1.0))), Settings(user_retry=3))
    fake.runner.append(runner)
    late = runner.run(KEY)
    [message] = fake.given_up
    assert message is not None
    assert (message.status, message.reward, message.user_fault) == (
        "evaluated",
        0.0,
        UserFault("ended_before_the_write"),
    )
    assert "its thread had still not come back" in str(message.retry_error)
    # What the thread brings then is dropped.
    assert late.retry_error is None
    assert runner.store.read(KEY) == message


def test_where_no_trial_may_begin_nothing_is_held_or_stored(make: Make, tmp_path: Path) -> None:
    outcome = Outcome(error=AuthenticationError("HTTP 401", refused=True))
    stopping = Stopping(Breaker(3), Limits(), tmp_path, "run-1", lambda: "")
    runner, fake, _ = make(outcome, stopping=stopping)
    assert runner.run(KEY).status == "infrastructure_error"
    other = TrialKey("fake", "desk", "2")
    result = runner.run(other)
    assert (result.status, result.path) == ("not_run", None)
    assert result.error == f"not run: the breaker is open since {KEY}: HTTP 401"
    assert "--a2a-resume" in result.provenance["stopped"]
    assert len(fake.contexts) == 1
    assert Store(tmp_path).read(other) is None


def test_finished_trials_are_reused_while_the_breaker_is_open(make: Make, tmp_path: Path) -> None:
    earlier, _, _ = make(Outcome(reward=Reward(1.0)))
    earlier.run_id = "earlier"
    earlier.run(KEY)
    over = Limits(3600.0, 1.0, time.monotonic())
    stopping = Stopping(Breaker(3), over, tmp_path, "run-1", lambda: "")
    resumed, fake, _ = make(Outcome(), stopping=stopping, settings=Settings(resume=True))
    found = resumed.run(KEY)
    assert (found.status, found.reused_from) == ("evaluated", "earlier")
    assert resumed.run(TrialKey("fake", "desk", "2")).status == "not_run"
    assert not fake.contexts


def test_the_traceback_of_a_bug_is_bounded_and_shows_where_and_what() -> None:
    def fail() -> None:
        raise ValueError("x" * 250_000 + "the end") from KeyError("the beginning")

    with pytest.raises(ValueError, match="the end") as caught:
        fail()
    text = describe(caught.value)
    assert len(text) < TRACEBACK_LIMIT + 100
    assert "the beginning" in text
    assert text.endswith("the end")
    whole = "".join(traceback.format_exception(caught.value)).strip()
    assert f"... {len(whole) - TRACEBACK_LIMIT} characters left out ..." in text
    assert describe(ConfigurationError("as it is")) == "as it is"
