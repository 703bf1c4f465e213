"""Gates of a run with several agents: each must keep every floor, and none may be worse than the first. Pure."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from pytest_a2a_bench.gates.files import baselines_of
from pytest_a2a_bench.gates.judge import judge
from pytest_a2a_bench.gates.terms import EVERY_TRIAL, GateResult, Thresholds, Trials, Verdict
from pytest_a2a_bench.results import inference
from pytest_a2a_bench.results.agents import AgentComparison, compare_agents
from pytest_a2a_bench.results.baseline import Baseline
from pytest_a2a_bench.results.compare import GateVerdict, describe_drop, judge_drop
from pytest_a2a_bench.settings import Settings


def judge_run(trials: Trials, thresholds: Thresholds, settings: Settings, baseline: Baseline | None) -> Verdict:
    """Judge a run, whether its agents have names or not."""
    names = [name for name in settings.under_test if name is not None]
    if not names:
        return judge(trials, thresholds, baseline)
    return judge_agents(trials, thresholds, names, baselines_of(settings, baseline))


def judge_agents(
    trials: Trials, thresholds: Thresholds, names: Sequence[str], baselines: Mapping[str, Baseline]
) -> Verdict:
    """Judge a run with agents that have names.

    What is asked of the whole run (its cost, that nothing was lost) is asked once. The comparison
    counts every miss, as one with a baseline does.

    :param names: of the agents under test, that which the others are compared with first.
    :param baselines: of those that have one, with tasks named as these agents' trials are.
    """
    if len(names) == 1:
        return judge(trials, thresholds, baselines.get(names[0]))
    of_all = Thresholds(inconclusive=thresholds.inconclusive, max_cost=thresholds.max_cost)
    of_each = dataclasses.replace(thresholds, max_cost=None)
    whole = judge(trials, of_all)
    gates = [gate for gate in whole.gates if gate.name != EVERY_TRIAL or trials.named]
    notes: list[str] = []
    for name in names:
        found = judge(_part(trials, name, len(names)), of_each, baselines.get(name))
        gates += [dataclasses.replace(g, name=f"{g.name}:{name}") for g in found.gates if g.name != EVERY_TRIAL]
        notes += [f"{name}: {note}" for note in found.notes]
    compared: tuple[AgentComparison, ...] = ()
    if trials.named:
        notes.append("agents were not compared, because only trials that were named ran")
    elif trials.results or trials.lost or trials.selected:
        compared = compare_agents(trials.counted, names)
        gates += _compared(trials, compared, thresholds.max_drop)
    return Verdict(tuple(gates), thresholds.inconclusive, trials.errors, tuple(notes), agents=compared)


def _part(trials: Trials, name: str, of: int) -> Trials:
    results = [r for r in trials.results if r.key.agent == name]
    # Nobody knows whose a trial was that was lost with its worker; the run does not pass with any.
    return dataclasses.replace(
        trials, results=results, selected=trials.selected // of, lost=0, hidden=(), erred=frozenset(), stopped=""
    )


def _compared(trials: Trials, compared: Sequence[AgentComparison], allowed: float) -> Iterator[GateResult]:
    for found in compared:
        group, name = found.comparison.overall, f"compare:{found.agent}"
        if group is None:
            yield GateResult(name, "inconclusive", {"tasks": 0}, found.sentence, refused=True)
            continue
        verdict: GateVerdict = judge_drop(group, allowed)
        numbers: dict[str, Any] = {**found.comparison.to_json()["overall"], "allowed": allowed}
        numbers |= {"reference": found.reference, "better": found.better, "p_two_sided": found.p}
        what = f"{found.sentence}; it may be worse than {found.reference} by {allowed:g}"
        if verdict == "pass" and (found.errors or trials.lost):
            verdict = "inconclusive"
            what += "; with trials that could not be evaluated it may be worse than that"
        elif verdict == "inconclusive" and allowed > 0:
            has = min(min(p.before, p.after) for p in found.comparison.pairs)
            enough = max(inference.trials_to_tell(found.comparison.pairs, allowed), has + 1)
            numbers["trials_enough"] = enough
            what += f"; too few trials to tell: about {enough} of each task would be enough (there is {has})"
        if trials.is_partial:
            verdict, what = "inconclusive", f"the run was cut short; so far: {what}"
        yield GateResult(name, verdict, numbers, what, word=describe_drop(found.comparison, verdict))
