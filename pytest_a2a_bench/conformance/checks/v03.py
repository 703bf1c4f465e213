"""Version 0.3: requirements of its own, from messages to envelopes; the rest is checked as in 1.0."""

from __future__ import annotations

from collections.abc import Mapping

from pytest_a2a_bench.a2a.codec import SETTLED, TERMINAL
from pytest_a2a_bench.conformance.checks.binding import is_missing
from pytest_a2a_bench.conformance.checks.push import TOKEN, arrived
from pytest_a2a_bench.conformance.context import ATTEMPTS, Context
from pytest_a2a_bench.conformance.fixtures import stream_in
from pytest_a2a_bench.conformance.protocol.operations import OPERATIONS
from pytest_a2a_bench.conformance.protocol.streams import read_event, read_events, rebuild
from pytest_a2a_bench.results.stats import count


async def events_have_their_kind(ctx: Context) -> None:
    """Each event is a kind-tagged object; elsewhere than on JSON-RPC a StreamResponse."""
    reply = await stream_in(ctx, ctx.state)
    for number, raw in enumerate(reply.events):
        tagged = isinstance(raw, Mapping) and ("kind" in raw) == (ctx.binding == "JSONRPC")
        if not read_event(raw).kind or not tagged:
            found = f"event {number} has {sorted(raw)[:8] if isinstance(raw, Mapping) else raw!r}"
            expected = "kind task, message, status-update or artifact-update"
            ctx.fail(found, reply, pointer=f"/{number}", expected=expected)


async def last_update_is_final(ctx: Context) -> None:
    """The last status update says final, and is the end of the stream."""
    reply = await stream_in(ctx, ctx.state)
    events = ctx.events_of(reply, "the stream", "V03-STREAM-001")
    updates = [(number, event) for number, event in enumerate(events) if event.kind == "statusUpdate"]
    if not updates:
        ctx.skip("the stream has no status update")
    if rebuild(events).state not in SETTLED or not reply.ended:
        found = f"the stream ends at {rebuild(events).state or 'no state'}: {reply.describe()}"
        ctx.fail(found, reply, expected="a last status update with final true")
        return
    for number, event in updates:
        last = number == updates[-1][0]
        if (event.body.get("final") is True) is not last:
            found = f"final is {event.body.get('final')!r} in {'the last' if last else 'an earlier'} status update"
            expected = "final true in the last status update, and only there"
            ctx.fail(found, reply, pointer=f"/{number}/final", expected=expected)
            return
    if after := len(events) - 1 - updates[-1][0]:
        found = f"{count(after, 'more event')} after the status update with final true"
        ctx.fail(found, reply, pointer=f"/{updates[-1][0] + 1}", expected="that it is the final event in the stream")


async def resubscribing_goes_on(ctx: Context) -> None:
    """tasks/resubscribe gives the rest of a running task's events."""
    for _ in range(ATTEMPTS):
        task = await ctx.start_task(ctx.prompt("slow"))
        reply = await ctx.call("SubscribeToTask", {"id": task["id"]})
        if reply.events:
            break
    events = read_events(reply.events)
    if unread := [number for number, event in enumerate(events) if not event.kind]:
        found = f"event {unread[0]} of the stream of a running task has no known kind"
        ctx.fail(found, reply, pointer=f"/{unread[0]}")
    elif (state := rebuild(events).state) not in TERMINAL:
        found = f"the stream of a running task ended at {state or 'no state'}: {reply.describe()}"
        ctx.fail(found, reply, expected="its events up to the terminal state")


async def extended_card_needs_credentials(ctx: Context) -> None:
    """The extended card is refused to strangers, and where there is none."""
    reply = await ctx.call("GetExtendedAgentCard", {}, auth=False)
    if not ctx.target.declares("extendedAgentCard"):
        if reply.ok and ctx.binding == "JSONRPC":
            found = f"the card declares no extended card, and there is one: {reply.describe()}"
            ctx.fail(found, reply, expected="an error")
        return
    if reply.ok:
        ctx.fail(f"the extended card without credentials: {reply.describe()}", reply, expected="a refusal")


# -- push notifications --


async def body_is_the_task(ctx: Context) -> None:
    """The body of a notification is the Task."""
    seen = await arrived(ctx)
    for payload in seen.payloads:
        bare = isinstance(payload, Mapping) and "status" in payload and payload.get("id") == seen.task_id
        if not bare:
            kind = read_event(payload).kind or "no known kind"
            found = f"the body is {kind} with {sorted(payload)[:6] if isinstance(payload, Mapping) else payload!r}"
            ctx.fail(found, seen.reply)
            return


async def token_is_repeated(ctx: Context) -> None:
    """The header X-A2A-Notification-Token repeats the token."""
    seen = await arrived(ctx)
    if any(d.headers.get("x-a2a-notification-token") != TOKEN for d in seen.deliveries):
        ctx.fail("notifications come without the token of their config", seen.reply)


# -- on the wire: envelopes and error codes --


async def paths_start_with_v1(ctx: Context) -> None:
    """The paths start with /v1."""
    for name, params in (("SendMessage", ctx.send_params()), ("GetTask", {"id": ctx.unknown_id()})):
        reply = await ctx.call(name, params)
        ctx.skip_if_refused(reply)
        if is_missing(reply):
            verb, path = OPERATIONS[name].rest03
            ctx.fail(f"{verb} {path}: {reply.describe()}", reply, expected=f"{verb} {path}")
