"""Requests that must be refused, or served, as the catalogue writes them in its column ``ask``.

A request has ``what`` it is, for findings, its ``operation`` (SendMessage where none is named) and ``params``; where it
sends a message, ``message`` has the members that are not as in an ordinary one (null: left out; a null in place of all:
no message is sent). ``headers``, ``version`` and ``body`` are those of :meth:`.Context.call`, ``bindings`` the only
ones that it is sent on, ``errors`` and ``lenient`` are in place of the requirement's own (:class:`.finding.Ask`). Words
in braces (:data:`GIVEN`) stand for what is known only when an agent is asked.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from pytest_a2a_bench.conformance import fixtures
from pytest_a2a_bench.conformance.catalogue import requirement
from pytest_a2a_bench.conformance.context import Context, instead
from pytest_a2a_bench.conformance.fixtures import waiting_task
from pytest_a2a_bench.conformance.protocol.operations import SENDING
from pytest_a2a_bench.conformance.wire.reply import ERRORS, UNSET, SkipCheck, WireReply


async def _member(ctx: Context, name: str, own: str = "") -> str:
    return str((await fixtures.completed_task(ctx, own)).get(name) or "")


async def _other_context(ctx: Context) -> str:
    return await _member(ctx, "contextId") or ctx.skip("the agent gives no contextId")


async def _waiting(ctx: Context) -> str:
    """Return the id of a task that waits for the user; of one that is over, which gives an error too, if none does."""
    try:
        return str((await waiting_task(ctx))["id"])
    except SkipCheck:
        return await _member(ctx, "id")


async def _any_task(ctx: Context) -> str:
    """Return the id of a task; of none, where the agent answers with messages only."""
    return await _member(ctx, "id") if await _makes_tasks(ctx) else ctx.unknown_id()


async def _makes_tasks(ctx: Context) -> bool:
    try:
        return bool(await fixtures.completed_task(ctx))
    except SkipCheck:
        return False


async def _running(ctx: Context) -> str:
    """Return the id of a task that works, if there is a prompt for one, as one that is over may be refused anyway."""
    slow = ctx.target.scenarios.get("slow")
    return str((await ctx.start_task(slow))["id"]) if slow is not None else await _member(ctx, "id")


GIVEN: Mapping[str, Callable[[Context], str | Awaitable[str]]] = {
    "{task}": lambda ctx: _member(ctx, "id"),
    "{context}": lambda ctx: _member(ctx, "contextId"),
    "{own task}": lambda ctx: _member(ctx, "id", ctx.requirement.id),
    "{own context}": lambda ctx: _member(ctx, "contextId", ctx.requirement.id),
    "{any task}": _any_task,
    "{other context}": _other_context,
    "{waiting}": _waiting,
    "{running}": _running,
    "{unknown}": lambda ctx: ctx.unknown_id(),
    "{text}": lambda ctx: str(ctx.target.scenarios.get("task")),
}
"""Word -> the function that makes its value."""


async def filled(ctx: Context, value: Any) -> Any:
    """Return a value of the catalogue with its words in braces replaced by their values."""
    if isinstance(value, str) and value in GIVEN:
        found = GIVEN[value](ctx)
        return found if isinstance(found, str) else await found
    if isinstance(value, Mapping):
        return {name: await filled(ctx, inner) for name, inner in value.items()}
    return [await filled(ctx, inner) for inner in value] if isinstance(value, list) else value


def requests(ctx: Context) -> list[Mapping[str, Any]]:
    """Return the requests of the requirement that is checked, as far as they are sent on this binding."""
    return [r for r in ctx.requirement.ask.requests if ctx.binding in r.get("bindings", (ctx.binding,))]


async def ask(ctx: Context, request: Mapping[str, Any]) -> WireReply:
    """Send a request of the catalogue, and return the answer."""
    operation = request.get("operation", "SendMessage")
    params = await filled(ctx, request.get("params", {}))
    message = request.get("message", {})
    if operation in SENDING and message is not None:
        # An agent may give no contextId, and then none is named.
        fields = {name: value for name, value in (await filled(ctx, message)).items() if value != ""}
        sent = ctx.send_params(**fields)
        params = {**sent, **params, "message": {k: v for k, v in sent["message"].items() if v is not None}}
    options = {} if "version" not in request else {"version_header": request["version"]}
    body = request.get("body", UNSET)
    if ctx.target.tenant and isinstance(body, Mapping) and isinstance(body.get("params"), Mapping):
        # Without it an agent of several tenants need not look at the rest.
        body = {**body, "params": {"tenant": ctx.target.tenant, **body["params"]}}
    return await ctx.call(operation, params, headers=request.get("headers"), body=body, **options)


async def provoked(ctx: Context, id: str) -> WireReply:
    """Return the answer to the first request of a requirement, asked once for all checks that only look at its form.

    Ends the check where the interface does not have what the requirement needs.
    """
    entry = requirement(id)
    ctx.require(entry.needs)
    reply = await ctx.shared(("asked", id), lambda: ask(ctx, entry.ask.requests[0]))
    # Whether it is refused at all is for the requirement's own check.
    ctx.excuse(reply)
    return reply


async def refused(ctx: Context) -> None:
    """Each request is refused with one of the errors; where none is named, with any error of the client's."""
    failed = set()
    for request in requests(ctx):
        what, key = request["what"], (request.get("operation"), repr(request.get("body")))
        # Asked with more beside, an operation that has failed would fail once more.
        if key in failed:
            continue
        reply = await ask(ctx, request)
        errors = request.get("errors", ctx.requirement.ask.errors)
        if "{any task}" in request.get("params", {}).values() and not await _makes_tasks(ctx):
            # Which of two right errors comes first is nowhere said.
            errors = [*errors, "TaskNotFoundError"]
        lenient = request.get("lenient", ctx.requirement.ask.lenient)
        if not errors:
            ctx.expect_refusal(reply, what, ctx.requirement.expected or "an error")
        elif reply.ok and lenient:
            found = f"{what}: it was accepted; {lenient}: {reply.describe()}"
            ctx.warn(found, reply, expected=" or ".join(f"{name} ({ERRORS[name].code})" for name in errors))
        elif "body" in request:
            _expect_code(ctx, reply, what, errors)
        elif not ctx.expect_error(reply, *errors, what=what, old_names=ctx.requirement.ask.tolerated):
            failed.add(key)
        elif reply.documents and ctx.binding == "HTTP+JSON":
            expected = f"HTTP status {ERRORS[errors[0]].http}, and no stream"
            ctx.fail(f"{what}: the error is an event of a stream with status {reply.status}", reply, expected=expected)


def _expect_code(ctx: Context, reply: WireReply, what: str, errors: list[str]) -> None:
    # JSON-RPC 2.0 fixes these numbers itself, so that a status of HTTP does not do instead.
    codes = [ERRORS[name].code for name in errors]
    if reply.error is None or reply.error.code not in codes:
        expected = " or ".join(f"{name} ({code})" for name, code in zip(errors, codes, strict=True))
        ctx.fail(f"{what}: {instead(reply)}", reply, expected=expected)


async def served(ctx: Context) -> None:
    """Each request is answered with a result."""
    for request in requests(ctx):
        ctx.needed(await ask(ctx, request), request["what"])
