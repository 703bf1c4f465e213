"""Numbers made from trial results. Pure.

Rewards are averaged over *evaluated* trials only; trials that ended in an infrastructure error or were skipped are
counted beside them, so that nothing leaves the denominator unseen.
"""

from __future__ import annotations

import contextlib
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from math import comb
from typing import Any

from pytest_a2a_bench.model import Cost, TrialKey, TrialResult, Usage, dollars, percentile, sum_usage


def pass_hat_k(trials: int, successes: int, k: int) -> float:
    """Return the probability that k trials drawn without replacement all succeed: C(c, k) / C(n, k).

    :raises ValueError: if k is not between 1 and the number of trials.
    """
    if not 1 <= k <= trials:
        raise ValueError(f"k must be between 1 and the number of trials ({trials}), not {k}")
    return comb(successes, k) / comb(trials, k)


def pass_hat_k_by_k(successes_by_task: Iterable[Sequence[bool]]) -> dict[int, float]:
    """Return pass^k averaged over tasks, for each k up to the smallest number of trials of any task."""
    tasks = [list(s) for s in successes_by_task if s]
    if not tasks:
        return {}
    # Up to what every task has: an average over fewer tasks for a larger k could go up.
    most = min(len(s) for s in tasks)
    return {k: sum(pass_hat_k(len(s), sum(s), k) for s in tasks) / len(tasks) for k in range(1, most + 1)}


@dataclass(frozen=True, slots=True)
class DomainSummary:
    """One line of the summary.

    :param variant: how the benchmark was changed for these trials (``drift low, rot 50``); empty where it was not.
    :param tasks: different tasks with at least one trial.
    :param trials: all trials; ``evaluated``, ``infra_errors``, ``skipped``, ``evaluator_errors``, ``harness_errors``
        and ``not_run`` add up to it.
    :param user_faults: those of the evaluated ones in which the simulated user was at fault.
    :param pass_hat_k: k -> pass^k over evaluated trials.
    :param turns_mean: agent messages per evaluated trial.
    :param means: name of a benchmark's own metric of a conversation (``provenance["measured"]``) -> its mean per
        evaluated trial that has it.
    :param latency_p50: seconds per turn of the agent, with retries and polls.
    :param input_tokens: as the agents reported them.
    :param cost: the cost of all trials, broken ones too.
    :param estimated: estimates of the agents' usage, where they reported none.
    """

    suite: str
    domain: str
    variant: str = ""
    tasks: int = 0
    trials: int = 0
    evaluated: int = 0
    infra_errors: int = 0
    skipped: int = 0
    evaluator_errors: int = 0
    harness_errors: int = 0
    not_run: int = 0
    user_faults: int = 0
    mean_reward: float | None = None
    successes: int = 0
    pass_hat_k: dict[int, float] = field(default_factory=dict)
    means: dict[str, float] = field(default_factory=dict)
    turns_mean: float | None = None
    latency_p50: float | None = None
    latency_p95: float | None = None
    input_tokens: int | None = None
    output_tokens: int | None = None
    cost: Cost = field(default_factory=Cost)
    estimated: Usage = field(default_factory=Usage)


VariantOf = Callable[[TrialResult], str]
"""Says how the benchmark was changed for a trial (``drift low``); empty where it was not. Only its benchmark knows,
which lies above this room."""


def summarise(results: Iterable[TrialResult], variant_of: VariantOf) -> list[DomainSummary]:
    """Return one summary per suite, domain and variant, sorted by name: changed benchmarks are never averaged in."""
    return [_summary(*name, group) for name, group in _grouped(results, variant_of)]


def summarise_categories(results: Iterable[TrialResult], variant_of: VariantOf) -> list[dict[str, DomainSummary]]:
    """Return, for each suite, domain and variant whose tasks have categories, the summary of each category."""
    found = []
    for name, group in _grouped((result for result in results if result.category), variant_of):
        by_category: dict[str, list[TrialResult]] = defaultdict(list)
        for result in group:
            by_category[result.category].append(result)
        found.append({category: _summary(*name, part) for category, part in by_category.items()})
    return found


def _grouped(
    results: Iterable[TrialResult], variant_of: VariantOf
) -> list[tuple[tuple[str, str, str], list[TrialResult]]]:
    groups: dict[tuple[str, str, str], list[TrialResult]] = defaultdict(list)
    for result in results:
        groups[result.key.suite, result.key.domain, variant_of(result)].append(result)
    return sorted(groups.items())


def _summary(suite: str, domain: str, variant: str, results: list[TrialResult]) -> DomainSummary:
    evaluated = [r for r in results if r.status == "evaluated"]
    # The same task under two labels is two tests, and their trials are no draws from one.
    by_task: dict[tuple[str, str | None], list[bool]] = defaultdict(list)
    for result in evaluated:
        by_task[result.key.task_key, result.key.label].append(result.success)
    # Over all trials: an agent that answered slowly and then broke was slow.
    latencies = sorted(seconds for r in results for seconds in r.turn_latencies)
    # What a broken trial cost was paid as well.
    agent = sum_usage(r.agent_usage for r in results)
    return DomainSummary(
        suite=suite,
        domain=domain,
        variant=variant,
        tasks=len({r.key.task_key for r in results}),
        trials=len(results),
        evaluated=len(evaluated),
        infra_errors=sum(r.status == "infrastructure_error" for r in results),
        skipped=sum(r.status == "skipped" for r in results),
        evaluator_errors=sum(r.status == "evaluator_error" for r in results),
        harness_errors=sum(r.status == "harness_error" for r in results),
        not_run=sum(r.status == "not_run" for r in results),
        user_faults=sum(r.user_fault is not None for r in evaluated),
        mean_reward=mean_reward(results),
        successes=sum(r.success for r in evaluated),
        pass_hat_k=pass_hat_k_by_k(by_task.values()),
        turns_mean=_mean([float(r.turns) for r in evaluated]),
        means=_means(evaluated),
        latency_p50=percentile(latencies, 50),
        latency_p95=percentile(latencies, 95),
        input_tokens=agent.input_tokens,
        output_tokens=agent.output_tokens,
        cost=sum((r.spent for r in results), Cost()),
        estimated=sum_usage(r.estimated_usage for r in results),
    )


def _mean(values: Sequence[float]) -> float | None:
    return sum(values) / len(values) if values else None


def mean_reward(results: Sequence[TrialResult]) -> float | None:
    """Return the average over evaluated trials."""
    return _mean([r.reward for r in results if r.status == "evaluated"])


def _means(results: Sequence[TrialResult]) -> dict[str, float]:
    values: dict[str, list[float]] = defaultdict(list)
    for result in results:
        for name, value in result.provenance.get("measured", {}).items():
            # Benchmarks of others may count in words.
            if isinstance(value, int | float):
                values[name].append(float(value))
    return {name: sum(found) / len(found) for name, found in values.items()}


def task_name(key: TrialKey) -> str:
    """Return the key that pairs trials: the task, with its label if it is tested twice, and the agent's name."""
    return key.task_key + (f"@{key.label}" if key.label else "") + (f":{key.agent}" if key.agent else "")


def domain_name(key: TrialKey) -> str:
    """Return the key under which conditions are kept: suite and domain, and the agent if agents have names."""
    return f"{key.suite}/{key.domain}" + (f":{key.agent}" if key.agent else "")


def is_blameless(result: TrialResult) -> bool:
    """Return whether no fault of the simulated user is proven in a trial."""
    return result.user_fault is None or not result.user_fault.is_proven


def describe_blameless(results: Sequence[TrialResult]) -> str:
    """Return the success rate of the trials whose user did its part, in words; empty where all users did.

    Trials that could not be evaluated stay in the denominator.
    """
    kept = [r for r in results if is_blameless(r)]
    if len(kept) == len(results):
        return ""
    if not kept:
        return "there is no trial whose user did its part"
    return f"{sum(r.success for r in kept) / len(kept):.2f} of {count(len(kept), 'trial')} whose user did its part"


def count(n: int, word: str, plural: str = "") -> str:
    """Return a number with its word: ``1 trial``, ``1,000 trials``."""
    return f"{n:,} {word if n == 1 else plural or word + 's'}"


# --- how far a run has come ---


@dataclass(frozen=True, slots=True)
class Progress:
    """The progress of a run.

    :param done: ``a2a.`` properties of each reported trial, without the prefix.
    :param seconds: since the run began.
    :param parallel: conversations that can be in flight at once, over all workers.
    :param in_flight: trials under way; None where only the workers know.
    """

    done: tuple[Mapping[str, Any], ...]
    total: int
    seconds: float
    parallel: int = 1
    in_flight: int | None = None

    @property
    def line(self) -> str:
        """One line that says all of it."""
        return "a2a: " + ", ".join(self._parts())

    def _parts(self) -> Iterator[str]:
        judged = [values for values in self.done if values.get("status") == "evaluated"]
        passed = sum(bool(values.get("success")) for values in judged)
        left = self.total - len(self.done)
        yield f"{len(self.done)} of {self.total} trials"
        yield f"{passed} of {len(judged)} passed" + (f" ({passed / len(judged):.0%})" if judged else "")
        if len(self.done) > len(judged):
            yield f"{len(self.done) - len(judged)} not evaluated"
        if self.in_flight is not None:
            yield f"{self.in_flight} in flight"
        elif self.parallel > 1:
            yield f"up to {min(self.parallel, left)} in flight"
        if self.cost is not None:
            yield f"cost {dollars(self.cost, estimated=any('estimated_cost_usd' in v for v in self._finished()))}"
        yield duration(self.seconds)
        if self.seconds_left is not None:
            yield f"about {duration(self.seconds_left)} left"

    @property
    def cost(self) -> float | None:
        """Dollars spent in this run, estimated ones too, or None where none are known."""
        spent = [float(v["cost_usd"]) for v in self._finished() if v.get("cost_usd") is not None]
        return sum(spent) if spent else None

    @property
    def seconds_left(self) -> float | None:
        """The estimated seconds left, from the average trial so far and the trials at once; None before the first."""
        took = [float(v["duration_s"]) for v in self._finished() if v.get("duration_s") is not None]
        left = self.total - len(self.done)
        if not took or left <= 0:
            return None
        mean = sum(took) / len(took)
        # Also what lies around the conversations takes time; the wall clock knows it, once a wave has passed.
        waves = len(took) / self.parallel
        pace = max(mean, self.seconds / waves) if waves >= 2 else mean
        return pace * max(1.0, left / self.parallel)

    def _finished(self) -> Iterable[Mapping[str, Any]]:
        """Return the results of this run alone: a reused result took no time and no money now."""
        return [v for v in self.done if not v.get("reused_from")]


def spans(results: Iterable[TrialResult]) -> Iterator[tuple[float, float]]:
    """Yield when trials began and ended, in seconds since 1970, of those that say it."""
    for result in results:
        with contextlib.suppress(ValueError, OverflowError):
            began = datetime.fromisoformat(result.started_at)
            yield began.timestamp(), (began + timedelta(seconds=result.duration)).timestamp()


def duration(seconds: float) -> str:
    """Return ``42s``, ``3m05s`` or ``2h07m``."""
    minutes, rest = divmod(int(seconds), 60)
    if minutes >= 60:
        return f"{minutes // 60}h{minutes % 60:02d}m"
    return f"{minutes}m{rest:02d}s" if minutes else f"{rest}s"
