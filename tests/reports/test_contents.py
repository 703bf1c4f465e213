from __future__ import annotations

import dataclasses
from typing import Any

from pytest_a2a_bench.model import Reward, TrialKey, TrialResult
from pytest_a2a_bench.reports import summary
from pytest_a2a_bench.reports.contents import Contents, cautions
from pytest_a2a_bench.reports.html import records

MINI: dict[str, Any] = {"source": {"source": "mini", "official": False}}


def result(number: int, reused_from: str | None = None, **provenance: Any) -> TrialResult:
    key = TrialKey("crmarena", "mini", f"handle_time-0{number}")
    return TrialResult(key, "evaluated", "run", Reward(1.0), provenance=provenance, reused_from=reused_from)


def test_what_is_plain_needs_no_caveat() -> None:
    plain = [TrialResult(TrialKey("tau2", "airline", "1"), "evaluated", "run", Reward(1.0), provenance={"user": "llm"})]
    assert [*summary.benchmark_notes(plain), *summary.caveats(plain)] == []


def test_everything_that_is_changed_is_told() -> None:
    trials = [
        result(1, **MINI, variant="drift low", aided=True),
        result(2, "earlier", **MINI, variant="rot", replayed=True, tagged=True),
    ]
    assert list(summary.benchmark_notes(trials)) == [
        "the mini org is our own: its numbers are not comparable with CRMArena's",
        "the agent was shown the general domain details too (--a2a-set crm-aided=on)",
        "the org was changed: drift low (1), rot (1); these are not results of the plain benchmark",
    ]
    assert list(summary.caveats(trials)) == [
        "replayed from cassettes, the agent was not asked (--a2a-replay): 1 of 2 trials",
        "reused, not run again (--a2a-resume): 1 of 2 trials (1 of run earlier)",
        "the agent was sent each task's name (--a2a-set tag-trials=on, or builtin:oracle)",
    ]


def test_the_page_tells_the_same_and_keeps_changed_orgs_apart() -> None:
    trials = (result(1, **MINI, drift="low", variant="drift low"), result(2, **MINI))
    told = "\n".join(cautions(Contents(trials)))
    assert "The org was changed: drift low" in told
    assert [records.domain(t) for t in trials] == ["crmarena/mini (drift low)", "crmarena/mini"]


def test_the_page_marks_each_trial_that_was_held_again() -> None:
    again = dataclasses.replace(result(1), held_again=("HTTP 502", "task lost"))
    assert ["run again", "HTTP 502, task lost"] in records.detail(again)["facts"]
    assert "run again" not in dict(records.detail(result(1))["facts"])
