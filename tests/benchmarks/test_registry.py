"""The registry imports a benchmark in a trial's thread."""

import dataclasses
from pathlib import Path

import pytest

from pytest_a2a_bench.benchmarks import registry

MODULE = """\
import sys

sys.tries = getattr(sys, "tries", 0) + 1
if sys.tries < 3:
    raise SystemError("AST constructor recursion depth mismatch")
BENCHMARK = sys.tries
"""


def test_an_import_that_another_thread_broke_is_repeated(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "parsed_at_once.py").write_text(MODULE)
    monkeypatch.syspath_prepend(tmp_path)
    suite = dataclasses.replace(registry.load("tau2"), benchmark="parsed_at_once")
    monkeypatch.setattr(registry, "_load", lambda name: suite)
    assert registry.get_benchmark("any") == 3  # type: ignore[comparison-overlap]
