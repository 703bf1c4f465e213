"""Ceilings on cost, latency, numbers of rewards and infrastructure errors. Pure."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

from pytest_a2a_bench.model import Cost, TrialResult, percentile
from pytest_a2a_bench.results.gates.terms import GateResult, Thresholds, Trials, groups_of_result, metric_name
from pytest_a2a_bench.results.stats import count


def nothing(name: str, found: int = 0) -> GateResult:
    """Say that there was nothing to judge.

    :param found: how many trials there were that do not count.
    """
    text = "no trial was evaluated"
    if found:
        was, are = ("was", "is") if found == 1 else ("were", "are")
        text = f"{count(found, 'trial')} of it {was} skipped or {are} quarantined"
    return GateResult(name, "inconclusive", {"trials": 0}, f"nothing to judge: {text}")


def judge_ceilings(trials: Trials, thresholds: Thresholds) -> Iterator[GateResult]:
    """Judge what was asked of cost, latency, the numbers of rewards, and infrastructure."""
    if trials.nothing_ran:
        yield from map(nothing, _ceiling_names(thresholds))
        return
    if thresholds.max_cost is not None:
        yield _cost(trials.results, thresholds.max_cost)
    latencies = sorted(s for r in trials.results for s in r.turn_latencies)
    for percent, limit in thresholds.max_latency.items():
        yield _latency(latencies, percent, limit)
    for metric, limit in thresholds.max_metric.items():
        yield _metric(trials, metric, limit)
    if thresholds.max_infra_errors is not None:
        yield _infra_errors(trials, thresholds.max_infra_errors)


def _ceiling_names(thresholds: Thresholds) -> Iterator[str]:
    if thresholds.max_cost is not None:
        yield "max_cost"
    yield from map(_latency_name, thresholds.max_latency)
    yield from map(metric_name, thresholds.max_metric)
    if thresholds.max_infra_errors is not None:
        yield "max_infra_errors"


def _latency_name(percent: float) -> str:
    return f"max_latency[p{percent:g}]"


def _cost(results: Sequence[TrialResult], limit: float) -> GateResult:
    cost = sum((r.spent for r in results), Cost())
    unknown = sum(r.cost is None and r.status == "evaluated" for r in results)
    total = cost.total or 0.0
    numbers = {"cost_usd": total, "unknown": unknown, "maximum": limit}
    what = f"the trials cost {cost.words}; the maximum is ${limit:g}"
    if total > limit:
        return GateResult("max_cost", "failed", numbers, what, settled=True, word=_ABOVE)
    # An unknown cost may be any cost; only exceeding is certain.
    if unknown:
        text = f"{what}; what {unknown} of {count(len(results), 'trial')} cost is not known"
        return GateResult("max_cost", "inconclusive", numbers, text)
    return GateResult("max_cost", "pass", numbers, what)


def _latency(latencies: Sequence[float], percent: float, limit: float) -> GateResult:
    name, value = _latency_name(percent), percentile(latencies, percent)
    if value is None:
        text = "the agent answered no turn whose latency is known"
        return GateResult(name, "inconclusive", {"turns": 0, "maximum": limit}, text)
    numbers = {"turns": len(latencies), "seconds": value, "maximum": limit}
    what = f"p{percent:g} of {count(len(latencies), 'turn')} is {value:.3f} s; the maximum is {limit:g} s"
    return _ceiling(name, numbers, what, above=value > limit)


def _metric(trials: Trials, metric: str, limit: float) -> GateResult:
    """Judge the mean of a number over the trials whose rewards have it."""
    name = metric_name(metric)
    having = {r.key: r.reward_info.metrics[metric] for r in trials.counted if _has(r, metric) and r.reward_info}
    if not having:
        found = f"no reward of {count(len(trials.counted), 'trial')} has a number {metric}"
        return GateResult(name, "inconclusive", {"trials": 0, "maximum": limit}, f"nothing to judge: {found}")
    # What could not be evaluated would have had the number where others of its kind have it; of a lost one none knows.
    kinds = {groups_of_result(r) for r in trials.counted if r.key in having}
    # One that says no category may be of any of its domain's.
    broken = [r for r in trials.counted if r.status != "evaluated"]
    errors = [r.key for r in broken if any(set(groups_of_result(r)) <= set(kind) for kind in kinds)]
    # Not a share (NaN is none either): its meaning is unknown.
    odd = [key for key, value in having.items() if not 0 <= value <= 1]
    values = {key: value for key, value in having.items() if key not in odd}
    is_odd = f"of {count(len(odd), 'trial')} it is no number from 0 to 1 ({odd[0]}: {having[odd[0]]:g})" if odd else ""
    if not values:
        found = f"nothing to judge: a number {metric} is there, and {is_odd}; mend what evaluates it"
        return GateResult(name, "inconclusive", {"trials": 0, "maximum": limit}, found)
    numbers: dict[str, Any] = {"trials": len(values), "errors": len(errors) + trials.lost}
    numbers |= {"value": _mean(values.values()), "maximum": limit}
    what = f"the mean {metric} of {count(len(values), 'trial')} is {numbers['value']:.4g}; the maximum is {limit:g}"
    # Shares that are equal on paper may differ in the last bit.
    if _mean([*values.values(), *[0.0] * len(odd)]) > limit + 1e-12:
        # Every value at least 0: a ceiling of 0 that is broken stays so.
        return GateResult(name, "failed", numbers, what, settled=limit == 0, word=_ABOVE)
    if odd:
        return GateResult(name, "inconclusive", numbers, f"{what}; {is_odd}; mend what evaluates it")
    if _mean([*(values | dict.fromkeys(errors, 1.0)).values(), *[1.0] * trials.lost]) > limit + 1e-12:
        number = numbers["errors"]
        could = f"{what}; {number} could not be evaluated, and with {'it' if number == 1 else 'them'} it may be more"
        return GateResult(name, "inconclusive", numbers, could)
    return GateResult(name, "pass", numbers, what)


def _has(result: TrialResult, metric: str) -> bool:
    return result.reward_info is not None and metric in result.reward_info.metrics


def _mean(values: Collection[float]) -> float:
    return sum(values) / len(values)


def _infra_errors(trials: Trials, limit: int | float) -> GateResult:
    total = len(trials.results) + trials.lost
    found = trials.lost + sum(r.status == "infrastructure_error" for r in trials.results)
    # Below 1 it is a share; "1" and above count trials.
    is_share = isinstance(limit, float)
    value = found / total if is_share else found
    numbers = {"infra_errors": found, "trials": total, "maximum": limit}
    shown = f"{limit:.4g} of all trials" if is_share else f"{limit}"
    what = f"the infrastructure failed {found} of {count(total, 'trial')}; the maximum is {shown}"
    gate = _ceiling("max_infra_errors", numbers, what, above=value > limit)
    return dataclasses.replace(gate, settled=not is_share)


_ABOVE = "above the ceiling"


def _ceiling(name: str, numbers: Mapping[str, Any], what: str, *, above: bool) -> GateResult:
    return GateResult(name, "failed" if above else "pass", numbers, what, word=_ABOVE if above else "")
