"""Python without assertions: a run that could not fail is refused."""

from __future__ import annotations

import pytest
from harness import Bench

SUITE = ("--a2a-endpoint=builtin:noop", "--a2a-suite=mock", "-k", "update_task_1")


@pytest.mark.parametrize("optimize", ["", pytest.param("1", marks=pytest.mark.slow)])
def test_no_trial_passes_because_assertions_were_removed(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, optimize: str
) -> None:
    monkeypatch.setenv("PYTHONOPTIMIZE", optimize)
    bench.apart(*SUITE).assert_outcomes(failed=1)
    plain = bench.apart(*SUITE, "--assert=plain")
    if optimize:
        assert plain.ret == pytest.ExitCode.USAGE_ERROR
        plain.stderr.fnmatch_lines(["ERROR: --assert=plain: Python removes assertions*"])
    else:
        plain.assert_outcomes(failed=1)
