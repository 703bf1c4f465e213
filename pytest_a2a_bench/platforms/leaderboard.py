"""Files for AgentBeats' leaderboards, which DuckDB reads by ``read_json_auto('results/*.json')``.

Each is ``{"participants": {ROLE: ID}, "results": [...]}`` with one object for each benchmark and domain, as in the
assessor's artifact.
"""

from __future__ import annotations

import contextlib
import datetime
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, cast

from pytest_a2a_bench.assessor.assessment import Concluded
from pytest_a2a_bench.assessor.request import Evaluation, Request
from pytest_a2a_bench.assessor.result import data
from pytest_a2a_bench.assessor.terms import Plan
from pytest_a2a_bench.config.settings import Settings
from pytest_a2a_bench.errors import ConfigurationError
from pytest_a2a_bench.model import TrialKey, TrialResult
from pytest_a2a_bench.results.manifest import SelectedResults
from pytest_a2a_bench.results.stats import count

ROLE = "agent"


def make_file(participants: Mapping[str, str], results: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """Return a file's content.

    :param participants: role of each agent -> its id on the leaderboard.
    """
    return {"participants": dict(participants), "results": [dict(one) for one in results]}


def export(
    selected: SelectedResults, domain: str | None, allow_incomplete: bool, participants: Mapping[str, str]
) -> tuple[dict[str, Any], list[str]]:
    """Return a file's content for a run, with one object for each domain, and a line about each of them.

    :param domain: only this one.
    :param allow_incomplete: count trials that are missing as not passed, instead of refusing.
    :raises ConfigurationError: if there are no trials, or some are missing.
    """
    absent = [TrialResult(TrialKey.parse(key), "not_run") for key in selected.absent]
    groups: dict[tuple[str, str], list[TrialResult]] = {}
    for result in (*selected.results, *absent):
        if domain in (None, result.key.domain):
            groups.setdefault((result.key.suite, result.key.domain), []).append(result)
    if not groups:
        there = ", ".join(sorted({result.key.domain for result in selected.results}))
        raise ConfigurationError(f"these results have no trials of the domain {domain!r}; there are: {there}")
    whole = [result for group in groups.values() for result in group]
    missing = [str(result.key) for result in whole if result.status == "not_run"]
    if missing and not allow_incomplete:
        raise ConfigurationError(
            f"{len(missing)} of {count(len(whole), 'trial')} have no result ({', '.join(missing[:5])}); run pytest "
            "again with --a2a-resume, or pass --allow-incomplete to count them as not passed"
        )
    entries = [data(_concluded(selected, *key, found)) for key, found in groups.items()]
    lines = [
        f"{one['domain']}: {one['score']:g} of {one['max_score']}, {count(one['errors']['count'], 'error')}"
        for one in entries
    ]
    return make_file(participants, entries), lines


def _concluded(selected: SelectedResults, suite: str, domain: str, results: Sequence[TrialResult]) -> Concluded:
    # Not validated: a benchmark of the user's own has its own name.
    request = Request.model_construct(agent="", form="agentbeats", evaluation=cast(Evaluation, suite), domain=domain)
    keys = tuple(result.key for result in results)
    return Concluded(
        plan=Plan(request, Settings(shard=selected.manifest.shard), keys),
        agent=selected.manifest.agent,
        results=tuple(results),
        seconds=_seconds(results),
        run_id=selected.manifest.run_id,
    )


def _seconds(results: Sequence[TrialResult]) -> float:
    """Return the seconds from the start of the first trial to the end of the last."""
    times = []
    for result in results:
        with contextlib.suppress(ValueError, OverflowError):
            began = datetime.datetime.fromisoformat(result.started_at).timestamp()
            times.append((began, began + result.duration))
    return max(end for _, end in times) - min(began for began, _ in times) if times else 0.0
