from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_a2a_bench.a2a.requests import Pace
from pytest_a2a_bench.config.values import read_pace


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def test_without_a_rate_nobody_waits() -> None:
    pace = Pace(clock=Clock())
    assert [pace.book()() for _ in range(1000)] == [0.0] * 1000


@given(st.floats(0.1, 1000), st.integers(1, 50))
def test_messages_leave_at_the_rate_in_the_order_of_asking(rate: float, count: int) -> None:
    pace = Pace(rate, clock=Clock())
    waits = [pace.book()() for _ in range(count)]
    assert waits == pytest.approx([n / rate for n in range(count)])


def test_a_busy_agent_holds_back_those_that_wait_and_those_that_come() -> None:
    clock = Clock()
    pace = Pace(10, clock=clock)
    waiting = [pace.book() for _ in range(3)]
    pace.refused(7.0)
    assert [w() for w in waiting] == pytest.approx([7.0, 7.1, 7.2])
    assert pace.book()() == pytest.approx(7.3)
    # What left before the first refusal was heard of is refused too, and means nothing more, whenever that is heard.
    gap = pace._gap
    clock.now += 1
    pace.refused(2.0, under_way=1.5)
    assert pace._gap == gap
    assert waiting[0]() == pytest.approx(6.0)
    clock.now += 7
    pace.refused(0.0, under_way=7.5)
    assert pace._gap == gap


def test_refused_again_it_goes_slower_and_answered_it_recovers() -> None:
    clock = Clock()
    pace = Pace(clock=clock)
    gaps = []
    for _ in range(8):
        pace.refused(20.0)
        clock.now += 100
        pace.book()
        gaps.append(pace.book()())
        clock.now += 100
    assert gaps[:3] == [0.125, 0.25, 0.5]
    assert gaps[-1] == 5.0
    for _ in range(200):
        pace.accepted()
    clock.now += 100
    assert [pace.book()() for _ in range(10)] == [0.0] * 10


@given(st.floats(0.0, 3.0), st.integers(1, 40), st.sampled_from([None, 10.0]))
def test_nobody_goes_slower_than_one_message_in_the_time_that_was_asked_for(
    asked: float, times: int, rate: float | None
) -> None:
    clock = Clock()
    pace = Pace(rate, clock=clock)
    for _ in range(times):
        pace.refused(asked)
        clock.now += 10
    pace.book()
    assert pace.book()() <= max(asked, 1 / rate if rate else 0.0) + 1e-9


def test_no_agent_holds_everybody_back_for_longer_than_a_turn_may_take() -> None:
    pace = Pace(patience=60.0, clock=Clock())
    pace.refused(86_400.0)
    assert pace.book()() == 60.0


@pytest.mark.parametrize(("text", "rate"), [("5", 5.0), ("5/s", 5.0), (" 0.5 / s", 0.5), ("90/min", 1.5)])
def test_rates_are_read_by_second_or_minute(text: str, rate: float) -> None:
    assert read_pace(text) == rate


@pytest.mark.parametrize("text", ["", "0", "-1/s", "5/day", "nan", "inf/s", "fast"])
def test_what_is_no_rate_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="such as 5/s"):
        read_pace(text)
