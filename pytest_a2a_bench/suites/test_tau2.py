"""tau2-bench: one item per task and trial."""

from __future__ import annotations

import pytest

from pytest_a2a_bench.model import TrialResult


@pytest.mark.tau2("airline")
def test_airline(trial: TrialResult) -> None:
    assert trial.success


@pytest.mark.tau2("retail")
def test_retail(trial: TrialResult) -> None:
    assert trial.success


@pytest.mark.tau2("telecom")
def test_telecom(trial: TrialResult) -> None:
    assert trial.success


@pytest.mark.tau2("mock")
def test_mock(trial: TrialResult) -> None:
    assert trial.success


@pytest.mark.tau2("banking_knowledge")
def test_banking_knowledge(trial: TrialResult) -> None:
    assert trial.success
