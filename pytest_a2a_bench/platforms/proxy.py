"""Forward HTTP requests to an agent, and its responses as they arrive."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable, Set

import httpx
from starlette.background import BackgroundTask
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response, StreamingResponse

from pytest_a2a_bench.a2a import network
from pytest_a2a_bench.a2a.proxying import CARD_METHODS, CARD_PATHS, NOT_FORWARDED, NOT_REQUESTED, Parts, rewrite_card
from pytest_a2a_bench.agents.gateway import BODY
from pytest_a2a_bench.platforms.process import HOST

MAX_BODY = 16 * 1024 * 1024
"""Most bytes of a request's body."""

# AgentBeats' controllers wait 30 minutes for an agent's next byte, too.
_TIMEOUT = httpx.Timeout(1800.0, connect=30.0).as_dict()

_OWN_RESPONSE = NOT_FORWARDED | {b"date", b"server"}


class Proxy:
    """Forwards requests below a path to a port of this machine.

    It uses a transport without a client, which would keep cookies of one caller for the next. Connections are not kept
    alive: one that the agent closes just then would leave it unknown whether the request arrived.

    :param prefix: the path, such as ``/to_agent/ID``.
    :param url: its URL, which replaces loopback URLs on the agent's card.
    """

    def __init__(self, prefix: str, url: str) -> None:
        self._prefix, self._url = prefix.encode(), url
        limits = httpx.Limits(max_connections=None, max_keepalive_connections=0)
        self._transport = httpx.AsyncHTTPTransport(limits=limits, trust_env=False)

    async def aclose(self) -> None:
        """Close all connections."""
        await self._transport.aclose()

    async def forward(self, request: Request, port: int) -> Response:
        """Return the agent's response, or 502 to 504 where it does not answer; ``gateway.bounded`` read the body."""
        body: bytes = request.scope[BODY]
        try:
            response = await self._transport.handle_async_request(self._outgoing(request, body, port))
        except httpx.HTTPError as error:
            reason = f"{type(error).__name__}: {error}".rstrip(": ")
            if isinstance(error, httpx.ConnectError):
                return PlainTextResponse(f"the agent does not listen yet: {reason}\n", 503, {"Retry-After": "1"})
            status = 504 if isinstance(error, httpx.TimeoutException) else 502
            return PlainTextResponse(f"the agent gave no answer: {reason}\n", status)
        headers = _without(_OWN_RESPONSE, response.headers.raw)
        if _asks_for_card(request, body):
            card = rewrite_card(await response.aread(), self._url, is_loopback)
            await response.aclose()
            answer = Response(card, response.status_code)
            headers = [*_without({b"content-length"}, headers), (b"content-length", b"%d" % len(card))]
        else:
            # If the agent ends in the middle, the server breaks the connection off instead of ending the response.
            ending = BackgroundTask(response.aclose)
            answer = StreamingResponse(response.aiter_raw(), response.status_code, background=ending)
        answer.raw_headers = headers
        return answer

    def _outgoing(self, request: Request, body: bytes, port: int) -> httpx.Request:
        # The path as the caller wrote it: %2F in it is no slash.
        path: bytes = (request.scope.get("raw_path") or request.url.path.encode()).partition(b"?")[0]
        # AgentBeats' gateway adds the path of the card's URL to that of its own, so that the prefix is there twice.
        path = path.removeprefix(self._prefix).removeprefix(self._prefix) or b"/"
        query: bytes = request.scope.get("query_string", b"")
        forwarded = [
            # Cards are rewritten, which takes plain text.
            (b"accept-encoding", b"identity"),
            (b"x-forwarded-host", request.headers.get("host", "").encode("latin-1")),
            (b"x-forwarded-proto", request.url.scheme.encode()),
            (b"x-forwarded-prefix", self._prefix),
        ]
        return httpx.Request(
            request.method,
            httpx.URL(scheme="http", host=HOST, port=port, raw_path=path + (b"?" + query if query else b"")),
            headers=[*_without(NOT_REQUESTED, request.headers.raw), *forwarded],
            content=body,
            extensions={"timeout": _TIMEOUT},
        )


def is_loopback(parts: Parts) -> bool:
    """Return whether a URL leads to the machine of its reader: to loopback, or to a server's wildcard address."""
    host = parts.hostname or ""
    try:
        return network.is_loopback(host) or ipaddress.ip_address(host).is_unspecified
    except ValueError:
        return False


def _asks_for_card(request: Request, body: bytes) -> bool:
    if request.method == "POST":
        return any(name.encode() in body for name in CARD_METHODS)
    return request.method == "GET" and request.url.path.endswith(CARD_PATHS)


def _without(names: Set[bytes], headers: Iterable[tuple[bytes, bytes]]) -> list[tuple[bytes, bytes]]:
    return [(name.lower(), value) for name, value in headers if name.lower() not in names]
