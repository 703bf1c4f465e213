"""The shop's reference solutions: with them ``--a2a-endpoint builtin:oracle`` shows that every task can be solved."""

from __future__ import annotations

from shop import ORDERS, TASKS

from pytest_a2a_bench import Gold, Player, Settings, ToolCall


def read_gold(domain: str, task_id: str, settings: Settings) -> Gold:
    """Return what to call, and what the user must hear."""
    category, _, expected = TASKS[task_id]
    if category == "question":
        return Gold((ToolCall("get_status", {"order": "A1"}),), communicate=(ORDERS["A1"],))
    changed = [order for order in ORDERS if ORDERS[order] != expected[order]]
    return Gold(tuple(ToolCall("cancel_order", {"order": order}) for order in changed))


PLAYER = Player(read_gold, writing=lambda domain: frozenset({"cancel_order"}))
