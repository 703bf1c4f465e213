"""Tasks are listed as a person counts, and never so that two of them look like one."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from made_trials import made_trial

from pytest_a2a_bench.model import TrialResult
from pytest_a2a_bench.model.messages import numbered
from pytest_a2a_bench.reports import summary, trial_text


def missed(*keys: str) -> list[TrialResult]:
    return [made_trial(key, success=False) for key in keys]


def tasks(*keys: str) -> dict[str, int]:
    found = trial_text.clusters(missed(*keys))
    assert len(found) == 1
    return found[0].tasks


def test_tasks_are_listed_by_number_as_show_takes_them() -> None:
    message = tasks("made/odd/11#0", "made/even/11#0", "made/even/2#0", "made/even/2#1")
    assert list(message.items()) == [("made/even/2", 2), ("made/even/11", 1), ("made/odd/11", 1)]


def test_a_list_of_misses_breaks_between_tasks_only() -> None:
    trials = missed(*(f"made/even/{number}#0" for number in range(30)))

    lines = list(summary.missed_lines(trials, {str(trial.key): "" for trial in trials}, 40))

    assert lines[0].startswith("  made/even: 0 0/1, 1 0/1, 2 0/1")
    assert all(line.strip().removesuffix(",").endswith("0/1") and len(line) <= 40 for line in lines)
    assert " ".join(line.strip() for line in lines).count("0/1") == 30


@given(st.lists(st.text(max_size=30)))
def test_any_ids_have_an_order(ids: list[str]) -> None:
    assert sorted(sorted(ids, key=numbered)) == sorted(ids)
    assert numbered("task_2") < numbered("task_11")
