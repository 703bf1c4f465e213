"""Layers of our servers around a2a-sdk's: authentication, size limits, call counts, and stricter validation."""

from __future__ import annotations

import base64
import binascii
import hmac
import re
from collections.abc import AsyncGenerator, Callable, Iterator, Mapping
from typing import Any
from urllib.parse import urlsplit

from a2a.server.context import ServerCallContext
from a2a.server.events import Event
from a2a.server.request_handlers import DefaultRequestHandler
from a2a.server.routes.common import DefaultServerCallContextBuilder
from a2a.types import ListTasksRequest, Message, Role, SendMessageRequest, Task
from a2a.utils.errors import InvalidParamsError, VersionNotSupportedError
from google.protobuf.descriptor import Descriptor, FieldDescriptor
from starlette.authentication import AuthCredentials, SimpleUser
from starlette.datastructures import Headers
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Receive, Scope, Send
from starlette.types import Message as AsgiMessage

from pytest_a2a_bench.a2a.card import CARD_PATH, LEGACY_CARD_PATH
from pytest_a2a_bench.a2a.network import is_loopback
from pytest_a2a_bench.model.messages import json_object

MAX_BODY = 1024 * 1024
"""Most bytes of a request's body."""

BODY = "a2a_bench.body"
"""Member of an ASGI scope that holds the request's whole body."""


def is_open(scope: Scope) -> bool:
    """Return whether a request needs no token: one for the card, or a health check."""
    return scope["path"] in (CARD_PATH, LEGACY_CARD_PATH, "/healthz", "/readyz")


def counted(app: ASGIApp, note: Callable[[str, int], None]) -> ASGIApp:
    """Call ``note`` with the method of each request and the status of its answer."""

    async def count(scope: Scope, receive: Receive, send: Send) -> None:
        async def watch(message: AsgiMessage) -> None:
            if message["type"] == "http.response.start":
                note(scope["method"], message["status"])
            await send(message)

        await app(scope, receive, watch if scope["type"] == "http" else send)

    return count


def bearer(token: str) -> Callable[[str], str | None]:
    """Return a function that returns the caller of an ``Authorization`` header: unnamed, or None without this token."""
    expected = f"Bearer {token}".encode()
    return lambda given: "" if hmac.compare_digest(given.encode("utf-8", "surrogatepass"), expected) else None


def guarded(
    app: ASGIApp, find_caller: Callable[[str], str | None], is_open: Callable[[Scope], bool] = is_open
) -> ASGIApp:
    """Require a caller's token, and name the caller in the scope.

    :param find_caller: returns the caller's name for an ``Authorization`` header, or None.
    """

    async def authenticate(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and not is_open(scope):
            caller = find_caller(Headers(scope=scope).get("authorization", ""))
            if caller is None:
                refusal = JSONResponse({"error": "a bearer token is required"}, 401, {"WWW-Authenticate": "Bearer"})
                if scope["method"] in ("GET", "HEAD"):
                    # On a line of its own: Chromium reads one scheme of each, and would ask for no password.
                    refusal.headers.append("WWW-Authenticate", 'Basic realm="assessor"')
                await refusal(scope, receive, send)
                return
            scope["user"], scope["auth"] = SimpleUser(caller), AuthCredentials(["call"])
        await app(scope, receive, send)

    return authenticate


def called_by_name(app: ASGIApp, base: str, is_open: Callable[[Scope], bool] = is_open) -> ASGIApp:
    """Refuse requests to another host than this machine or the card's, and those of pages of other sites.

    For a server without tokens: a browser on this machine sends requests for any site, under a name that becomes an
    address of this machine (DNS rebinding), or as a form.

    :param base: the URL that the card shows.
    """
    shown = urlsplit(base).hostname or ""

    def is_ours(place: str) -> bool:
        try:
            host = urlsplit(place).hostname or ""
        except ValueError:
            return False
        return is_loopback(host) or (bool(shown) and host == shown)

    async def check(scope: Scope, receive: Receive, send: Send) -> None:
        refusal = None
        if scope["type"] == "http" and not is_open(scope):
            headers = Headers(scope=scope)
            host, origin = headers.get("host", ""), headers.get("origin")
            if not is_ours(f"//{host}"):
                problem = f"this server is not called {host[:100]!r}; its operator names its URL, or tokens of callers"
                refusal = JSONResponse({"error": problem}, 421)
            elif scope["method"] not in ("GET", "HEAD") and origin is not None and not is_ours(origin):
                refusal = JSONResponse({"error": "pages of other sites may not call this server"}, 403)
        await (refusal or app)(scope, receive, send)

    return check


def bounded(app: ASGIApp, most: int = MAX_BODY) -> ASGIApp:
    """Refuse bodies that are too large, with or without a Content-Length; others are read whole, into :data:`BODY`."""

    async def measure(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await app(scope, receive, send)
            return
        declared = Headers(scope=scope).get("content-length", "0")
        size = 0 if declared.isdigit() and int(declared) <= most else most + 1
        chunks: list[AsgiMessage] = []
        while size <= most:
            message = await receive()
            chunks.append(message)
            size += len(message.get("body", b""))
            if message["type"] != "http.request" or not message.get("more_body"):
                break
        if size > most:
            await JSONResponse({"error": f"the body is larger than {most} bytes"}, 413)(scope, receive, send)
            return
        scope[BODY] = b"".join(chunk.get("body", b"") for chunk in chunks)

        async def replay() -> AsgiMessage:
            return chunks.pop(0) if chunks else await receive()

        await app(scope, replay, send)

    return measure


AGENTS_ROLE = "is the agent's; a request comes from a user ('ROLE_USER', in 0.3 'user')"


def check_version(version: str) -> None:
    """Refuse a version other than those served (§3.6): minor versions differ, patch versions do not.

    The SDK compares only the major version.

    :param version: value of ``A2A-Version``; empty for none, which the SDK takes for 0.3.
    :raises VersionNotSupportedError: if it is another one.
    """
    if version and not re.fullmatch(r"(1\.0|0\.3)(\.\d+)?", version):
        raise VersionNotSupportedError(message=f"A2A-Version {version[:20]!r} is not supported; 1.0 and 0.3 are")


def wrong_fields(wrong: Mapping[str, str]) -> InvalidParamsError:
    """Return the error for fields of a request, in the form that the SDK gives its own.

    :param wrong: field -> its problem.
    """
    errors = [{"field": field, "message": problem} for field, problem in wrong.items()]
    return InvalidParamsError(message="; ".join(f"{f} {p}" for f, p in wrong.items()), data={"errors": errors})


# --- rules of A2A that the SDK does not enforce: versions, roles, parts, enum values, base64 ---


class StrictContextBuilder(DefaultServerCallContextBuilder):
    """Checks a request over HTTP, whose body :func:`~.gateway.bounded` read, before the SDK parses it leniently."""

    def build(self, request: Request) -> ServerCallContext:
        """Return the context.

        :raises VersionNotSupportedError: for an unknown version.
        :raises InvalidParamsError: for values that are not of their field's type.
        """
        version = request.headers.get("A2A-Version") or request.query_params.get("A2A-Version", "")
        check_version(version.strip())
        if version.startswith("1.") and "/v1/" not in request.url.path:
            body = json_object(request.scope.get(BODY, b""))
            params = body.get("params", body)
            given = {**request.query_params, **(params if isinstance(params, Mapping) else {})}
            kind = SendMessageRequest if "message" in given else ListTasksRequest
            if wrong := dict(_wrong_values(given, kind.DESCRIPTOR)):
                raise wrong_fields(wrong)
        return super().build(request)


def _wrong_values(value: Any, descriptor: Descriptor, place: str = "") -> Iterator[tuple[str, str]]:
    """Yield unknown enum values and invalid base64, which protobuf's parser accepts together with unknown fields."""
    if not isinstance(value, Mapping) or descriptor.file.package.startswith("google."):
        return
    for field in descriptor.fields:
        given, name = value.get(field.json_name), f"{place}{field.json_name}"
        items = [(f"{name}[{n}]", v) for n, v in enumerate(given)] if isinstance(given, list) else [(name, given)]
        for where, item in items:
            if field.type == FieldDescriptor.TYPE_MESSAGE:
                yield from _wrong_values(item, field.message_type, f"{where}.")
            elif field.type == FieldDescriptor.TYPE_ENUM and isinstance(item, str):
                if item not in field.enum_type.values_by_name:
                    yield where, f"is {item[:40]!r}, which is no {field.enum_type.name}"
            elif field.type == FieldDescriptor.TYPE_BYTES and isinstance(item, str) and not _is_base64(item):
                yield where, "is not base64"


def _is_base64(text: str) -> bool:
    standard = text.replace("-", "+").replace("_", "/").rstrip("=")
    try:
        base64.b64decode(standard + "=" * (-len(standard) % 4), validate=True)
    except (binascii.Error, ValueError):
        return False
    return True


class StrictRequestHandler(DefaultRequestHandler):
    """Refuses messages of another role than the user's, and parts without content (§4.1.6), on every binding."""

    async def on_message_send(self, params: SendMessageRequest, context: ServerCallContext) -> Message | Task:
        """Answer a message."""
        _check_message(params.message)
        answer: Message | Task = await super().on_message_send(params, context)
        return answer

    async def on_message_send_stream(
        self, params: SendMessageRequest, context: ServerCallContext
    ) -> AsyncGenerator[Event, None]:
        """Answer a message with a stream."""
        _check_message(params.message)
        async for event in super().on_message_send_stream(params, context):
            yield event


def _check_message(message: Message) -> None:
    wrong = {
        f"message.parts[{number}]": "has none of text, raw, url and data"
        for number, part in enumerate(message.parts)
        if part.WhichOneof("content") is None
    }
    if message.role == Role.ROLE_AGENT:
        wrong["message.role"] = AGENTS_ROLE
    if wrong:
        raise wrong_fields(wrong)
