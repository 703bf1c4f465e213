"""What the generator's chance and comparisons promise."""

from __future__ import annotations

from datetime import date, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st
from mini_org.building import SeededRandom, on_workday
from mini_org.company import Company
from mini_org.ids import record_id
from mini_org.period_questions import UNCLEAR, draft_questions, find_winner
from one_test import in_one_test

from pytest_a2a_bench.benchmarks.crmarena.org.schema import checksum
from pytest_a2a_bench.errors import HarnessError


def test_the_throws_of_a_seed_are_pinned() -> None:
    dice = SeededRandom(1, "pinned")
    assert [dice.below(1000) for _ in range(5)] == [283, 536, 209, 186, 240]
    assert dice.shuffled("abcdefgh") == list("bghfeadc")


def test_each_name_has_its_own_throws() -> None:
    def throws(seed: int, name: str) -> list[int]:
        dice = SeededRandom(seed, name)
        return [dice.below(10**6) for _ in range(3)]

    assert len({tuple(throws(seed, name)) for seed in (1, 2) for name in ("one", "other")}) == 4
    assert throws(1, "one") == throws(1, "one")


@given(st.integers(), st.integers(1, 50))
def test_shuffling_keeps_everything_and_picking_stays_inside(seed: int, count: int) -> None:
    dice = SeededRandom(seed, "kept")
    assert sorted(dice.shuffled(range(count))) == list(range(count))
    assert dice.pick(range(count)) in range(count)
    assert dice.between(3, 3 + count) in range(3, 4 + count)
    assert len(set(dice.sample(range(count), 5))) == min(count, 5)


@given(st.integers(), st.integers(0, 200))
def test_one_of_each_full_five_has_no_answer(seed: int, count: int) -> None:
    nones = SeededRandom(seed, "nones").nones(count)
    assert sorted(none // 5 for none in nones) == list(range(count // 5))
    assert all(none < count for none in nones)


@in_one_test(
    ("scores", "highest", "found"),
    [
        ({}, True, None),
        ({"a": 1.0}, True, "a"),
        ({"a": 1.0, "b": 2.0}, True, "b"),
        ({"a": 1.0, "b": 2.0}, False, "a"),
        ({"a": 2.0, "b": 2.0}, True, UNCLEAR),
        ({"a": 100.0, "b": 99.0, "c": 1.0}, True, UNCLEAR),
        ({"a": 100.0, "b": 99.0, "c": 1.0}, False, "c"),
        ({"a": 0.0, "b": 0.0}, False, UNCLEAR),
    ],
)
def test_a_winner_is_ahead_by_a_margin(scores: dict[str, float], highest: bool, found: str | None) -> None:
    assert find_winner(scores, highest=highest, margin=0.03) == found


def test_a_category_that_cannot_be_asked_about_is_our_trouble() -> None:
    with pytest.raises(HarnessError, match=r"seed 1: 0 of 1 questions for handle_time"):
        draft_questions(Company(1, 1), "handle_time", "", {True: ("{period}",)}, lambda _: UNCLEAR, [])


@given(st.dates(date(1990, 1, 1), date(2090, 1, 1)))
def test_weekends_move_to_monday(day: date) -> None:
    moved = on_workday(day)
    assert moved.weekday() <= 4
    assert (moved - day).days == {5: 2, 6: 1}.get(day.weekday(), 0)
    assert on_workday(datetime(day.year, day.month, day.day, 9)) == datetime(moved.year, moved.month, moved.day, 9)


def test_checksums_are_those_of_known_ids() -> None:
    """The first is a pair that explanations of the two lengths of an id commonly show."""
    assert checksum("001A0000006Vm9r") == "IAC"
    assert checksum("000000000000000") == "AAA"
    assert checksum("ABCDEABCDEABCDE") == "555"


def test_ids_grow_and_name_their_origin() -> None:
    ids = [record_id("500", number) for number in range(300)]
    assert ids == sorted(ids)
    assert len(set(ids)) == 300
    assert record_id("500", 7, marker="Rt")[3:5] == "Rt"
