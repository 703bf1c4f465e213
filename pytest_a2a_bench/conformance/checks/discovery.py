"""Discovery: the card's address, the extended card, and tenants."""

from __future__ import annotations

import urllib.parse
from typing import Any

from pytest_a2a_bench.a2a.bodies import as_object, as_objects
from pytest_a2a_bench.conformance import fixtures
from pytest_a2a_bench.conformance.card import check_card
from pytest_a2a_bench.conformance.checks.auth import strangers
from pytest_a2a_bench.conformance.checks.list_tasks import ALL_PAGES, ids_on, walk
from pytest_a2a_bench.conformance.context import Context
from pytest_a2a_bench.conformance.protocol.streams import read_event
from pytest_a2a_bench.conformance.wire.reply import WireReply


async def interface_is_true(ctx: Context) -> None:
    """Ask the declared address for an unknown task, in the declared binding and version."""
    reply = await ctx.call("GetTask", {"id": ctx.unknown_id()})
    # What keeps all other checks from being made has to be found here, too.
    absent = ctx.session.health.absence
    # Another error is one of GetTask, where this address speaks the binding: a message is answered.
    if absent or not (reply.may_be("TaskNotFoundError") or (reply.error is not None and (await ctx.said()).ok)):
        wanted = f"{ctx.target} says TaskNotFoundError of an unknown task"
        said = reply.describe()
        found = absent if said in absent else f"{absent}: {said}" if absent else said
        fix = "the agent card names this address: correct it there, or what stands before the agent" if absent else ""
        for other in ("JSONRPC", "HTTP+JSON") if absent else ():
            if other != ctx.binding and await ctx.session.speaks(binding=other):
                fix = f"{other} is spoken there: correct the binding that the agent card names for this address"
        pointer = "/supportedInterfaces" if ctx.version != "0.3" else ""
        ctx.fail(found, reply, expected=wanted, pointer=pointer, fix=fix)


async def no_undeclared_binding(ctx: Context) -> None:
    """Look for the other HTTP binding at the same address; others cannot be guessed."""
    other = {"JSONRPC": "HTTP+JSON", "HTTP+JSON": "JSONRPC"}.get(ctx.binding)
    if other is None:
        ctx.skip("another binding at the address of a gRPC interface cannot be guessed")
    if (other, ctx.version) in ctx.target.interfaces:
        return
    if other == "JSONRPC":
        request = {"jsonrpc": "2.0", "id": "a2a-bench", "method": "GetTask", "params": {"id": ctx.unknown_id()}}
        # An address without a path is asked at its root, as httpx would write it anyway.
        path = "" if urllib.parse.urlsplit(ctx.target.url).path.strip("/") else "/"
        reply = await ctx.call("GetTask", http_method="POST", path=path, body=request)
        is_spoken = as_object(reply.document).get("jsonrpc") == "2.0"
    else:
        reply = await ctx.call("GetTask", path=f"/tasks/{ctx.unknown_id()}")
        # The reason of ErrorInfo: the word in an agent's prose would prove nothing.
        is_spoken = '"TASK_NOT_FOUND"' in reply.exchange.response
    if is_spoken:
        found = f"{other} is served at {reply.exchange.url} and not declared"
        ctx.fail(found, reply, pointer="/supportedInterfaces", fix=f"declare the {other} interface")


# -- the extended card --


OPERATION = "GetExtendedAgentCard"
SECRETS_RULE = "CARD-017"


async def extended(ctx: Context) -> WireReply:
    """Return the extended card, fetched with the user's credentials; skip where there is none to be had."""
    # Shared: the card of a paid agent may be behind a rate limit.
    reply = await ctx.shared("extended-card", lambda: ctx.call(OPERATION, {}))
    # Which 1.0 allows of an agent whose card declares one.
    if ctx.version != "0.3" and reply.may_be("ExtendedAgentCardNotConfiguredError"):
        ctx.skip("the agent has no extended card configured")
    if reply.is_refused and not ctx.target.auth:
        ctx.skip("the extended card needs credentials, and none were given")
    return reply


async def card_or_not_configured(ctx: Context) -> None:
    """With the capability there is a card, or the error that says that none is configured."""
    reply = await extended(ctx)
    if not reply.ok:
        ctx.fail(f"{OPERATION}: {reply.describe()}", reply)


async def credentials_are_needed(ctx: Context) -> None:
    """The extended card is refused without credentials, and with invalid ones."""
    for what, parts in strangers(ctx):
        reply = await ctx.call(OPERATION, {}, auth=parts)
        if reply.may_be("ExtendedAgentCardNotConfiguredError"):
            ctx.skip("the agent has no extended card configured")
        if not reply.is_refused:
            ctx.fail(f"{OPERATION} {what}: {reply.describe()}", reply)


async def card_is_valid(ctx: Context) -> None:
    """The extended card is a complete and valid agent card, or by another requirement one without credentials."""
    reply = ctx.needed(await extended(ctx), OPERATION, "XCARD-002")
    # protobuf's JSON writes a card of 0.3 in another way than its schema.
    if ctx.version == "0.3" and not ctx.session.is_tagged:
        return
    # Defects of the public card are reported there.
    rules: dict[str, Any] = {"url": ctx.target.url, "version": ctx.version}
    known = {(f.rule, f.pointer) for f in check_card(ctx.target.card, **rules)}
    for finding in check_card(reply.result, **rules):
        is_judged = finding.severity == "error" and (finding.rule, finding.pointer) not in known
        if finding.rule == SECRETS_RULE if ctx.requirement.id == "XCARD-006" else is_judged:
            found = f"{finding.rule}: {finding.found}"
            ctx.fail(found, reply, pointer=finding.pointer, expected=finding.expected, fix=finding.fix)


async def caching_is_controlled(ctx: Context) -> None:
    """The extended card says how long, and by whom, it may be kept."""
    reply = ctx.needed(await extended(ctx), OPERATION, "XCARD-002")
    directives = reply.headers.get("cache-control", "").lower()
    if not directives:
        ctx.fail("no Cache-Control", reply, expected="Cache-Control: private, with max-age")
    elif "public" in directives:
        found = f"Cache-Control is {directives!r}: shared caches may give the card to others"
        ctx.fail(found, reply, expected="Cache-Control: private")


# -- tenants --


def other_tenants(ctx: Context) -> list[str]:
    """Return the card's other tenants of this interface: those with its binding, version and address."""
    items = as_objects(ctx.target.card.get("supportedInterfaces"))
    # Of another binding nothing is known here: this check asks one interface.
    same = [item for item in items if str(item.get("protocolBinding", "")).upper() == ctx.binding]
    own = next((item for item in same if item.get("tenant") == ctx.target.tenant), {})
    # No client sends the tenant of another address here: a server may go by its addresses alone.
    places = [item for item in same if all(item.get(n) == own.get(n) for n in ("url", "protocolVersion"))]
    return sorted({str(item.get("tenant") or "") for item in places} - {ctx.target.tenant, ""})


async def tenant_is_served(ctx: Context) -> None:
    """A message with the interface's tenant is answered."""
    if not ctx.target.tenant:
        ctx.skip("the card's interface has no tenant")
    reply = await ctx.said()
    ctx.needed(reply, f"a message for the tenant {ctx.target.tenant!r}")
    event = read_event(reply.result)
    if event.kind == "task":
        # A tenant that is only looked at when sending would lose its task here.
        again = await ctx.call("GetTask", {"id": event.task_id})
        if not again.ok:
            ctx.fail(f"the tenant's own task: {again.describe()}", reply, again)
    await _others_are_served(ctx)


async def _others_are_served(ctx: Context) -> None:
    """Ask each other tenant of the interface for an unknown task."""
    others = other_tenants(ctx)
    unknown = {"id": ctx.unknown_id()}
    # Where that is not answered here, either, other requirements say so.
    if not others or not (own := await ctx.call("GetTask", unknown)).may_be("TaskNotFoundError"):
        return
    for tenant in others:
        reply = await ctx.call("GetTask", {**unknown, "tenant": tenant})
        # The credentials may be those of one tenant.
        if not reply.is_refused and not reply.may_be("TaskNotFoundError"):
            found = f"an unknown task, asked of the tenant {tenant!r}, which the card names, too: {reply.describe()}"
            ctx.fail(found, reply, own, expected=f"TaskNotFoundError, as of {ctx.target.tenant!r}")


TENANT_IS_BOUND = "section 13.1 bounds what a caller sees by its authorization, and a tenant is taken for such a bound"
"""The specification has no sentence about the tasks of tenants themselves."""


async def tenants_are_apart(ctx: Context) -> None:
    """One tenant's tasks are not visible in another, nor in its list."""
    others = other_tenants(ctx)
    if not ctx.target.tenant or not others:
        ctx.skip("the card has no two tenants on this binding")
    task = await fixtures.completed_task(ctx)
    for tenant in others:
        # The tenant of the request wins over the interface's own, which made the task.
        reply = await ctx.call("GetTask", {"id": task["id"], "tenant": tenant})
        if reply.ok:
            found = f"the task of tenant {ctx.target.tenant!r} is visible in tenant {tenant!r}"
            ctx.fail(found, reply, expected=f"TaskNotFoundError: {TENANT_IS_BOUND}")
        # The credentials may be those of one tenant.
        if not (await ctx.call("ListTasks", {"pageSize": 1, "tenant": tenant})).ok:
            continue
        pages = await walk(ctx, 100, most=ALL_PAGES, tenant=tenant)
        if task.get("id") in ids_on(pages):
            found = f"the list of tenant {tenant!r} has a task of {ctx.target.tenant!r}"
            ctx.fail(found, *pages[-1:], pointer="/tasks", expected=f"that tenant's tasks only: {TENANT_IS_BOUND}")
