"""Invalid messages must be refused."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pytest_a2a_bench.conformance.check import check
from pytest_a2a_bench.conformance.context import Context


def _without(name: str) -> dict[str, Any]:
    return {name: None}


_TEXT = "x"
# What is wrong with the message: members replaced, or taken away where the value is None.
_BROKEN: Mapping[str, Mapping[str, Any]] = {
    "VAL-002": _without("messageId"),
    "VAL-003": _without("role"),
    "VAL-004": _without("parts"),
    "VAL-005": {"parts": []},
    "VAL-006": {"parts": [{}]},
    "VAL-007": {"parts": [{"text": _TEXT, "url": "https://example.com/x.txt"}]},
    "VAL-008": {"parts": _TEXT},
    "VAL-009": {"role": "ROLE_BOGUS"},
    "VAL-010": {"parts": [{"text": _TEXT}, {"raw": "%%%", "mediaType": "text/plain"}]},
}


@check(*_BROKEN)
async def invalid_message(ctx: Context) -> None:
    """Send a message with one thing wrong."""
    if ctx.binding == "GRPC" and ctx.requirement.id == "VAL-010":
        ctx.skip("gRPC carries bytes, so that there is no base64 to be wrong")
    message = {k: v for k, v in ctx.message(**_BROKEN[ctx.requirement.id]).items() if v is not None}
    await _refused(ctx, {"message": message})


@check("VAL-001")
async def no_message(ctx: Context) -> None:
    """Send no message at all."""
    await _refused(ctx, {})


@check("VAL-011")
async def negative_history_length(ctx: Context) -> None:
    """Ask for a negative number of messages."""
    await _refused(ctx, ctx.send_params(configuration={"historyLength": -1}))


async def _refused(ctx: Context, params: Mapping[str, Any]) -> None:
    reply = await ctx.call("SendMessage", params)
    ctx.expect_error(reply, "InvalidParamsError", old_names=("InvalidRequestError",))
