"""GetTask and CancelTask: what they return, how much of the history, and what they refuse."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pytest_a2a_bench.a2a.bodies import as_object
from pytest_a2a_bench.a2a.codec import TERMINAL
from pytest_a2a_bench.conformance import fixtures
from pytest_a2a_bench.conformance.context import ATTEMPTS, Context
from pytest_a2a_bench.conformance.fixtures import watch
from pytest_a2a_bench.conformance.protocol.payloads import RUNNING, state_of
from pytest_a2a_bench.conformance.protocol.streams import canonical, rebuild
from pytest_a2a_bench.conformance.wire.reply import WireReply


def history_of(task: Any) -> list[Any]:
    """Return a task's messages, none if there is no such list."""
    history = task.get("history") if isinstance(task, Mapping) else None
    return history if isinstance(history, list) else []


async def returns_the_task(ctx: Context) -> None:
    """The Task comes bare and in its current state."""
    task = await fixtures.completed_task(ctx)
    reply = await ctx.get_task(task["id"])
    got = as_object(reply.result)
    if got.get("id") != task["id"]:
        ctx.fail(
            f"the result is no Task with id {task['id']!r}: {reply.describe()}",
            reply,
            expected="the Task itself, not wrapped",
        )
    elif state_of(got) != state_of(task):
        ctx.fail(
            f"the state is {state_of(got) or 'missing'}; sending the message gave {state_of(task)}",
            reply,
            pointer="/status/state",
            expected=state_of(task),
        )


async def no_history_when_none_is_wanted(ctx: Context) -> None:
    """A historyLength of 0 leaves the history out."""
    task = await fixtures.completed_task(ctx)
    reply = ctx.needed(await ctx.get_task(task["id"], historyLength=0), "GetTask with historyLength")
    if history_of(reply.result):
        ctx.fail(f"historyLength 0 gives {len(history_of(reply.result))} messages", reply, pointer="/history")


async def history_is_limited_to_the_latest(ctx: Context) -> None:
    """At most historyLength messages, and the most recent ones."""
    task = await _task_with_history(ctx)
    whole = ctx.needed(await ctx.get_task(task["id"]), "GetTask", "GET-001")
    reply = ctx.needed(await ctx.get_task(task["id"], historyLength=1), "GetTask with historyLength")
    full, some = history_of(whole.result), history_of(reply.result)
    if len(some) > 1:
        found = f"historyLength 1 gives {len(some)} messages"
        ctx.fail(found, reply, pointer="/history", expected="at most one message")
    elif some and full and canonical(some[0]) != canonical(full[-1]):
        found = f"historyLength 1 gives {json.dumps(some[0])[:200]}, which is not the latest message"
        ctx.fail(found, whole, reply, pointer="/history/0", expected="the most recent message")


async def _task_with_history(ctx: Context) -> Mapping[str, Any]:
    """Return a task of two messages, where there is a prompt for such a one."""
    if not ctx.has_prompt("input") or ctx.state:
        return await fixtures.completed_task(ctx)
    return ctx.task_of(await answered(ctx), "answering the question of the scenario input")


async def answered(ctx: Context, **options: Any) -> WireReply:
    """Let the agent ask its question, and return what it says to the answer: then the task has two messages.

    :param options: of the answer, as :meth:`.Context.send` takes them.
    """
    task = ctx.task_of(await ctx.send(ctx.prompt("input")), "the scenario input")
    answer = ctx.target.scenarios.get("input_answer") or "yes"
    reply = await ctx.send(answer, task_id=str(task.get("id")), **options)
    return ctx.needed(reply, "answering the question of the scenario input", "MT-006")


async def repeated_calls_agree(ctx: Context) -> None:
    """Two calls give the same Task."""
    task = await fixtures.completed_task(ctx)
    one = ctx.needed(await ctx.get_task(task["id"]), "GetTask", "GET-001")
    other = await ctx.get_task(task["id"])
    if canonical(one.result) != canonical(other.result):
        ctx.fail(f"a second call gives {other.describe()}", one, other)


# -- CancelTask --


AFTER_SECONDS = 0.3
"""How long after its usual end a cancelled task is looked at again."""


@dataclass(frozen=True)
class Cancelled:
    """A slow task that was cancelled twice while a stream watched.

    :param later: the task some time after.
    :param seconds: from asking for the task to the answer to its cancelling.
    """

    first: WireReply
    second: WireReply
    soon: WireReply
    later: WireReply
    stream: WireReply | None
    seconds: float

    @property
    def at_once(self) -> bool:
        """Whether the task was cancelled when the answer came: that says so, or GetTask does where it says nothing."""
        said = state_of(self.first.result)
        return said == "canceled" or (said not in RUNNING and state_of(self.soon.result) == "canceled")


async def cancelled(ctx: Context) -> Cancelled:
    """Cancel a slow task, once for all checks."""
    text = ctx.prompt("slow")
    seen: Cancelled = await ctx.shared("cancelled", lambda: _cancel(ctx, text))
    return seen


async def _cancel(ctx: Context, text: str) -> Cancelled:
    usual = asyncio.ensure_future(ctx.slow_seconds())
    try:
        for _ in range(ATTEMPTS):
            seen = await _cancel_and_wait(ctx, text, usual)
            if not overtaken(seen.first, seen.seconds, await usual):
                return seen
    finally:
        usual.cancel()
    ctx.skip(OVERTAKEN)


OVERTAKEN = "the task of the scenario slow was over before it could be cancelled"


def overtaken(reply: WireReply, seconds: float, usual: float) -> bool:
    """Return whether a task had the time to end by itself before its cancelling was answered, and did.

    :param seconds: from asking for the task to the answer to its cancelling.
    :param usual: seconds that the task takes.
    """
    is_refused = reply.may_be("TaskNotCancelableError")
    return seconds >= usual and (is_refused or state_of(reply.result) in TERMINAL - {"canceled"})


async def _cancel_and_wait(ctx: Context, text: str, usual: asyncio.Future[float]) -> Cancelled:
    started = time.monotonic()
    task_id = str((await ctx.start_task(text))["id"])
    watching = await watch(ctx, task_id) if ctx.target.declares("streaming") else None
    first = await ctx.call("CancelTask", {"id": task_id})
    seconds = time.monotonic() - started
    second = await ctx.call("CancelTask", {"id": task_id})
    soon = await ctx.get_task(task_id)
    await asyncio.sleep(await usual + AFTER_SECONDS - (time.monotonic() - started))
    later = await ctx.get_task(task_id)
    return Cancelled(first, second, soon, later, await watching if watching else None, seconds)


async def accepted(ctx: Context) -> Cancelled:
    """Cancel a slow task; skip where the agent refuses, which it may."""
    seen = await cancelled(ctx)
    if seen.first.may_be("TaskNotCancelableError"):
        ctx.skip(f"the agent did not cancel the task: {seen.first.describe()}")
    ctx.needed(seen.first, "CancelTask", "CAN-001")
    return seen


async def running_task_is_cancelled(ctx: Context) -> None:
    """Cancelling returns the task, cancelled; an agent may say that it cannot."""
    seen = await cancelled(ctx)
    refusals = ("TaskNotCancelableError", *(["UnsupportedOperationError"] if ctx.version == "0.3" else []))
    if seen.first.may_be(*refusals):
        return
    if not seen.first.ok:
        found = f"cancelling a running task: {seen.first.describe()}"
        ctx.fail(found, seen.first, expected="the Task, or TaskNotCancelableError")
    elif state_of(seen.first.result) != "canceled" and state_of(seen.later.result) != "canceled":
        found = f"CancelTask returned state {state_of(seen.first.result) or 'none'}, and the task was never cancelled"
        ctx.fail(found, seen.first, seen.later, pointer="/status/state", expected="TASK_STATE_CANCELED")


async def cancelling_twice_changes_nothing(ctx: Context) -> None:
    """A second cancel has no further effect; it may be refused."""
    seen = await accepted(ctx)
    if seen.second.is_internal_error or seen.second.problem:
        found = f"cancelling a second time: {seen.second.describe()}"
        ctx.fail(found, seen.second, expected="the cancelled Task, or TaskNotCancelableError")
    gone = seen.soon.may_be("TaskNotFoundError")
    if state_of(seen.first.result) == "canceled" and state_of(seen.soon.result) != "canceled" and not gone:
        found = f"after a second cancel the task is {state_of(seen.soon.result) or seen.soon.describe()}"
        ctx.fail(found, seen.first, seen.second, seen.soon, expected="TASK_STATE_CANCELED as before")


async def cancelled_task_stays_cancelled(ctx: Context) -> None:
    """The agent does not complete a cancelled task."""
    seen = await accepted(ctx)
    state = state_of(seen.later.result)
    if seen.at_once and seen.later.ok and state != "canceled":
        found = f"some time after it was cancelled the task is {state or 'without state'}"
        ctx.fail(found, seen.first, seen.later, pointer="/status/state")


async def streams_see_the_end(ctx: Context) -> None:
    """Open streams get the state CANCELED and end."""
    seen = await accepted(ctx)
    if not seen.at_once or seen.stream is None:
        ctx.skip("the task was not cancelled at once")
    stream = seen.stream
    state = rebuild(ctx.events_of(stream, "SubscribeToTask", "SUB-001")).state
    if state not in TERMINAL or not stream.ended:
        found = f"the open stream saw {state or 'no state'} last and {'ended' if stream.ended else 'stayed open'}"
        ctx.fail(found, seen.first, stream)
