"""Real trials without pytest's own machinery: a built-in agent, the client, the runner."""

from __future__ import annotations

from trial_fixtures import builtin, event_loop_for_litellm, run_trials

__all__ = ["builtin", "event_loop_for_litellm", "run_trials"]
