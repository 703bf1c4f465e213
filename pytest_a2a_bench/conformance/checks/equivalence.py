"""Equivalence: each binding is compared with the first one that the card declares."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from pytest_a2a_bench.conformance.check import check
from pytest_a2a_bench.conformance.checks.auth import operations
from pytest_a2a_bench.conformance.context import Context
from pytest_a2a_bench.conformance.protocol.payloads import parse_timestamp
from pytest_a2a_bench.conformance.protocol.streams import canonical, is_suffix, rebuild
from pytest_a2a_bench.conformance.wire.reply import WireReply

Mistake = Callable[[Context], Awaitable[WireReply]]


def first(ctx: Context) -> Context:
    """Return the check on the first binding; skip where that is this one, for there is nothing to compare it with."""
    model = ctx.siblings()[0]
    if model.binding == ctx.binding:
        others = len(ctx.siblings()) - 1
        ctx.skip("the other bindings are compared with this one" if others else "the card declares one binding only")
    return model


def is_missing(reply: WireReply) -> bool:
    """Tell whether an answer says that there is no such operation."""
    error = reply.error
    if error is None:
        return False
    named = isinstance(reply.document, Mapping) and set(reply.document) != {"detail"}
    no_path = error.http_status in (405, 501) or (error.http_status == 404 and not named)
    return (
        error.name == "MethodNotFoundError" or error.grpc_status == "UNIMPLEMENTED" or (no_path and error.code is None)
    )


@check("EQ-001")
async def operations_are_the_same(ctx: Context) -> None:
    """Every operation of the first binding is there."""
    model = first(ctx)
    for name, params in operations(ctx).items():
        here, there = await asyncio.gather(ctx.call(name, params), model.call(name, params))
        if is_missing(here) and not is_missing(there):
            found = f"{name} works on {model.binding}, not on {ctx.binding}: {here.describe()}"
            ctx.fail(found, expected="the same operations on every binding", replies=(here, there))


@check("EQ-002")
async def tasks_are_the_same(ctx: Context) -> None:
    """A task that was made on one binding is the same on the other."""
    model = first(ctx)
    task = await ctx.completed_task()
    here, there = await asyncio.gather(ctx.get_task(task["id"]), model.get_task(task["id"]))
    ctx.skip_unless_ok(here, "GetTask")
    if not there.ok:
        found = f"a task made on {ctx.binding} is unknown on {model.binding}: {there.describe()}"
        ctx.fail(found, expected="the same task", replies=(here, there))
    elif comparable(here.result) != comparable(there.result):
        found = f"GetTask differs between {ctx.binding} and {model.binding}"
        ctx.fail(found, expected="the same task", replies=(here, there))


def comparable(value: Any) -> str:
    """Return a canonical form in which a time is the same however it is written."""
    return canonical(_timeless(value))


def _timeless(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {
            name: parse_timestamp(item) or item if name == "timestamp" else _timeless(item)
            for name, item in value.items()
        }
    return [_timeless(item) for item in value] if isinstance(value, list) else value


async def _completed(ctx: Context, operation: str, **params: Any) -> WireReply:
    task = await ctx.completed_task()
    return await ctx.call(operation, {"id": task["id"], **params})


MISTAKES: Mapping[str, Mistake] = {
    "GetTask of an unknown task": lambda ctx: ctx.get_task(ctx.unknown_id()),
    "CancelTask of an unknown task": lambda ctx: ctx.call("CancelTask", {"id": ctx.unknown_id()}),
    "CancelTask of a completed task": lambda ctx: _completed(ctx, "CancelTask"),
    "GetTask with historyLength -1": lambda ctx: _completed(ctx, "GetTask", historyLength=-1),
    "a message to an unknown task": lambda ctx: ctx.send(task_id=ctx.unknown_id()),
    "ListTasks with pageSize 0": lambda ctx: ctx.call("ListTasks", {"pageSize": 0}),
    "a version that does not exist": lambda ctx: ctx.call("ListTasks", {"pageSize": 1}, version_header="99.0"),
}


@check("EQ-003")
async def errors_are_the_same(ctx: Context) -> None:
    """The same mistake gives the same error."""
    model = first(ctx)
    for what, make in MISTAKES.items():
        here, there = await asyncio.gather(make(ctx), make(model))
        ctx.skip_if_refused(here)
        if not _same_error(here, there):
            found = f"{what}: {ctx.binding} {here.describe()[:200]}; {model.binding} {there.describe()[:200]}"
            ctx.fail(found, expected="the same error on every binding", replies=(here, there))


def _same_error(one: WireReply, other: WireReply) -> bool:
    if one.error is None or other.error is None:
        return one.error is None and other.error is None
    for known, unknown in ((one.error, other.error), (other.error, one.error)):
        if known.name:
            return unknown.may_be(known.name)
    return True


@check("EQ-004")
async def streams_are_the_same(ctx: Context) -> None:
    """Subscribers on different bindings get the same events."""
    model = first(ctx)
    ctx.require_capability("streaming")
    task = await ctx.start_task(ctx.prompt("slow"))
    params = {"id": task["id"]}
    here, there = await asyncio.gather(ctx.call("SubscribeToTask", params), model.call("SubscribeToTask", params))
    streams = [ctx.events_of(reply, "SubscribeToTask") for reply in (here, there)]
    one, other = ([comparable(event.body) for event in stream if event.kind != "task"] for stream in streams)
    short, long = sorted((one, other), key=len)
    if not is_suffix(short, long) or not short:
        found = f"{ctx.binding} had {len(one)} updates, {model.binding} {len(other)}, and they are not the same"
        ctx.fail(found, expected="the same events on every binding", replies=(here, there))
        return
    # A later subscriber has the earlier events in its first task, so that both end with the same artifacts.
    built, modelled = (comparable(rebuild(stream).artifacts) for stream in streams)
    if built != modelled:
        found = f"the artifacts of the stream on {ctx.binding} are not those on {model.binding}"
        ctx.fail(found, expected="the same events on every binding", replies=(here, there))
