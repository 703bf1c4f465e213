"""ASGI wrappers of our servers: who may call, how large a body may be, and counting requests."""

from __future__ import annotations

from collections.abc import Callable
from urllib.parse import urlsplit

from starlette.authentication import AuthCredentials, SimpleUser
from starlette.datastructures import Headers
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from pytest_a2a_bench.a2a.card import CARD_PATH, LEGACY_CARD_PATH
from pytest_a2a_bench.a2a.network import is_loopback

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
        async def watch(message: Message) -> None:
            if message["type"] == "http.response.start":
                note(scope["method"], message["status"])
            await send(message)

        await app(scope, receive, watch if scope["type"] == "http" else send)

    return count


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
                schemes = 'Bearer, Basic realm="assessor"' if scope["method"] in ("GET", "HEAD") else "Bearer"
                refusal = JSONResponse({"error": "a bearer token is required"}, 401, {"WWW-Authenticate": schemes})
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
        chunks: list[Message] = []
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

        async def replay() -> Message:
            return chunks.pop(0) if chunks else await receive()

        await app(scope, replay, send)

    return measure
