"""No gold leaves the harness: not to the agent, not into a transcript, not into a result file."""

from __future__ import annotations

import functools
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from crm_trials import MINI, keys, one_of_each, settings, task_of
from trials import RunTrials

from pytest_a2a_bench.a2a.session import AgentSession
from pytest_a2a_bench.benchmarks.crmarena import domains as opening
from pytest_a2a_bench.benchmarks.crmarena.prompt import render_policy
from pytest_a2a_bench.benchmarks.crmarena.tasks import NONE
from pytest_a2a_bench.config.settings import Settings
from pytest_a2a_bench.model import Part, TrialResult


@functools.cache
def telling(task_id: str) -> list[str]:
    """Return those golds of a task that could only come from its answer: what the question or the briefing says
    anyway (the name of a stage, of a factor) gives nothing away."""
    task = MINI[task_id]
    schema = opening.make_source("mini", Settings()).schema
    said = f"{render_policy(task, schema, aided=True)}\n{task.query}\n{task.persona}"
    return [answer for answer in task.answers if answer != NONE and answer not in said]


@pytest.fixture
def sent(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, str]]:
    """Record all that goes to the agent, as (bench task, text), and let it go there."""
    record: list[tuple[str, str]] = []
    send = AgentSession.send

    def send_and_record(self: AgentSession, parts: Sequence[Part], *args: Any, **kwargs: Any) -> Any:
        tag: Mapping[str, Any] = getattr(self, "_metadata", None) or {}
        told = json.dumps([[p.text, p.data, p.metadata] for p in parts], ensure_ascii=False, default=str)
        record.append((str(tag.get("a2a_bench", {}).get("task")), told + json.dumps(tag)))
        return send(self, parts, *args, **kwargs)

    monkeypatch.setattr(AgentSession, "send", send_and_record)
    return record


def test_most_golds_would_be_noticed() -> None:
    golden = [task_id for task_id, task in MINI.items() if task.answers and task.answers != (NONE,)]
    assert len([t for t in golden if telling(t)]) > 0.8 * len(golden)


FEW = pytest.param(one_of_each(), id="few")
EVERY = pytest.param(list(MINI), id="every", marks=pytest.mark.slow)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("domain", "scoring"),
    [
        ("mini", "compat"),
        pytest.param("mini_interactive", "fixed", marks=pytest.mark.slow),
        pytest.param("mini", "fixed", marks=pytest.mark.slow),
        pytest.param("mini_interactive", "compat", marks=pytest.mark.slow),
    ],
)
@pytest.mark.parametrize("tasks", [FEW, EVERY])
def test_an_agent_that_asks_nothing_is_told_nothing_and_its_results_tell_nothing(
    run_trials: RunTrials, sent: list[tuple[str, str]], tmp_path: Path, domain: str, scoring: str, tasks: list[str]
) -> None:
    results = run_trials("noop", settings(crm_scoring=scoring, crm_aided=True), keys(domain, tasks))

    by_task = {result.key.task_key: result for result in results}
    assert {task for task, _ in sent} == set(by_task)
    for task, told in sent:
        assert not [g for g in telling(by_task[task].key.task_id) if g in told], task
    for result in results:
        text = Path(str(result.path)).read_text()
        assert not [g for g in telling(result.key.task_id) if g in text], result.key
    assert {path for path in tmp_path.rglob("*") if path.is_file()} == {Path(str(r.path)) for r in results}


@pytest.mark.slow
@pytest.mark.parametrize("tasks", [FEW, EVERY])
def test_beside_the_agents_own_words_nothing_in_a_result_is_the_gold(
    run_trials: RunTrials, tmp_path: Path, tasks: list[str]
) -> None:
    results = run_trials("oracle", settings(), keys(tasks=tasks))

    for result in results:
        stored = json.loads(Path(str(result.path)).read_text())
        own = [turn for turn in stored["transcript"] if turn["role"] == "agent"]
        stored["transcript"] = [turn for turn in stored["transcript"] if turn["role"] != "agent"]
        rest = json.dumps(stored, ensure_ascii=False)
        assert own, "the agent did speak"
        assert not [g for g in telling(result.key.task_id) if g in rest], result.key


def test_a_wrong_answer_is_not_corrected_in_public(run_trials: RunTrials) -> None:
    (result,) = run_trials("noop", settings(), keys(tasks=[wrong_for_noop()]))

    assert isinstance(result, TrialResult)
    assert result.reward_info is not None
    text = json.dumps(result.to_json(), ensure_ascii=False)
    assert not result.success
    assert all(answer not in text for answer in task_of(result).answers)
    assert "differs from the expected one" in result.reward_info.checks[0].description


def wrong_for_noop() -> str:
    return next(t for t, task in MINI.items() if task.kind.answer == "id" and task.answers != (NONE,))
