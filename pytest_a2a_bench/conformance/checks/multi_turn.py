"""Contexts, follow-up messages, and tasks that wait for the user."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from typing import Any

from pytest_a2a_bench.conformance import fixtures
from pytest_a2a_bench.conformance.context import Context
from pytest_a2a_bench.conformance.protocol.payloads import state_of
from pytest_a2a_bench.conformance.protocol.streams import read_event


async def waiting_task(ctx: Context, key: str = "input", state: str = "input-required") -> Mapping[str, Any]:
    """Return a new task that waits for the user; skip where the scenario does not lead there."""
    ctx = ctx.plain()
    reply = await ctx.send(ctx.prompt(key))
    task = ctx.task_of(reply, f"the scenario {key}")
    # Some agents answer before the task has come to its question.
    if state_of(task) != state:
        task = ctx.needed(await ctx.wait_for_task(str(task["id"])), "GetTask", "GET-001").result
    if state_of(task) != state:
        ctx.skip(f"the scenario {key} led to {state_of(task) or 'no state'}, not to {state}")
    return task


async def generated_context_is_returned(ctx: Context) -> None:
    """The response has a contextId."""
    reply = ctx.needed(await ctx.said(ctx.prompt("default")), "sending a message")
    event = read_event(reply.result)
    if not event.context_id:
        expected = "the contextId that the agent made"
        ctx.fail("the response has no contextId", reply, pointer=f"/{event.kind}/contextId", expected=expected)


async def given_context_is_kept(ctx: Context) -> None:
    """A client's contextId is kept, or refused, never replaced."""
    wanted = str(uuid.uuid4())
    # A random one: an id that is in use would be another check's context.
    reply = await ctx.send(ctx.prompt("default"), contextId=wanted)
    # Refusing ids that clients make up is allowed (section 3.4.1); replacing them silently is not.
    if reply.error is not None and not reply.is_internal_error:
        return
    event = read_event(ctx.needed(reply, "sending a message with a contextId").result)
    if event.context_id != wanted:
        ctx.fail(f"contextId {wanted!r} became {event.context_id!r}", reply, pointer=f"/{event.kind}/contextId")


async def task_ids_are_unique(ctx: Context) -> None:
    """Each new task has an id of its own."""
    replies = [await ctx.send()]
    context_id = str(ctx.task_of(replies[0], "the scenario task", "SEND-001").get("contextId") or "")
    # In its context, where there is one: an id that was made of the context's would be the same.
    replies += [await ctx.send(context_id=context_id) for _ in range(2)]
    ids = [ctx.task_of(reply, "a message in a known context", "MT-007").get("id") for reply in replies]
    if len(set(ids)) != len(ids):
        ctx.fail(f"{len(ids)} messages gave tasks {ids}", *replies, pointer="/task/id")


async def context_is_inferred(ctx: Context) -> None:
    """The contextId is inferred from the taskId."""
    task = await waiting_task(ctx)
    reply = await ctx.send(ctx.prompt("input_answer"), taskId=task["id"])
    event = read_event(reply.result)
    if not reply.ok:
        ctx.fail(f"a follow-up with taskId only: {reply.describe()}", reply, expected="the context of the task")
    elif event.context_id != task.get("contextId"):
        found = f"the follow-up is in context {event.context_id!r}, its task in {task.get('contextId')!r}"
        ctx.fail(found, reply, pointer=f"/{event.kind}/contextId", expected="the task's contextId")


async def waiting_task_goes_on(ctx: Context) -> None:
    """A follow-up continues the waiting task, with the same ids."""
    task = await waiting_task(ctx)
    ids = {"taskId": task["id"], "contextId": str(task.get("contextId") or "")}
    reply = await ctx.send(ctx.prompt("input_answer"), task_id=ids["taskId"], context_id=ids["contextId"])
    ctx.needed(reply, "the follow-up")
    event = read_event(reply.result)
    if (event.task_id, event.context_id) != (ids["taskId"], ids["contextId"]):
        found = f"the follow-up is task {event.task_id!r} in context {event.context_id!r}"
        expected = f"task {ids['taskId']!r} in context {ids['contextId']!r}"
        ctx.fail(found, reply, pointer=f"/{event.kind}", expected=expected)


async def context_alone_starts_a_task(ctx: Context) -> None:
    """A contextId without a taskId starts a new task in that context."""
    task = await fixtures.completed_task(ctx)
    if not task.get("contextId"):
        ctx.skip("the agent gives no contextId, which MT-001 judges")
    reply = await ctx.send(ctx.prompt("task"), contextId=task["contextId"])
    ctx.needed(reply, "a message in a known context")
    event = read_event(reply.result)
    if event.context_id != task.get("contextId"):
        found = f"the new task is in context {event.context_id!r}"
        ctx.fail(found, reply, pointer=f"/{event.kind}/contextId", expected=f"context {task.get('contextId')!r}")
    if event.kind == "task" and event.task_id == task["id"]:
        ctx.fail("the finished task was used again", reply, pointer="/task/id", expected="a new task")


async def authorization_is_explained(ctx: Context) -> None:
    """AUTH_REQUIRED comes on a Task, with a message that explains it."""
    task = await waiting_task(ctx, "auth", "auth-required")
    reply = await ctx.get_task(str(task["id"]))
    status = task.get("status")
    message = status.get("message") if isinstance(status, Mapping) else None
    if not isinstance(message, Mapping) or not message.get("parts"):
        expected = "a message in the status that says which authorization is needed"
        ctx.fail("status has no message", reply, pointer="/status/message", expected=expected)


async def messages_are_accepted_meanwhile(ctx: Context) -> None:
    """A task that waits for authorization accepts messages."""
    task = await waiting_task(ctx, "auth", "auth-required")
    reply = await ctx.send(ctx.prompt("default"), task_id=task["id"], context_id=str(task.get("contextId") or ""))
    ctx.needed(reply, "a message to a task that waits for authorization")
