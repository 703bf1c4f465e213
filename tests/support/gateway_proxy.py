"""A reverse proxy for tests, transparent or with one planted fault; and middleware of agents behind one."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import httpx
from in_thread import served_in_thread
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send
from starlette.types import Message as Event

from pytest_a2a_bench.listener import listen
from pytest_a2a_bench.quiet_server import serving

_HOP = {"host", "content-length", "transfer-encoding", "connection", "keep-alive", "date", "server"}
_VERBS = ["GET", "POST", "PUT", "PATCH", "DELETE", "HEAD", "OPTIONS"]


@dataclass
class Message:
    """A request or an answer on its way; a fault may change it.

    :ivar asked: the request that an answer is for.
    """

    method: str = ""
    path: str = ""
    query: str = ""
    status: int = 0
    headers: dict[str, str] = field(default_factory=dict)
    body: bytes = b""
    asked: Message | None = None


@dataclass(frozen=True)
class Fault:
    """What a proxy does wrong.

    :param rule: the requirement that it breaks.
    :param request: changes a request, or answers it itself.
    :param answer: changes an answer that is no stream.
    :param events: changes the chunks of a stream; gets the request, too.
    :param head: changes status and headers of a stream.
    :param agent: features of the agent that it takes to show.
    :param retries: whether it sends each message again although it was answered.
    :param waits: whether only a long wait in vain shows it.
    """

    name: str
    rule: str
    request: Callable[[Message], Message | None] | None = None
    answer: Callable[[Message], None] | None = None
    events: Callable[[AsyncIterator[bytes], Message], AsyncIterator[bytes]] | None = None
    head: Callable[[Message], None] | None = None
    agent: str = ""
    retries: bool = False
    waits: bool = False


TRANSPARENT = Fault("transparent", "")


class GatewayProxy:
    """Hands requests on to ``target``, which is set when the agent is there; its own address must be in its card."""

    def __init__(self, fault: Fault) -> None:
        self.fault = fault
        self.target = ""
        self.listener = listen("127.0.0.1", 0)
        self.url = f"http://127.0.0.1:{self.listener.getsockname()[1]}"
        self.client = httpx.AsyncClient(timeout=60, verify=False, limits=httpx.Limits(max_connections=None))
        self.app = Starlette(routes=[Route("/{path:path}", self._handle, methods=_VERBS)])

    async def _handle(self, request: Request) -> Response:
        raw = request.scope["raw_path"].decode()
        asked = Message(request.method, raw, request.url.query)
        asked.headers = {k: v for k, v in request.headers.items() if k not in _HOP}
        asked.body = await request.body()
        if self.fault.request is not None and (own := self.fault.request(asked)) is not None:
            return Response(own.body, own.status, own.headers)
        url = httpx.URL(f"{self.target}{asked.path}" + (f"?{asked.query}" if asked.query else ""))
        built = self.client.build_request(asked.method, url, headers=asked.headers, content=asked.body)
        if self.fault.retries and b"parts" in asked.body:
            await self.client.request(asked.method, url, headers=asked.headers, content=asked.body)
        answer = await self.client.send(built, stream=True)
        got = Message(status=answer.status_code, asked=asked)
        got.headers = {k: v for k, v in answer.headers.items() if k not in _HOP}
        if "event-stream" in got.headers.get("content-type", ""):
            if self.fault.head is not None:
                self.fault.head(got)
            return StreamingResponse(self._stream(answer, asked), got.status, got.headers)
        got.body = b"".join([chunk async for chunk in answer.aiter_raw()])
        await answer.aclose()
        if self.fault.answer is not None:
            self.fault.answer(got)
        return Response(got.body, got.status, got.headers)

    async def _stream(self, answer: httpx.Response, asked: Message) -> AsyncIterator[bytes]:
        chunks = answer.aiter_raw()
        try:
            async for chunk in self.fault.events(chunks, asked) if self.fault.events is not None else chunks:
                yield chunk
        finally:
            await answer.aclose()


@contextlib.contextmanager
def gateway_proxy(fault: Fault = TRANSPARENT) -> Iterator[GatewayProxy]:
    """Serve a proxy in a thread with its own event loop."""
    proxy = GatewayProxy(fault)

    @contextlib.asynccontextmanager
    async def proxying() -> AsyncIterator[None]:
        async with proxy.client, serving(proxy.app, proxy.listener, log_level="critical"):
            yield

    with served_in_thread(proxying):
        yield proxy


def json_answer(body: Any, status: int = 200, **headers: str) -> Message:
    """Return an answer of the proxy's own."""
    return Message(
        status=status,
        headers={"content-type": "application/json", **headers},
        body=httpx.Response(200, json=body).content,
    )


class Rewriting:
    """Rewrites each piece of an answer's body; the answer's start waits for the first of them."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    def rewritten(self, asked: dict[bytes, bytes], body: bytes) -> bytes:
        """Return what is sent in place of a piece; ``asked`` are the request's headers."""
        raise NotImplementedError

    def added(self, asked: dict[bytes, bytes], body: bytes) -> list[tuple[bytes, bytes]]:
        """Return further headers of an answer with this first piece."""
        return []

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        asked, start = dict(scope.get("headers") or ()), list[Event]()

        async def sending(message: Event) -> None:
            if message["type"] == "http.response.start":
                start.append(message)
                return
            body = self.rewritten(asked, message.get("body", b""))
            if start:
                begun = start.pop()
                # Servers that turn nginx's buffering off themselves need no configuration.
                kept = [(k, v) for k, v in begun["headers"] if k not in (b"content-length", b"x-accel-buffering")]
                await send({**begun, "headers": kept + self.added(asked, body)})
            await send({**message, "body": body})

        await self.app(scope, receive, sending if scope["type"] == "http" else send)
