"""The comparison with a baseline on the page."""

from __future__ import annotations

from made_trials import made_error, made_trial

from pytest_a2a_bench.reports.html import sections
from pytest_a2a_bench.results.baseline import Baseline
from pytest_a2a_bench.results.compare import compare


def shown(before: Baseline, after: Baseline) -> str:
    return str(sections.against_baseline(compare(before, after), "baseline.json"))


def test_a_tiny_chance_is_not_shown_as_none() -> None:
    before = Baseline.of([made_trial(f"made/even/{task}#0") for task in range(40)])
    after = Baseline.of([made_trial(f"made/even/{task}#0", success=False) for task in range(40)])
    page = shown(before, after)
    assert "0.000" not in page
    assert "&lt; 0.001" in page
    assert "of each of its ends alone one is 95 % sure" in page


def test_tasks_that_errored_are_not_said_to_be_in_the_baseline_only() -> None:
    before = Baseline.of([made_trial(f"made/even/{task}#0") for task in range(4)])
    after = Baseline.of([made_trial("made/even/0#0"), *(made_error(f"made/even/{task}#0") for task in (1, 2))])
    page = shown(before, after)
    assert "1 task is only in the baseline." in page
    assert "2 tasks could not be evaluated in one of the runs." in page
