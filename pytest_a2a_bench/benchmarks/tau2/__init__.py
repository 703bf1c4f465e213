"""tau2-bench: its own environments, user simulator and evaluators, with an A2A agent in the middle."""

from __future__ import annotations

DOMAINS = ("airline", "retail", "telecom", "mock", "banking_knowledge")
"""Every domain that some tau2 has."""
