"""tau2's banking_knowledge domain: one item per task and trial."""

from __future__ import annotations

import pytest

from pytest_a2a_bench.model import TrialResult


@pytest.mark.tau2("banking_knowledge")
def test_banking_knowledge(trial: TrialResult) -> None:
    assert trial.success
