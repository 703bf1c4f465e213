"""Requirements of our own, judged beside the protocol's: what this house wants of every agent."""

from __future__ import annotations

from pytest_a2a_bench.conformance.context import Context
from pytest_a2a_bench.conformance.finding import Requirement


async def names_its_provider(ctx: Context) -> None:
    """Look at the card."""
    if not ctx.target.card.get("provider"):
        ctx.fail("the card names no provider", pointer="/provider", fix="say who runs the agent")


async def answers_with_words(ctx: Context) -> None:
    """Look at the answer to an ordinary message."""
    reply = ctx.needed(await ctx.said(), "SendMessage")
    if "text" not in str(reply.result):
        ctx.fail("the answer has no text", reply)


PACK = (
    (
        Requirement("HOUSE-001", "house", "our handbook, 4.2", "SHOULD", "The card names who runs the agent"),
        names_its_provider,
    ),
    (Requirement("HOUSE-002", "house", "our handbook, 4.3", "MUST", "Every answer has words"), answers_with_words),
)
