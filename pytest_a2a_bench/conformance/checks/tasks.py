"""GetTask and CancelTask: their results, the length of the history, and their errors."""

from __future__ import annotations

import asyncio
import contextlib
import json
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pytest_a2a_bench.a2a.bodies import as_list, as_object, as_objects
from pytest_a2a_bench.a2a.codec import TERMINAL
from pytest_a2a_bench.conformance import fixtures
from pytest_a2a_bench.conformance.context import ATTEMPTS, Context, shared
from pytest_a2a_bench.conformance.fixtures import waiting_task, watch
from pytest_a2a_bench.conformance.protocol.payloads import RUNNING, is_known, message_ids, state_of
from pytest_a2a_bench.conformance.protocol.streams import canonical, rebuild
from pytest_a2a_bench.conformance.wire.reply import SkipCheck, WireReply


def history_of(task: Any) -> list[Any]:
    """Return a task's messages, none if there is no such list."""
    return as_list(as_object(task).get("history"))


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
    await artifacts_are_kept(ctx, reply, reply.result)


async def artifacts_are_kept(ctx: Context, reply: WireReply, task: Mapping[str, Any]) -> None:
    """A historyLength says nothing about artifacts: they are those of GetTask without one."""
    if not task.get("artifacts"):
        whole = await ctx.get_task(str(task.get("id")))
        if whole.ok and as_object(whole.result).get("artifacts"):
            ctx.fail("with historyLength the artifacts are missing", reply, whole, pointer="/artifacts")


async def history_is_limited_to_the_latest(ctx: Context) -> None:
    """At most historyLength messages, and the most recent ones."""
    task: Mapping[str, Any] | None = None
    said: tuple[str, ...] = ()
    if not ctx.state:
        with contextlib.suppress(SkipCheck):  # there is no prompt, or it brings no question
            answer, said = await answered(ctx)
            task = ctx.task_of(answer, "answering the question of the scenario input")
    task = task or await fixtures.completed_task(ctx)
    whole = ctx.needed(await ctx.get_task(task["id"]), "GetTask", "GET-001")
    for most in (1, 2):
        reply = ctx.needed(await ctx.get_task(task["id"], historyLength=most), "GetTask with historyLength")
        if not judge_history(ctx, reply, reply.result, whole, most, said):
            return


def judge_history(
    ctx: Context, reply: WireReply, task: Any, whole: WireReply, most: int, said: Sequence[str] = ()
) -> bool:
    """Judge a task's history that was limited; return whether it is right.

    :param whole: the answer to GetTask without a limit.
    :param said: ids of the task's messages, as far as they are the client's, in the order in which they were sent.
    """
    full, some = history_of(whole.result), history_of(task)
    known = [message.get("messageId") for message in as_objects(some)]
    found = ""
    if len(some) > most:
        found = f"historyLength {most} gives {len(some)} messages"
    elif said and said[0] in known and said[-1] not in known and said[-1] in message_ids(whole.result):
        found = f"historyLength {most} gives the first message of the task, and not the one that was sent last"
    # A member that one of them lacks is for other rules to judge.
    elif some and full and any(None not in pair for _, *pair in changes(some, full[-len(some) :])):
        found = f"historyLength {most} gives {json.dumps(some)[:200]}, which are not the latest messages"
    if found:
        ctx.fail(found, reply, whole, pointer="/history", expected=f"the most recent messages, {most} at most")
    return not found


async def answered(ctx: Context, **options: Any) -> tuple[WireReply, tuple[str, str]]:
    """Let the agent ask its question, and return its reply to the answer, and the ids of both messages.

    :param options: of the answer, as :meth:`.Context.send` takes them.
    """
    names = ctx.unknown_id(), ctx.unknown_id()
    task = await waiting_task(ctx, messageId=names[0])
    answer = ctx.target.scenarios.get("input_answer") or "yes"
    reply = await ctx.send(answer, task_id=str(task.get("id")), messageId=names[1], **options)
    return ctx.needed(reply, "answering the question of the scenario input", "MT-006"), names


async def repeated_calls_agree(ctx: Context) -> None:
    """Two calls give the same Task; members that the protocol does not have may differ."""
    task = await fixtures.completed_task(ctx)
    one = ctx.needed(await ctx.get_task(task["id"]), "GetTask", "GET-001")
    other = ctx.needed(await ctx.get_task(task["id"]), "a second GetTask")
    for pointer, before, after in changes(one.result, other.result):
        before, after = (json.dumps(value, ensure_ascii=False)[:100] for value in (before, after))
        ctx.fail(f"{pointer[1:]} is {before}, and {after} in a second call", one, other, pointer=pointer)
        return


def changes(one: Any, other: Any, pointer: str = "") -> Iterator[tuple[str, Any, Any]]:
    """Yield where members of the protocol differ, and both values; metadata and unknown members are the agent's own."""
    if isinstance(one, Mapping) and isinstance(other, Mapping) and not pointer.endswith("/data"):
        for name in filter(is_known, {**one, **other}.keys() - {"metadata"}):
            yield from changes(one.get(name), other.get(name), f"{pointer}/{name}")
    elif isinstance(one, list) and isinstance(other, list) and len(one) == len(other):
        for index, pair in enumerate(zip(one, other, strict=True)):
            yield from changes(*pair, f"{pointer}/{index}")
    elif canonical(one) != canonical(other):
        yield pointer, one, other


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


@shared
async def cancelled(ctx: Context) -> Cancelled:
    """Cancel a slow task."""
    text = ctx.prompt("slow")
    usual = asyncio.ensure_future(ctx.slow_seconds())
    try:
        for _ in range(ATTEMPTS):
            seen = await _cancel_and_wait(ctx, text, usual)
            is_refused = seen.first.may_be("TaskNotCancelableError")
            # It may have ended by itself before its cancelling was answered.
            is_over = is_refused or state_of(seen.first.result) in TERMINAL - {"canceled"}
            if seen.seconds < await usual or not is_over:
                return seen
    finally:
        usual.cancel()
    ctx.skip("the task of the scenario slow was over before it could be cancelled")


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
    elif state_of(seen.first.result) in RUNNING and state_of(seen.soon.result) == "canceled":
        # Whether it was cancelled before that answer or after it, nobody outside can tell.
        found = f"CancelTask returned state {state_of(seen.first.result)}, and GetTask right after it says canceled"
        ctx.warn(found, seen.first, seen.soon, pointer="/status/state", expected="the Task in its updated state")


async def waiting_task_can_be_cancelled(ctx: Context) -> None:
    """Cancelling a task that waits for the user returns it; an agent may say that it cannot."""
    task = await waiting_task(ctx)
    reply = await ctx.call("CancelTask", {"id": task["id"]})
    if not reply.ok and not reply.may_be("TaskNotCancelableError"):
        found = f"cancelling a task that waits for the user: {reply.describe()}"
        ctx.fail(found, reply, expected="the Task, or TaskNotCancelableError")


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
    elif seen.at_once and seen.later.ok and seen.soon.ok:
        soon, later = (canonical(as_object(reply.result).get("artifacts") or []) for reply in (seen.soon, seen.later))
        if soon != later:
            found = "the task made artifacts after it had been cancelled"
            ctx.fail(found, seen.soon, seen.later, pointer="/artifacts", expected="the artifacts that it had")


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
