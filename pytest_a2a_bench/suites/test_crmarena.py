"""CRMArena: one item per task and trial."""

from __future__ import annotations

import pytest

from pytest_a2a_bench.model import TrialResult


@pytest.mark.crmarena("mini")
def test_mini(trial: TrialResult) -> None:
    """The built-in mini org: tasks of all 22 categories, with no download and no login."""
    assert trial.success


@pytest.mark.crmarena("mini_interactive")
def test_mini_interactive(trial: TrialResult) -> None:
    """The built-in mini org, with a simulated user who asks the questions."""
    assert trial.success


@pytest.mark.crmarena("b2b")
def test_b2b(trial: TrialResult) -> None:
    """CRMArena-Pro's B2B org, from the user's copy of the data."""
    assert trial.success


@pytest.mark.crmarena("b2b_interactive")
def test_b2b_interactive(trial: TrialResult) -> None:
    """The same with a simulated user."""
    assert trial.success


@pytest.mark.crmarena("b2c")
def test_b2c(trial: TrialResult) -> None:
    """CRMArena-Pro's B2C org, from the user's copy of the data."""
    assert trial.success


@pytest.mark.crmarena("b2c_interactive")
def test_b2c_interactive(trial: TrialResult) -> None:
    """The same with a simulated user."""
    assert trial.success


@pytest.mark.crmarena("original")
def test_original(trial: TrialResult) -> None:
    """The original CRMArena: the nine service categories, from the user's copy of the data."""
    assert trial.success
