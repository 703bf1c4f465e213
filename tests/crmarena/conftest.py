"""Real trials of CRM tasks against built-in agents, over real HTTP."""

from __future__ import annotations

from trial_fixtures import builtin, event_loop_for_litellm, run_trials

__all__ = ["builtin", "event_loop_for_litellm", "run_trials"]
