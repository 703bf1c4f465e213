"""What a *missed* trial is, and when a miss need not fail the run by itself. Pure.

One definition for the terminal, ``verdict.json``, ``--a2a-missed`` and what is published: a trial is missed that was
evaluated, did not succeed, and whose own test neither passes nor expects that. A miss that a gate counts, or that is
quarantined, is excused: its item is no failure.
"""

from __future__ import annotations

import datetime
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence

from pytest_a2a_bench.configuration.rates import split_tier
from pytest_a2a_bench.gates import quarantine
from pytest_a2a_bench.gates.quarantine import Quarantined
from pytest_a2a_bench.gates.terms import DEFAULT_DROP, Thresholds, floor_name, groups_of_result, metric_name
from pytest_a2a_bench.model import TrialKey, TrialResult
from pytest_a2a_bench.results.baseline import task_name
from pytest_a2a_bench.settings import Settings

PREFIX = "missed"
"""How the reason begins with which an excused miss is reported."""

NOTHING_MISSED = "the last run missed nothing, so --a2a-missed runs nothing"


def thresholds_of(settings: Settings) -> Thresholds:
    """Return what the options ask of a run."""
    # Numbers by number: options keep them as text, which JSON has for keys.
    floors = {split_tier(name): rate for name, rate in settings.min_pass.items()}
    metrics = {split_tier(name): rate for name, rate in settings.max_metric.items()}
    return Thresholds(
        min_pass={group: rate for (group, _), rate in floors.items()},
        tiers={floor_name(group): tier for group, tier in floors}
        | {metric_name(metric): tier for metric, tier in metrics},
        min_pass_k={int(k): rate for k, rate in settings.min_pass_k.items()},
        max_drop=DEFAULT_DROP if settings.max_drop is None else settings.max_drop,
        inconclusive=settings.inconclusive,
        max_cost=settings.max_cost,
        max_latency={float(p): seconds for p, seconds in settings.max_latency.items()},
        max_metric={metric: rate for (metric, _), rate in metrics.items()},
        max_infra_errors=settings.max_infra_errors,
    )


def is_unsolved(result: TrialResult) -> bool:
    """Tell whether a trial was evaluated and did not succeed."""
    return result.status == "evaluated" and not result.success


def find_missed(results: Iterable[TrialResult], accepted: Collection[str]) -> list[TrialResult]:
    """Return the missed trials.

    :param accepted: keys of trials whose own test passes or expects what came of them.
    """
    return [r for r in results if is_unsolved(r) and str(r.key) not in accepted]


def is_counted(result: TrialResult, settings: Settings) -> bool:
    """Tell whether a gate counts a trial, so that its miss need not fail the run by itself."""
    # Agents against each other are like a run against its baseline.
    compared = bool(settings.baseline) or len(settings.under_test) > 1
    return thresholds_of(settings).tolerates(groups_of_result(result), baseline=compared)


def quarantine_of(key: TrialKey, entries: Sequence[Quarantined]) -> Quarantined | None:
    """Return the entry that quarantines a trial today, or None."""
    if not entries:
        return None
    today = datetime.date.today()
    found = quarantine.entry_for(key.task_key, entries, today)
    # Without a label first: an entry for a task holds for every label of it.
    return found or quarantine.entry_for(task_name(key), entries, today)


def covers(entry: Quarantined, key: TrialKey) -> bool:
    """Tell whether an entry names a trial's task, with or without its label."""
    return entry.covers(key.task_key) or entry.covers(task_name(key))


def names_no_task(
    entry: Quarantined,
    domains: set[tuple[str, str]],
    groups: Collection[str],
    list_tasks: Callable[[str, str], Iterable[str]],
) -> bool:
    """Tell whether an entry is for none of the tasks that there are, as far as that is known.

    :param domains: suites and domains of which trials ran; of others nothing is said unless there are no such.
    :param groups: every ``suite/domain`` that there is.
    :param list_tasks: the keys of a suite's and domain's tasks.
    """
    suite, _, rest = entry.task.partition("/")
    domain = rest.partition("/")[0]
    # A pattern in the domain may be for any of those that ran.
    if not domain or any(sign in f"{suite}{domain}" for sign in "*?["):
        chosen = domains
    # A domain that no suite has is a slip of the pen, whatever ran.
    elif f"{suite}/{domain}" not in groups:
        return True
    else:
        chosen = domains & {(suite, domain)}
    tasks = [task for name, of in chosen for task in list_tasks(name, of)]
    # A label is the user's own, and may belong to a test that did not run.
    return bool(tasks) and not any(entry.covers(t) or entry.task.startswith(f"{t}@") for t in tasks)


def describe_quarantine(
    entries: Sequence[Quarantined],
    results: Sequence[TrialResult],
    groups: Collection[str],
    list_tasks: Callable[[str, str], Iterable[str]],
) -> Iterator[str]:
    """Say which entries of a quarantine have ended, are needed no more, or are for no task.

    :param groups: and ``list_tasks``: as :func:`names_no_task` takes them.
    """
    today = datetime.date.today()
    domains = {(r.key.suite, r.key.domain) for r in results}
    for entry in entries:
        found = [r for r in results if covers(entry, r.key)]
        # An error says nothing about whether the entry is still needed.
        judged = [r for r in found if r.status == "evaluated"]
        if found and entry.is_expired(today):
            # Of several entries another one may still hold.
            again = any(quarantine_of(r.key, entries) is None for r in found)
            what = "it counts again" if again else "another entry still covers it"
            yield f"the quarantine of {entry.task} ended on {entry.expires}: {what}"
        elif judged and all(r.success for r in judged):
            every = "its trial" if len(judged) == 1 else f"all {len(judged)} trials"
            yield f"quarantined, and {every} succeeded: {entry.task} ({entry.reason})"
        elif not found and names_no_task(entry, domains, groups, list_tasks):
            yield f"the quarantine of {entry.task} is for no task: there is none of that name"
