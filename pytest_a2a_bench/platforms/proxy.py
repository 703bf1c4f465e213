"""Requests on their way through the controller to one of its own agents, and the answers as they come."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, MutableMapping
from http.cookiejar import CookieJar, DefaultCookiePolicy
from typing import Any

import httpx

from pytest_a2a_bench.a2a.network import USUAL
from pytest_a2a_bench.a2a.transport import open_client
from pytest_a2a_bench.chaos.calls import read_http_call
from pytest_a2a_bench.platforms.agent import HOST, KeptAgent
from pytest_a2a_bench.platforms.cards import shown_card

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]

MAX_BODY = 16 * 1024 * 1024
"""Most bytes of a request's body."""

_MAX_CARD = 4 * 1024 * 1024
_SILENCE = 1800.0
"""Seconds without a byte after which an agent's answer is given up; as long as AgentBeats' controllers wait."""

_HOP_BY_HOP = {b"connection", b"keep-alive", b"proxy-connection", b"te", b"trailer", b"transfer-encoding", b"upgrade"}
_OWN_REQUEST = {*_HOP_BY_HOP, b"host", b"content-length", b"accept-encoding", b"expect"}
_OWN_ANSWER = {*_HOP_BY_HOP, b"date", b"server"}


class TooLarge(Exception):
    """The body is longer than is taken."""


class ClientLeft(Exception):
    """The caller closed its connection."""


class Proxy:
    """Carries requests to agents.

    :param max_body: most bytes of a request's body.
    """

    def __init__(self, *, max_body: int = MAX_BODY) -> None:
        self._max_body = max_body
        # A kept connection may be closed while it is chosen, and then nobody knows whether the request arrived.
        limits = httpx.Limits(max_connections=None, max_keepalive_connections=0)
        timeout = httpx.Timeout(_SILENCE, connect=30.0)
        self._client = open_client(USUAL, limits=limits, timeout=timeout)
        self._client.cookies = httpx.Cookies(CookieJar(DefaultCookiePolicy(allowed_domains=[])))
        for name in ("accept", "user-agent", "connection"):
            del self._client.headers[name]

    async def aclose(self) -> None:
        """Close all connections."""
        await self._client.aclose()

    async def carry(self, agent: KeptAgent, path: bytes, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request with what the agent says to it.

        :param path: below the agent's root, as the caller wrote it.
        """
        if not agent.is_reachable:
            await _refuse(send, 503, f"agent {agent.id} is {agent.state}", retry_after=1)
            return
        try:
            body = await _read_body(scope, receive, self._max_body)
        except TooLarge:
            await _refuse(send, 413, f"the body has more than {self._max_body} bytes")
            return
        except ClientLeft:
            return
        answering = asyncio.ensure_future(self._forward(agent, path, body, scope, send))
        leaving = asyncio.ensure_future(_until_left(receive))
        try:
            # An agent must not work on for a caller that has gone.
            await asyncio.wait({answering, leaving}, return_when=asyncio.FIRST_COMPLETED)
            if answering.done():
                answering.result()
        finally:
            for task in (answering, leaving):
                task.cancel()
            await asyncio.gather(answering, leaving, return_exceptions=True)

    async def _forward(self, agent: KeptAgent, path: bytes, body: bytes, scope: Scope, send: Send) -> None:
        query = scope.get("query_string", b"")
        target = (path or b"/") + (b"?" + query if query else b"")
        url = httpx.URL(scheme="http", host=HOST, port=agent.port, raw_path=target)
        request = self._client.build_request(scope["method"], url, headers=_request_headers(scope, agent), content=body)
        started = False
        try:
            response = await self._client.send(request, stream=True)
            async with contextlib.aclosing(response):
                call = read_http_call(scope["method"], target.decode("latin-1"), body)
                is_card = call.kind == "card" and scope["method"] != "HEAD"
                content = await _read_card(response) if is_card else None
                headers = _kept(response.headers.raw, _OWN_ANSWER)
                if content is not None:
                    content = shown_card(content, agent.url)
                    headers = _kept(headers, {b"content-length"})
                    headers.append((b"content-length", b"%d" % len(content)))
                await send({"type": "http.response.start", "status": response.status_code, "headers": headers})
                started = True
                if content is not None:
                    await send({"type": "http.response.body", "body": content})
                    return
                async for chunk in response.aiter_raw():
                    await send({"type": "http.response.body", "body": chunk, "more_body": True})
                await send({"type": "http.response.body", "body": b""})
        except (httpx.HTTPError, TooLarge) as error:
            if started:
                # The server breaks the connection off, so that nobody takes half an answer for a whole one.
                raise BrokenAnswer(str(error)) from error
            await self._explain(agent, error, send)

    async def _explain(self, agent: KeptAgent, error: Exception, send: Send) -> None:
        told = f"{type(error).__name__}: {error}".rstrip(": ")
        if isinstance(error, httpx.ConnectError) and agent.state != "running":
            await _refuse(send, 503, f"agent {agent.id} is {agent.state}: {told}", retry_after=1)
        elif isinstance(error, httpx.TimeoutException):
            await _refuse(send, 504, f"agent {agent.id} gave no answer: {told}")
        else:
            await _refuse(send, 502, f"agent {agent.id} gave no answer: {told}")


class BrokenAnswer(Exception):
    """The agent's answer ended before it was complete."""


async def _read_body(scope: Scope, receive: Receive, most: int) -> bytes:
    declared = next((value for name, value in scope["headers"] if name == b"content-length"), b"0")
    if declared.isdigit() and int(declared) > most:
        raise TooLarge
    body = bytearray()
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise ClientLeft
        body += message.get("body", b"")
        if len(body) > most:
            raise TooLarge
        if not message.get("more_body", False):
            return bytes(body)


async def _until_left(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


async def _read_card(response: httpx.Response) -> bytes:
    content = bytearray()
    async for chunk in response.aiter_raw():
        content += chunk
        if len(content) > _MAX_CARD:
            raise TooLarge(f"the card has more than {_MAX_CARD} bytes")
    return bytes(content)


def _request_headers(scope: Scope, agent: KeptAgent) -> list[tuple[bytes, bytes]]:
    host = next((value for name, value in scope["headers"] if name == b"host"), b"")
    return [
        *_kept(scope["headers"], _OWN_REQUEST),
        # Cards are changed on their way, which takes plain text.
        (b"accept-encoding", b"identity"),
        (b"x-forwarded-host", host),
        (b"x-forwarded-proto", scope.get("scheme", "http").encode()),
        (b"x-forwarded-prefix", f"/to_agent/{agent.id}".encode()),
    ]


def _kept(headers: Any, without: set[bytes]) -> list[tuple[bytes, bytes]]:
    return [(name.lower(), value) for name, value in headers if name.lower() not in without]


async def _refuse(send: Send, status: int, text: str, *, retry_after: int | None = None) -> None:
    body = f"a2a-bench controller: {text}\n".encode()
    headers = [(b"content-type", b"text/plain; charset=utf-8"), (b"content-length", b"%d" % len(body))]
    if retry_after is not None:
        headers.append((b"retry-after", b"%d" % retry_after))
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})
