"""Version 0.3 on the wire: envelopes, error codes, and the shape of tasks, messages and parts."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from pytest_a2a_bench.conformance.check import check
from pytest_a2a_bench.conformance.checks.auth import operations
from pytest_a2a_bench.conformance.checks.binding import is_missing
from pytest_a2a_bench.conformance.context import Context
from pytest_a2a_bench.conformance.protocol.operations import OPERATIONS
from pytest_a2a_bench.conformance.protocol.payloads import V03_WRAPPERS, is_misspelt
from pytest_a2a_bench.conformance.session.presence import absence
from pytest_a2a_bench.conformance.wire.reply import WireReply

OLD = "0.3"
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
    replies = await ctx.samples()
    found = [(r, o) for r in replies for value in (r.result, *r.events) for o in objects(value)]
    return found or ctx.skip("no answer has a task or a message")


def _json_rpc_only(ctx: Context) -> None:
    if ctx.binding != "JSONRPC":
        ctx.skip("this transport uses protobuf's JSON, which has no kind")


@check("V03-DM-001", version=OLD)
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


@check("V03-DM-002", version=OLD)
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


@check("V03-DM-003", version=OLD)
async def roles_are_known(ctx: Context) -> None:
    """Roles are user and agent."""
    known = ("user", "agent") if ctx.binding == "JSONRPC" else ("ROLE_USER", "ROLE_AGENT")
    for reply, (kind, pointer, value) in await seen(ctx):
        if kind == "message" and value.get("role") not in known:
            found = f"role is {value.get('role')!r}"
            ctx.fail(found, pointer=f"{pointer}/role", expected=" or ".join(known), replies=(reply,))
            return


@check("V03-DM-004", version=OLD)
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


@check("V03-DM-005", version=OLD)
async def files_have_bytes_or_uri(ctx: Context) -> None:
    """A file part has either bytes or a URI."""
    names = ("bytes", "uri") if ctx.binding == "JSONRPC" else ("fileWithBytes", "fileWithUri")
    for reply, (_, pointer, value) in await _parts_of(ctx, "file"):
        file = value.get("file")
        present = [name for name in names if isinstance(file, Mapping) and name in file]
        if len(present) != 1:
            found = f"the file has {' and '.join(present) or 'neither ' + ' nor '.join(names)}"
            ctx.fail(found, pointer=f"{pointer}/file", expected=" or ".join(names), replies=(reply,))


@check("V03-DM-006", version=OLD)
async def data_is_an_object(ctx: Context) -> None:
    """A data part holds an object."""
    for reply, (_, pointer, value) in await _parts_of(ctx, "data"):
        if not isinstance(value.get("data"), Mapping):
            found = f"data is {value.get('data')!r}"
            ctx.fail(found, pointer=f"{pointer}/data", expected="an object", replies=(reply,))


@check("V03-DM-007", version=OLD)
async def names_are_camel_case(ctx: Context) -> None:
    """Member names are in camelCase."""
    for reply in await ctx.samples():
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


@check("V03-RPC-001", version=OLD)
async def methods_exist(ctx: Context) -> None:
    """The methods that the card offers are there."""
    for name, params in {"SendMessage": ctx.send_params(), **operations(ctx)}.items():
        reply = await ctx.call(name, params)
        ctx.skip_if_refused(reply)
        if is_missing(reply):
            method = OPERATIONS[name].rpc03
            ctx.fail(f"{method}: {reply.describe()}", expected=f"the method {method}", replies=(reply,))


@check("V03-RPC-002", version=OLD)
async def answers_are_json(ctx: Context) -> None:
    """Answers are application/json."""
    reply = await ctx.call("GetTask", {"id": ctx.unknown_id()})
    if reply.content_type != "application/json":
        found = f"Content-Type is {reply.content_type or 'missing'!r}"
        ctx.fail(found, expected="application/json", replies=(reply,))


@check("V03-RPC-003", version=OLD)
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


@check("V03-RPC-004", version=OLD)
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


@check("V03-RPC-005", version=OLD)
async def protocol_errors_have_their_codes(ctx: Context) -> None:
    """The protocol's own errors have their codes."""
    task = await ctx.completed_task()
    wanted = (
        ("GetTask", {"id": ctx.unknown_id()}, "TaskNotFoundError"),
        ("CancelTask", {"id": task["id"]}, "TaskNotCancelableError"),
    )
    for operation, params, name in wanted:
        ctx.expect_error(await ctx.call(operation, params), name, what=operation)


@check("V03-REST-001", version=OLD)
async def paths_start_with_v1(ctx: Context) -> None:
    """The paths start with /v1."""
    for name, params in (("SendMessage", ctx.send_params()), ("GetTask", {"id": ctx.unknown_id()})):
        reply = await ctx.call(name, params)
        ctx.skip_if_refused(reply)
        readable = isinstance(reply.document, Mapping) and set(reply.document) != {"detail"}
        if reply.status in (405, 501) or (reply.status == 404 and not readable):
            verb, path = OPERATIONS[name].rest03
            ctx.fail(f"{verb} {path}: {reply.describe()}", expected=f"{verb} {path}", replies=(reply,))


@check("V03-REST-002", version=OLD)
async def bodies_are_protobuf_json(ctx: Context) -> None:
    """Bodies are protobuf's JSON: content for parts, task or message around the result."""
    reply = await ctx.said()
    ctx.skip_if_refused(reply)
    result = reply.result if isinstance(reply.result, Mapping) else {}
    if not any(isinstance(result.get(name), Mapping) for name in V03_WRAPPERS):
        ctx.fail(f"message:send: {reply.describe()}", expected="an object with task or message", replies=(reply,))


@check("V03-GRPC-001", "V03-CARD-022", version=OLD)
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
