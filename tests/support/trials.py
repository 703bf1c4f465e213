"""What the tau2 tests run trials with."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from pytest_a2a_bench.model import TrialKey, TrialResult
from pytest_a2a_bench.settings import Settings

RunTrials = Callable[[str, Settings, Iterable[TrialKey]], list[TrialResult]]
"""Built-in agent's spec, settings, keys -> results in order."""
