from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from pytest_a2a_bench.plugin.run.partition import ORPHANS, SLOT, SLOTS, indices_of


@given(st.integers(1, 20), st.integers(0, 200))
def test_slots_cover_every_item_once(slots: int, total: int) -> None:
    parts = [indices_of({SLOT: slot, SLOTS: slots}, total) for slot in range(slots)]
    assert sorted(i for part in parts for i in part) == list(range(total))
    assert max(map(len, parts)) - min(map(len, parts)) <= 1


def test_a_replacement_runs_what_it_was_left() -> None:
    assert indices_of({ORPHANS: [3, 5]}, 10) == [3, 5]
    assert indices_of({ORPHANS: []}, 10) == []


def test_nothing_is_promised_where_another_scheduler_decides() -> None:
    assert indices_of({}, 10) == []
