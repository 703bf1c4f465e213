"""GetTask: what it returns, and how much of the history."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from pytest_a2a_bench.conformance.check import check
from pytest_a2a_bench.conformance.context import Context
from pytest_a2a_bench.conformance.protocol.payloads import state_of
from pytest_a2a_bench.conformance.protocol.streams import canonical


def history_of(task: Any) -> list[Any]:
    """Return a task's messages, none if there is no such list."""
    history = task.get("history") if isinstance(task, Mapping) else None
    return history if isinstance(history, list) else []


@check("GET-001")
async def returns_the_task(ctx: Context) -> None:
    """The Task comes bare and in its current state."""
    task = await ctx.completed_task()
    reply = await ctx.get_task(task["id"])
    got = reply.result if isinstance(reply.result, Mapping) else {}
    if got.get("id") != task["id"]:
        ctx.fail(
            f"the result is no Task with id {task['id']!r}: {reply.describe()}",
            expected="the Task itself, not wrapped",
            replies=(reply,),
        )
    elif state_of(got) != state_of(task):
        ctx.fail(
            f"the state is {state_of(got) or 'missing'}; sending the message gave {state_of(task)}",
            pointer="/status/state",
            expected=state_of(task),
            replies=(reply,),
        )


@check("GET-002")
async def unknown_task_is_not_found(ctx: Context) -> None:
    """An unknown task is not found."""
    ctx.expect_error(await ctx.get_task(ctx.unknown_id()), "TaskNotFoundError", what="an unknown task")


@check("GET-003")
async def no_history_when_none_is_wanted(ctx: Context) -> None:
    """A historyLength of 0 leaves the history out."""
    task = await ctx.completed_task()
    reply = ctx.skip_unless_ok(await ctx.get_task(task["id"], historyLength=0), "GetTask")
    if history_of(reply.result):
        found = f"historyLength 0 gives {len(history_of(reply.result))} messages"
        ctx.fail(found, pointer="/history", expected="no history", replies=(reply,))


@check("GET-004")
async def history_is_limited_to_the_latest(ctx: Context) -> None:
    """At most historyLength messages, and the most recent ones."""
    task = await _task_with_history(ctx)
    whole = ctx.skip_unless_ok(await ctx.get_task(task["id"]), "GetTask")
    reply = ctx.skip_unless_ok(await ctx.get_task(task["id"], historyLength=1), "GetTask with historyLength")
    full, some = history_of(whole.result), history_of(reply.result)
    if len(some) > 1:
        found = f"historyLength 1 gives {len(some)} messages"
        ctx.fail(found, pointer="/history", expected="at most one message", replies=(reply,))
    elif some and full and canonical(some[0]) != canonical(full[-1]):
        found = f"historyLength 1 gives {json.dumps(some[0])[:200]}, which is not the latest message"
        ctx.fail(found, pointer="/history/0", expected="the most recent message", replies=(whole, reply))


async def _task_with_history(ctx: Context) -> Mapping[str, Any]:
    """Return a task of two messages, where there is a prompt for such a one."""
    asked = ctx.target.scenarios.get("input")
    if asked is None:
        return await ctx.completed_task()
    task = ctx.task_of(await ctx.send(asked), "sending the prompt of the scenario input")
    answer = ctx.target.scenarios.get("input_answer") or "yes"
    return ctx.task_of(await ctx.send(answer, taskId=task["id"]), "answering the agent's question")


@check("GET-005")
async def negative_history_is_refused(ctx: Context) -> None:
    """A negative historyLength is refused."""
    task = await ctx.completed_task()
    reply = await ctx.get_task(task["id"], historyLength=-1)
    ctx.expect_error(reply, "InvalidParamsError", what="historyLength -1")


@check("GET-006")
async def missing_id_is_refused(ctx: Context) -> None:
    """A request without an id is refused."""
    if ctx.target.binding == "HTTP+JSON":
        ctx.skip("with HTTP+JSON the id is part of the path: without it this is another operation")
    ctx.expect_error(await ctx.call("GetTask", {}), "InvalidParamsError", what="GetTask without id")


@check("GET-007")
async def repeated_calls_agree(ctx: Context) -> None:
    """Two calls give the same Task."""
    task = await ctx.completed_task()
    one = ctx.skip_unless_ok(await ctx.get_task(task["id"]), "GetTask")
    other = await ctx.get_task(task["id"])
    if canonical(one.result) != canonical(other.result):
        ctx.fail(f"a second call gives {other.describe()}", expected="the same Task", replies=(one, other))
