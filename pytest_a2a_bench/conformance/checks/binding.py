"""The bindings: the requirements of each, and that all give the same results."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

from pytest_a2a_bench.a2a.bodies import as_object
from pytest_a2a_bench.a2a.codec import TERMINAL
from pytest_a2a_bench.conformance import fixtures
from pytest_a2a_bench.conformance.catalogue import requirement
from pytest_a2a_bench.conformance.checks.asking import ask, provoked
from pytest_a2a_bench.conformance.checks.auth import operations
from pytest_a2a_bench.conformance.checks.errors import ordinary_errors
from pytest_a2a_bench.conformance.checks.list_tasks import tasks_of
from pytest_a2a_bench.conformance.checks.push import GET, created
from pytest_a2a_bench.conformance.checks.tasks import changes
from pytest_a2a_bench.conformance.context import Context, shared
from pytest_a2a_bench.conformance.protocol.operations import OPERATIONS, SENDING, about
from pytest_a2a_bench.conformance.protocol.payloads import message_in, parse_timestamp, state_of
from pytest_a2a_bench.conformance.protocol.streams import canonical, is_suffix, rebuild
from pytest_a2a_bench.conformance.wire.exchange import is_late
from pytest_a2a_bench.conformance.wire.reply import WireReply


@shared
async def _every_operation(ctx: Context) -> list[tuple[str, WireReply]]:
    """Ask every operation that the card offers; how others are refused is judged elsewhere."""
    names = ["SendMessage", *operations(ctx)]
    # Parameters that change nothing: for messages none at all, and unknown ids.
    params = {n: {} if n in SENDING else about(n, ctx.unknown_id()) for n in names}
    # The first event is enough to know that a stream exists.
    replies = await asyncio.gather(*(ctx.call(n, params[n], until=lambda _: True) for n in names))
    for reply in replies:
        # A message that is none is no valid request, and another check judges each operation.
        ctx.excuse(reply)
    return list(zip(names, replies, strict=True))


async def media_type(ctx: Context) -> None:
    """Look at the media type of results, and on JSON-RPC at that of errors."""
    is_rpc = ctx.binding == "JSONRPC"
    # Streams have a media type of their own, which STREAM-001 judges.
    for reply in (*await fixtures.samples(ctx), *([await provoked(ctx, "GET-002")] if is_rpc else [])):
        wanted = "application/json" if is_rpc else "application/a2a+json"
        if (reply.ok or is_rpc) and not reply.documents and reply.status is not None and reply.content_type != wanted:
            ctx.fail(f"Content-Type {reply.content_type!r}", reply, pointer="/content-type")
            return


async def every_operation_is_there(ctx: Context) -> None:
    """Call all methods, ask all paths with their verbs, or call all methods of the gRPC service."""
    for name, reply in await _every_operation(ctx):
        ctx.skip_if_refused(reply)
        asked = " ".join(OPERATIONS[name].rest) if ctx.binding == "HTTP+JSON" else name
        if is_missing(reply) or await is_no_route(ctx, reply):
            ctx.fail(f"{asked} does not exist: {reply.describe()}", reply)
        elif reply.problem and ctx.binding == "GRPC":
            ctx.fail(f"{asked}: {reply.problem}", reply)


# -- JSON-RPC --


async def rpc_version(ctx: Context) -> None:
    """Look at jsonrpc, result and error in results, errors and events."""
    for reply in (*await fixtures.samples(ctx), *await ordinary_errors(ctx)):
        for number, document in enumerate(map(as_object, reply.documents or (reply.document,))):
            if document and document.get("jsonrpc") != "2.0":
                where = f"event {number}: " * bool(reply.documents)
                ctx.fail(f"{where}jsonrpc is {document.get('jsonrpc')!r}", reply, pointer="/jsonrpc")
                return
            # JSON-RPC 2.0, section 5: the other one must not be there, not even as null, which 0.3 does not repeat.
            both = "result" in document and "error" in document
            if both and not (ctx.version == "0.3" and document["result"] is None):
                null = "error" if document["error"] is None else "result"
                found = f"result and error are both there, {null} is {document[null]!r:.80}"
                ctx.fail(found, reply, pointer=f"/{null}", expected="one of result and error")
                return
            if document and not ("result" in document or "error" in document):
                ctx.fail(f"the answer has {sorted(document)}", reply, expected="one of result and error")
                return


# -- HTTP+JSON --


async def is_no_route(ctx: Context, reply: WireReply) -> bool:
    """Return whether an HTTP+JSON answer is the one to any path that the server does not have.

    That of a server which refuses unknown tasks in the same words does not show it.
    """
    if ctx.binding != "HTTP+JSON" or reply.status != 404 or (reply.error is not None and reply.error.name):
        return False

    asking = ctx.plain()
    path = f"/tasks/{ctx.unknown_id()}:no-such-verb"
    nowhere = await asking.shared("no route", lambda: asking.call("GetTask", path=path, http_method="POST"))
    known = await provoked(asking, "GET-002")
    return str(reply.error) == str(nowhere.error) != str(known.error)


async def rest_percent_encoding(ctx: Context) -> None:
    """Use a contextId with a space and a slash; agents may refuse ids that clients choose."""
    # A space and a slash are what forgotten decoding shows on; the rest of the id is unknown to everybody.
    context_id = f"a b/{ctx.unknown_id()}"
    sent = await ctx.send(context_id=context_id)
    reply = await ctx.call("ListTasks", {"contextId": context_id})
    ctx.needed(reply, "ListTasks with an encoded contextId")
    # An agent that answers with a Message keeps no task that could be found.
    if not sent.ok or message_in(sent.result) is not None:
        return
    if not tasks_of(reply):
        ctx.fail(f"no task of the contextId {context_id!r} is found", sent, reply, pointer="/tasks")
    missing = await ctx.call("GetTask", {"id": "no such task"})
    ctx.expect_error(missing, "TaskNotFoundError")


async def ids_in_paths_are_decoded(ctx: Context) -> None:
    """A configuration whose id has a space and a slash is found by it."""
    ctx.require("capability pushNotifications")
    made, reply = await _by_id(ctx, f"a b/{ctx.unknown_id()}")
    if reply.ok:
        return
    _, plain = await _by_id(ctx, f"a b {ctx.unknown_id()}")
    # Section 11.5 has the values of queries encoded and says nothing of paths, in which many servers read %2F as /.
    tell = ctx.warn if plain.ok else ctx.fail
    tell(f"the configuration whose id has a slash: {reply.describe()}", made, reply, expected="that one")


async def _by_id(ctx: Context, config_id: str) -> tuple[WireReply, WireReply]:
    """Make a configuration with an id, and return the answers to that and to being asked for it."""
    task_id, config, made = await created(ctx, id=config_id)
    if config.get("id") != config_id:
        ctx.skip("the agent takes no id of a client's")
    return made, await ctx.call(GET, {"taskId": task_id, "id": config_id})


# -- gRPC --


async def grpc_streaming(ctx: Context) -> None:
    """Read a stream."""
    reply = await ctx.call("SendStreamingMessage", ctx.send_params())
    if reply.problem or reply.error is not None or not reply.events or not reply.ended:
        ctx.fail(reply.describe(), reply)


# -- equivalence --


def first(ctx: Context) -> Context:
    """Return the check on the first binding; skip where that is this one, for there is nothing to compare it with."""
    # One is compared with all others, instead of each with each: three bindings would report one difference twice.
    model = ctx.siblings()[0]
    if model.binding == ctx.binding:
        others = len(ctx.siblings()) - 1
        ctx.skip("the other bindings are compared with this one" if others else "the card declares one binding only")
    return model


def is_missing(reply: WireReply) -> bool:
    """Return whether an answer says that there is no such operation."""
    error = reply.error
    if error is None:
        return False
    # A2A's own errors travel as UNIMPLEMENTED in 1.0.0 (section 5.4 of it), by their names or in their words.
    is_unnamed = error.grpc_status == "UNIMPLEMENTED" and not error.name
    if reply.exchange.binding == "GRPC":
        # What gRPC's libraries say of a missing method has the word in it, or is empty.
        return is_unnamed and (not error.message or "method" in error.message.lower())
    # FastAPI answers an unknown path with this one member; an error of A2A's has more.
    named = isinstance(reply.document, Mapping) and set(reply.document) != {"detail"}
    no_path = error.http_status in (405, 501) or (error.http_status == 404 and not named)
    return error.name == "MethodNotFoundError" or is_unnamed or (no_path and error.code is None)


async def operations_are_the_same(ctx: Context) -> None:
    """Every operation of the first binding is there."""
    model = first(ctx)
    for name, params in operations(ctx).items():
        # At once, for the state that they ask about may change in between.
        here, there = await asyncio.gather(ctx.call(name, params), model.call(name, params))
        if is_missing(here) and not is_missing(there):
            ctx.fail(f"{name} works on {model.binding}, not on {ctx.binding}: {here.describe()}", here, there)


async def tasks_are_the_same(ctx: Context) -> None:
    """A task that was made on one binding is the same on the other."""
    model = first(ctx)
    task = await fixtures.completed_task(ctx)
    here, there = await asyncio.gather(ctx.get_task(task["id"]), model.get_task(task["id"]))
    ctx.needed(here, "GetTask", "GET-001")
    if not there.ok:
        found = f"a task made on {ctx.binding} is unknown on {model.binding}: {there.describe()}"
        ctx.fail(found, here, there, expected="the same task")
        return
    # 0.3's bindings write one task in forms of their own.
    tasks = [{"state": state_of(r.result)} if ctx.version == "0.3" else _timeless(r.result) for r in (here, there)]
    for pointer, _, _ in list(changes(tasks[0], tasks[1]))[:1]:
        found = f"GetTask differs between {ctx.binding} and {model.binding} at {pointer}"
        ctx.fail(found, here, there, pointer=pointer, expected="the same task")


def comparable(value: Any) -> str:
    """Return a canonical form in which a time is the same however it is written."""
    return canonical(_timeless(value))


def _timeless(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {
            # Bindings write one moment with more or fewer digits.
            name: parse_timestamp(item) or item if name == "timestamp" else _timeless(item)
            for name, item in value.items()
        }
    return [_timeless(item) for item in value] if isinstance(value, list) else value


MISTAKES = ("GET-002", "CAN-003", "CAN-002", "GET-005", "SEND-008", "LIST-009", "VER-001")
"""Requirements whose first request is a mistake that does not depend on what an agent is for."""


async def errors_are_the_same(ctx: Context) -> None:
    """The same mistake gives the same error."""
    model = first(ctx)
    # 0.3 names one error only for all bindings.
    for id in MISTAKES[:1] if ctx.version == "0.3" else MISTAKES:
        request = requirement(id).ask.requests[0]
        what = request["what"]
        here, there = await asyncio.gather(ask(ctx, request), ask(model, request))
        ctx.skip_if_refused(here)
        if not _same_error(here, there):
            found = f"{what}: {ctx.binding} {here.describe()[:200]}; {model.binding} {there.describe()[:200]}"
            ctx.fail(found, here, there, expected="the same error on every binding")


def _same_error(one: WireReply, other: WireReply) -> bool:
    # No error on either side is the same, too: what both accept is for other checks to judge.
    if one.error is None or other.error is None:
        return one.error is None and other.error is None
    for known, unknown in ((one.error, other.error), (other.error, one.error)):
        if known.name:
            return unknown.may_be(known.name)
    # Neither says which error it is; a bare status can be several.
    return True


async def streams_are_the_same(ctx: Context) -> None:
    """Subscribers on different bindings get the same events."""
    model = first(ctx)
    task = await ctx.start_task(ctx.prompt("slow"))
    params = {"id": task["id"]}
    # Both subscribe to one running task, as events of two tasks cannot be compared.
    here, there = await asyncio.gather(ctx.call("SubscribeToTask", params), model.call("SubscribeToTask", params))
    streams = [ctx.events_of(reply, "SubscribeToTask", "SUB-001") for reply in (here, there)]
    for reply, events in zip((here, there), streams, strict=True):
        # Two streams that our own limit cut have the same beginning, and the later one is no end of the other.
        if is_late(reply.exchange) and rebuild(events).state not in TERMINAL:
            ctx.skip(f"the end of the task did not come on {reply.exchange.binding}, which SUB-002 judges")
    # Each stream begins with the task as it was when it was opened, which differs.
    one, other = ([comparable(event.body) for event in stream if event.kind != "task"] for stream in streams)
    short, long = sorted((one, other), key=len)
    if not is_suffix(short, long) or not short:
        found = f"{ctx.binding} had {len(one)} updates, {model.binding} {len(other)}, and they are not the same"
        ctx.fail(found, here, there)
        return
    # A later subscriber has the earlier events in its first task, so that both end with the same artifacts.
    built, modelled = (comparable(rebuild(stream).artifacts) for stream in streams)
    if built != modelled:
        ctx.fail(f"the artifacts of the stream on {ctx.binding} are not those on {model.binding}", here, there)
