"""Stored conversations with an org, scored again."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest
from crm_trials import keys, one_of_each, settings
from finished_runs import write_run
from trials import RunTrials

from pytest_a2a_bench.benchmarks.crmarena import evaluation
from pytest_a2a_bench.cli.main import main
from pytest_a2a_bench.model import Reward, ToolCall, TrialResult, Turn
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


def test_another_reward_and_other_data_are_told_apart(
    run_trials: RunTrials, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
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


def test_data_that_are_gone_are_named(
    run_trials: RunTrials, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
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


def test_every_answer_given_is_found_in_the_transcript(run_trials: RunTrials) -> None:
    results: list[TrialResult] = run_trials("solver", settings(), keys(tasks=FEW))
    assert all(evaluation.last_answer(r.transcript) for r in results)
