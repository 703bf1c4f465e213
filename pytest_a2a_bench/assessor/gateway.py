"""What every request passes before it is looked at: who sends it, how often, how large, and that it is counted."""

from __future__ import annotations

import ipaddress
import math
import time
from collections import Counter
from collections.abc import Callable
from urllib.parse import urlsplit

from starlette.authentication import AuthCredentials, SimpleUser
from starlette.datastructures import Headers
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from pytest_a2a_bench.a2a.card import CARD_PATH
from pytest_a2a_bench.a2a.network import is_loopback
from pytest_a2a_bench.assessor.callers import Callers
from pytest_a2a_bench.assessor.monitoring import Monitor
from pytest_a2a_bench.assessor.strict import BODY

MAX_BODY = 1024 * 1024
"""Most bytes of a request's body."""

OPEN_PATHS = (CARD_PATH, "/healthz", "/readyz")
"""What anybody may see: how to call us, and whether we live."""

_MINUTE = 60

_UNLIMITED = "/healthz"
"""What is answered however often it is asked for: who is told too seldom that we live ends us."""


class Limit:
    """Lets requests through, as many in each minute as one may send. Belongs to one event loop.

    :param per_minute: None lets all of them through.
    """

    def __init__(self, per_minute: int | None, monitor: Monitor, clock: Callable[[], float] = time.monotonic) -> None:
        self._per_minute, self._monitor, self._clock = per_minute, monitor, clock
        self._minute, self._sent = -1, Counter[str]()

    async def check(self, app: ASGIApp, scope: Scope, receive: Receive, send: Send, caller: str | None = None) -> None:
        """Hand a request on, or answer that it comes too early.

        :param caller: who asks; None for somebody unknown, whose address counts.
        """
        minute, second = divmod(self._clock(), _MINUTE)
        if minute != self._minute:
            self._minute, self._sent = int(minute), Counter()
        who = f"address {address_of(scope)}" if caller is None else f"caller {caller}"
        self._sent[who] += 1
        if self._per_minute is None or self._sent[who] <= self._per_minute:
            await app(scope, receive, send)
            return
        self._monitor.note_limited("address" if caller is None else "caller")
        seconds = math.ceil(_MINUTE - second)
        told = f"more than {self._per_minute} requests in a minute; ask again in {seconds} s"
        await JSONResponse({"error": told}, 429, {"Retry-After": str(seconds)})(scope, receive, send)


def address_of(scope: Scope) -> str:
    """Return where a request comes from; of IPv6 the network, since one machine has all addresses of it."""
    host = str((scope.get("client") or ("",))[0])
    try:
        found = ipaddress.ip_address(host.partition("%")[0])
    except ValueError:
        return host
    if isinstance(found, ipaddress.IPv4Address):
        return str(found)
    return str(found.ipv4_mapped or ipaddress.ip_network((found, 64), strict=False))


def counted(app: ASGIApp, monitor: Monitor) -> ASGIApp:
    """Count what is answered."""

    async def count(scope: Scope, receive: Receive, send: Send) -> None:
        async def note(message: Message) -> None:
            if message["type"] == "http.response.start":
                monitor.note_request(scope["method"], message["status"])
            await send(message)

        await app(scope, receive, note if scope["type"] == "http" else send)

    return count


def guarded(app: ASGIApp, callers: Callers, limit: Limit) -> ASGIApp:
    """Let in only those who show a token, and say who they are; strangers are counted by their addresses."""

    async def challenge(scope: Scope, receive: Receive, send: Send) -> None:
        schemes = 'Bearer, Basic realm="assessor"' if scope["method"] in ("GET", "HEAD") else "Bearer"
        refusal = JSONResponse({"error": "a bearer token is required"}, 401, {"WWW-Authenticate": schemes})
        await refusal(scope, receive, send)

    async def ask(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["path"] == _UNLIMITED:
            await app(scope, receive, send)
            return
        if scope["path"] in OPEN_PATHS:
            await limit.check(app, scope, receive, send)
            return
        given = next((value for name, value in scope["headers"] if name == b"authorization"), b"")
        caller = callers.who(given.decode("latin-1"))
        if caller is None:
            await limit.check(challenge, scope, receive, send)
            return
        scope["user"], scope["auth"] = SimpleUser(caller), AuthCredentials(["assess"])
        await limit.check(app, scope, receive, send, caller)

    return ask


def called_by_name(app: ASGIApp, base: str, limit: Limit) -> ASGIApp:
    """Let in only who calls us by an address of this machine or by the card's, and no page of another site.

    For an assessor without tokens: a browser here carries what any site wants, under a name that means this machine
    a moment later (DNS rebinding), or as a form.

    :param base: the URL that the card shows.
    """
    shown = urlsplit(base).hostname or ""

    def is_ours(place: str) -> bool:
        try:
            host = urlsplit(place).hostname or ""
        except ValueError:
            return False
        return is_loopback(host) or (bool(shown) and host == shown)

    async def look(scope: Scope, receive: Receive, send: Send) -> None:
        refusal = None
        if scope["type"] == "http" and scope["path"] not in OPEN_PATHS:
            headers = Headers(scope=scope)
            host, origin = headers.get("host", ""), headers.get("origin")
            if not is_ours(f"//{host}"):
                told = f"this assessor is not called {host[:100]!r}; its operator gives it --card-url, or tokens"
                refusal = JSONResponse({"error": told}, 421)
            elif scope["method"] not in ("GET", "HEAD") and origin is not None and not is_ours(origin):
                refusal = JSONResponse({"error": "pages of other sites may not call this assessor"}, 403)
        if scope["type"] != "http" or scope["path"] == _UNLIMITED:
            await app(scope, receive, send)
        else:
            await limit.check(refusal or app, scope, receive, send)

    return look


def bounded(app: ASGIApp, most: int = MAX_BODY) -> ASGIApp:
    """Refuse bodies that are too large, however they announce themselves."""

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
