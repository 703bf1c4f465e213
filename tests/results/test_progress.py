from __future__ import annotations

from typing import Any

import pytest

from pytest_a2a_bench.results.stats import Progress, duration


def done(count: int, seconds: float = 10.0, **values: Any) -> tuple[dict[str, Any], ...]:
    return ({"status": "evaluated", "success": True, "duration_s": seconds, **values},) * count


def test_the_line() -> None:
    every = (*done(2, cost_usd=0.25), *done(1, success=False), *done(1, status="infrastructure_error", success=None))
    assert Progress(every, 20, 25.0, parallel=4, in_flight=3).line == (
        "a2a: 4 of 20 trials, 2 of 3 passed (67%), 1 not evaluated, 3 in flight, cost $0.50, 25s, about 40s left"
    )
    assert Progress((), 5, 3.0, in_flight=1).line == "a2a: 0 of 5 trials, 0 of 0 passed, 1 in flight, 3s"
    assert Progress(done(1), 9, 3.0, parallel=8).line.startswith("a2a: 1 of 9 trials, 1 of 1 passed (100%), up to 8 in")
    assert [duration(s) for s in (0.9, 59, 61, 3599, 3600, 7620)] == ["0s", "59s", "1m01s", "59m59s", "1h00m", "2h07m"]


@pytest.mark.parametrize(
    ("finished", "total", "seconds", "parallel", "expected"),
    [
        (1, 11, 10.0, 1, 100.0),
        (4, 44, 10.0, 4, 100.0),
        (4, 5, 10.0, 4, 10.0),  # the last one takes as long as one does
        (8, 16, 40.0, 4, 40.0),  # two waves took 20 s each, 10 of them beside the conversations
        (4, 4, 10.0, 4, None),
    ],
)
def test_time_left(finished: int, total: int, seconds: float, parallel: int, expected: float | None) -> None:
    assert Progress(done(finished), total, seconds, parallel).seconds_left == expected


def test_reused_trials_take_no_time_and_cost_nothing() -> None:
    every = (*done(10, 500.0, cost_usd=9.0, reused_from="earlier"), *done(1, 2.0, cost_usd=1.0))
    progress = Progress(every, 13, 2.0)
    assert progress.seconds_left == 4.0
    assert progress.cost == 1.0
    assert Progress(done(3, reused_from="earlier"), 5, 1.0).seconds_left is None
