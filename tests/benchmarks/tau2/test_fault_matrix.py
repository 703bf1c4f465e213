"""What comes of each fault is what docs/explanations/reliability.md says, and never a wrong reward."""

from __future__ import annotations

from collections import Counter

import pytest
from examples import sampled
from fault_matrix import Cell, Tried, cells, documented, explain, try_cell
from rotating import rotating

# asyncio forgets a connection that it accepted at the moment at which the proxy ends.
pytestmark = pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")

# One of each way to end, and of each binding: in CI always, whichever part of the others is tried.
QUICK = [
    Cell("blocking", "after-delivery", "jsonrpc", "1.0"),
    Cell("blocking", "half-close", "grpc", "0.3"),
    Cell("streaming", "wrong-context", "rest", "1.0"),
]


def check(cell: Cell) -> None:
    problem = explain(cell, try_cell(cell), documented()[cell])
    assert not problem, problem


@pytest.mark.parametrize("cell", sampled(QUICK, 4), ids=str)
def test_a_cell_is_as_documented(cell: Cell) -> None:
    check(cell)


@pytest.mark.slow
@pytest.mark.parametrize("cell", [cell for cell in cells() if cell not in QUICK], ids=str)
def test_every_cell_is_as_documented(cell: Cell) -> None:
    if cell not in rotating(list(cells()), 5):
        pytest.skip("another part of the fault matrix is tried, by A2A_BENCH_FUZZ_SEED")
    check(cell)


def test_the_page_has_every_cell() -> None:
    assert set(documented()) == set(cells())


def test_an_outcome_with_several_names_counts_once() -> None:
    outcomes = Counter({"repeated": 20, "run again": 3, "put up with": 3, "repeated in vain": 1})
    assert Tried(outcomes, (), 20).outcome == "repeated"
