"""Real trials of CRM tasks against built-in agents, and against the reference solver, over real HTTP."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from trial_fixtures import builtin, event_loop_for_litellm, run_trials

from pytest_a2a_bench import extensions

__all__ = ["builtin", "event_loop_for_litellm", "run_trials"]


@pytest.fixture(autouse=True)
def solver() -> Iterator[None]:
    """Offer the reference solver as the agent ``solver``."""
    extensions.offer("agents", {"solver": "mini_org.agent:make"}, "tests")
    yield
    extensions.withdraw()
