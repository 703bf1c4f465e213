"""Real trials of CRM tasks against built-in agents, over real HTTP."""

from __future__ import annotations

from trial_fixtures import builtin, run_trials

__all__ = ["builtin", "run_trials"]
