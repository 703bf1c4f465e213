"""tau2's telecom domain: one item per task and trial."""

from __future__ import annotations

import pytest

from pytest_a2a_bench.model import TrialResult


@pytest.mark.tau2("telecom")
def test_telecom(trial: TrialResult) -> None:
    assert trial.success
