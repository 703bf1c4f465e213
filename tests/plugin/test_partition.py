from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from pytest_a2a_bench.plugin.run.state import LIFELINE, ORPHANS, SLOT, SLOTS, WorkerPart


@given(st.integers(1, 20), st.integers(0, 200))
def test_slots_cover_every_item_once(slots: int, total: int) -> None:
    parts = [WorkerPart.of({SLOT: slot, SLOTS: slots}).indices(total) for slot in range(slots)]
    assert sorted(i for part in parts for i in part) == list(range(total))
    assert max(map(len, parts)) - min(map(len, parts)) <= 1


def test_a_replacement_runs_what_it_was_left() -> None:
    assert WorkerPart.of({ORPHANS: [3, 5]}).indices(10) == [3, 5]
    assert WorkerPart.of({ORPHANS: []}).indices(10) == []


def test_nothing_is_promised_where_another_scheduler_decides() -> None:
    assert WorkerPart.of({"workercount": 2, LIFELINE: "x"}) == WorkerPart(lifeline="x", workers=2)
    assert WorkerPart().indices(10) == []


@given(st.integers(1, 50), st.integers(1, 500))
def test_what_there_is_for_all_is_divided_among_the_workers(workers: int, total: int) -> None:
    shares = [WorkerPart.of({"workerid": f"gw{i}", "workercount": workers}).share(total) for i in range(workers)]
    assert sum(shares) == max(total, workers)
    assert max(shares) - min(shares) <= 1
