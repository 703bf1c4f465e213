"""CRMArena and CRMArena-Pro: questions about a Salesforce org, answered by queries."""

from __future__ import annotations

DOMAINS = ("mini", "mini_interactive", "original", "b2b", "b2b_interactive", "b2c", "b2c_interactive")

MINI = ("mini", "mini_interactive")
"""The domains about our own org; upstream's are the user's to download."""

ORG_DIALECTS = ("crm_action", "crm_observation", "execute_tags", "crm_entropic")
"""Dialects that can say nothing but a query and an answer: for the tasks about an org."""
