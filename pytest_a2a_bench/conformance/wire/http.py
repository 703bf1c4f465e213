"""JSON-RPC and HTTP+JSON as they are on the wire: bytes out, bytes in, bounded, never through an SDK's parser."""

from __future__ import annotations

import asyncio
import dataclasses
import itertools
import json
import re
import time
import urllib.parse
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import httpx

from pytest_a2a_bench.a2a.bodies import SSEParser, parse_json
from pytest_a2a_bench.a2a.transport import HEADERS, RefusedConnection, Transport, parsed_url
from pytest_a2a_bench.conformance.finding import Exchange
from pytest_a2a_bench.conformance.protocol.operations import OPERATIONS, rest_call
from pytest_a2a_bench.conformance.target import Target
from pytest_a2a_bench.conformance.wire.exchange import (
    BODY_BYTES,
    EVENT_BYTES,
    EVENTS_KEPT,
    STREAM_BYTES,
    STREAM_EVENTS,
    Redactor,
    late,
)
from pytest_a2a_bench.conformance.wire.reply import (
    AUTH_STATUSES,
    UNSET,
    Reading,
    ReplyError,
    Wire,
    WireReply,
    WireRequest,
    read_rest_error,
    read_rpc_error,
)
from pytest_a2a_bench.errors import InfrastructureError, MissingExtraError, ProtocolError

JSON = "application/json"
A2A_JSON = "application/a2a+json"
EVENT_STREAM = "text/event-stream"
# More than the slots for requests (24, in the session): streams take none of those and stay open.
_CONNECTIONS = 64
_PING_BYTES = 4_096
"""Lines that may come in a stream before its first event: comments that keep it open, every few seconds."""
_EVENT_LINE = re.compile(rb"(?:\xef\xbb\xbf)?(?:data|event|id|retry)?:")


@dataclass
class _Answer(Reading):
    """The text that has been read so far."""

    body: bytearray = field(default_factory=bytearray)
    events: list[str] = field(default_factory=list)
    received: int = 0
    streamed: bool = False


class HttpWire:
    """Requests to one interface over httpx; connections are shared, and dropped after a server error.

    :param target: the interface; its version decides methods and paths.
    """

    def __init__(self, target: Target) -> None:
        self.url, self.binding, self.version = target.url, target.binding, target.version
        self.tenant, self._auth = target.tenant, target.auth
        self._redactor = Redactor(target.secrets)
        self._ids = itertools.count(1)
        self._subscribing = ""
        # Without a client of httpx around them, which costs a tenth of a run: no redirect is followed, and an agent's
        # cookies would make a request depend on the one before.
        self._kept = Transport(target.network, httpx.Limits(max_connections=_CONNECTIONS))
        # The second keeps no connection for another request.
        self._fresh = Transport(target.network, httpx.Limits(max_connections=_CONNECTIONS, max_keepalive_connections=0))

    async def close(self) -> None:
        """Close all connections."""
        await self._kept.aclose()
        await self._fresh.aclose()

    async def call(self, request: WireRequest) -> WireReply:
        """Send a request and read the answer."""
        if request.http_method or self.binding != "HTTP+JSON" or request.operation != "SubscribeToTask":
            return await self._ask(request)
        # Both versions have POST in their text and GET in their proto file: an agent may have either.
        reply = await self._ask(dataclasses.replace(request, http_method=self._subscribing))
        if self._subscribing or not _is_no_path(reply):
            return reply
        other = await self._ask(dataclasses.replace(request, http_method="GET"))
        if _is_no_path(other):
            return reply
        self._subscribing = "GET"
        return other

    async def _ask(self, request: WireRequest) -> WireReply:
        try:
            prepared, rpc_id = self._build(request)
        except (httpx.InvalidURL, ValueError) as error:
            problem = f"the request to {self.url!r:.200} cannot be made: {error}"
            shown = self._redactor.text
            return WireReply(
                Exchange(self.binding, request.operation, shown(self.url), problem=shown(problem)),
                problem=shown(problem),
            )
        answer = _Answer(request)
        try:
            async with asyncio.timeout(request.timeout) as answer.limit:
                await self._exchange_again(prepared, answer)
        except TimeoutError:
            # What came whole is an answer, however long closing its connection takes.
            if not (answer.ended or answer.stopped or answer.is_over):
                answer.problem = answer.problem or self._late(answer)
        except (RefusedConnection, InfrastructureError) as error:  # these say all that there is to say
            answer.problem = str(error)
        except (httpx.HTTPError, httpx.InvalidURL, UnicodeError) as error:
            answer.problem = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
        exchange = self._record(prepared, answer)
        return self._read(exchange, answer, rpc_id)

    # A server that keeps a stream open with comments has not begun to answer.
    def _late(self, answer: _Answer) -> str:
        has_begun = bool(answer.body) or answer.received > _PING_BYTES
        return late(answer.request.timeout) + (f": {answer.received} bytes had come" if has_begun else "")

    # -- writing --

    def _build(self, request: WireRequest) -> tuple[httpx.Request, Any]:
        rpc_id = next(self._ids) if request.rpc_id is UNSET else request.rpc_id
        verb, url, body = self._spell(request, rpc_id)
        # Whatever stands in body replaces even a GET's empty one: some checks send what must not be there.
        if request.body is not UNSET:
            body = request.body
        content = _encode(body) if body is not None else None
        auth = request.credentials(self._auth)
        headers = {"accept": self._accept(request), **HEADERS}
        if content is not None:
            # 1.0's media type for HTTP+JSON is its own (section 11.1); 0.3 and JSON-RPC use the general one.
            headers["content-type"] = A2A_JSON if self.binding == "HTTP+JSON" and self.version != "0.3" else JSON
        if request.version_header is not None:
            headers["A2A-Version"] = request.version_header
        headers.update(auth.headers)
        # Last, because checks of missing or wrong headers must win over what is otherwise right.
        headers = _override(headers, request.headers)
        query = {**auth.query, **request.query}
        target = _with_query(url, query)
        return httpx.Request(request.http_method or verb, parsed_url(target), content=content, headers=headers), rpc_id

    def _spell(self, request: WireRequest, rpc_id: Any) -> tuple[str, str, Any]:
        # A path of the check's own is for looking at what else a server has, such as the card.
        if request.path is not None:
            return "GET", self.url.rstrip("/") + request.path, None
        if self.binding == "HTTP+JSON":
            spelled = rest_call(OPERATIONS[request.operation], request.params, version=self.version, tenant=self.tenant)
            # 0.3's schema has https://rest.example.com/v1 as an example of such a URL, and /v1 in the paths, too.
            base = self.url.rstrip("/").removesuffix("/v1" if self.version == "0.3" else "")
            path = base + spelled.path
            return spelled.verb, _with_query(path, spelled.query), spelled.body
        # In 1.0 the tenant is a member of the parameters; the path carries it on HTTP+JSON only.
        params = dict(request.params)
        if self.tenant and self.version != "0.3":
            params.setdefault("tenant", self.tenant)
        return "POST", self.url, {"jsonrpc": "2.0", "id": rpc_id, "method": self._method(request), "params": params}

    def _method(self, request: WireRequest) -> str:
        known = OPERATIONS.get(request.operation)
        if known is None or self.version != "0.3":
            # Other names go out as they are: checks ask for methods that do not exist.
            return request.operation
        return known.rpc03 or request.operation

    def _accept(self, request: WireRequest) -> str:
        if request.stream:
            return EVENT_STREAM
        return f"{A2A_JSON}, {JSON}" if self.binding == "HTTP+JSON" else JSON

    # -- reading --

    async def _exchange_again(self, prepared: httpx.Request, answer: _Answer) -> None:
        # Servers that broke on an earlier request reset its connection, which must not count against this one.
        try:
            await self._exchange(self._kept, prepared, answer)
        except (httpx.ReadError, httpx.WriteError, httpx.RemoteProtocolError):
            # An answer that has begun is evidence; only a request of which nothing is known is asked again.
            if answer.status is not None:
                raise
            await self._exchange(self._fresh, prepared, answer)

    async def _exchange(self, transport: Transport, prepared: httpx.Request, answer: _Answer) -> None:
        response = await transport.handle_async_request(prepared)
        try:
            answer.status = response.status_code
            answer.headers = {k.lower(): v for k, v in response.headers.items()}
            answer.streamed = answer.headers.get("content-type", "").partition(";")[0].strip().lower() == EVENT_STREAM
            # A large answer on a busy machine is no silence: a body that has begun has as long again.
            if answer.limit is not None and not answer.streamed and not answer.request.stream:
                answer.limit.reschedule((answer.limit.when() or 0.0) + answer.request.timeout)
            chunks = _chunks(response)
            first = await anext(chunks)
            # STREAM-001 judges the media type: events are read under another one, too.
            if answer.streamed or (answer.request.stream and _EVENT_LINE.match(first)):
                answer.streamed = True
                await self._read_events(first, chunks, answer)
            else:
                answer.body += first
                async for chunk in chunks:
                    answer.body += chunk
                    answer.received = len(answer.body)
                    if len(answer.body) > BODY_BYTES:
                        answer.problem = f"the answer is larger than {BODY_BYTES} bytes, and was cut there"
                        return
            # A stream that we left was not ended by the server, which is what checks of its end ask.
            answer.ended = not answer.stopped
        finally:
            await response.aclose()

    async def _read_events(self, first: bytes, more: AsyncIterator[bytes], answer: _Answer) -> None:
        parser = SSEParser(BODY_BYTES)
        async for chunk in _chained(first, more):
            answer.received += len(chunk)
            # Bytes and events: one of both limits alone can be got around with many small events, or with one without
            # an end.
            if answer.received > STREAM_BYTES or len(answer.events) > STREAM_EVENTS:
                raise ProtocolError(f"the stream does not end within {STREAM_EVENTS} events and {STREAM_BYTES} bytes")
            for event in parser.feed(chunk) if chunk else parser.close():
                at = time.monotonic()
                answer.events.append(event.data)
                answer.take(self._payload(_document(event.data)[0]), at)
                if answer.stopped:
                    return

    def _record(self, prepared: httpx.Request, answer: _Answer) -> Exchange:
        seconds = time.monotonic() - answer.started
        method = answer.request.operation if self.binding == "HTTP+JSON" else self._method(answer.request)
        shown = self._redactor
        return Exchange(
            binding=self.binding,
            method=method,
            url=shown.url(str(prepared.url)),
            http_method=prepared.method,
            request_headers=shown.headers(list(prepared.headers.items())),
            request=shown.text(bytes(prepared.content).decode("utf-8", "replace")),
            status=answer.status,
            response_headers=shown.headers(answer.headers),
            response=shown.text(bytes(answer.body).decode("utf-8", "replace")),
            events=tuple(shown.text(e, EVENT_BYTES) for e in answer.events[:EVENTS_KEPT]),
            problem=shown.text(answer.problem),
            seconds=seconds,
        )

    def _read(self, exchange: Exchange, answer: _Answer, rpc_id: Any) -> WireReply:
        reply = WireReply(
            exchange, answer.status, answer.headers, problem=answer.problem, ended=answer.ended, rpc_id=rpc_id
        )
        if answer.streamed:
            return self._read_stream(reply, answer)
        if answer.problem or answer.status is None:
            return reply
        # Only now: bytes are kept as they came, whatever they turn out to be.
        document, problem = _document(bytes(answer.body))
        return self._read_document(reply, document, problem, answer.status)

    def _read_document(self, reply: WireReply, document: Any, problem: str, status: int) -> WireReply:
        if self.binding == "JSONRPC":
            # JSON-RPC answers come with status 200, but a proxy's page in between has neither member, whatever its
            # status.
            if not isinstance(document, Mapping) or not ("error" in document or "result" in document):
                # Who guards the door need not speak JSON-RPC: section 3.3.2 names the status 401, and no code for it.
                if status in AUTH_STATUSES:
                    return dataclasses.replace(reply, document=document, error=read_rest_error(document, status))
                what = problem or "neither result nor error in the JSON-RPC answer"
                return dataclasses.replace(reply, document=document, problem=f"HTTP {status}: {what}")
            error = read_rpc_error(document["error"], status) if document.get("error") is not None else None
            return dataclasses.replace(reply, document=document, result=document.get("result"), error=error)
        # On HTTP+JSON the status decides (section 11.6): a body that looks like a result does not make a 404 one.
        if status >= 300:
            error = read_rest_error(document, status)
            return dataclasses.replace(reply, document=document, error=error)
        # A deletion has nothing to say, with 204 or without a body.
        if problem and not (status == 204 or not reply.exchange.response):
            return dataclasses.replace(reply, problem=f"HTTP {status}: {problem}")
        return dataclasses.replace(reply, document=document, result={} if document is None else document)

    def _read_stream(self, reply: WireReply, answer: _Answer) -> WireReply:
        documents = [_document(text)[0] for text in answer.events]
        problem = reply.problem or ("an event of the stream is not JSON" if None in documents else "")
        errors = [e for e in map(self._event_error, documents) if e is not None]
        return dataclasses.replace(
            reply,
            documents=tuple(documents),
            events=tuple(p for p in map(self._payload, documents) if p is not None),
            error=errors[0] if errors else None,
            problem=problem,
            times=tuple(answer.times),
        )

    def _payload(self, document: Any) -> Any:
        if self.binding == "JSONRPC":
            return document.get("result") if isinstance(document, Mapping) else None
        if isinstance(document, Mapping) and isinstance(document.get("error"), Mapping):
            return None
        return document

    def _event_error(self, document: Any) -> ReplyError | None:
        if not isinstance(document, Mapping) or document.get("error") is None:
            return None
        if self.binding == "JSONRPC":
            return read_rpc_error(document["error"], None)
        raw = document["error"]
        code = raw.get("code") if isinstance(raw, Mapping) else None
        return read_rest_error(document, code if isinstance(code, int) else 0)


def _is_no_path(reply: WireReply) -> bool:
    return reply.status in (405, 501) or (reply.status == 404 and not (reply.error and reply.error.name))


async def _chunks(response: httpx.Response) -> AsyncIterator[bytes]:
    async for chunk in response.aiter_raw():
        if chunk:
            yield chunk
    # Tells the parser that this is the end: an event without its blank line is still an event then.
    yield b""


async def _chained(first: bytes, more: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    yield first
    async for chunk in more:
        yield chunk


def _encode(body: Any) -> bytes:
    if isinstance(body, bytes):
        return body
    # A lone surrogate is one of the malformed things that checks send.
    return (body if isinstance(body, str) else json.dumps(body, ensure_ascii=False)).encode("utf-8", "surrogatepass")


def _override(headers: Mapping[str, str], changes: Mapping[str, str]) -> dict[str, str]:
    """Let a check's own headers win, whatever their case; their spelling goes out as given."""
    named = {k.lower() for k in changes}
    return {**{k: v for k, v in headers.items() if k.lower() not in named}, **changes}


def _with_query(url: str, query: Mapping[str, str]) -> str:
    if not query:
        return url
    return f"{url}{'&' if '?' in url else '?'}{urllib.parse.urlencode(query)}"


def _document(body: bytes | str) -> tuple[Any, str]:
    try:
        return parse_json(body), ""
    except ProtocolError as error:
        return None, f"the body is not JSON ({error})"


def open_wire(target: Target) -> Wire:
    """Open a connection to one interface.

    :raises MissingExtraError: for gRPC, where it is not installed.
    :raises ProtocolError: if the address is none.
    """
    if target.binding != "GRPC":
        return HttpWire(target)
    # An extra: HTTP alone needs no grpcio.
    try:
        from pytest_a2a_bench.conformance.wire.grpc import GrpcWire
    except ImportError as error:
        raise MissingExtraError("grpcio", "grpc", str(error)) from error
    return GrpcWire(target)
