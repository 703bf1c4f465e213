"""What a floor that leaves tasks out says, and what it must not do."""

from __future__ import annotations

from pathlib import Path

from pytest_a2a_bench.gates.judge import judge
from pytest_a2a_bench.gates.misses import left_out_of
from pytest_a2a_bench.gates.terms import Thresholds, Trials
from pytest_a2a_bench.model import Reward, TrialKey, TrialResult
from pytest_a2a_bench.plugin.run.state import Plan
from pytest_a2a_bench.settings import Settings


def results(*names: str, domain: str = "airline", ok: bool = True) -> list[TrialResult]:
    keys = [TrialKey("tau2", domain, name, n) for name in names for n in range(2)]
    return [TrialResult(key, "evaluated", reward_info=Reward(float(ok))) for key in keys]


LEFT_OUT = {"tau2/airline/a": ("inaction-passes", "short-text"), "tau2/retail/x": ("short-text",)}


def test_a_rate_is_of_what_is_left_and_names_the_rest() -> None:
    trials = Trials([*results("a"), *results("b", "c", ok=False)], left_out=LEFT_OUT)
    [gate] = judge(trials, Thresholds(min_pass={"airline": 0.2})).gates
    assert gate.verdict == "failed", "the task that is left out does not help"
    assert (gate.numbers["ok"], gate.numbers["trials"]) == (0, 4)
    assert "2 trials of 1 task are left out (lint:inaction-passes 1, lint:short-text 1)" in gate.sentence


def test_a_floor_with_nothing_left_does_not_pass() -> None:
    verdict = judge(Trials(results("a"), left_out=LEFT_OUT), Thresholds(min_pass={"": 0.2}))
    [gate] = verdict.gates
    assert (gate.verdict, gate.numbers["trials"], verdict.failed) == ("inconclusive", 0, True)
    assert gate.sentence.startswith("nothing to judge: 2 trials of 1 task are left out")


def test_errors_of_what_is_left_out_stay_errors() -> None:
    broken = TrialResult(TrialKey("tau2", "airline", "a"), "infrastructure_error")
    verdict = judge(Trials([broken, *results("b")], left_out=LEFT_OUT), Thresholds(min_pass={"": 0.2}))
    assert verdict.errors == 1
    assert verdict.outcome == "inconclusive"


def test_only_floors_leave_out() -> None:
    trials = Trials([*results("a", ok=False), *results("x", domain="retail", ok=False)], left_out=LEFT_OUT)
    gates = {g.name: g.verdict for g in judge(trials, Thresholds(min_pass={"airline": 0.2})).gates}
    assert gates["every_trial"] == "failed", "no floor counts retail, so that each of its trials must pass"
    settings = Settings(min_pass={"airline": 0.2})
    assert left_out_of(trials, settings) == {"tau2/airline/a": ["inaction-passes", "short-text"]}
    [gate] = judge(trials, Thresholds(min_pass_k={2: 0.5})).gates
    assert gate.numbers["tasks"] == 2


def test_what_is_not_known_is_a_note_where_it_ran() -> None:
    unknown = {"tau2/airline": "no tau2", "tau2/retail": "no tau2"}
    verdict = judge(Trials(results("a"), left_out_unknown=unknown), Thresholds(min_pass={"": 0.2}))
    [note] = verdict.notes
    assert "tau2/airline" in note


def test_a_plan_carries_it_to_workers() -> None:
    plan = Plan(Settings(), "r", Path("."), left_out=LEFT_OUT, left_out_unknown={"tau2/mock": "why"})
    again = Plan.from_json(plan.to_json())
    assert (again.left_out, again.left_out_unknown) == (LEFT_OUT, {"tau2/mock": "why"})
