"""Subscriptions, compared with what else is known of their task."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

from pytest_a2a_bench.conformance.check import crossed
from pytest_a2a_bench.conformance.context import Context
from pytest_a2a_bench.conformance.protocol.payloads import parse_timestamp, state_of
from pytest_a2a_bench.conformance.protocol.streams import artifacts_of, canonical, read_event, read_events, updates

_LOOKS = 40


@crossed("SUB-001")
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
        ctx.fail(found, pointer="/0/task/status", expected="the Task as it is", replies=(known, reply))


@crossed("SUB-006")
@crossed("V03-STREAM-003", version="0.3")
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
    held = [e.kind == "artifactUpdate" and e.body.get("artifact", {}).get("artifactId") in known for e in events]
    lacking = len(expected) - len(rest)
    early = all(held[here[-1] + 1 : here[-1] + 1 + lacking])
    if lacking < 0 or rest != expected[lacking:] or not early:
        found = f"after the status of its first Task it had {len(rest)} updates, the first stream {len(expected)}"
        ctx.fail(found, expected="the same events from there on", replies=(whole, later))


def _status(task: Any) -> Any:
    return task.get("status") if isinstance(task, Mapping) else None


def _stamp(task: Any) -> float | None:
    status = task.get("status") if isinstance(task, Mapping) else None
    return parse_timestamp(status.get("timestamp")) if isinstance(status, Mapping) else None
