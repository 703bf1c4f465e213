"""Numbers in a text, held against those of a result."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_a2a_bench.adk.figures import Figures

TOLD = {
    "score": 2.0,
    "pass_rate": 66.666667,
    "metrics": {"accuracy": 0.666667},
    "cost": 1234.5,
    "note": "3 of 3 (100 %)",
}
COUNTS = {"trials": 3, "passed": 2, "failed": 1}
FIGURES = Figures.of(TOLD, COUNTS, ["0", "17", "handle_time-03", "create_task_1"], [66.666667, 20.8, 93.9])


@pytest.mark.parametrize(
    "text",
    [
        "2 of 3 trials passed (66.7 %), 1 failed",
        "67% passed, 66.67 percent to be exact, or a rate of 0.67",
        "It cost $1,234.5, nearly 1235",
        "Task 17 failed, and so did tasks 0, 17 and 0; see task ids: '17'",
        "handle_time-03 and create_task_1 passed",
        "between 20.8 % and 93.9 %",
        "Two of three passed, one did not",
        "Nothing to count here",
    ],
)
def test_numbers_that_are_there(text: str) -> None:
    assert FIGURES.strangers(text) == []


@pytest.mark.parametrize(
    ("text", "stranger"),
    [
        ("5 of 3 passed", "5"),
        ("17 tasks failed", "17"),
        ("2 % passed", "2 %"),
        ("0.7 of all", None),
        ("0.6 of all", "0.6"),
        ("about 65% passed", "65%"),
        ("four passed", "four"),
        ("task 18 failed", "18"),
        ("tasks 0 and 18 failed", "18"),
        ("handle_time-04 failed", "04"),
        ("twelve percent", "twelve percent"),
        ("it took 1e3 steps", "1e3"),
        ("a rate of 1", None),
        ("93.9 tasks", "93.9"),
    ],
)
def test_numbers_that_are_not(text: str, stranger: str | None) -> None:
    assert FIGURES.strangers(text) == ([stranger] if stranger else [])


@given(st.integers(1, 10**6), st.integers(1, 10**6), st.integers(1, 3))
def test_any_share_may_be_said_as_it_is_rounded(a: int, b: int, digits: int) -> None:
    few, many = sorted((a, b))
    known = Figures.of({}, {"few": few, "many": many}, [])
    assert known.strangers(f"{few} of {many}, which is {100 * few / many:.{digits}f} %") == []


@given(st.integers(0, 10**9))
def test_any_other_count_is_found(number: int) -> None:
    known = Figures.of({}, {"some": 12, "all": 40}, [])
    assert bool(known.strangers(f"there were {number}")) == (number not in (12, 40))


@given(st.text())
def test_any_text_is_read(text: str) -> None:
    assert isinstance(FIGURES.strangers(text), list)
