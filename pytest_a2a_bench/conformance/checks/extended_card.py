"""GetExtendedAgentCard."""

from __future__ import annotations

from pytest_a2a_bench.conformance.card import check_card
from pytest_a2a_bench.conformance.check import check
from pytest_a2a_bench.conformance.context import Context
from pytest_a2a_bench.conformance.finding import Finding
from pytest_a2a_bench.conformance.wire.reply import WireReply

OPERATION = "GetExtendedAgentCard"
SECRETS_RULE = "CARD-017"


async def extended(ctx: Context) -> WireReply:
    """Return the extended card, fetched with the user's credentials; skip where there is none to be had."""
    ctx.require_capability("extendedAgentCard")
    reply = await ctx.shared("extended-card", lambda: ctx.call(OPERATION, {}))
    if reply.error is not None and reply.error.may_be("ExtendedAgentCardNotConfiguredError"):
        ctx.skip("the agent has no extended card configured")
    auth = ctx.target.auth
    if reply.is_refused and not (auth.headers or auth.query or auth.cookies):
        ctx.skip("the extended card needs credentials, and none were given")
    return reply


def judged(ctx: Context, reply: WireReply) -> list[Finding]:
    """Return what is wrong with the card; skip where there is none."""
    return check_card(ctx.skip_unless_ok(reply, OPERATION).result, url=ctx.target.url)


@check("XCARD-001")
async def refused_without_the_capability(ctx: Context) -> None:
    """Without the capability the operation is not supported."""
    ctx.forbid_capability("extendedAgentCard")
    reply = await ctx.call(OPERATION, {})
    ctx.expect_error(reply, "UnsupportedOperationError", what=f"{OPERATION} without the capability")


@check("XCARD-002")
async def card_or_not_configured(ctx: Context) -> None:
    """With the capability there is a card, or the error that says that none is configured."""
    reply = await extended(ctx)
    if not reply.ok:
        expected = "a card, or ExtendedAgentCardNotConfiguredError"
        ctx.fail(f"{OPERATION}: {reply.describe()}", expected=expected, replies=(reply,))


@check("XCARD-003")
async def credentials_are_needed(ctx: Context) -> None:
    """The extended card is refused to strangers."""
    ctx.require_capability("extendedAgentCard")
    reply = await ctx.call(OPERATION, {}, auth=False)
    if reply.error is not None and reply.error.may_be("ExtendedAgentCardNotConfiguredError"):
        ctx.skip("the agent has no extended card configured")
    if not reply.is_refused:
        ctx.fail(f"{OPERATION} without credentials: {reply.describe()}", expected="a refusal", replies=(reply,))


@check("XCARD-004")
async def card_is_valid(ctx: Context) -> None:
    """The extended card is a complete and valid agent card."""
    reply = await extended(ctx)
    for finding in judged(ctx, reply):
        if finding.severity == "error":
            found = f"{finding.rule}: {finding.found}"
            ctx.fail(found, pointer=finding.pointer, expected=finding.expected, fix=finding.fix, replies=(reply,))


@check("XCARD-005")
async def caching_is_controlled(ctx: Context) -> None:
    """The extended card says how long, and by whom, it may be kept."""
    reply = ctx.skip_unless_ok(await extended(ctx), OPERATION)
    directives = reply.headers.get("cache-control", "").lower()
    if not directives:
        ctx.fail("no Cache-Control", expected="Cache-Control: private, with max-age", replies=(reply,))
    elif "public" in directives:
        found = f"Cache-Control is {directives!r}: shared caches may give the card to others"
        ctx.fail(found, expected="Cache-Control: private", replies=(reply,))


@check("XCARD-006")
async def card_has_no_secrets(ctx: Context) -> None:
    """The extended card holds no credentials."""
    reply = await extended(ctx)
    for finding in judged(ctx, reply):
        if finding.rule == SECRETS_RULE:
            ctx.fail(finding.found, pointer=finding.pointer, expected=finding.expected, replies=(reply,))
