"""Version 0.3: what it wants in a way of its own, from messages to envelopes; the rest is checked as in 1.0."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from pytest_a2a_bench.a2a.codec import SETTLED, TERMINAL
from pytest_a2a_bench.conformance import fixtures
from pytest_a2a_bench.conformance.checks.auth import GARBAGE, credentials, demands_credentials, operations
from pytest_a2a_bench.conformance.checks.binding import first, is_missing
from pytest_a2a_bench.conformance.checks.multi_turn import waiting_task
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
from pytest_a2a_bench.conformance.fixtures import stream_in
from pytest_a2a_bench.conformance.protocol.operations import OPERATIONS
from pytest_a2a_bench.conformance.protocol.payloads import V03_WRAPPERS, config_ids, is_misspelt, state_of
from pytest_a2a_bench.conformance.protocol.streams import read_event, read_events, rebuild
from pytest_a2a_bench.conformance.session.health import absence
from pytest_a2a_bench.conformance.wire.reply import WireReply


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


async def blocking_waits(ctx: Context) -> None:
    """With blocking the answer comes when the task is over."""
    text = ctx.prompt("slow" if ctx.has_prompt("slow") else "task")
    reply = await ctx.send(text, configuration={"returnImmediately": False})
    task = ctx.task_of(reply, "sending a message with blocking")
    if state_of(task) not in SETTLED:
        found = f"with blocking true the task is {state_of(task) or 'without state'}"
        ctx.fail(found, expected="the finished task", replies=(reply,))


async def terminal_task_takes_no_messages(ctx: Context) -> None:
    """A terminal task accepts no more messages."""
    task = await fixtures.completed_task(ctx)
    reply = await ctx.send(task_id=task["id"], context_id=task.get("contextId"))
    ctx.expect_refusal(reply, "a message to a completed task")


async def unknown_task_is_not_found(ctx: Context) -> None:
    """A message to an unknown task fails."""
    reply = await ctx.send(task_id=ctx.unknown_id())
    ctx.expect_error(reply, "TaskNotFoundError", what="a message to an unknown task")


async def streamed(ctx: Context) -> WireReply:
    """Return the stream of an ordinary message, one for all checks; skip where there is none."""
    ctx.require_capability("streaming")
    if ctx.state:
        return await stream_in(ctx, ctx.state)
    reply = await ctx.streamed()
    ctx.skip_if_refused(reply)
    return reply


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


async def streaming_needs_the_capability(ctx: Context) -> None:
    """Without the capability streaming is refused."""
    ctx.forbid_capability("streaming")
    reply = await ctx.stream(ctx.prompt("task"))
    _expect(ctx, reply, "UnsupportedOperationError", "streaming without the capability")


async def get_returns_the_task(ctx: Context) -> None:
    """tasks/get returns the task, with as much history as was asked for."""
    task = await fixtures.completed_task(ctx)
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


async def unknown_tasks_and_long_histories(ctx: Context) -> None:
    """An unknown task is not found; of a task of two messages one comes back where one is asked for."""
    ctx.expect_error(await ctx.get_task(ctx.unknown_id()), "TaskNotFoundError", what="an unknown task")
    task = await waiting_task(ctx)
    answer = ctx.target.scenarios.get("input_answer") or "yes"
    ctx.task_of(await ctx.send(answer, task_id=str(task["id"])), "answering the agent's question")
    reply = await ctx.get_task(str(task["id"]), historyLength=1)
    if len(history_of(reply.result)) > 1:
        found = f"historyLength 1 gives {len(history_of(reply.result))} messages"
        ctx.fail(found, pointer="/history", expected="at most one message", replies=(reply,))


def _expect(ctx: Context, reply: WireReply, name: str, what: str) -> None:
    """Expect an error of 0.3's table, which has codes for JSON-RPC only: over gRPC any refusal is right."""
    if ctx.binding == "GRPC":
        ctx.expect_refusal(reply, what)
    else:
        ctx.expect_error(reply, name, what=what)


async def cancelling_is_possible_or_refused(ctx: Context) -> None:
    """Unknown tasks are not found, terminal ones not cancelable, running ones are cancelled."""
    reply = await ctx.call("CancelTask", {"id": ctx.unknown_id()})
    ctx.expect_error(reply, "TaskNotFoundError", what="cancelling an unknown task")
    task = await fixtures.completed_task(ctx)
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


async def extension_header_is_accepted(ctx: Context) -> None:
    """The header X-A2A-Extensions does no harm."""
    # Beside those that the card requires, or the message would be refused for them.
    uris = [*ctx.target.required_extensions, "https://extensions.example.org/never-heard-of/v1"]
    reply = await ctx.call("SendMessage", ctx.send_params(), headers={"X-A2A-Extensions": ", ".join(uris)})
    ctx.skip_if_refused(reply)
    if not reply.ok:
        ctx.fail(f"a message with X-A2A-Extensions: {reply.describe()}", expected="an answer", replies=(reply,))


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


async def no_version_header_is_needed(ctx: Context) -> None:
    """A request without A2A-Version is served."""
    reply = await ctx.call("SendMessage", ctx.send_params(), version_header=None)
    ctx.skip_if_refused(reply)
    if not reply.ok:
        ctx.fail(f"a message without A2A-Version: {reply.describe()}", expected="an answer", replies=(reply,))


async def credentials_are_checked(ctx: Context) -> None:
    """Requests without credentials, or with wrong ones, are refused."""
    demands_credentials(ctx)
    wrong = credentials(ctx, GARBAGE)
    for what, headers, query in (("no", {}, {}), ("wrong", wrong.headers, wrong.query)):
        reply = await ctx.call("SendMessage", ctx.send_params(), auth=False, headers=headers, query=query)
        if not reply.is_refused:
            found = f"a message with {what} credentials: {reply.describe()}"
            ctx.fail(found, expected="401 or 403", replies=(reply,))


async def transports_are_equivalent(ctx: Context) -> None:
    """A task is the same, and unknown ones are unknown, on every transport."""
    model = first(ctx)
    task = await fixtures.completed_task(ctx)
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


async def configs_are_kept(ctx: Context) -> None:
    """A config that was set can be got, listed and deleted."""
    ctx.require_capability("pushNotifications")
    task = await fixtures.completed_task(ctx)
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


async def several_configs_are_kept(ctx: Context) -> None:
    """Two configurations of a task are both listed."""
    task_id = str((await fixtures.completed_task(ctx))["id"])
    ids = [ctx.unknown_id() for _ in range(2)]
    for config_id in ids:
        made = await ctx.call(CREATE, {"taskId": task_id, "id": config_id, "url": NEVER_CALLED})
        ctx.created_push_config(task_id, config_id)
        result = made.result if isinstance(made.result, Mapping) else {}
        if ctx.binding == "JSONRPC" and result.get("taskId") != task_id:
            found = f"taskId is {result.get('taskId')!r}"
            ctx.fail(found, pointer="/taskId", expected=f"taskId {task_id!r}", replies=(made,))
    reply = await ctx.call(LIST, {"taskId": task_id})
    missing = set(ids) - set(config_ids(reply.result))
    if missing:
        found = f"{len(missing)} of {len(ids)} configurations are not listed: {reply.describe()}"
        ctx.fail(found, expected="every configuration", replies=(reply,))


async def delivered(ctx: Context) -> Delivered:
    """Let the agent notify a webhook that came with the message, once for all checks."""
    return await deliver(ctx, ctx.prompt("task"), judge="V03-SEND-003", id=ctx.unknown_id(), token=TOKEN)


async def config_comes_with_the_message(ctx: Context) -> None:
    """A config that comes with the message is used."""
    seen = await delivered(ctx)
    if not seen.deliveries:
        found = "a config that came with the message: no notification"
        ctx.fail(found, expected="at least one POST to the webhook", replies=(seen.reply, seen.stored))


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


async def token_is_repeated(ctx: Context) -> None:
    """The header X-A2A-Notification-Token repeats the token."""
    seen = await delivered(ctx)
    if not seen.deliveries:
        ctx.skip("nothing was delivered to the webhook")
    if any(d.headers.get("x-a2a-notification-token") != TOKEN for d in seen.deliveries):
        found = "notifications come without the token of their config"
        ctx.fail(found, expected="X-A2A-Notification-Token with the token", replies=(seen.reply,))


async def refused_without_the_capability(ctx: Context) -> None:
    """Without the capability a config cannot be set."""
    ctx.forbid_capability("pushNotifications")
    task = await fixtures.completed_task(ctx)
    reply = await ctx.call(CREATE, {"taskId": task["id"], "id": ctx.unknown_id(), "url": NEVER_CALLED})
    _expect(ctx, reply, "PushNotificationNotSupportedError", "setting a config without the capability")


# -- on the wire: envelopes, error codes, and the shape of tasks, messages and parts --

STATES = frozenset("submitted working input-required completed canceled failed rejected auth-required unknown".split())
_PROTO_STATES = frozenset(f"TASK_STATE_{state.upper().replace('-', '_')}" for state in STATES) | {
    "TASK_STATE_CANCELLED",
    "TASK_STATE_UNSPECIFIED",
}
_FREE = frozenset({"metadata", "data"})


class Found(NamedTuple):
    """One object of an answer: what it must be, where it is, and itself."""

    kind: str
    pointer: str
    value: Mapping[str, Any]


def objects(value: Any, pointer: str = "") -> Iterator[Found]:
    """Find the tasks, messages, parts and updates in an answer, by their place and not by what they say they are."""
    if not isinstance(value, Mapping):
        return
    for name in ("task", "msg", "message", "statusUpdate", "artifactUpdate"):
        if isinstance(value.get(name), Mapping) and "taskId" not in value and "status" not in value:
            yield from objects(value[name], f"{pointer}/{name}")
            return
    if isinstance(value.get("artifact"), Mapping):
        yield Found("artifact-update", pointer, value)
        yield from _parts(value["artifact"], f"{pointer}/artifact")
    elif "status" in value:
        yield Found("status-update" if "taskId" in value else "task", pointer, value)
        yield from _inside_task(value, pointer)
    elif "messageId" in value or "role" in value:
        yield Found("message", pointer, value)
        yield from _parts(value, pointer)


def _inside_task(task: Mapping[str, Any], pointer: str) -> Iterator[Found]:
    status = task.get("status")
    for name in ("message", "update"):
        message = status.get(name) if isinstance(status, Mapping) else None
        if isinstance(message, Mapping):
            yield Found("message", f"{pointer}/status/{name}", message)
            yield from _parts(message, f"{pointer}/status/{name}")
    for number, message in _items(task.get("history")):
        yield Found("message", f"{pointer}/history/{number}", message)
        yield from _parts(message, f"{pointer}/history/{number}")
    for number, artifact in _items(task.get("artifacts")):
        yield from _parts(artifact, f"{pointer}/artifacts/{number}")


def _parts(owner: Mapping[str, Any], pointer: str) -> Iterator[Found]:
    for name in ("parts", "content"):
        for number, part in _items(owner.get(name)):
            yield Found("part", f"{pointer}/{name}/{number}", part)


def _items(value: Any) -> Iterator[tuple[int, Mapping[str, Any]]]:
    for number, item in enumerate(value if isinstance(value, list) else []):
        if isinstance(item, Mapping):
            yield number, item


async def seen(ctx: Context) -> list[tuple[WireReply, Found]]:
    """Return every object in ordinary answers; skip where there is none."""
    replies = await fixtures.samples(ctx)
    found = [(r, o) for r in replies for value in (r.result, *r.events) for o in objects(value)]
    return found or ctx.skip("no answer has a task or a message")


def _json_rpc_only(ctx: Context) -> None:
    if ctx.binding != "JSONRPC":
        ctx.skip("this transport uses protobuf's JSON, which has no kind")


async def objects_have_their_kind(ctx: Context) -> None:
    """Every task, message, part and event says its kind."""
    _json_rpc_only(ctx)
    wrong = set()
    for reply, (kind, pointer, value) in await seen(ctx):
        wanted = ("text", "file", "data") if kind == "part" else (kind,)
        if value.get("kind") not in wanted and kind not in wrong:
            wrong.add(kind)
            found = f"kind is {value.get('kind')!r} in a {kind}"
            ctx.fail(found, pointer=f"{pointer}/kind", expected=" or ".join(wanted), replies=(reply,))


async def states_are_known(ctx: Context) -> None:
    """States are written as the version does."""
    known = STATES if ctx.binding == "JSONRPC" else _PROTO_STATES
    for reply, (kind, pointer, value) in await seen(ctx):
        status = value.get("status")
        if kind not in ("task", "status-update"):
            continue
        state = status.get("state") if isinstance(status, Mapping) else None
        if state not in known:
            expected = ", ".join(sorted(known))
            ctx.fail(f"state is {state!r}", pointer=f"{pointer}/status/state", expected=expected, replies=(reply,))
            return


async def roles_are_known(ctx: Context) -> None:
    """Roles are user and agent."""
    known = ("user", "agent") if ctx.binding == "JSONRPC" else ("ROLE_USER", "ROLE_AGENT")
    for reply, (kind, pointer, value) in await seen(ctx):
        if kind == "message" and value.get("role") not in known:
            found = f"role is {value.get('role')!r}"
            ctx.fail(found, pointer=f"{pointer}/role", expected=" or ".join(known), replies=(reply,))
            return


async def tasks_are_complete(ctx: Context) -> None:
    """A Task has id, contextId and status."""
    for reply, (kind, pointer, value) in await seen(ctx):
        missing = [name for name in ("id", "contextId", "status") if not value.get(name)]
        if kind == "task" and missing:
            found = f"a Task without {', '.join(missing)}"
            ctx.fail(found, pointer=f"{pointer}/{missing[0]}", expected="id, contextId, status", replies=(reply,))
            return


async def _parts_of(ctx: Context, kind: str) -> list[tuple[WireReply, Found]]:
    """Return the parts of one kind, file or data; skip where the scenario of that name gave none."""
    found = [
        (r, o) for r, o in await seen(ctx) if o.kind == "part" and (kind in o.value or o.value.get("kind") == kind)
    ]
    if not found:
        ctx.prompt(kind)
        ctx.skip(f"the scenario {kind} gave no {kind} part")
    return found


async def files_have_bytes_or_uri(ctx: Context) -> None:
    """A file part has either bytes or a URI."""
    names = ("bytes", "uri") if ctx.binding == "JSONRPC" else ("fileWithBytes", "fileWithUri")
    for reply, (_, pointer, value) in await _parts_of(ctx, "file"):
        file = value.get("file")
        present = [name for name in names if isinstance(file, Mapping) and name in file]
        if len(present) != 1:
            found = f"the file has {' and '.join(present) or 'neither ' + ' nor '.join(names)}"
            ctx.fail(found, pointer=f"{pointer}/file", expected=" or ".join(names), replies=(reply,))


async def data_is_an_object(ctx: Context) -> None:
    """A data part holds an object."""
    for reply, (_, pointer, value) in await _parts_of(ctx, "data"):
        if not isinstance(value.get("data"), Mapping):
            found = f"data is {value.get('data')!r}"
            ctx.fail(found, pointer=f"{pointer}/data", expected="an object", replies=(reply,))


async def names_are_camel_case(ctx: Context) -> None:
    """Member names are in camelCase."""
    for reply in await fixtures.samples(ctx):
        for value in (reply.result, *reply.events):
            name = next((n for n in _names(value) if is_misspelt(n)), None)
            if name is not None:
                ctx.fail(f"a member is called {name!r}", expected="camelCase names", replies=(reply,))
                return


def _names(value: Any) -> Iterator[str]:
    if isinstance(value, list):
        for item in value:
            yield from _names(item)
    elif isinstance(value, Mapping):
        for name, item in value.items():
            yield str(name)
            if name not in _FREE:
                yield from _names(item)


async def methods_exist(ctx: Context) -> None:
    """The methods that the card offers are there."""
    for name, params in {"SendMessage": ctx.send_params(), **operations(ctx)}.items():
        reply = await ctx.call(name, params)
        ctx.skip_if_refused(reply)
        if is_missing(reply):
            method = OPERATIONS[name].rpc03
            ctx.fail(f"{method}: {reply.describe()}", expected=f"the method {method}", replies=(reply,))


async def answers_are_json(ctx: Context) -> None:
    """Answers are application/json."""
    reply = await ctx.call("GetTask", {"id": ctx.unknown_id()})
    if reply.content_type != "application/json":
        found = f"Content-Type is {reply.content_type or 'missing'!r}"
        ctx.fail(found, expected="application/json", replies=(reply,))


async def envelopes_are_right(ctx: Context) -> None:
    """An answer has jsonrpc 2.0, the request's id, and a result or an error."""
    for rpc_id in ("a-text", 7):
        reply = await ctx.call("GetTask", {"id": ctx.unknown_id()}, rpc_id=rpc_id)
        document = reply.document if isinstance(reply.document, Mapping) else {}
        both = ("result" in document) == ("error" in document)
        null_result = document.get("result", 0) is None and "error" in document
        if document.get("jsonrpc") != "2.0" or document.get("id") != rpc_id or (both and not null_result):
            found = f"jsonrpc {document.get('jsonrpc')!r}, id {document.get('id')!r}, members {sorted(document)}"
            ctx.fail(found, expected=f"jsonrpc '2.0', id {rpc_id!r}, and result or error", replies=(reply,))
    broken = await ctx.call("GetTask", body='{"jsonrpc": "2.0", "id": 5, ')
    document = broken.document if isinstance(broken.document, Mapping) else {}
    if "id" not in document:
        found = "to a request that is no JSON the answer has no id"
        ctx.warn(found, pointer="/id", expected="id null, as JSON-RPC wants", replies=(broken,))
    elif document["id"] is not None:
        found = f"to a request that is no JSON the id is {document['id']!r}"
        ctx.fail(found, pointer="/id", expected="id null", replies=(broken,))


async def standard_errors_have_their_codes(ctx: Context) -> None:
    """Bad requests give the codes of JSON-RPC."""
    # 0.3 describes each method's whole request as one object, so that wrong params make an invalid request, too.
    requests: tuple[tuple[str, Any, tuple[int, ...]], ...] = (
        ("a body that is no JSON", '{"jsonrpc": "2.0", ', (-32700,)),
        ("a request without a method", {"jsonrpc": "2.0", "id": 1, "params": {}}, (-32600,)),
        ("an unknown method", {"jsonrpc": "2.0", "id": 1, "method": "tasks/dance", "params": {}}, (-32601,)),
        ("tasks/get without an id", {"jsonrpc": "2.0", "id": 1, "method": "tasks/get", "params": {}}, (-32602, -32600)),
    )
    for what, body, codes in requests:
        reply = await ctx.call("GetTask", body=body)
        code = reply.error.code if reply.error is not None else None
        if code not in codes:
            expected = " or ".join(map(str, codes))
            ctx.fail(f"{what}: {reply.describe()}", pointer="/error/code", expected=expected, replies=(reply,))


async def requests_that_are_none(ctx: Context) -> None:
    """Another version of JSON-RPC, and a message that is missing."""
    if ctx.binding != "JSONRPC":
        return
    request = {"jsonrpc": "1.0", "id": 1, "method": "tasks/get", "params": {"id": ctx.unknown_id()}}
    reply = await ctx.call("GetTask", body=request)
    ctx.expect_error(reply, "InvalidRequestError", what='jsonrpc "1.0"')
    reply = await ctx.call("SendMessage", {})
    # 0.3 describes each method's whole request as one object, so that wrong params make an invalid request, too.
    ctx.expect_error(reply, "InvalidParamsError", "InvalidRequestError", what="message/send without a message")


async def protocol_errors_have_their_codes(ctx: Context) -> None:
    """The protocol's own errors have their codes."""
    task = await fixtures.completed_task(ctx)
    wanted = (
        ("GetTask", {"id": ctx.unknown_id()}, "TaskNotFoundError"),
        ("CancelTask", {"id": task["id"]}, "TaskNotCancelableError"),
    )
    for operation, params, name in wanted:
        ctx.expect_error(await ctx.call(operation, params), name, what=operation)


async def paths_start_with_v1(ctx: Context) -> None:
    """The paths start with /v1."""
    for name, params in (("SendMessage", ctx.send_params()), ("GetTask", {"id": ctx.unknown_id()})):
        reply = await ctx.call(name, params)
        ctx.skip_if_refused(reply)
        readable = isinstance(reply.document, Mapping) and set(reply.document) != {"detail"}
        if reply.status in (405, 501) or (reply.status == 404 and not readable):
            verb, path = OPERATIONS[name].rest03
            ctx.fail(f"{verb} {path}: {reply.describe()}", expected=f"{verb} {path}", replies=(reply,))


async def bodies_are_protobuf_json(ctx: Context) -> None:
    """Bodies are protobuf's JSON: content for parts, task or message around the result."""
    reply = await ctx.said()
    ctx.skip_if_refused(reply)
    result = reply.result if isinstance(reply.result, Mapping) else {}
    if not any(isinstance(result.get(name), Mapping) for name in V03_WRAPPERS):
        ctx.fail(f"message:send: {reply.describe()}", expected="an object with task or message", replies=(reply,))


async def transport_is_spoken(ctx: Context) -> None:
    """The declared address speaks the declared transport."""
    reply = await ctx.call("GetTask", {"id": ctx.unknown_id()})
    what = f"GetTask of an unknown task at {ctx.target.url}"
    # A web server's 404 has the status of an unknown task, and is about the path.
    nobody = absence(reply)
    if nobody:
        ctx.fail(f"{what}: {nobody}: {reply.describe()}", expected="TaskNotFoundError", replies=(reply,))
    else:
        ctx.expect_error(reply, "TaskNotFoundError", what=what)
