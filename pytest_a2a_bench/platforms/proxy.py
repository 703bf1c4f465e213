"""Requests on their way through the controller to its agent, and the answers as they come."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Iterable
from http.cookiejar import CookieJar, DefaultCookiePolicy
from typing import Protocol

import httpx
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.types import Receive, Scope, Send

from pytest_a2a_bench.a2a.card import CARD_PATH, LEGACY_CARD_PATH
from pytest_a2a_bench.a2a.network import USUAL
from pytest_a2a_bench.a2a.transport import open_client
from pytest_a2a_bench.platforms.cards import shown_card
from pytest_a2a_bench.platforms.process import HOST

MAX_BODY = 16 * 1024 * 1024
"""Most bytes of a request's body."""

_CARD_PATHS = (CARD_PATH, LEGACY_CARD_PATH, "/extendedAgentCard", "/v1/card")
_CARD_METHODS = (b"GetExtendedAgentCard", b"agent/getAuthenticatedExtendedCard")
_SILENCE = 1800.0
"""Seconds without a byte after which an agent's answer is given up; as long as AgentBeats' controllers wait."""

_HOP_BY_HOP = {b"connection", b"keep-alive", b"proxy-connection", b"te", b"trailer", b"transfer-encoding", b"upgrade"}
_OWN_REQUEST = {*_HOP_BY_HOP, b"host", b"content-length", b"accept-encoding", b"expect"}
_OWN_ANSWER = {*_HOP_BY_HOP, b"date", b"server"}


class Agent(Protocol):
    """What the proxy has to know of the agent."""

    id: str
    url: str
    port: int
    state: str

    @property
    def is_reachable(self) -> bool:
        """Whether a request may be forwarded."""
        ...


class Proxy:
    """An ASGI application that forwards requests to an agent.

    :param max_body: most bytes of a request's body.
    """

    def __init__(self, agent: Agent, max_body: int) -> None:
        self._agent = agent
        self._max_body = max_body
        # A kept connection may be closed while it is chosen, and then nobody knows whether the request arrived.
        limits = httpx.Limits(max_connections=None, max_keepalive_connections=0)
        self._client = open_client(USUAL, limits=limits, timeout=httpx.Timeout(_SILENCE, connect=30.0))
        self._client.cookies = httpx.Cookies(CookieJar(DefaultCookiePolicy(allowed_domains=[])))
        for name in ("accept", "user-agent", "connection"):
            del self._client.headers[name]

    async def aclose(self) -> None:
        """Close all connections."""
        await self._client.aclose()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request with what the agent says to it."""
        request, body = Request(scope, receive), bytearray()
        refusal = unknown_agent(request, self._agent.id)
        if refusal is None and not self._agent.is_reachable:
            refusal = self._refusal(503, f"is {self._agent.state}")
        try:
            async for chunk in request.stream() if refusal is None else _nothing():
                body += chunk
                if len(body) > self._max_body:
                    refusal = self._refusal(413, f"takes no body of more than {self._max_body} bytes")
                    break
        except ClientDisconnect:
            return
        if refusal is not None:
            await refusal(scope, receive, send)
            return
        forwarding = asyncio.ensure_future(self._forward(request, bytes(body), receive, send))
        leaving = asyncio.ensure_future(_until_left(receive))
        try:
            # An agent must not work on for a caller that has gone.
            await asyncio.wait({forwarding, leaving}, return_when=asyncio.FIRST_COMPLETED)
            if forwarding.done():
                forwarding.result()
        finally:
            for task in (forwarding, leaving):
                task.cancel()
            await asyncio.gather(forwarding, leaving, return_exceptions=True)

    async def _forward(self, request: Request, body: bytes, receive: Receive, send: Send) -> None:
        # As the caller wrote it: %2F in a path is no slash.
        prefix = f"/to_agent/{self._agent.id}".encode()
        path = (request.scope.get("raw_path") or request.url.path.encode()).partition(b"?")[0].removeprefix(prefix)
        # AgentBeats' gateway, before a controller on loopback, adds the path of a card's URL to that of its own.
        path = path.removeprefix(prefix) or b"/"
        query = request.scope.get("query_string", b"")
        url = httpx.URL(
            scheme="http", host=HOST, port=self._agent.port, raw_path=path + (b"?" + query if query else b"")
        )
        is_card = request.method == "GET" and path.decode("latin-1").endswith(_CARD_PATHS)
        is_card = is_card or (request.method == "POST" and any(name in body for name in _CARD_METHODS))
        forwarded = [
            # Cards are changed on their way, which takes plain text.
            (b"accept-encoding", b"identity"),
            (b"x-forwarded-host", request.headers.get("host", "").encode("latin-1")),
            (b"x-forwarded-proto", request.url.scheme.encode()),
            (b"x-forwarded-prefix", prefix),
        ]
        headers = [*_without(_OWN_REQUEST, request.headers.raw), *forwarded]
        has_begun = False
        try:
            asked = self._client.build_request(request.method, url, headers=headers, content=body)
            async with contextlib.aclosing(await self._client.send(asked, stream=True)) as response:
                headers = _without(_OWN_ANSWER, response.headers.raw)
                chunks = response.aiter_raw()
                if is_card:
                    content = shown_card(b"".join([chunk async for chunk in chunks]), self._agent.url)
                    headers = [*_without({b"content-length"}, headers), (b"content-length", b"%d" % len(content))]
                    chunks = _one(content)
                await send({"type": "http.response.start", "status": response.status_code, "headers": headers})
                has_begun = True
                async for chunk in chunks:
                    await send({"type": "http.response.body", "body": chunk, "more_body": True})
                await send({"type": "http.response.body", "body": b""})
        except httpx.HTTPError as error:
            # Half an answer stays without end: the server closes the connection, which no caller takes for a whole one.
            if not has_begun:
                await self._explain(error)(request.scope, receive, send)

    def _explain(self, error: httpx.HTTPError) -> Response:
        reason = f"{type(error).__name__}: {error}".rstrip(": ")
        if isinstance(error, httpx.ConnectError) and self._agent.state != "running":
            return self._refusal(503, f"is {self._agent.state}: {reason}")
        return self._refusal(504 if isinstance(error, httpx.TimeoutException) else 502, f"gave no answer: {reason}")

    def _refusal(self, status: int, text: str) -> Response:
        headers = {"Retry-After": "1"} if status == 503 else {}
        return PlainTextResponse(f"a2a-bench controller: agent {self._agent.id} {text}\n", status, headers)


def unknown_agent(request: Request, name: str) -> Response | None:
    """Return the answer to a request for an agent of another name; None for this one."""
    asked = request.path_params["agent_id"]
    return None if asked == name else JSONResponse({"detail": f"there is no agent {asked!r}; see /agents"}, 404)


async def _until_left(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


async def _one(content: bytes) -> AsyncIterator[bytes]:
    yield content


async def _nothing() -> AsyncIterator[bytes]:
    return
    yield b""


def _without(names: set[bytes], headers: Iterable[tuple[bytes, bytes]]) -> list[tuple[bytes, bytes]]:
    return [(name.lower(), value) for name, value in headers if name.lower() not in names]
