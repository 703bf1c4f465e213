"""Python's syntax, parsed in threads."""

from __future__ import annotations

import gc
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from pytest_a2a_bench.dialects.serialization import read_literal


@pytest.fixture
def switching() -> Iterator[None]:
    """Let threads switch while a tree is built: where the garbage collector calls Python code."""

    def collected(*_: object) -> None:
        sum(range(50))

    interval, threshold = sys.getswitchinterval(), gc.get_threshold()
    sys.setswitchinterval(1e-6)
    gc.set_threshold(10)
    gc.callbacks.append(collected)
    yield
    gc.callbacks.remove(collected)
    gc.set_threshold(*threshold)
    sys.setswitchinterval(interval)


@pytest.mark.usefixtures("switching")
def test_threads_do_not_disturb_each_other() -> None:
    texts = ["[" * 60 + str([{"Id": n, "Name": "x"}] * 300) + "]" * 60 for n in range(8)]
    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(read_literal, texts * 30))
    assert str(found[3]) == texts[3]


@pytest.mark.parametrize("text", ["", "[1", "f(1)", "x"])
def test_an_invalid_literal_is_refused(text: str) -> None:
    with pytest.raises((SyntaxError, ValueError)):
        read_literal(text)
