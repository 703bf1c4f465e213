"""Tenants: interfaces that serve several, apart from each other."""

from __future__ import annotations

from collections.abc import Mapping

from pytest_a2a_bench.conformance.check import check
from pytest_a2a_bench.conformance.context import Context
from pytest_a2a_bench.conformance.protocol.streams import read_event


def other_tenants(ctx: Context) -> list[str]:
    """Return the card's other tenants of this binding."""
    found = ctx.target.card.get("supportedInterfaces")
    items = [item for item in found if isinstance(item, Mapping)] if isinstance(found, list) else []
    same = [item for item in items if str(item.get("protocolBinding", "")).upper() == ctx.binding]
    return sorted({str(item.get("tenant") or "") for item in same} - {ctx.target.tenant, ""})


@check("TEN-001")
async def tenant_is_served(ctx: Context) -> None:
    """A message with the interface's tenant is answered."""
    if not ctx.target.tenant:
        ctx.skip("the card's interface has no tenant")
    reply = await ctx.send()
    if not reply.ok:
        found = f"a message for the tenant {ctx.target.tenant!r}: {reply.describe()}"
        ctx.fail(found, expected="an answer", replies=(reply,))
        return
    event = read_event(reply.result)
    if event.kind == "task":
        again = await ctx.call("GetTask", {"id": event.task_id})
        if not again.ok:
            found = f"the tenant's own task: {again.describe()}"
            ctx.fail(found, expected="the Task", replies=(reply, again))


@check("TEN-002")
async def tenants_are_apart(ctx: Context) -> None:
    """One tenant's tasks are not visible in another."""
    others = other_tenants(ctx)
    if not ctx.target.tenant or not others:
        ctx.skip("the card has no two tenants on this binding")
    task = await ctx.completed_task()
    for tenant in others:
        reply = await ctx.call("GetTask", {"id": task["id"], "tenant": tenant})
        if reply.ok:
            found = f"the task of tenant {ctx.target.tenant!r} is visible in tenant {tenant!r}"
            ctx.fail(found, expected="TaskNotFoundError", replies=(reply,))
