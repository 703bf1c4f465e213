"""SubscribeToTask, and several streams of one task."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pytest_a2a_bench.a2a.codec import TERMINAL
from pytest_a2a_bench.conformance.checks.binding import is_missing
from pytest_a2a_bench.conformance.context import ATTEMPTS, Context
from pytest_a2a_bench.conformance.protocol.payloads import parse_timestamp, state_of
from pytest_a2a_bench.conformance.protocol.streams import (
    artifacts_of,
    canonical,
    differences,
    is_suffix,
    read_event,
    read_events,
    rebuild,
    updates,
)
from pytest_a2a_bench.conformance.wire.reply import WireReply


@dataclass(frozen=True)
class Watched:
    """One slow task, watched by two streams to its end and by a third that was closed early."""

    task_id: str
    one: WireReply
    other: WireReply
    stored: WireReply


async def watched(ctx: Context) -> Watched:
    """Watch a slow task, once for all checks."""
    text = ctx.prompt("slow")
    seen: Watched = await ctx.shared("watched", lambda: _watch(ctx, text))
    return seen


async def _watch(ctx: Context, text: str) -> Watched:
    for _ in range(ATTEMPTS):
        task_id = str((await ctx.start_task(text))["id"])
        params = {"id": task_id}
        one, other, _closed = await asyncio.gather(
            ctx.call("SubscribeToTask", params),
            ctx.call("SubscribeToTask", params),
            # Closed after its first event, to see whether the others live on.
            ctx.call("SubscribeToTask", params, until=lambda event: True),
        )
        # A stream that was opened when the task was over already shows nothing.
        if one.events and other.events:
            break
    return Watched(task_id, one, other, await ctx.wait_for_task(task_id))


async def both(ctx: Context) -> Watched:
    """Watch a slow task by two streams; skip where the second one is refused, as an agent may."""
    seen = await readable(ctx)
    # Nothing demands that an agent serves several streams of a task.
    if seen.other.error is not None and not seen.other.events:
        ctx.skip(f"a second stream of the task is refused: {seen.other.describe()}")
    return seen


async def readable(ctx: Context) -> Watched:
    """Watch a slow task; skip where subscribing does not work at all."""
    seen = await watched(ctx)
    ctx.events_of(seen.one, "SubscribeToTask", "SUB-001")
    return seen


async def starts_with_the_task(ctx: Context) -> None:
    """The first event is the Task as it is."""
    seen = await watched(ctx)
    if not seen.one.events:
        ctx.fail(f"subscribing to a running task: {seen.one.describe()}", seen.one, expected="a stream")
        return
    first = read_events(seen.one.events)[0]
    if first.kind != "task":
        found = f"the first event is {first.kind or 'of no known kind'}"
        ctx.fail(found, seen.one, pointer="/0", expected="the current Task")
    elif first.task_id != seen.task_id:
        ctx.fail(
            f"the first event is task {first.task_id!r}",
            seen.one,
            pointer="/0/task/id",
            expected=f"task {seen.task_id!r}",
        )


_LOOKS = 40


async def first_snapshot_is_not_stale(ctx: Context) -> None:
    """The first Task of a subscription is not older than what GetTask said before."""
    task_id = str((await ctx.start_task(ctx.prompt("slow")))["id"])
    for _ in range(_LOOKS):
        known = ctx.needed(await ctx.get_task(task_id), "GetTask", "GET-001")
        if state_of(known.result) != "submitted":
            break
        await asyncio.sleep(0.05)
    reply = await ctx.call("SubscribeToTask", {"id": task_id}, until=lambda event: True)
    first = read_event(reply.events[0] if reply.events else None)
    if first.kind != "task":
        ctx.skip("the subscription was too late")
    before, now = (_stamp(value) for value in (known.result, first.body))
    backward = state_of(known.result) == "working" and first.state == "submitted"
    if backward or (before is not None and now is not None and now < before):
        found = f"GetTask said {state_of(known.result)}, the subscription that was made later begins with {first.state}"
        ctx.fail(found, known, reply, pointer="/0/task/status")


def _stamp(task: Any) -> float | None:
    status = task.get("status") if isinstance(task, Mapping) else None
    return parse_timestamp(status.get("timestamp")) if isinstance(status, Mapping) else None


async def ends_with_the_task(ctx: Context) -> None:
    """The stream ends at the terminal state."""
    seen = await readable(ctx)
    state = rebuild(read_events(seen.one.events)).state
    if state not in TERMINAL or not seen.one.ended:
        found = f"the last state in the stream is {state or 'none'}; the stream {_end(seen.one)}"
        ctx.fail(found, seen.one, seen.stored)


def _end(reply: WireReply) -> str:
    return "ended" if reply.ended else f"did not end ({reply.problem or 'the time was up'})"


async def no_gap(ctx: Context) -> None:
    """The first Task and the later events make the final task."""
    seen = await readable(ctx)
    stored = ctx.needed(seen.stored, "GetTask", "GET-001")
    ctx.report_problems(differences(rebuild(read_events(seen.one.events)), stored.result), seen.one, stored)


async def subscription_begins_where_its_snapshot_is(ctx: Context) -> None:
    """What follows the first Task is what the first stream of the task had after that status: no gap, no repetition."""
    opened, named = asyncio.Event(), list[str]()

    def begun(event: Any) -> None:
        update = read_event(event)
        if update.kind == "statusUpdate" and not named:
            named.append(update.task_id)
            opened.set()

    params = ctx.send_params(ctx.prompt("slow"))
    watching = asyncio.ensure_future(ctx.call("SendStreamingMessage", params, on_event=begun))
    watching.add_done_callback(lambda _: opened.set())
    await opened.wait()
    if not named:
        ctx.skip("the stream of the scenario slow has no update")
    later = await ctx.call("SubscribeToTask", {"id": named[0]})
    whole = await watching
    if not later.events or not whole.ended or not later.ended:
        ctx.skip("one of two streams did not come to its end")
    first, rest = read_event(later.events[0]), updates(read_events(later.events[1:]))
    events = [event for event in read_events(whole.events) if event.kind in ("statusUpdate", "artifactUpdate")]
    here = [
        n for n, event in enumerate(events) if canonical(event.body.get("status")) == canonical(_status(first.body))
    ]
    if first.kind != "task" or not here:
        ctx.skip("the status of the first Task is not one of the first stream's")
    expected = updates(events[here[-1] + 1 :])
    known = artifacts_of(first.body)
    # An artifact that the snapshot has already need not come again.
    repeatable = [e.kind == "artifactUpdate" and e.body.get("artifact", {}).get("artifactId") in known for e in events]
    lacking = len(expected) - len(rest)
    early = all(repeatable[here[-1] + 1 : here[-1] + 1 + lacking])
    if lacking < 0 or rest != expected[lacking:] or not early:
        found = f"after the status of its first Task it had {len(rest)} updates, the first stream {len(expected)}"
        ctx.fail(found, whole, later, expected="the same events from there on")


def _status(task: Any) -> Any:
    return task.get("status") if isinstance(task, Mapping) else None


async def rest_subscribe_is_reachable(ctx: Context) -> None:
    """POST and GET are both written in the specification: one of them has to work."""
    # An unknown task: either verb then gives an error that shows that the path exists.
    post = await ctx.call("SubscribeToTask", {"id": ctx.unknown_id()}, http_method="POST")
    get = await ctx.call("SubscribeToTask", {"id": ctx.unknown_id()}, http_method="GET")
    if not any(_says_not_found(reply) for reply in (post, get)):
        ctx.fail(f"POST: {post.describe()}; GET: {get.describe()}", post, get)


def _says_not_found(reply: WireReply) -> bool:
    return reply.error is not None and reply.error.may_be("TaskNotFoundError") and not is_missing(reply)


async def streams_see_the_same(ctx: Context) -> None:
    """All streams of a task get the same events in the same order."""
    seen = await both(ctx)
    one, other = (updates(read_events(reply.events)) for reply in (seen.one, seen.other))
    # A stream that was opened later has the end of the other.
    short, long = sorted((one, other), key=len)
    # A stream that was open and heard nothing is the end of every other, and yet it has missed the end of the task.
    deaf = bool(long) and not short and bool(seen.one.events) and bool(seen.other.events)
    if deaf or not is_suffix(short, long):
        found = f"one stream had {len(one)} updates, the other {len(other)}, and they are not the same"
        ctx.fail(found, seen.one, seen.other)


async def streams_are_independent(ctx: Context) -> None:
    """Closing one stream leaves the others alive."""
    seen = await both(ctx)
    for reply in (seen.one, seen.other):
        state = rebuild(read_events(reply.events)).state
        if state not in TERMINAL:
            ctx.fail(f"after another stream was closed, this one stopped at {state or 'no state'}", reply)
