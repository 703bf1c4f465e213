"""Stored conversations with an org, scored again."""

import dataclasses
import functools
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from crm import MINI, keys, one_of_each, settings
from finished_runs import write_run
from trials import RunTrials

from pytest_a2a_bench.a2a.session import AgentSession
from pytest_a2a_bench.benchmarks.crmarena import domains as opening
from pytest_a2a_bench.benchmarks.crmarena import score as evaluation
from pytest_a2a_bench.benchmarks.crmarena.prompt import render_policy
from pytest_a2a_bench.benchmarks.crmarena.tasks import NONE
from pytest_a2a_bench.cli.main import main
from pytest_a2a_bench.config.settings import Settings
from pytest_a2a_bench.model import Part, Reward, ToolCall, TrialResult, Turn
from pytest_a2a_bench.results import manifest

FEW = one_of_each()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("agent", "domain", "options"),
    [
        ("oracle", "mini", {}),
        ("noop", "mini", {"crm_scoring": "fixed"}),
        ("oracle", "mini_interactive", {}),
        ("solver", "mini", {"crm_max_turns": 1}),
        ("oracle", "mini", {"crm_scoring": "fixed", "crm_drift": "high", "crm_rot": True}),
    ],
)
def test_every_reward_is_found_again_whatever_it_was_held_with(
    run_trials: RunTrials,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    agent: str,
    domain: str,
    options: dict[str, object],
) -> None:
    held = run_trials(agent, settings(**options), keys(domain, FEW))
    directory = write_run(tmp_path / "run", held)
    assert main(["gate", "--rescore", str(directory), "-o", str(tmp_path / "again")]) == 0, capsys.readouterr().out
    assert f"{len(FEW)} trials: 0 rewards changed, {len(FEW)} are the same, 0 not" in capsys.readouterr().out
    again = manifest.load_selected(tmp_path / "again").results
    assert [(r.key, r.reward_info, r.provenance["benchmark"]) for r in again] == [
        (r.key, r.reward_info, r.provenance["benchmark"]) for r in held
    ]


def test_reward_and_data_are_apart(run_trials: RunTrials, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    changed, elsewhere = run_trials("oracle", settings(), keys(tasks=FEW[:2]))
    changed = dataclasses.replace(changed, reward_info=Reward(0.0, ("exact_match",)))
    source = {**elsewhere.provenance["source"], "name": "theirs"}
    elsewhere = dataclasses.replace(elsewhere, provenance={**elsewhere.provenance, "source": source})
    directory = write_run(tmp_path / "run", [changed, elsewhere])
    assert main(["gate", "--rescore", str(directory)]) == 2
    shown = capsys.readouterr().out
    assert f"{changed.key}: reward 0 -> 1\n" in shown
    assert f"{elsewhere.key}: not evaluated again: the conversation was run over other data (theirs) than" in shown
    assert main(["gate", "--rescore", str(write_run(tmp_path / "one", [changed]))]) == 1


def test_lost_data_are_named(run_trials: RunTrials, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (held,) = run_trials("noop", settings(), keys(tasks=FEW[:1]))
    gone = dataclasses.replace(held, key=dataclasses.replace(held.key, domain="b2b"))
    directory = write_run(tmp_path / "run", [gone])
    assert main(["gate", "--rescore", str(directory), "--set", f"crm-data={tmp_path / 'nothing'}"]) == 2
    assert "nothing" in capsys.readouterr().out


def said(*calls: tuple[str, str]) -> Turn:
    field = {"execute": "query", "respond": "content"}
    return Turn("agent", calls=tuple(ToolCall(n, {field[n]: v}, f"c{i}") for i, (n, v) in enumerate(calls)))


def test_the_answer_is_the_one_that_counted() -> None:
    talk = (
        said(("respond", "first")),
        Turn("user", text="and?"),
        said(("execute", "SELECT Id FROM Case"), ("respond", "second"), ("respond", "too late")),
        Turn("agent", text="respond(no action)"),
    )
    assert evaluation.last_answer(talk) == "second"
    assert evaluation.last_answer(talk[:1]) == "first"
    assert evaluation.last_answer(()) is None


@pytest.mark.slow
def test_every_answer_given_is_found_in_the_transcript(run_trials: RunTrials) -> None:
    results: list[TrialResult] = run_trials("solver", settings(), keys(tasks=FEW))
    assert all(evaluation.last_answer(r.transcript) for r in results)


# No gold leaves the harness: not to the agent, not into a transcript, not into a result file.


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
        message = json.dumps([[p.text, p.data, p.metadata] for p in parts], ensure_ascii=False, default=str)
        record.append((str(tag.get("a2a_bench", {}).get("task")), message + json.dumps(tag)))
        return send(self, parts, *args, **kwargs)

    monkeypatch.setattr(AgentSession, "send", send_and_record)
    return record


def test_most_golds_would_be_noticed() -> None:
    golden = [task_id for task_id, task in MINI.items() if task.answers and task.answers != (NONE,)]
    assert len([t for t in golden if telling(t)]) > 0.8 * len(golden)


@pytest.mark.slow
@pytest.mark.parametrize("domain", ["mini", "mini_interactive"])
@pytest.mark.parametrize("scoring", ["compat", "fixed"])
def test_an_agent_that_asks_nothing_is_reported_nothing_and_its_results_tell_nothing(
    run_trials: RunTrials, sent: list[tuple[str, str]], tmp_path: Path, domain: str, scoring: str
) -> None:
    results = run_trials("noop", settings(crm_scoring=scoring, crm_aided=True), keys(domain))

    by_task = {result.key.task_key: result for result in results}
    assert {task for task, _ in sent} == set(by_task)
    for task, message in sent:
        assert not [g for g in telling(by_task[task].key.task_id) if g in message], task
    for result in results:
        text = Path(str(result.path)).read_text()
        assert not [g for g in telling(result.key.task_id) if g in text], result.key
    assert {path for path in tmp_path.rglob("*") if path.is_file()} == {Path(str(r.path)) for r in results}


@pytest.mark.slow
def test_beside_the_agents_own_words_nothing_in_a_result_is_the_gold(run_trials: RunTrials) -> None:
    results = run_trials("oracle", settings(), keys())
    for result in results:
        stored = json.loads(Path(str(result.path)).read_text())
        own = [turn for turn in stored["transcript"] if turn["role"] == "agent"]
        stored["transcript"] = [turn for turn in stored["transcript"] if turn["role"] != "agent"]
        rest = json.dumps(stored, ensure_ascii=False)
        assert own, "the agent did speak"
        assert not [g for g in telling(result.key.task_id) if g in rest], result.key
