"""The results of reported trials: from their files, or rebuilt from the properties of their reports."""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from pytest_a2a_bench.benchmarks import registry
from pytest_a2a_bench.model import Reward, TrialKey, TrialResult, Turn, Usage, UserFault
from pytest_a2a_bench.results.store import Store, StoreError, load_trial

REPORTED_PROVENANCE = (
    "user",
    "user_llm",
    "user_agent",
    "agent_model",
    "judge",
    "evaluation_type",
    "benchmark",
    "tagged",
    "replayed",
    "variant",
)
"""Members of a result's provenance that are reported; ``Suite.reported`` adds those of a benchmark."""


def load_reported(
    directory: Path, run_id: str, reported: Mapping[str, Mapping[str, Any]]
) -> tuple[list[TrialResult], Counter[str | None]]:
    """Return the results of reported trials, and the runs whose files are in the place of theirs.

    A trial whose file another run overwrote is rebuilt from its report, which has all but the latencies.

    :returns: the results, without ``simulation``; the runs that overwrote files, None for a file that is gone or cannot
        be read.
    """
    store = Store(directory)
    results: list[TrialResult] = []
    lost: Counter[str | None] = Counter()
    for key in sorted(reported):
        if "transcript" not in reported[key]:
            # It has no file, and one of an earlier run in its place is not lost.
            results.append(_from_report(key, reported[key]))
            continue
        try:
            result = store.read(TrialKey.parse(key))
        except StoreError:
            result = None
        if result is not None and result.run_id == run_id:
            # The simulation of its benchmark is most of its size, and no report shows it.
            results.append(dataclasses.replace(result, simulation=None))
        else:
            lost[result.run_id if result is not None else None] += 1
            results.append(_from_report(key, reported[key]))
    return results, lost


def lost_lines(directory: Path, lost: Mapping[str | None, int]) -> Iterator[str]:
    """Yield which trial files were overwritten or are gone."""
    for run_id, number in lost.items():
        what = f"{number} trial files in {directory}"
        if run_id is None:
            yield f"{what} are gone or cannot be read, so this run does not pass; its latencies are without theirs"
        else:
            yield (
                f"{what} were overwritten by run {run_id}, so this run does not pass; its latencies are without theirs "
                "(use another --a2a-results for each of several runs)"
            )


def _from_report(key: str, values: Mapping[str, Any]) -> TrialResult:
    reward = values.get("reward")
    parsed = TrialKey.parse(key)
    suite = registry.find(parsed.suite)
    names, counts = (*REPORTED_PROVENANCE, *(suite.reported if suite else ())), suite.counts if suite else ()
    return TrialResult(
        key=parsed,
        status=values["status"],
        run_id=str(values.get("run_id", "")),
        reward_info=None if reward is None else Reward(float(reward), ()),
        termination_reason=values.get("termination_reason"),
        error_type=values.get("error_type"),
        duration=float(values.get("duration_s", 0.0)),
        transcript=(Turn("agent"),) * int(values.get("turns", 0)),
        agent_usage=Usage(values.get("tokens_in"), values.get("tokens_out"), values.get("agent_cost_usd")),
        user_usage=Usage(None, None, values.get("user_cost_usd")),
        estimated_usage=Usage(*(values.get(f"estimated_{name}") for name in ("tokens_in", "tokens_out", "cost_usd"))),
        dialect=values.get("dialect"),
        seed=values.get("seed"),
        held_again=("no longer known",) * int(values.get("held_again", 0)),
        user_fault=UserFault(values["user_fault"]) if values.get("user_fault") else None,
        user_retries=(UserFault("no longer known"),) * int(values.get("user_retries", 0)),
        retry_error=values.get("retry_error"),
        reused_from=values.get("reused_from"),
        category=str(values.get("category", "")),
        provenance={
            **{name: values[name] for name in names if name in values},
            "measured": {name: values[name] for name in counts if name in values},
        },
    )


def unreported(directory: Path, run_id: str, reported: Mapping[str, Any], since: float) -> list[TrialResult]:
    """Return the trials of this run that were evaluated and that no item reported (a stopped run, a crash).

    :param since: wall clock when the run began; older files are not opened.
    """
    found = []
    for path in sorted(Store(directory).trials.glob("*.json")):
        if path.stat().st_mtime < since - 1:
            continue
        try:
            result = load_trial(path)
        except StoreError:
            continue
        if result.run_id == run_id and result.status == "evaluated" and str(result.key) not in reported:
            found.append(result)
    return found
