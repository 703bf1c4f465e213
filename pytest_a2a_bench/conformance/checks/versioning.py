"""Service parameters of requests: the protocol's version, and extensions."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from pytest_a2a_bench.conformance import fixtures
from pytest_a2a_bench.conformance.checks.asking import ask, requests
from pytest_a2a_bench.conformance.checks.binding import is_no_route
from pytest_a2a_bench.conformance.context import Context, without_result
from pytest_a2a_bench.conformance.protocol.payloads import message_in, spelled_state, task_in
from pytest_a2a_bench.conformance.wire.reply import WireReply


async def refused(ctx: Context) -> None:
    """Ask for an unknown task in versions that do not exist: whether the version or the task is refused shows."""
    for request in requests(ctx):
        reply = await ask(ctx, request)
        if await is_no_route(ctx, reply):
            ctx.skip(f"there is no such path, which HJ-001 judges: {reply.describe()}")
        if reply.problem:
            # A connection that broke is no answer, and shows nothing of the version.
            if (usual := await ctx.get_task(ctx.unknown_id())).problem:
                ctx.skip(f"in {ctx.version}, too, there is no answer: {usual.problem}")
            reply = await ask(ctx, request)
        if reply.problem:
            ctx.fail(f"{request['what']}: {reply.problem}", reply)
        elif reply.error is None or reply.may_be("TaskNotFoundError"):
            ctx.fail(f"{request['what']} is answered like {ctx.version}: {reply.describe()}", reply)
        else:
            await _skip_if_usual(ctx, reply)
            ctx.expect_error(reply, *ctx.requirement.ask.errors)


async def served(ctx: Context) -> None:
    """Ask for an unknown task in other spellings of the version."""
    for request in requests(ctx):
        reply = await ask(ctx, request)
        if not reply.may_be("TaskNotFoundError"):
            await _skip_if_usual(ctx, reply)
            ctx.fail(f"{request['what']}: {reply.describe()}", reply)


async def _skip_if_usual(ctx: Context, reply: WireReply) -> None:
    """Skip where the right version is refused with the same error, unless that is about the version."""
    if reply.may_be("VersionNotSupportedError"):
        return
    usual = await ctx.get_task(ctx.unknown_id())
    if usual.error is not None and reply.error is not None and usual.error.shape == reply.error.shape:
        ctx.skip(f"in {ctx.version}, too, the answer is {usual.describe()}")


async def semantics_of_the_version(ctx: Context) -> None:
    """Send a 0.3 message to an agent that serves both."""
    old = ctx.sibling(ctx.binding, "0.3")
    if old is None:
        ctx.skip("the card declares no 0.3 interface of this binding")
    reply = ctx.needed(await old.send(), "a 0.3 message")
    value = task_in(reply.result) or message_in(reply.result)
    if value is None or (ctx.binding == "JSONRPC" and value.get("kind") not in ("task", "message")):
        ctx.fail(f"a 0.3 request gave {reply.result!r:.200}", reply, expected="a result in the form of 0.3")
    elif ctx.binding == "JSONRPC" and spelled_state(value).startswith("TASK_STATE"):
        ctx.fail(f"a 0.3 request gave the state {spelled_state(value)!r}", reply, expected="a state of 0.3")


async def version_in_query(ctx: Context) -> None:
    """Give the version in the query only, which agents may accept."""
    reply = await ctx.call("GetTask", {"id": ctx.unknown_id()}, version_header=None, query={"A2A-Version": "1.0"})
    if reply.problem or reply.may_be("InternalError"):
        ctx.fail(f"A2A-Version in the query: {reply.describe()}", reply)
    elif not reply.may_be("TaskNotFoundError"):
        ctx.skip("the agent does not take the version from the query, as it may")


async def declared_pairs_work(ctx: Context) -> None:
    """Send an ordinary message to this interface, and to those of the same binding and another version."""
    for binding, version in ctx.target.interfaces:
        other = ctx.sibling(binding, version) if binding == ctx.binding else None
        if other is not None:
            reply = await other.send()
            if not reply.ok:
                expected = f"{other.target} is declared, so that it answers"
                ctx.fail(without_result(reply), reply, expected=expected)


# -- extensions --


HEADER = "A2A-Extensions"
UNKNOWN = "https://extensions.example.org/never-heard-of/v1"
VERSION = re.compile(r"/v\d[\d.]*(?=/|$)")


def activated(reply: WireReply) -> list[str]:
    """Return the extensions that the answer says were used."""
    return [uri.strip() for uri in reply.headers.get(HEADER.lower(), "").split(",") if uri.strip()]


async def send(ctx: Context, *uris: str) -> WireReply:
    """Send a message that asks for extensions, besides those that are required."""
    wanted = dict.fromkeys([*ctx.target.required_extensions, *uris])
    name = f"X-{HEADER}" if ctx.version == "0.3" else HEADER
    reply = await ctx.call("SendMessage", ctx.send_params(), headers={name: ", ".join(wanted)})
    ctx.skip_if_refused(reply)
    return reply


async def unknown_extensions_are_ignored(ctx: Context) -> None:
    """An extension that the agent does not know is ignored."""
    reply = await send(ctx, UNKNOWN)
    if ctx.target.required_extensions and reply.may_be("ExtensionSupportRequiredError"):
        ctx.skip("the agent does not see the required extension before another one, which EXT-005 judges")
    if not reply.ok:
        ctx.fail(f"a message with an unknown extension: {reply.describe()}", reply, expected="an answer")
    elif UNKNOWN in activated(reply):
        ctx.fail(f"the agent says that it used {UNKNOWN}", reply, expected="only extensions that it knows")


async def no_fallback_to_another_version(ctx: Context) -> None:
    """A version that does not exist does not activate the one that does."""
    versioned = [uri for uri in ctx.target.extensions if VERSION.search(uri)]
    if not versioned:
        ctx.skip("the card declares no extension with a version in its URI")
    for uri in versioned:
        if uri in ctx.target.required_extensions:
            continue
        reply = await send(ctx, VERSION.sub("/v999", uri))
        if uri in activated(reply):
            ctx.fail(f"asked for version 999 of {uri}, the agent used {uri}", reply)


async def required_extension_has_its_version(ctx: Context) -> None:
    """Another version of a required extension is another extension."""
    for uri in ctx.target.required_extensions:
        other = VERSION.sub("/v999", uri)
        if other == uri:
            continue
        reply = await ctx.call("SendMessage", ctx.send_params(), headers={HEADER: other})
        ctx.expect_error(reply, "ExtensionSupportRequiredError", what=f"asked for {other} in place of {uri}")


async def several_extensions_are_understood(ctx: Context) -> None:
    """Values that are separated by commas are several extensions."""
    known = list(ctx.target.extensions)[:1]
    reply = await send(ctx, UNKNOWN, *known)
    ctx.needed(reply, "a message with two extensions")
    for uri in known:
        alone = await send(ctx, uri)
        if uri in activated(alone) and uri not in activated(reply):
            ctx.fail(f"{uri} is used when it is asked for alone, not when it stands behind another", alone, reply)


async def used_extensions_are_declared(ctx: Context) -> None:
    """Extensions that messages and artifacts name are in the card."""
    for reply in await fixtures.samples(ctx):
        for uri in {*_named(reply.result), *(uri for event in reply.events for uri in _named(event))}:
            if uri not in ctx.target.extensions:
                ctx.fail(f"the agent uses the extension {uri!r}, which the card does not declare", reply)


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
