"""Parts: any JSON value as data, bytes in base64, and the names of 1.0."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping
from typing import Any

from pytest_a2a_bench.conformance.check import check
from pytest_a2a_bench.conformance.context import Context
from pytest_a2a_bench.conformance.protocol.payloads import nodes
from pytest_a2a_bench.conformance.wire.reply import WireReply

CONTENTS = ("text", "raw", "url", "data")
_OLD_NAMES = ("file", "mimeType", "fileWithBytes", "fileWithUri", "bytes", "uri", "name")
_VALUES: Mapping[str, Any] = {
    "PART-001": {"a": {"b": [1, 2.5, None, True]}},
    "PART-002": [1, "x"],
    "PART-003": "x",
    "PART-004": 42,
    "PART-005": True,
    "PART-006": None,
}


@check(*_VALUES)
async def data_value(ctx: Context) -> None:
    """Send a data part; where the history comes back, it must hold the same value."""
    value = _VALUES[ctx.requirement.id]
    params = ctx.send_params(parts=[{"text": ctx.target.scenarios.get("task")}, {"data": value}])
    reply = await ctx.call("SendMessage", params)
    if reply.error is not None and reply.error.may_be("ContentTypeNotSupportedError"):
        return
    if not ctx.expect_ok(reply, "the value is accepted"):
        return
    for node in nodes(reply.result):
        if node.kind == "message" and node.value.get("messageId") == params["message"]["messageId"]:
            _same(ctx, reply, node.value, value, node.pointer)


def _same(ctx: Context, reply: WireReply, message: Mapping[str, Any], value: Any, pointer: str) -> None:
    parts = message.get("parts")
    found = [p["data"] for p in parts if isinstance(p, Mapping) and "data" in p] if isinstance(parts, list) else []
    if found != [value] or any(isinstance(f, bool) is not isinstance(value, bool) for f in found):
        ctx.fail(
            f"sent the data {value!r}, the history has {found!r:.200}", pointer=f"{pointer}/parts", replies=[reply]
        )


async def _parts_of(ctx: Context, key: str) -> tuple[WireReply, list[tuple[str, Mapping[str, Any]]]]:
    prompt = ctx.prompt(key)
    reply = await ctx.shared(("parts", key), lambda: ctx.send(prompt))
    if not ctx.expect_ok(reply):
        return reply, []
    return reply, [(n.pointer, n.value) for n in nodes(reply.result) if n.kind == "part"]


@check("PART-007")
async def raw_is_base64(ctx: Context) -> None:
    """Look at a file that the agent returns."""
    reply, parts = await _parts_of(ctx, "file")
    raw = [(pointer, part["raw"]) for pointer, part in parts if "raw" in part]
    if reply.ok and not raw:
        ctx.fail("the prompt of the scenario 'file' gave no part with raw", replies=[reply])
    for pointer, content in raw:
        try:
            base64.b64decode(content, validate=True)
        except (binascii.Error, ValueError, TypeError):
            ctx.fail(f"raw is {content!r:.80}", pointer=f"{pointer}/raw", expected="base64", replies=[reply])


@check("PART-008")
async def names_of_files(ctx: Context) -> None:
    """Look at a part with a URL."""
    reply, parts = await _parts_of(ctx, "url")
    if reply.ok and not any("url" in part for _, part in parts):
        ctx.fail("the prompt of the scenario 'url' gave no part with url", replies=[reply])
    for pointer, part in parts:
        old = [name for name in _OLD_NAMES if name in part]
        if old:
            ctx.fail(f"the part has {old}", pointer=pointer, expected="url, filename, mediaType", replies=[reply])


@check("PART-009")
async def one_content(ctx: Context) -> None:
    """Look at every part of ordinary answers."""
    for reply in await ctx.samples():
        for value in (reply.result, *reply.events):
            for node in nodes(value):
                if node.kind != "part":
                    continue
                contents = [name for name in CONTENTS if name in node.value]
                if len(contents) != 1 or "kind" in node.value:
                    ctx.fail(f"a part has the members {sorted(node.value)}", pointer=node.pointer, replies=[reply])
                    return
