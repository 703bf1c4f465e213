"""Tasks and answers that many checks look at, made once for an interface: of the ordinary prompt and in every state."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from pytest_a2a_bench.a2a.bodies import as_object, as_objects
from pytest_a2a_bench.a2a.codec import INTERRUPTED, SETTLED, TERMINAL
from pytest_a2a_bench.conformance.context import Context, shared
from pytest_a2a_bench.conformance.protocol.payloads import (
    RUNNING,
    message_ids,
    message_in,
    spelled_state,
    state_of,
    task_in,
)
from pytest_a2a_bench.conformance.protocol.streams import read_event
from pytest_a2a_bench.conformance.variants import STATE_PROMPTS, enum_of
from pytest_a2a_bench.conformance.wire.exchange import is_silence
from pytest_a2a_bench.conformance.wire.reply import NoAnswer, SkipCheck, WireReply

_STREAM_SECONDS = 5.0
_OPEN_SECONDS = 1.0


class StillOpen(SkipCheck):
    """A blocking call did not come back, although its task waits for the user, as an answer shows."""

    def __init__(self, message: str, reply: WireReply) -> None:
        self.reply = reply
        super().__init__(message)


async def asked_back(ctx: Context, key: str, state: str, **options: Any) -> WireReply:
    """Send the message of a scenario whose task comes to wait for the user, and return the answer.

    :param options: of the message, as :meth:`.Context.send` takes them.
    :raises StillOpen: if there is none, though the task is seen to wait while the call is open.
    """
    params = ctx.send_params(ctx.prompt(key), **options)
    sending = asyncio.ensure_future(ctx.call("SendMessage", params))
    # Half of the time is left for an answer that is under way.
    await asyncio.wait({sending}, timeout=ctx.target.timeout / 2)
    if sending.done() or ctx.version == "0.3":  # which cannot list tasks
        return await sending
    listed = await ctx.call("ListTasks", {"status": enum_of(state)})
    tasks = as_objects(as_object(listed.result).get("tasks"))
    waits = any(params["message"]["messageId"] in message_ids(task) for task in tasks if state_of(task) == state)
    reply = await sending
    if waits and is_silence(reply.exchange, ctx.target.timeout):
        found = f"SendMessage was still open {ctx.target.timeout / 2:g} s after ListTasks said that its task is {state}"
        raise StillOpen(f"{found}, which SEND-002 judges", listed)
    return reply


async def completed_task(ctx: Context, own: str = "") -> Mapping[str, Any]:
    """Return a terminal task that the agent made for the ``task`` prompt, or one in the variant's state; shared.

    :param own: the requirement that has such a task for itself, as its requests change it on agents that accept them.
    """
    if ctx.state:
        return await task_of(ctx, ctx.state)
    return await _first_task(ctx.plain(), own)


def _answered(reply: WireReply) -> WireReply:
    if not reply.ok:
        raise NoAnswer(f"SendMessage gave no result: {reply.describe()}", reply)
    return reply


@shared
async def _first_task(ctx: Context, own: str) -> Mapping[str, Any]:
    result = _answered(await (ctx.send(ctx.prompt("task")) if own else ctx.said())).result
    task = task_in(result)
    if task is None:
        ctx.skip_without_task("the scenario task", read_event(result).kind)
    if state_of(task) not in TERMINAL:
        # An ordinary prompt that takes longer than this makes no fixture for a hundred checks.
        later = ctx.needed(await ctx.wait_for_task(str(task.get("id"))), "GetTask")
        task = task_in(later.result) or task
    if not task.get("id"):
        ctx.skip(f"the task has no id, which {'V03-DM-004' if ctx.version == '0.3' else 'DM-001'} judges")
    if state_of(task) in TERMINAL:
        return task
    state = spelled_state(task)
    ctx.skip(f"the task for the ordinary prompt does not end (it is {state!r}); give another: task = ...")


async def waiting_task(
    ctx: Context, key: str = "input", state: str = "input-required", **options: Any
) -> Mapping[str, Any]:
    """Return a new task that waits for the user; skip where the scenario does not lead there.

    :param options: of the message, as :meth:`.Context.send` takes them.
    """
    ctx = ctx.plain()
    reply = await asked_back(ctx, key, state, **options)
    task = ctx.task_of(reply, f"the scenario {key}")
    # Some agents answer before the task has come to its question.
    if state_of(task) != state:
        task = ctx.needed(await ctx.wait_for_task(str(task["id"])), "GetTask", "GET-001").result
    if state_of(task) != state:
        ctx.skip(f"the scenario {key} led to {state_of(task) or 'no state'}, not to {state}")
    return task


async def message_reply(ctx: Context) -> Mapping[str, Any]:
    """Return a direct message of the agent (``message`` prompt, or the ordinary one if that gives a message)."""
    ctx = ctx.plain()
    message = message_in(_answered(await ctx.said(ctx.target.scenarios.get("message"))).result)
    if message is None:
        ctx.prompt("message")  # without one, skips with the advice to name one in the scenarios
        ctx.skip("the agent answers the prompt of the scenario 'message' with a task")
    return message


async def samples(ctx: Context) -> tuple[WireReply, ...]:
    """Return ordinary answers of several operations, or those about a task in the variant's state; shared."""
    # Asked once: each model call of the agent may cost money.
    return await _samples(ctx.plain(), ctx.state)


@shared
async def _samples(ctx: Context, state: str) -> tuple[WireReply, ...]:
    replies = [await reply_in(ctx, state)]
    task = _body(replies[0])
    further = [ctx.call("GetTask", {"id": task["id"]})] if task.get("id") else []
    # 0.3 has no ListTasks.
    if task and ctx.version != "0.3":
        params = {"contextId": str(task.get("contextId") or ""), "includeArtifacts": True}
        further.append(ctx.call("ListTasks", params))
    replies += await asyncio.gather(*further)
    if ctx.target.declares("streaming"):
        replies.append(await stream_in(ctx, state))
        if not state and (text := ctx.target.scenarios.get("message")):
            replies.append(await ctx.shared("stream-message", lambda: ctx.stream(text)))
    # Only where the user named a prompt: what an agent makes of ours is luck.
    for key in ("message", "data", "file", "input") if not state else ():
        prompt = ctx.target.scenarios.get(key)
        if prompt is not None:
            replies.append(await ctx.said(prompt))
    return tuple(replies)


# -- in a state --


async def reply_in(ctx: Context, state: str) -> WireReply:
    """Return the answer with a task in a state, or the ordinary one; skip where the agent cannot be brought there."""
    if not state:
        return await ctx.said()
    # A working one goes on, so that each check needs its own.
    return await (_working(ctx.plain()) if state == "working" else _make(ctx, state))


async def _working(ctx: Context) -> WireReply:
    reply = await ctx.send(ctx.prompt("slow"), configuration={"returnImmediately": True})
    if state_of(_body(reply)) in SETTLED:
        ctx.skip("the task of the scenario slow was over at once")
    return reply


@shared
async def _make(ctx: Context, state: str) -> WireReply:
    ctx = ctx.plain()
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
        if kept.may_be("TaskNotFoundError"):
            ctx.skip("the agent keeps no canceled tasks")
    elif state == "resumed":
        waiting = await waiting_task(ctx)
        return await ctx.send(ctx.prompt("input_answer"), task_id=str(waiting["id"]))
    elif state in INTERRUPTED:
        reply = await asked_back(ctx, STATE_PROMPTS[state], state)
    else:
        reply = await ctx.send(ctx.prompt(STATE_PROMPTS[state]))
        if state_of(_body(reply)) in RUNNING:
            # Whether it is waited for is SEND-002's question; its form is that of the answer.
            later = await ctx.wait_for_task(str(_body(reply).get("id")))
            is_bare = _body(reply) is reply.result or not later.ok
            reply = later if is_bare else replace(later, result={"task": later.result})
    # Spelled wrongly it is that state all the same, and the check is to see it.
    found = state_of(_body(reply))
    if not _body(reply) or found in RUNNING or (found != state and found in SETTLED):
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
    """Return the stream of a task that reaches a state, or the rest of a working one's; or the ordinary one."""
    return await (_stream(ctx, state) if state else ctx.streamed())


@shared
async def _stream(ctx: Context, state: str) -> WireReply:
    ctx = ctx.plain()
    if state in ("working", "canceled"):
        task_id = str((await task_of(ctx, "working"))["id"])
        watching = await watch(ctx, task_id)
        if state == "canceled":
            await ctx.call("CancelTask", {"id": task_id})
        return await watching
    if state == "resumed":
        waiting = await waiting_task(ctx)
        return await ctx.stream(ctx.prompt("input_answer"), task_id=str(waiting["id"]))
    # A stream may stay open while the agent waits for the user (section 7.6.1): it is left then.
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
