"""A benchmark of one's own: a shop with two tools, three tasks, a setting, categories and an evaluator."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from pydantic import Field

from pytest_a2a_bench import (
    About,
    BenchTask,
    Briefing,
    Conversation,
    Outcome,
    Reward,
    Suite,
    ToolReturned,
    ToolSpec,
    TrialContext,
    Turn,
    UserSaid,
)

ORDERS = {"A1": "shipped", "B2": "open", "C3": "open"}
# id -> category, what the user says, the shop's state when all is right
TASKS = {
    "status-a1": ("question", "What is the status of order A1?", ORDERS),
    "cancel-b2": ("change", "Please cancel order B2.", ORDERS | {"B2": "canceled"}),
    "cancel-a1": ("change", "Please cancel order A1.", ORDERS),  # the policy forbids it
}
ORDER = {"type": "object", "properties": {"order": {"type": "string"}}, "required": ["order"]}
BRIEFING = Briefing(
    policy="You serve a shop. Answer questions about orders. Cancel an order only while it is open.",
    tools=(
        ToolSpec("get_status", "Return the status of an order.", ORDER),
        ToolSpec("cancel_order", "Cancel an order.", ORDER),
    ),
)


@dataclass(frozen=True)
class ShopSettings:
    """The benchmark's own settings; ``patience`` is ``shop-patience`` in a table."""

    patience: Annotated[int, Field(ge=1), About("Turns after which the shop's user gives up", "N")] = 5


class Shop:
    """Holds the conversation of one trial: the user asks once, and the agent acts until it answers in words."""

    name = "shop"

    def run_trial(self, context: TrialContext) -> Outcome:
        """Hold one conversation and evaluate it."""
        (category, text, expected), orders = TASKS[context.key.task_id], dict(ORDERS)
        talk = Conversation(context.session, BRIEFING, context.settings.dialect, before_turn=context.checkpoint)
        turns, news = [Turn("user", text)], [UserSaid(text)]
        for _ in range(context.settings.benchmark_options["shop_patience"]):
            said = talk.ask(news)
            turns.append(Turn("agent", said.text, calls=said.calls))
            if not said.calls:
                break
            news = [ToolReturned(c.id, c.name, act(orders, c.name, c.arguments["order"])) for c in said.calls]
            turns += [Turn("tool", result.content, tool=result.name) for result in news]
        told = turns[-1].role == "agent" and ORDERS["A1"] in (turns[-1].text or "")
        right = float(orders == expected and (category == "change" or told))
        reward = Reward(right, ("STATE",), {"STATE": right})
        made_by = {"benchmark": "shop 1", "user": "scripted"}
        return Outcome(reward, "user_stop", tuple(turns), category=category, provenance=made_by)


def act(orders: dict[str, str], tool: str, order: str) -> str:
    if tool == "cancel_order":
        orders[order] = "canceled"
    return orders.get(order, "unknown")


BENCHMARK = Shop()
SUITE = Suite(
    name="shop",
    domains=("orders",),
    available=lambda: ("orders",),
    splits=lambda domain: ("base",),
    load_tasks=lambda domain, split: [BenchTask("shop", domain, t, (split,), (), c) for t, (c, *_) in TASKS.items()],
    benchmark="shop",
    player="golds",
    categories=("question", "change"),
    settings=ShopSettings,
    settings_prefix="shop_",
)
