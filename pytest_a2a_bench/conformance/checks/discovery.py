"""Discovery: whether the interfaces of the card are there, and whether it leaves any out."""

from __future__ import annotations

import urllib.parse
import uuid

from pytest_a2a_bench.conformance.check import check
from pytest_a2a_bench.conformance.context import Context
from pytest_a2a_bench.conformance.wire.reply import WireReply


@check("CARD-007")
async def interface_is_true(ctx: Context) -> None:
    """Ask the declared address for an unknown task, in the declared binding and version."""
    reply = await ctx.call("GetTask", {"id": ctx.unknown_id()})
    if reply.error is None or not reply.error.may_be("TaskNotFoundError") or _is_web_server(reply):
        wanted = f"{ctx.target} says TaskNotFoundError of an unknown task"
        ctx.fail(reply.describe(), expected=wanted, pointer="/supportedInterfaces", replies=[reply])


def _is_web_server(reply: WireReply) -> bool:
    """Tell whether a 404 is about the path: what web frameworks say by themselves, and no agent does."""
    said = reply.document
    return reply.status == 404 and (
        not isinstance(said, dict) or set(said) <= {"detail", "message", "path", "timestamp"}
    )


@check("CARD-008")
async def no_undeclared_binding(ctx: Context) -> None:
    """Look for the other HTTP binding at the same address; others cannot be guessed."""
    other = {"JSONRPC": "HTTP+JSON", "HTTP+JSON": "JSONRPC"}.get(ctx.binding)
    if other is None:
        ctx.skip("another binding at the address of a gRPC interface cannot be guessed")
    if (other, ctx.version) in ctx.target.interfaces:
        return
    reply = await _ask_rpc(ctx) if other == "JSONRPC" else await _ask_rest(ctx)
    if _speaks(reply, other):
        found = f"{other} is served at {reply.exchange.url} and not declared"
        ctx.fail(found, pointer="/supportedInterfaces", fix=f"declare the {other} interface", replies=[reply])


async def _ask_rest(ctx: Context) -> WireReply:
    return await ctx.call("GetTask", http_method="GET", path=f"/tasks/{ctx.unknown_id()}")


async def _ask_rpc(ctx: Context) -> WireReply:
    request = {"jsonrpc": "2.0", "id": "a2a-bench", "method": "GetTask", "params": {"id": str(uuid.uuid4())}}
    path = "" if urllib.parse.urlsplit(ctx.target.url).path.strip("/") else "/"
    return await ctx.call("GetTask", http_method="POST", path=path, body=request)


def _speaks(reply: WireReply, binding: str) -> bool:
    if binding == "JSONRPC":
        return isinstance(reply.document, dict) and reply.document.get("jsonrpc") == "2.0"
    return '"TASK_NOT_FOUND"' in reply.exchange.response
