"""Version 0.3: messages, tasks, streams, credentials and push notifications."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

from pytest_a2a_bench.a2a.messages import SETTLED, TERMINAL
from pytest_a2a_bench.conformance.check import check, uncheckable
from pytest_a2a_bench.conformance.checks.auth import GARBAGE, credentials, demands_credentials
from pytest_a2a_bench.conformance.checks.binding import first
from pytest_a2a_bench.conformance.checks.notifications import (
    CREATE,
    DELETE,
    GET,
    LIST,
    NEVER_CALLED,
    Delivered,
    deliver,
)
from pytest_a2a_bench.conformance.checks.tasks import OVERTAKEN, history_of, overtaken
from pytest_a2a_bench.conformance.context import ATTEMPTS, Context
from pytest_a2a_bench.conformance.protocol.payloads import V03_WRAPPERS, state_of
from pytest_a2a_bench.conformance.protocol.streams import read_event, read_events, rebuild
from pytest_a2a_bench.conformance.session.states import stream_in
from pytest_a2a_bench.conformance.wire.reply import WireReply

OLD = "0.3"

uncheckable(
    {
        "V03-TASK-003": "tasks/list is optional in 0.3, and whether an agent has it breaks nothing",
    }
)


@check("V03-SEND-001", version=OLD)
async def result_is_task_or_message(ctx: Context) -> None:
    """The result of sending is directly a Task or a Message."""
    reply = await ctx.said()
    if not reply.ok:
        ctx.fail(f"sending a message: {reply.describe()}", expected="a Task or a Message", replies=(reply,))
        return
    result = reply.result if isinstance(reply.result, Mapping) else {}
    bare = result.get("kind") in ("task", "message")
    wrapped = [name for name in V03_WRAPPERS if isinstance(result.get(name), Mapping)]
    if not (bare if ctx.binding == "JSONRPC" else len(wrapped) == 1):
        expected = 'kind "task" or "message"' if ctx.binding == "JSONRPC" else "one member, task or message"
        ctx.fail(f"the result has {sorted(result)[:8]}", expected=expected, replies=(reply,))


@check("V03-SEND-002", version=OLD, timed=True)
async def blocking_waits(ctx: Context) -> None:
    """With blocking the answer comes when the task is over."""
    text = ctx.prompt("slow" if ctx.has_prompt("slow") else "task")
    reply = await ctx.send(text, configuration={"returnImmediately": False})
    task = ctx.task_of(reply, "sending a message with blocking")
    if state_of(task) not in SETTLED:
        found = f"with blocking true the task is {state_of(task) or 'without state'}"
        ctx.fail(found, expected="the finished task", replies=(reply,))


@check("V03-SEND-004", version=OLD)
async def terminal_task_takes_no_messages(ctx: Context) -> None:
    """A terminal task accepts no more messages."""
    task = await ctx.completed_task()
    reply = await ctx.send(task_id=task["id"], context_id=task.get("contextId"))
    ctx.expect_refusal(reply, "a message to a completed task")


@check("V03-SEND-005", version=OLD)
async def unknown_task_is_not_found(ctx: Context) -> None:
    """A message to an unknown task fails."""
    reply = await ctx.send(task_id=ctx.unknown_id())
    ctx.expect_error(reply, "TaskNotFoundError", what="a message to an unknown task")


async def streamed(ctx: Context) -> WireReply:
    """Return the stream of an ordinary message, one for all checks; skip where there is none."""
    ctx.require_capability("streaming")
    if ctx.cell is not None and ctx.cell.state:
        return await stream_in(ctx, ctx.cell.state)
    reply = await ctx.streamed()
    ctx.skip_if_refused(reply)
    return reply


@check("V03-STREAM-001", version=OLD)
async def events_have_their_kind(ctx: Context) -> None:
    """Each event is a JSON-RPC response with a kind-tagged result; elsewhere a StreamResponse."""
    reply = await streamed(ctx)
    if not reply.events:
        ctx.fail(f"no stream: {reply.describe()}", expected="a stream of events", replies=(reply,))
        return
    if ctx.binding != "GRPC" and reply.content_type != "text/event-stream":
        ctx.fail(f"Content-Type is {reply.content_type!r}", expected="text/event-stream", replies=(reply,))
    for number, (raw, document) in enumerate(zip(reply.events, reply.documents, strict=False)):
        envelope = document if isinstance(document, Mapping) else {}
        if ctx.binding == "JSONRPC" and (envelope.get("jsonrpc") != "2.0" or "id" not in envelope):
            found = f"event {number} is no JSON-RPC response"
            ctx.fail(found, pointer=f"/{number}", expected='jsonrpc "2.0" and the id', replies=(reply,))
        tagged = isinstance(raw, Mapping) and ("kind" in raw) == (ctx.binding == "JSONRPC")
        if not read_event(raw).kind or not tagged:
            found = f"event {number} has {sorted(raw)[:8] if isinstance(raw, Mapping) else raw!r}"
            expected = "kind task, message, status-update or artifact-update"
            ctx.fail(found, pointer=f"/{number}", expected=expected, replies=(reply,))


@check("V03-STREAM-002", version=OLD, timed=True)
async def last_update_is_final(ctx: Context) -> None:
    """The last status update says final."""
    reply = await streamed(ctx)
    events = ctx.events_of(reply, "the stream", "V03-STREAM-001")
    updates = [(number, event) for number, event in enumerate(events) if event.kind == "statusUpdate"]
    if not updates:
        ctx.skip("the stream has no status update")
    if rebuild(events).state not in SETTLED or not reply.ended:
        found = f"the stream ends at {rebuild(events).state or 'no state'}: {reply.describe()}"
        ctx.fail(found, expected="a last status update with final true", replies=(reply,))
        return
    for number, event in updates:
        last = number == updates[-1][0]
        if (event.body.get("final") is True) is not last:
            found = f"final is {event.body.get('final')!r} in {'the last' if last else 'an earlier'} status update"
            expected = "final true in the last status update, and only there"
            ctx.fail(found, pointer=f"/{number}/final", expected=expected, replies=(reply,))


@check("V03-STREAM-003", version=OLD, timed=True)
async def resubscribing_goes_on(ctx: Context) -> None:
    """tasks/resubscribe gives the rest of a running task's events."""
    ctx.require_capability("streaming")
    for _ in range(ATTEMPTS):
        task = await ctx.start_task(ctx.prompt("slow"))
        reply = await ctx.call("SubscribeToTask", {"id": task["id"]})
        if reply.events:
            break
    state = rebuild(read_events(reply.events)).state
    if state not in TERMINAL:
        found = f"the stream of a running task ended at {state or 'no state'}: {reply.describe()}"
        ctx.fail(found, expected="its events up to the terminal state", replies=(reply,))


@check("V03-STREAM-004", version=OLD)
async def streaming_needs_the_capability(ctx: Context) -> None:
    """Without the capability streaming is refused."""
    ctx.forbid_capability("streaming")
    reply = await ctx.stream(ctx.prompt("task"))
    _expect(ctx, reply, "UnsupportedOperationError", "streaming without the capability")


@check("V03-TASK-001", version=OLD)
async def get_returns_the_task(ctx: Context) -> None:
    """tasks/get returns the task, with as much history as was asked for."""
    task = await ctx.completed_task()
    reply = await ctx.get_task(task["id"])
    got = reply.result if isinstance(reply.result, Mapping) else {}
    if got.get("id") != task["id"]:
        found = f"the result is no Task with id {task['id']!r}: {reply.describe()}"
        ctx.fail(found, expected="the Task", replies=(reply,))
        return
    short = await ctx.get_task(task["id"], historyLength=1)
    if len(history_of(short.result)) > 1:
        found = f"historyLength 1 gives {len(history_of(short.result))} messages"
        ctx.fail(found, pointer="/history", expected="at most one message", replies=(short,))


def _expect(ctx: Context, reply: WireReply, name: str, what: str) -> None:
    """Expect an error of 0.3's table, which has codes for JSON-RPC only: over gRPC any refusal is right."""
    if ctx.binding == "GRPC":
        ctx.expect_refusal(reply, what)
    else:
        ctx.expect_error(reply, name, what=what)


@check("V03-TASK-002", version=OLD, timed=True)
async def cancelling_is_possible_or_refused(ctx: Context) -> None:
    """Unknown tasks are not found, terminal ones not cancelable, running ones are cancelled."""
    reply = await ctx.call("CancelTask", {"id": ctx.unknown_id()})
    ctx.expect_error(reply, "TaskNotFoundError", what="cancelling an unknown task")
    task = await ctx.completed_task()
    reply = await ctx.call("CancelTask", {"id": task["id"]})
    _expect(ctx, reply, "TaskNotCancelableError", "cancelling a completed task")
    if not ctx.has_prompt("slow"):
        return
    for _ in range(ATTEMPTS):
        started = time.monotonic()
        running = await ctx.start_task(ctx.prompt("slow"))
        reply = await ctx.call("CancelTask", {"id": running["id"]})
        seconds = time.monotonic() - started
        refusals = ("TaskNotCancelableError", "UnsupportedOperationError")
        if state_of(reply.result) == "canceled" or (
            reply.error is not None and any(reply.error.may_be(name) for name in refusals)
        ):
            return
        # Only now: a task that was cancelled needs no comparison, and measuring costs a message.
        if not overtaken(reply, seconds, await ctx.slow_seconds()):
            found = f"cancelling a running task: {state_of(reply.result) or reply.describe()}"
            ctx.fail(found, expected="the task in the state canceled, or TaskNotCancelableError", replies=(reply,))
            return
    ctx.skip(OVERTAKEN)


@check("V03-EXT-001", version=OLD)
async def extension_header_is_accepted(ctx: Context) -> None:
    """The header X-A2A-Extensions does no harm."""
    # Beside those that the card requires, or the message would be refused for them.
    uris = [*ctx.target.required_extensions, "https://extensions.example.org/never-heard-of/v1"]
    reply = await ctx.call("SendMessage", ctx.send_params(), headers={"X-A2A-Extensions": ", ".join(uris)})
    ctx.skip_if_refused(reply)
    if not reply.ok:
        ctx.fail(f"a message with X-A2A-Extensions: {reply.describe()}", expected="an answer", replies=(reply,))


@check("V03-XCARD-001", version=OLD)
async def extended_card_needs_credentials(ctx: Context) -> None:
    """The extended card is refused to strangers, and where there is none."""
    reply = await ctx.call("GetExtendedAgentCard", {}, auth=False)
    if not ctx.target.declares("extendedAgentCard"):
        if reply.ok and ctx.binding == "JSONRPC":
            found = f"the card declares no extended card, and there is one: {reply.describe()}"
            ctx.fail(found, expected="an error", replies=(reply,))
        return
    if reply.ok:
        found = f"the extended card without credentials: {reply.describe()}"
        ctx.fail(found, expected="a refusal", replies=(reply,))


@check("V03-VER-001", version=OLD)
async def no_version_header_is_needed(ctx: Context) -> None:
    """A request without A2A-Version is served."""
    reply = await ctx.call("SendMessage", ctx.send_params(), version_header=None)
    ctx.skip_if_refused(reply)
    if not reply.ok:
        ctx.fail(f"a message without A2A-Version: {reply.describe()}", expected="an answer", replies=(reply,))


@check("V03-AUTH-001", version=OLD)
async def credentials_are_checked(ctx: Context) -> None:
    """Requests without credentials, or with wrong ones, are refused."""
    demands_credentials(ctx)
    wrong = credentials(ctx, GARBAGE)
    for what, headers, query in (("no", {}, {}), ("wrong", wrong.headers, wrong.query)):
        reply = await ctx.call("SendMessage", ctx.send_params(), auth=False, headers=headers, query=query)
        if not reply.is_refused:
            found = f"a message with {what} credentials: {reply.describe()}"
            ctx.fail(found, expected="401 or 403", replies=(reply,))


@check("V03-EQ-001", version=OLD)
async def transports_are_equivalent(ctx: Context) -> None:
    """A task is the same, and unknown ones are unknown, on every transport."""
    model = first(ctx)
    task = await ctx.completed_task()
    there = await model.get_task(task["id"])
    if not there.ok or state_of(there.result) != state_of(task):
        found = f"a task made on {ctx.binding} on {model.binding}: {state_of(there.result) or there.describe()}"
        ctx.fail(found, expected=f"the same task, {state_of(task)}", replies=(there,))
    here = await ctx.get_task(ctx.unknown_id())
    if here.error is None or not here.error.may_be("TaskNotFoundError"):
        found = f"an unknown task on {ctx.binding}: {here.describe()}"
        ctx.fail(found, expected="TaskNotFoundError, as on every transport", replies=(here,))


# -- push notifications --


TOKEN = "c29tZS13ZWJob29rLXRva2Vu"


def inner(reply: WireReply) -> Mapping[str, Any]:
    """Return the inner config of 0.3's TaskPushNotificationConfig."""
    found = reply.result.get("pushNotificationConfig") if isinstance(reply.result, Mapping) else None
    return found if isinstance(found, Mapping) else {}


@check("V03-PUSH-001", version=OLD)
async def configs_are_kept(ctx: Context) -> None:
    """A config that was set can be got, listed and deleted."""
    ctx.require_capability("pushNotifications")
    task = await ctx.completed_task()
    one = {"taskId": task["id"], "id": ctx.unknown_id()}
    made = await ctx.call(CREATE, {**one, "url": NEVER_CALLED})
    if inner(made).get("url") != NEVER_CALLED:
        found = f"setting a config: {made.describe()}"
        ctx.fail(found, pointer="/pushNotificationConfig/url", expected="the config", replies=(made,))
        return
    ctx.created_push_config(task["id"], one["id"])
    got = await ctx.call(GET, one)
    if inner(got).get("url") != NEVER_CALLED:
        ctx.fail(f"getting it: {got.describe()}", expected="the config", replies=(made, got))
    listed = await ctx.call(LIST, {"taskId": task["id"]})
    if not listed.ok:
        ctx.fail(f"listing the configs: {listed.describe()}", expected="a list", replies=(made, listed))
    deleted = await ctx.call(DELETE, one)
    if deleted.error is not None:
        ctx.fail(f"deleting it: {deleted.describe()}", expected="no error", replies=(made, deleted))
    gone = await ctx.call(GET, one)
    # 0.3 names no error for a config that does not exist.
    ctx.excuse(gone)
    if inner(gone).get("url") == NEVER_CALLED:
        ctx.fail("a deleted config is still there", expected="an error", replies=(deleted, gone))


async def delivered(ctx: Context) -> Delivered:
    """Let the agent notify a webhook that came with the message, once for all checks."""
    return await deliver(ctx, ctx.prompt("task"), judge="V03-SEND-003", id=ctx.unknown_id(), token=TOKEN)


@check("V03-SEND-003", version=OLD, timed=True)
async def config_comes_with_the_message(ctx: Context) -> None:
    """A config that comes with the message is used."""
    seen = await delivered(ctx)
    if not seen.deliveries:
        found = "a config that came with the message: no notification"
        ctx.fail(found, expected="at least one POST to the webhook", replies=(seen.reply, seen.stored))


@check("V03-PUSH-002", version=OLD)
async def body_is_the_task(ctx: Context) -> None:
    """The body of a notification is the Task."""
    seen = await delivered(ctx)
    if not seen.deliveries:
        ctx.skip("nothing was delivered to the webhook")
    for payload in seen.payloads:
        bare = isinstance(payload, Mapping) and "status" in payload and payload.get("id") == seen.task_id
        if not bare:
            kind = read_event(payload).kind or "no known kind"
            found = f"the body is {kind} with {sorted(payload)[:6] if isinstance(payload, Mapping) else payload!r}"
            ctx.fail(found, expected="the Task, not wrapped", replies=(seen.reply,))
            return


@check("V03-PUSH-003", version=OLD)
async def token_is_repeated(ctx: Context) -> None:
    """The header X-A2A-Notification-Token repeats the token."""
    seen = await delivered(ctx)
    if not seen.deliveries:
        ctx.skip("nothing was delivered to the webhook")
    if any(d.headers.get("x-a2a-notification-token") != TOKEN for d in seen.deliveries):
        found = "notifications come without the token of their config"
        ctx.fail(found, expected="X-A2A-Notification-Token with the token", replies=(seen.reply,))


@check("V03-PUSH-004", version=OLD)
async def refused_without_the_capability(ctx: Context) -> None:
    """Without the capability a config cannot be set."""
    ctx.forbid_capability("pushNotifications")
    task = await ctx.completed_task()
    reply = await ctx.call(CREATE, {"taskId": task["id"], "id": ctx.unknown_id(), "url": NEVER_CALLED})
    _expect(ctx, reply, "PushNotificationNotSupportedError", "setting a config without the capability")
