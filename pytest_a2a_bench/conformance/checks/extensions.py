"""Extensions: asked for in a header, declared in the card."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from pytest_a2a_bench.conformance.check import check
from pytest_a2a_bench.conformance.context import Context
from pytest_a2a_bench.conformance.wire.reply import WireReply

HEADER = "A2A-Extensions"
UNKNOWN = "https://extensions.example.org/never-heard-of/v1"
_VERSION = re.compile(r"/v\d[\d.]*(?=/|$)")


def declared(ctx: Context) -> list[str]:
    """Return the URIs of the extensions that the card declares."""
    found = ctx.target.capabilities.get("extensions")
    items = found if isinstance(found, list) else []
    return [str(item["uri"]) for item in items if isinstance(item, Mapping) and item.get("uri")]


def required(ctx: Context) -> list[str]:
    """Return the URIs of the extensions that every client must support; skip where there is none."""
    found = list(ctx.target.required_extensions)
    return found or ctx.skip("the card declares no extension as required")


def activated(reply: WireReply) -> list[str]:
    """Return the extensions that the answer says were used."""
    return [uri.strip() for uri in reply.headers.get(HEADER.lower(), "").split(",") if uri.strip()]


async def send(ctx: Context, *uris: str) -> WireReply:
    """Send a message that asks for extensions, besides those that are required."""
    wanted = dict.fromkeys([*ctx.target.required_extensions, *uris])
    reply = await ctx.call("SendMessage", ctx.send_params(), headers={HEADER: ", ".join(wanted)})
    ctx.skip_if_refused(reply)
    return reply


@check("EXT-001")
async def required_extension_is_demanded(ctx: Context) -> None:
    """A client that does not declare a required extension is refused."""
    required(ctx)
    reply = await ctx.call("SendMessage", ctx.send_params(), headers={HEADER: ""})
    what = "a message without the required extension"
    ctx.expect_error(reply, "ExtensionSupportRequiredError", what=what)


@check("EXT-002")
async def required_extension_is_enough(ctx: Context) -> None:
    """A client that declares the required extensions is served."""
    required(ctx)
    reply = await send(ctx)
    if not reply.ok:
        found = f"a message with every required extension: {reply.describe()}"
        ctx.fail(found, expected="an answer", replies=(reply,))


@check("EXT-003")
async def unknown_extensions_are_ignored(ctx: Context) -> None:
    """An extension that the agent does not know is ignored."""
    reply = await send(ctx, UNKNOWN)
    if not reply.ok:
        ctx.fail(f"a message with an unknown extension: {reply.describe()}", expected="an answer", replies=(reply,))
    elif UNKNOWN in activated(reply):
        found = f"the agent says that it used {UNKNOWN}"
        ctx.fail(found, expected="only extensions that it knows", replies=(reply,))


@check("EXT-004")
async def no_fallback_to_another_version(ctx: Context) -> None:
    """A version that does not exist does not activate the one that does."""
    versioned = [uri for uri in declared(ctx) if _VERSION.search(uri)]
    if not versioned:
        ctx.skip("the card declares no extension with a version in its URI")
    for uri in versioned:
        if uri in ctx.target.required_extensions:
            continue
        reply = await send(ctx, _VERSION.sub("/v999", uri))
        if uri in activated(reply):
            found = f"asked for version 999 of {uri}, the agent used {uri}"
            ctx.fail(found, expected="no other version than the one that was asked for", replies=(reply,))


@check("EXT-005")
async def several_extensions_are_understood(ctx: Context) -> None:
    """Values that are separated by commas are several extensions."""
    known = declared(ctx)[:1]
    reply = await send(ctx, UNKNOWN, *known)
    if not reply.ok:
        ctx.fail(f"a message with two extensions: {reply.describe()}", expected="an answer", replies=(reply,))
        return
    for uri in known:
        alone = await send(ctx, uri)
        if uri in activated(alone) and uri not in activated(reply):
            found = f"{uri} is used when it is asked for alone, not when it stands behind another"
            ctx.fail(found, expected="each of the values", replies=(alone, reply))


@check("EXT-006")
async def used_extensions_are_declared(ctx: Context) -> None:
    """Extensions that messages and artifacts name are in the card."""
    for reply in await ctx.samples():
        for uri in {*_named(reply.result), *(uri for event in reply.events for uri in _named(event))}:
            if uri not in declared(ctx):
                found = f"the agent uses the extension {uri!r}, which the card does not declare"
                ctx.fail(found, expected="the extension in capabilities.extensions", replies=(reply,))


def _named(value: Any) -> Iterator[str]:
    if isinstance(value, list):
        for item in value:
            yield from _named(item)
    elif isinstance(value, Mapping):
        for name, item in value.items():
            if name == "extensions" and isinstance(item, list):
                yield from (uri for uri in item if isinstance(uri, str))
            elif name not in ("metadata", "data"):
                yield from _named(item)
