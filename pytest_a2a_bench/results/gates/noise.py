"""The gate ``robust``: how much of the success rate noise costs, paired by task. Pure."""

from __future__ import annotations

import dataclasses
import shlex
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

from pytest_a2a_bench.config.rates import Tier
from pytest_a2a_bench.config.settings import NOISY, PLAIN
from pytest_a2a_bench.model import TrialResult
from pytest_a2a_bench.results.compare import AgentComparison, compare_agents, describe_drop, judge_drop
from pytest_a2a_bench.results.gates.terms import DEFAULT_DROP, GateResult, Trials
from pytest_a2a_bench.results.inference import hypergeometric
from pytest_a2a_bench.results.stats import count
from pytest_a2a_bench.text import one_line

ROBUST = "robust"
_CHANCE = 0.05


def judge_noise(trials: Trials, allowed: float | None) -> tuple[GateResult, tuple[AgentComparison, ...]]:
    """Compare the trials with noise with the plain ones, by the paired test of baselines.

    :param allowed: the largest loss; where None, the gate only advises.
    """
    tier: Tier = "advisory" if allowed is None else "supporting"
    limit = DEFAULT_DROP if allowed is None else allowed
    compared = compare_agents(trials.counted, (PLAIN, NOISY))
    (found,) = compared
    group = found.comparison.overall
    if group is None:
        text = "no task was evaluated both plain and with noise"
        return GateResult(ROBUST, "inconclusive", {"tasks": 0}, text, refused=allowed is not None, tier=tier), compared
    verdict = judge_drop(group, limit)
    kinds = list(_by_kind(trials))
    numbers: dict[str, Any] = {**found.comparison.to_json()["overall"], "allowed": limit, "kinds": kinds}
    what = f"lost {group.drop:.3f} (95 % {group.low:+.3f} to {group.high:+.3f}) of {group.before.rate:.3f}"
    what += f" over {count(group.tasks, 'task')}"
    lost = Counter(_blamed(trials))
    if lost:
        after = ", ".join(f"{number} after {kind}" for kind, number in lost.most_common())
        what += f"; {count(lost.total(), 'trial')} lost: {after}"
    if not any(each["trials"] for each in kinds):
        what += "; no noise happened: no call was hit, so raise the rates"
    if allowed is not None:
        what += f"; allowed is {allowed:g}"
    if verdict == "pass" and (found.errors or trials.lost):
        verdict, what = "inconclusive", f"{what}; with the trials that could not be evaluated it may be more"
    if trials.is_partial:
        verdict, what = "inconclusive", f"the run was cut short; so far: {what}"
    word = describe_drop(found.comparison, verdict)
    details = tuple(
        f"{each['kind']}: {count(each['trials'], 'trial')}, {each['plain']} succeeded plain, {each['noisy']} with noise"
        for each in kinds
    )
    gate = GateResult(ROBUST, verdict, numbers, what, word=word, details=details)
    return dataclasses.replace(gate, tier=tier), compared


def events_of(result: TrialResult) -> list[Mapping[str, Any]]:
    """Return the events of noise of a trial (``benchmarks.noise.NoiseEvent``)."""
    noise = result.provenance.get("noise")
    return list(noise.get("events") or ()) if isinstance(noise, Mapping) else []


def noise_option(result: TrialResult) -> str:
    """Return the option without which a trial with noise does not exist, and a space; empty for other trials."""
    noise = result.provenance.get("noise")
    rates = noise.get("rates") if isinstance(noise, Mapping) else None
    if not isinstance(rates, Mapping) or not rates:
        return ""
    return f"--a2a-noise {shlex.quote(one_line(','.join(f'{kind}={rate}' for kind, rate in rates.items()), 1_000))} "


def _pairs(trials: Trials) -> Iterator[tuple[TrialResult, TrialResult]]:
    plain = {r.key.of_any_agent: r for r in trials.counted if r.key.agent == PLAIN and r.status == "evaluated"}
    for result in trials.counted:
        if result.key.agent == NOISY and result.status == "evaluated" and result.key.of_any_agent in plain:
            yield plain[result.key.of_any_agent], result


def _blamed(trials: Trials) -> Iterator[str]:
    """Yield, for each trial that succeeded plain only, the kind of its noise, or of several the one that costs trials.

    That is the one whose share among lost trials is least likely by chance (Fisher's exact test, one-sided); where the
    chance is above :data:`_CHANCE`, none is named.
    """
    tried = [
        (noisy.success, {str(e["kind"]) for e in events_of(noisy)}) for plain, noisy in _pairs(trials) if plain.success
    ]
    lost = [kinds for success, kinds in tried if not success]
    chance = {}
    for kind in set().union(*lost):
        hit, both = sum(kind in kinds for _, kinds in tried), sum(kind in kinds for kinds in lost)
        by_number = hypergeometric(len(tried), len(lost), hit)
        # The list begins with the least number that there can be.
        chance[kind] = round(sum(by_number[both - max(0, hit + len(lost) - len(tried)) :]), 12)
    for kinds in lost:
        # A user talks in one way in every trial, which tells no trial from another.
        those = kinds - {"user"} or kinds
        clear = min(those, key=lambda kind: chance[kind]) if those else "no event"
        yield clear if len(those) < 2 or chance[clear] <= _CHANCE else "several kinds"


def _by_kind(trials: Trials) -> Iterator[dict[str, Any]]:
    pairs = [(plain, noisy, {str(event["kind"]) for event in events_of(noisy)}) for plain, noisy in _pairs(trials)]
    for kind in sorted(set().union(*(kinds for _, _, kinds in pairs))):
        those = [(plain, noisy) for plain, noisy, kinds in pairs if kind in kinds]
        yield {
            "kind": kind,
            "trials": len(those),
            "plain": sum(plain.success for plain, _ in those),
            "noisy": sum(noisy.success for _, noisy in those),
        }
