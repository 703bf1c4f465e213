"""Errors: the table of names and numbers on each binding, and the shape of error responses."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from pytest_a2a_bench.a2a.bodies import as_list, as_object
from pytest_a2a_bench.conformance import fixtures
from pytest_a2a_bench.conformance.checks.asking import provoked
from pytest_a2a_bench.conformance.context import Context
from pytest_a2a_bench.conformance.protocol.payloads import state_of, task_in
from pytest_a2a_bench.conformance.wire.reply import (
    BAD_REQUEST,
    DOMAIN,
    ERROR_INFO,
    ERRORS,
    ErrorRow,
    ReplyError,
    SkipCheck,
    WireReply,
)

# The first two are Python's, the third is Java's and JavaScript's.
_TRACE = re.compile(r"Traceback \(most recent call last\)|\bFile \"[^\"]+\", line \d+|^\s+at [\w.$]+\(", re.MULTILINE)
# Above the limit that many servers have for a body (nginx: 1 MB).
_LARGE = 10_000_000
_CRASH_STATES = ("failed", "rejected")


PROVOKED_BY: Mapping[str, str] = {
    "TaskNotFound": "GET-002",
    "TaskNotCancelable": "CAN-002",
    "PushNotificationNotSupported": "PUSH-008",
    "UnsupportedOperation": "SEND-007",
    "ContentTypeNotSupported": "SEND-009",
    "ExtendedAgentCardNotConfigured": "XCARD-002",
    "ExtensionSupportRequired": "EXT-001",
    "VersionNotSupported": "VER-001",
}
"""Error -> the requirement whose request provokes it, and which is broken where it does not come at all."""


async def error_table(ctx: Context) -> None:
    """Provoke an error and compare its number with the table; values of 1.0.0 are a warning."""
    # Ids of the table's checks are put together from binding and error, so that one function judges all of them.
    _, place, name = ctx.requirement.id.split("-")
    row = ERRORS[f"{name}Error"]
    judge = PROVOKED_BY[name]
    reply = await provoked(ctx, judge)
    error = reply.error
    if reply.problem:
        ctx.fail(reply.problem, reply)
        return
    # A server that ignores the version answers the question itself, and one that makes no tasks knows none.
    elsewhere = name in ("VersionNotSupported", "PushNotificationNotSupported")
    if error is None or (elsewhere and error.may_be("TaskNotFoundError")):
        ctx.skip(f"the error was not provoked, which {judge} judges")
    if reply.has_auth_status and name == "ExtendedAgentCardNotConfigured":
        ctx.skip("the extended card needs credentials, and a stranger cannot learn whether there is one")
    found, wanted, old = _numbers(place, row, error)
    if found == wanted:
        return
    if old and found == old:
        text = f"{found}, which was right in 1.0.0; 1.0.1 changed it"
        ctx.warn(text, reply, expected=str(wanted), fix=f"answer with {wanted}")
        return
    ctx.fail(f"{row.name} is answered with {error}", reply, expected=str(wanted), fix=f"answer with {wanted}")


def _numbers(place: str, row: ErrorRow, error: ReplyError) -> tuple[Any, Any, Any]:
    if place == "JSON":
        return error.code, row.code, None
    if place == "HTTP":
        return error.http_status, row.http, row.http_old
    return error.grpc_status, row.grpc, row.grpc_old


# -- the shape of errors --


async def ordinary_errors(ctx: Context) -> list[WireReply]:
    """Return an error about a task, and one about a message that is not there."""
    return [await provoked(ctx, "GET-002"), await provoked(ctx, "VAL-001")]


async def rpc_error_shape(ctx: Context) -> None:
    """Look at code and message."""
    for reply in await ordinary_errors(ctx):
        raw = reply.error.raw if reply.error is not None else None
        if raw is None:
            # No error at all is for the checks of that operation.
            continue
        code, message = map(as_object(raw).get, ("code", "message"))
        if not isinstance(code, int) or isinstance(code, bool):
            ctx.fail(f"code is {code!r}", reply, pointer="/error/code")
        # 0.3 asks for a string and no more.
        if not isinstance(message, str) or not (message.strip() or ctx.version == "0.3"):
            ctx.fail(f"message is {message!r}", reply, pointer="/error/message")


async def rpc_error_data(ctx: Context) -> None:
    """Look at data."""
    for reply in await ordinary_errors(ctx):
        data = as_object(reply.error.raw if reply.error is not None else None).get("data")
        good = isinstance(data, list) and all(isinstance(d, Mapping) and isinstance(d.get("@type"), str) for d in data)
        if data is not None and not good:
            ctx.fail(_untyped("data", data), reply, pointer="/error/data")


async def every_error_has_its_reason(ctx: Context) -> None:
    """Every error of the protocol's has its own reason, spelled as the specification does, without a suffix."""
    is_judged = False
    for name, judge in PROVOKED_BY.items():
        row = ERRORS[f"{name}Error"]
        try:
            reply = await provoked(ctx, judge)
        except SkipCheck:
            continue
        error = reply.error
        # Another error than the one to be provoked is judged by its own check.
        if error is None or (error.code != row.code if ctx.binding == "JSONRPC" else error.name not in ("", row.name)):
            continue
        info = error.detail(ERROR_INFO)
        status, wanted, _ = _numbers("HTTP" if ctx.binding == "HTTP+JSON" else "GRPC", row, error)
        if info is None and ctx.binding != "JSONRPC" and status != wanted:
            continue
        is_judged = True
        if info is None or info.get("reason") != row.reason or info.get("domain") != DOMAIN:
            found = f"{row.name} has ErrorInfo {dict(info) if info is not None else None!r}"
            ctx.fail(found, reply, pointer="/error/details", expected=f"reason {row.reason!r}, domain {DOMAIN!r}")
    if not is_judged:
        ctx.skip("none of the protocol's errors was provoked, which GET-002 judges")


async def rest_error_shape(ctx: Context) -> None:
    """Look at the members of an error; problem+json is in examples of the specification, hence only a warning."""
    for reply in await ordinary_errors(ctx):
        if reply.error is None:
            ctx.fail(reply.describe(), reply, expected="an error")
            continue
        raw = as_object(reply.document).get("error")
        if isinstance(raw, Mapping):
            _rest_members(ctx, reply, raw)
        elif reply.content_type == "application/problem+json":
            ctx.warn("the error is problem+json, as in §3.3 and against §11.6", reply, pointer="/error")
        else:
            ctx.fail(f"the body is {reply.exchange.response!r:.200}", reply, pointer="/error")


def _rest_members(ctx: Context, reply: WireReply, raw: Mapping[str, Any]) -> None:
    details = raw.get("details", [])
    wrong = [
        name
        for name, good in (
            ("code", raw.get("code") == reply.status),
            # Names of gRPC statuses are written in capitals.
            ("status", isinstance(raw.get("status"), str) and str(raw.get("status")).isupper()),
            ("message", isinstance(raw.get("message"), str) and bool(raw.get("message"))),
            ("details", isinstance(details, list) and all(isinstance(d, Mapping) and "@type" in d for d in details)),
        )
        if not good
    ]
    for name in wrong:
        found = _untyped(name, details) if name == "details" else f"{name} is {raw.get(name)!r:.150}"
        ctx.fail(found, reply, pointer=f"/error/{name}")


def _untyped(name: str, details: Any) -> str:
    """Describe which of an error's details is no object with a type."""
    several = as_list(details)
    found = next((i for i, one in enumerate(several) if isinstance(one, Mapping) and "@type" not in one), None)
    return f"{name} is {details!r:.150}" if found is None else f"{name}[{found}] has no @type: {several[found]!r:.150}"


async def field_violations(ctx: Context) -> None:
    """Look for BadRequest in a validation error."""
    reply = await provoked(ctx, "VAL-001")
    if reply.error is None:
        ctx.skip("an empty request is not refused, which VAL-001 judges")
    detail = reply.error.detail(BAD_REQUEST)
    violations = detail.get("fieldViolations") if detail is not None else None
    if not (isinstance(violations, list) and violations):
        pointer = {"JSONRPC": "/error/data", "HTTP+JSON": "/error/details"}.get(ctx.binding, "/details")
        ctx.fail("a validation error without BadRequest.fieldViolations", reply, pointer=pointer)


# -- JSON-RPC itself --


async def old_method_name(ctx: Context) -> None:
    """Call a method of 0.3 where only 1.0 is declared."""
    # A whole message of 0.3, so that only its name can be wrong for a server of 1.0.
    message = {"kind": "message", "messageId": "a2a-bench", "role": "user", "parts": [{"kind": "text", "text": "x"}]}
    reply = await ctx.call("message/send", {"message": message})
    if reply.error is None or reply.error.code != ERRORS["MethodNotFoundError"].code:
        # The question without a version header: 0.3's clients send none.
        old = await ctx.call("tasks/get", {"id": ctx.unknown_id()}, version_header=None)
        if old.may_be("TaskNotFoundError"):
            # With a version header of 1.0 the method of 0.3 need not be served.
            ctx.excuse(reply)
            ctx.skip("the endpoint serves 0.3 too, though the card does not declare it")
        ctx.fail(reply.describe(), reply, old)


async def response_id(ctx: Context) -> None:
    """Use ids of several types, and one that cannot be read; results have the id of their request, as errors do."""
    # A number 0 and an empty text are where a test for truth goes wrong.
    for rpc_id in ("a2a-bench", "4711", 4711, 0, ""):
        reply = await ctx.call("GetTask", {"id": ctx.unknown_id()}, rpc_id=rpc_id)
        _same_id(ctx, reply, rpc_id)
    # JSON-RPC 2.0: the id is null where it could not be read.
    _same_id(ctx, await ctx.call("GetTask", body="{bad"), None)
    # STREAM-009 judges the ids of streams.
    for reply in await fixtures.samples(ctx):
        if not reply.documents and isinstance(reply.document, Mapping) and not ctx.findings:
            _same_id(ctx, reply, reply.rpc_id)


def _same_id(ctx: Context, reply: WireReply, rpc_id: Any) -> None:
    if not isinstance(reply.document, Mapping):
        ctx.fail(reply.describe(), reply, expected="a JSON-RPC answer, or an error in that form")
        return
    if "id" not in reply.document:
        # Many servers of 0.3 leave it out where they could not read it.
        tell = ctx.warn if ctx.version == "0.3" and rpc_id is None else ctx.fail
        tell("the answer has no id", reply, pointer="/id", expected=f"id {rpc_id!r}")
        return
    found = reply.document.get("id")
    if found != rpc_id or type(found) is not type(rpc_id):
        ctx.fail(f"the id is {found!r}", reply, pointer="/id", expected=f"id {rpc_id!r}")


# -- when the agent breaks --


async def _crash(ctx: Context) -> WireReply:
    prompt = ctx.prompt("crash")
    reply = await ctx.shared("crash", lambda: ctx.send(prompt))
    ctx.excuse(reply)
    return reply


async def agent_failure(ctx: Context) -> None:
    """Let the agent's own code break."""
    reply = await _crash(ctx)
    if reply.problem:
        ctx.fail(reply.problem, reply, expected="a failed task or an internal error")
    elif reply.error is None and state_of(task_in(reply.result)) not in _CRASH_STATES:
        ctx.skip("the prompt of the scenario 'crash' does not make the agent break")
    elif ctx.binding == "HTTP+JSON" and reply.error is not None and not isinstance(reply.document, Mapping):
        found = f"HTTP {reply.status} with {reply.exchange.response!r:.150}"
        ctx.fail(found, reply, expected="a failed task or an internal error in JSON")


async def no_stack_trace(ctx: Context) -> None:
    """Look for a stack trace where the agent's own code broke."""
    reply = await _crash(ctx)
    # Inside a JSON text line breaks are escaped, and the trace is found by its lines.
    if _TRACE.search(reply.exchange.response.replace("\\n", "\n").replace('\\"', '"')):
        ctx.fail("the answer has a stack trace", reply, fix="log it, and answer with a short message")


async def large_request(ctx: Context) -> None:
    """Send 10 MB, which may be refused for any reason, but with an answer; the task is unknown, so nothing is kept."""
    text = ctx.prompt("large")
    reply = await ctx.send(text + "x" * _LARGE, task_id=ctx.unknown_id())
    ctx.excuse(reply)
    # An agent may refuse that much in whatever words; it may not break.
    broken = reply.error is not None and (reply.error.may_be("InternalError") or (reply.status or 0) >= 500)
    if reply.status is None or broken:
        ctx.fail(f"10 MB: {reply.describe()}", reply)
