"""What every request passes before it is handled: who sends it, how large it is, and that it is counted."""

from __future__ import annotations

from urllib.parse import urlsplit

from starlette.authentication import AuthCredentials, SimpleUser
from starlette.datastructures import Headers
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from pytest_a2a_bench.a2a.card import CARD_PATH, LEGACY_CARD_PATH
from pytest_a2a_bench.a2a.network import is_loopback
from pytest_a2a_bench.assessor.callers import Callers
from pytest_a2a_bench.assessor.monitoring import Monitor

MAX_BODY = 1024 * 1024
"""Most bytes of a request's body."""

OPEN_PATHS = (CARD_PATH, LEGACY_CARD_PATH, "/healthz", "/readyz")
"""Paths that need no token: the card and health checks."""

BODY = "a2a_bench.body"
"""Member of an ASGI scope that holds the request's whole body."""


def counted(app: ASGIApp, monitor: Monitor) -> ASGIApp:
    """Count requests and the status of their answers."""

    async def count(scope: Scope, receive: Receive, send: Send) -> None:
        async def note(message: Message) -> None:
            if message["type"] == "http.response.start":
                monitor.note_request(scope["method"], message["status"])
            await send(message)

        await app(scope, receive, note if scope["type"] == "http" else send)

    return count


def guarded(app: ASGIApp, callers: Callers) -> ASGIApp:
    """Let in only requests with a caller's token, and note whose it is."""

    async def authenticate(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and scope["path"] not in OPEN_PATHS:
            caller = callers.who(Headers(scope=scope).get("authorization", ""))
            if caller is None:
                schemes = 'Bearer, Basic realm="assessor"' if scope["method"] in ("GET", "HEAD") else "Bearer"
                refusal = JSONResponse({"error": "a bearer token is required"}, 401, {"WWW-Authenticate": schemes})
                await refusal(scope, receive, send)
                return
            scope["user"], scope["auth"] = SimpleUser(caller), AuthCredentials(["assess"])
        await app(scope, receive, send)

    return authenticate


def called_by_name(app: ASGIApp, base: str) -> ASGIApp:
    """Let in only requests to an address of this machine or to the card's host, and none from a page of another site.

    For an assessor without tokens: a browser on this machine sends requests for any site, under a name that becomes an
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
        if scope["type"] == "http" and scope["path"] not in OPEN_PATHS:
            headers = Headers(scope=scope)
            host, origin = headers.get("host", ""), headers.get("origin")
            if not is_ours(f"//{host}"):
                problem = f"this assessor is not called {host[:100]!r}; its operator gives it --card-url, or tokens"
                refusal = JSONResponse({"error": problem}, 421)
            elif scope["method"] not in ("GET", "HEAD") and origin is not None and not is_ours(origin):
                refusal = JSONResponse({"error": "pages of other sites may not call this assessor"}, 403)
        await (refusal or app)(scope, receive, send)

    return check


def bounded(app: ASGIApp, most: int = MAX_BODY) -> ASGIApp:
    """Refuse bodies that are too large, with or without a Content-Length."""

    async def measure(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await app(scope, receive, send)
            return
        declared = next((value for name, value in scope["headers"] if name == b"content-length"), b"0")
        if not declared.isdigit() or int(declared) > most:
            await _too_large(scope, receive, send, most)
            return
        read = 0
        chunks: list[Message] = []
        # Read whole before anything looks at it: it is small, and a refusal is still possible then.
        while True:
            message = await receive()
            chunks.append(message)
            read += len(message.get("body", b""))
            if read > most:
                await _too_large(scope, receive, send, most)
                return
            if message["type"] != "http.request" or not message.get("more_body"):
                break

        scope[BODY] = b"".join(chunk.get("body", b"") for chunk in chunks)

        async def replay() -> Message:
            return chunks.pop(0) if chunks else await receive()

        await app(scope, replay, send)

    return measure


async def _too_large(scope: Scope, receive: Receive, send: Send, most: int) -> None:
    await JSONResponse({"error": f"the body is larger than {most} bytes"}, 413)(scope, receive, send)
