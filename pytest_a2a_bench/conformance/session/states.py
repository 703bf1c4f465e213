"""Tasks in every state that an agent can be brought to, and answers about them: made once for an interface."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from pytest_a2a_bench.a2a.messages import SETTLED
from pytest_a2a_bench.conformance.crossing import STATE_PROMPTS
from pytest_a2a_bench.conformance.protocol.payloads import state_of, task_in
from pytest_a2a_bench.conformance.protocol.streams import read_event
from pytest_a2a_bench.conformance.wire.reply import WireReply

if TYPE_CHECKING:
    from pytest_a2a_bench.conformance.context import Context

_STREAM_SECONDS = 5.0
_OPEN_SECONDS = 1.0
RUNNING = frozenset({"submitted", "working"})
"""States that change by themselves; one that is missing, or none of the protocol's, does not come right by waiting."""


async def reply_in(ctx: Context, state: str) -> WireReply:
    """Return the answer that has a task in a state; skip where the agent cannot be brought there."""
    asking = ctx.plain()
    if state == "working":
        # It goes on, so that each check needs its own.
        return await _working(asking)
    made: WireReply = await ctx.shared(("in state", state), lambda: _make(asking, state))
    return made


async def _working(ctx: Context) -> WireReply:
    reply = await ctx.send(ctx.prompt("slow"), configuration={"returnImmediately": True})
    if state_of(_body(reply)) in SETTLED:
        ctx.skip("the task of the scenario slow was over at once")
    return reply


async def _make(ctx: Context, state: str) -> WireReply:
    if state == "canceled":
        task_id = str(_body(await _working(ctx)).get("id"))
        reply = await ctx.call("CancelTask", {"id": task_id})
        if reply.ok and state_of(_body(reply)) in RUNNING:
            # Cancelling may take its time (CAN-001); the task is no canceled one before.
            reply = await ctx.wait_for_task(task_id)
            if state_of(_body(reply)) in RUNNING:
                ctx.skip("the task that was to be canceled went on working")
        # Section 3.3.1 lets agents forget what was canceled, and then there is no such task to ask about.
        kept = await ctx.call("GetTask", {"id": task_id})
        if kept.error is not None and kept.error.may_be("TaskNotFoundError"):
            ctx.skip("the agent keeps no canceled tasks")
    else:
        reply = await ctx.send(ctx.prompt(STATE_PROMPTS[state]))
    # Spelled wrongly it is that state all the same, and the check is to see it.
    found = state_of(_body(reply))
    if not _body(reply) or (found != state and found in SETTLED):
        ctx.skip(f"the scenario {STATE_PROMPTS[state]} gives no task that is {state}: {reply.describe()}")
    return reply


async def task_of(ctx: Context, state: str) -> Mapping[str, Any]:
    """Return a task in a state."""
    body = _body(await reply_in(ctx, state))
    return body if body.get("id") else ctx.skip(f"the task that is {state} has no id")


def _body(reply: WireReply) -> Mapping[str, Any]:
    """Return the task of an answer, whatever it lacks; an empty one where there is none."""
    return task_in(reply.result) or {}


async def stream_in(ctx: Context, state: str) -> WireReply:
    """Return a stream of a task that comes to a state: of the message that makes it, or the rest of a working one's."""
    asking = ctx.plain()
    stream: WireReply = await ctx.shared(("stream in state", state), lambda: _stream(asking, state))
    return stream


async def _stream(ctx: Context, state: str) -> WireReply:
    ctx.require_capability("streaming")
    if state in ("working", "canceled"):
        task_id = str((await task_of(ctx, "working"))["id"])
        watching = await watch(ctx, task_id)
        if state == "canceled":
            await ctx.call("CancelTask", {"id": task_id})
        return await watching
    # A stream may stay open while the agent waits for somebody (section 7.6.1): it is left then.
    waits = state in ("input-required", "auth-required")
    until = (lambda event: read_event(event).state in SETTLED) if waits else None
    return await ctx.call("SendStreamingMessage", ctx.send_params(ctx.prompt(STATE_PROMPTS[state])), until=until)


async def watch(ctx: Context, task_id: str) -> asyncio.Task[WireReply]:
    """Subscribe to a task, and return while that is under way: once an event has come, or one should have."""
    # Only after its first event a stream is known to be open.
    opened = asyncio.Event()
    seconds = await ctx.allow(_STREAM_SECONDS)
    asking = ctx.call("SubscribeToTask", {"id": task_id}, timeout=seconds, on_event=lambda event: opened.set())
    watching = asyncio.create_task(asking)
    opening = asyncio.create_task(opened.wait())
    await asyncio.wait({opening, watching}, timeout=await ctx.allow(_OPEN_SECONDS), return_when="FIRST_COMPLETED")
    opening.cancel()
    return watching


async def samples_in(ctx: Context, state: str) -> tuple[WireReply, ...]:
    """Return answers of every operation that gives a task, about one in a state."""
    asking = ctx.plain()
    replies: tuple[WireReply, ...] = await ctx.shared(("samples in state", state), lambda: _samples(asking, state))
    return replies


async def _samples(ctx: Context, state: str) -> tuple[WireReply, ...]:
    made = await reply_in(ctx, state)
    body = _body(made)
    replies = [made]
    if body.get("id"):
        replies.append(await ctx.call("GetTask", {"id": body["id"]}))
    if ctx.version != "0.3" and body.get("contextId"):
        params = {"contextId": body["contextId"], "includeArtifacts": True}
        replies.append(await ctx.call("ListTasks", params))
    if ctx.target.declares("streaming"):
        replies.append(await stream_in(ctx, state))
    return tuple(replies)
