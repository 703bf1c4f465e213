"""HTTP requests to an agent, and the bindings over them: JSON-RPC and HTTP+JSON, protocol 1.0 and 0.3.

Every failure becomes one of our errors. No redirects to another origin, no answer larger than allowed. A connection
that brought an error answer is closed rather than kept: some servers reset it shortly after.
"""

from __future__ import annotations

import contextlib
import datetime
import json
import urllib.parse
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Iterator, Mapping
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import httpcore
import httpx

from pytest_a2a_bench.a2a.auth import explain_refusal
from pytest_a2a_bench.a2a.bodies import Meter, SSEParser, as_objects, excerpt, is_cut, parse_json
from pytest_a2a_bench.a2a.card import Interface, is_at, origin_of
from pytest_a2a_bench.a2a.codec import Form, InEvent, InTask, OutMessage, read_event, read_task, write_send
from pytest_a2a_bench.a2a.config import AuthParts, ClientConfig, may_receive
from pytest_a2a_bench.a2a.requests import RequestRecord, parse_retry_after
from pytest_a2a_bench.a2a.transport import HEADERS, RefusedConnection, Transport, parsed_url
from pytest_a2a_bench.errors import (
    AuthenticationError,
    EndpointUnreachableError,
    HarnessError,
    InfrastructureError,
    ProtocolError,
    ReplyLimitError,
    TransportError,
    TurnTimeoutError,
)
from pytest_a2a_bench.redact import KNOWN, hide_secrets, redact_url

_MAX_REDIRECTS = 5
_ERROR_BODY = 4096
_REDIRECTS = (301, 302, 307, 308)

_IDLE_SECONDS = 1.5
"""How long an idle connection is kept. Servers close theirs after 2 s (gunicorn) or 5 s (uvicorn, hypercorn, node), and
a message that is sent at that very moment may or may not have been read."""

_ONE_WRITE = 32 * 1024
"""Bytes of a body that go to the socket at once or not at all; an error while more is written may come after the
last."""


@dataclass(frozen=True, slots=True)
class HttpRequest:
    """One request; ``auth`` is added only where the URL may receive it."""

    method: str
    url: str
    body: bytes | None = None
    headers: Mapping[str, str] = field(default_factory=dict)
    auth: AuthParts = field(default_factory=AuthParts)


class Document(NamedTuple):
    """One JSON text of an answer: the body, or the data of one server-sent event.

    :param has_end: whether HTTP, or the blank line behind an event, says where it ends; else its end may be lost.
    """

    text: bytes | str
    event: str | None = None
    has_end: bool = True


class HttpEdge:
    """Pooled connections to one agent; lives on one event loop."""

    def __init__(self, config: ClientConfig) -> None:
        self._config = config
        # What the HTTP client logs has URLs at INFO and headers of answers at DEBUG.
        self._forget = KNOWN.remember(config.known)
        timeout = httpx.Timeout(config.timeout, connect=config.connect_timeout, read=config.read_timeout, pool=None)
        self._timeout = timeout.as_dict()
        limits = httpx.Limits(max_connections=config.max_connections, keepalive_expiry=_IDLE_SECONDS)
        # A client of httpx around it would cost a third of a turn more, for redirects, cookies and auth that are ours.
        self._transport = Transport(config.network, limits, lambda url: may_receive(url, config))

    async def close(self) -> None:
        """Close all connections."""
        await self._transport.aclose()
        self._forget()

    async def get(self, request: HttpRequest) -> tuple[int, bytes, str]:
        """Return status, body and the URL that answered, whatever the status is.

        Redirects within the origin are followed. For documents outside of a conversation, such as the card: nothing
        here is an agent's reply.
        """
        record = RequestRecord("", request.url, meter=Meter(self._config.bounds))
        with _translated(request, self._config, record):
            async with contextlib.aclosing(await self._send(request, record)) as response:
                try:
                    if response.status_code >= 400:
                        body = await self._error_body(response)
                    else:
                        body = b"".join([c async for c in self._chunks(response, record.meter)])
                except ReplyLimitError as error:
                    raise ProtocolError(str(error)) from error
                return response.status_code, body, _final_url(request, response)

    async def documents(self, request: HttpRequest, record: RequestRecord) -> AsyncGenerator[Document, None]:
        """Send a request and yield the JSON documents of its answer.

        An event stream is read as such, and anything else as one document, whatever had been asked for.
        """
        with _translated(request, self._config, record):
            async with contextlib.aclosing(await self._send(request, record)) as response:
                if response.status_code >= 300:
                    raise self._refusal(request, response, await self._error_body(response))
                kind = response.headers.get("content-type", "").partition(";")[0].strip().lower()
                if kind == "text/event-stream":
                    parser = SSEParser(self._config.bounds.bytes)
                    async for chunk in self._chunks(response, record.meter):
                        # Also at a comment that keeps the connection open.
                        record.begun()
                        with record.meter.reading():
                            events = parser.feed(chunk)
                        for event in events:
                            record.keep(event.data)
                            yield Document(event.data, event.event)
                    for event in parser.close():
                        record.keep(event.data)
                        yield Document(event.data, event.event, has_end=False)
                    return
                try:
                    body = b"".join([c async for c in self._chunks(response, record.meter)])
                except ReplyLimitError as error:
                    if "html" in kind:  # a web page is no answer of the agent's, but of a server in between
                        raise ProtocolError(f"{error}; the answer is {kind}, expected an A2A answer") from error
                    raise
                record.keep(body)
                if kind and "json" not in kind:
                    record.notes.append(f"the answer's content type is {kind!r}")
                yield Document(body, has_end="content-length" in response.headers)

    async def _send(self, request: HttpRequest, record: RequestRecord) -> httpx.Response:
        url = request.url
        for _ in range(_MAX_REDIRECTS):
            built = self._build(request, url, record)
            response = await self._transport.handle_async_request(built)
            response.request = built
            record.status_code, record.answered = response.status_code, True
            target = response.headers.get("location")
            if response.status_code not in _REDIRECTS or not target:
                return response
            await response.aclose()
            url = self._redirected(url, target)
        raise ProtocolError(f"{request.method} {url}: more than {_MAX_REDIRECTS} redirects")

    def _build(self, request: HttpRequest, url: str, record: RequestRecord) -> httpx.Request:
        auth = request.auth if request.auth and may_receive(url, self._config) else AuthParts()
        headers = {"Accept": "*/*", **HEADERS, **record.headers, **request.headers, **auth.headers}
        target = parsed_url(url)
        if auth.query:
            target = target.copy_merge_params(dict(auth.query))
        extensions = {"timeout": self._timeout, "trace": _watch(record, len(request.body or b""))}
        return httpx.Request(request.method, target, content=request.body, headers=headers, extensions=extensions)

    def _redirected(self, url: str, target: str) -> str:
        following = urllib.parse.urljoin(url, target)
        if not is_at(following, url):
            raise ProtocolError(
                f"{url}: redirects to another origin ({redact_url(following)!r:.300}); that is not followed; "
                "if it is right, give that address as the endpoint"
            )
        return following

    async def _chunks(self, response: httpx.Response, meter: Meter) -> AsyncIterator[bytes]:
        size = 0
        limit = self._config.bounds.bytes
        # Nearly always the bytes are as we ask for them, and what decodes and counts them would do nothing.
        encoded = "content-encoding" in response.headers
        assert isinstance(response.stream, httpx.AsyncByteStream)
        async for chunk in response.aiter_bytes() if encoded else response.stream:
            size += len(chunk)
            if size > limit:
                where = redact_url(str(response.url.copy_with(query=None)))
                raise meter.error("bytes", f"{where}: the answer is larger than {limit} bytes and was dropped")
            meter.take(len(chunk))
            yield chunk

    async def _error_body(self, response: httpx.Response) -> bytes:
        """Read the beginning of an error's body, never to its end, so that the connection is not used again."""
        length = response.headers.get("content-length", "")
        wanted = min(int(length), _ERROR_BODY) if length.isascii() and length.isdigit() and len(length) < 10 else 1
        body = b""
        with contextlib.suppress(httpx.HTTPError):
            async for chunk in response.aiter_bytes() if wanted else _nothing():
                body += chunk
                if len(body) >= wanted:
                    break
        # Hidden here already, because an excerpt may end in the middle of a secret.
        text = body[:_ERROR_BODY].decode("utf-8", "surrogateescape")
        return hide_secrets(text, self._config.secrets).encode("utf-8", "surrogateescape")

    def _refusal(self, request: HttpRequest, response: httpx.Response, body: bytes) -> InfrastructureError:
        status = response.status_code
        what = f"{request.method} {request.url}: HTTP {status} {response.reason_phrase}".rstrip()
        says = f", saying {excerpt(body)}" if body else ""
        if status in (401, 403):
            sent = bool(request.auth) and may_receive(request.url, self._config)
            explained = explain_refusal(request.url, self._config, sent)
            return AuthenticationError(f"{what}{says}; {explained}", refused=True)
        if status == 429 or status >= 500:
            now = datetime.datetime.now(datetime.UTC)
            retry_after = parse_retry_after(response.headers.get("retry-after"), now)
            advice = "; it limits requests: run later, or with fewer conversations at once" if status == 429 else ""
            return TransportError(f"{what}{says}{advice}", status_code=status, retry_after=retry_after)
        if (error := rest_error(what, body)) is not None:
            return error
        advice = f"; the agent card of {self._config.endpoint} names this address" if status == 404 else ""
        return ProtocolError(f"{what}{says}; expected an A2A answer{advice}", status_code=status)


def _final_url(request: HttpRequest, response: httpx.Response) -> str:
    """Return where an answer came from, without the query that a redirect or our credentials added."""
    moved = response.url.path != httpx.URL(request.url).path
    return str(response.url.copy_with(query=None)) if moved else request.url


def rest_error(what: str, body: bytes) -> ProtocolError | None:
    """Read an A2A error from an HTTP error's body: JSON-RPC's object, google.rpc.Status or problem details."""
    try:
        raw = parse_json(body)
    except ProtocolError:
        return None
    error = raw.get("error", raw) if isinstance(raw, dict) else None
    return error_from(what, error) if isinstance(error, dict) else None


def error_from(what: str, error: Mapping[str, object]) -> ProtocolError:
    """Make a ProtocolError from an error object of any of the bindings."""
    code = error.get("code")
    reasons = [
        str(d["reason"]) for d in as_objects(error.get("details")) + as_objects(error.get("data")) if d.get("reason")
    ]
    kind = str(error.get("type") or "").rstrip("/").rpartition("/")[2].upper().replace("-", "_")
    number = next((_REASONS[r] for r in (*reasons, kind) if r in _REASONS), None)
    if number is None and isinstance(code, int) and not isinstance(code, bool):
        number = code
    message = error.get("message") or error.get("detail") or error.get("title") or "no message"
    extra = f" ({', '.join(reasons)})" if reasons else ""
    return ProtocolError(f"{what}: the agent answered with error {number}: {str(message)[:500]}{extra}", code=number)


# The names of §5.4, which REST and newer JSON-RPC servers send as ErrorInfo.reason (§9.5, 11.6), by JSON-RPC code.
_REASONS = {
    "TASK_NOT_FOUND": -32001,
    "TASK_NOT_CANCELABLE": -32002,
    "PUSH_NOTIFICATION_NOT_SUPPORTED": -32003,
    "UNSUPPORTED_OPERATION": -32004,
    "CONTENT_TYPE_NOT_SUPPORTED": -32005,
    "INVALID_AGENT_RESPONSE": -32006,
    "EXTENDED_AGENT_CARD_NOT_CONFIGURED": -32007,
    "EXTENSION_SUPPORT_REQUIRED": -32008,
    "VERSION_NOT_SUPPORTED": -32009,
}


def _watch(record: RequestRecord, size: int) -> Callable[[str, Mapping[str, object]], Awaitable[None]]:
    """Return a trace callback for httpcore: its events about the body show whether a request left.

    Without them (another transport than httpcore's), it is taken to have left.
    """

    async def note(step: str, info: Mapping[str, object]) -> None:
        if step == "http11.send_request_headers.started":
            record.left = False
        elif getattr(info.get("request"), "method", None) == b"CONNECT":
            # A proxy is asked for a way to the agent; nothing of ours is in that.
            return
        elif step == "http11.send_request_body.started":
            record.left = True
        elif step == "http11.send_request_body.failed" and size <= _ONE_WRITE:
            record.left = not isinstance(info.get("exception"), httpcore.WriteError)

    return note


async def _nothing() -> AsyncIterator[bytes]:
    return
    yield b""


@contextlib.contextmanager
def _translated(request: HttpRequest, config: ClientConfig, record: RequestRecord) -> Iterator[None]:
    where = f"{request.method} {request.url}"
    try:
        yield
    except RefusedConnection as error:
        raise EndpointUnreachableError(f"{where}: {error}") from error
    except (httpx.ConnectError, httpx.ConnectTimeout) as error:
        raise EndpointUnreachableError(
            f"{where}: cannot connect ({_reason(error)}); {_advice(request, config)}"
        ) from error
    except (httpx.ReadTimeout, httpx.WriteTimeout) as error:
        seconds = config.read_timeout or config.timeout
        raise TurnTimeoutError(f"{where}: no byte for {seconds:g} s while waiting for the answer") from error
    except httpx.DecodingError as error:
        raise ProtocolError(f"{where}: the answer's content encoding is broken ({error})") from error
    except (httpx.InvalidURL, httpx.UnsupportedProtocol, UnicodeError) as error:
        raise ProtocolError(f"{where}: not a URL that can be called ({error}); fix the agent card") from error
    except httpx.HTTPError as error:
        when = "in the middle of the answer" if record.answered else "before any answer"
        hint = "" if record.answered else _certificate_hint(request, config)
        raise TransportError(f"{where}: the connection broke {when} ({_reason(error)}){hint}") from error


def _certificate_hint(request: HttpRequest, config: ClientConfig) -> str:
    """Name client certificates where one may be missed: servers on asyncio want one without a word (TLS 1.3)."""
    if config.network.chain or not request.url.lower().startswith("https:"):
        return ""
    return "; if it asks for a client certificate, give that with --a2a-client-cert FILE"


def _reason(error: Exception) -> str:
    return str(error) or type(error).__name__


def _advice(request: HttpRequest, config: ClientConfig) -> str:
    if origin_of(request.url) != origin_of(config.endpoint):
        return f"the agent card of {config.endpoint} names this address"
    return "is the agent running? (--a2a-wait SECONDS waits for it)"


_SEND_SUFFIXES = ("/message:send", "/message:stream")
# A2A 1.0 §5.3 renamed the methods of 0.3.
_METHODS = {
    "1.0": {"send": "SendMessage", "stream": "SendStreamingMessage", "get": "GetTask", "cancel": "CancelTask"},
    "0.3": {"send": "message/send", "stream": "message/stream", "get": "tasks/get", "cancel": "tasks/cancel"},
}


class _HttpWire:
    """The bindings over HTTP, which differ in how an operation is written, and in how an answer is wrapped."""

    def __init__(self, edge: HttpEdge, interface: Interface, auth: AuthParts, older: Form) -> None:
        self.interface = interface
        self._edge = edge
        self._auth = auth
        self._form: Form = "1.0" if interface.version == "1.0" else older

    async def send(self, message: OutMessage, record: RequestRecord, *, stream: bool) -> AsyncGenerator[InEvent, None]:
        """Send a message and yield the events of the answer."""
        params = write_send(message, self._form, self.interface.tenant)
        request = self._request("stream" if stream else "send", params, record)
        async with aclosing(self._edge.documents(request, record)) as documents:
            async for document in documents:
                result = self._unwrap(document, record)
                with record.meter.reading():
                    event = read_event(result, self._form)
                yield event

    async def get_task(self, task_id: str, record: RequestRecord) -> InTask:
        """Ask for a task."""
        return await self._task("get", task_id, record)

    async def cancel_task(self, task_id: str, record: RequestRecord) -> InTask:
        """Ask the agent to stop a task."""
        return await self._task("cancel", task_id, record)

    async def close(self) -> None:
        """Do nothing: the connections belong to the edge."""

    async def _task(self, operation: str, task_id: str, record: RequestRecord) -> InTask:
        request = self._request(operation, {"id": task_id}, record)
        async with aclosing(self._edge.documents(request, record)) as documents:
            async for document in documents:
                return read_task(self._unwrap(document, record), self._form)
        raise ProtocolError(f"{record.method} {record.endpoint}: the answer is empty")

    def _request(self, operation: str, params: Mapping[str, Any], record: RequestRecord) -> HttpRequest:
        """Write an operation, and name its method and endpoint in the record."""
        raise NotImplementedError

    def _unwrap(self, document: Document, record: RequestRecord) -> Any:
        """Return the result in a document of the answer, or raise the error in it."""
        raise NotImplementedError

    def _http(self, method: str, record: RequestRecord, body: Mapping[str, Any] | None, *, stream: bool) -> HttpRequest:
        accept = "text/event-stream, application/json" if stream else "application/json"
        headers = {"Accept": accept, "Content-Type": "application/json"}
        # No header means 0.3 (§3.6.2), so an older server never sees one that it does not know.
        if self._form == "1.0":
            headers["A2A-Version"] = "1.0"
        content = None if body is None else _dump(body)
        return HttpRequest(method, record.endpoint, content, headers, self._auth)


class JsonRpcWire(_HttpWire):
    """JSON-RPC 2.0 over HTTP POST."""

    def __init__(self, edge: HttpEdge, interface: Interface, auth: AuthParts) -> None:
        super().__init__(edge, interface, auth, "0.3")

    def _request(self, operation: str, params: Mapping[str, Any], record: RequestRecord) -> HttpRequest:
        record.method, record.endpoint = _METHODS[self._form][operation], self.interface.url
        is_send = operation in ("send", "stream")
        # Some cards name the path of one operation, whose sibling has the other's name (agno's is message:stream's).
        if is_send and record.endpoint.endswith(_SEND_SUFFIXES):
            record.endpoint = f"{record.endpoint.rpartition(':')[0]}:{operation}"
        if not is_send and self.interface.tenant and self._form == "1.0":
            params = {**params, "tenant": self.interface.tenant}
        body = {"jsonrpc": "2.0", "id": record.request_id, "method": record.method, "params": params}
        return self._http("POST", record, body, stream=operation == "stream")

    def _unwrap(self, document: Document, record: RequestRecord) -> Any:
        raw = _parse(document, record)
        where = f"{record.method} {record.endpoint}"
        if not isinstance(raw, dict):
            raise ProtocolError(f"{where}: found {excerpt(document.text)}, expected a JSON-RPC response object")
        if isinstance(raw.get("error"), dict):
            raise error_from(where, raw["error"])
        if raw.get("error") is not None:
            raise ProtocolError(f"{where}: the agent answered with error {excerpt(str(raw['error']))}")
        if "result" not in raw:
            record.notes.append("the answer is not wrapped in a JSON-RPC response")
            return raw
        # It came on the request's own exchange, so it is its answer; some servers always write the same id.
        if raw.get("id") != record.request_id:
            record.notes.append(f"the response's id is {excerpt(str(raw.get('id')), 60)}, not the request's")
        return raw["result"]


class RestWire(_HttpWire):
    """HTTP+JSON: 1.0's paths, or 0.3's under ``/v1`` with protobuf's JSON."""

    def __init__(self, edge: HttpEdge, interface: Interface, auth: AuthParts) -> None:
        super().__init__(edge, interface, auth, "0.3-proto")
        self._base = interface.url.rstrip("/")
        for suffix in _SEND_SUFFIXES:
            self._base = self._base.removesuffix(suffix)
        if self._form != "1.0" and not self._base.endswith("/v1"):
            self._base += "/v1"
        # The tenant is a path segment in this binding, and a parameter in the others (§8.3.2, 11.3).
        if interface.tenant and self._form == "1.0":
            self._base += "/" + urllib.parse.quote(interface.tenant, safe="")

    def _request(self, operation: str, params: Mapping[str, Any], record: RequestRecord) -> HttpRequest:
        method = "POST"
        body: Mapping[str, Any] | None = params
        path = f"/message:{operation}"
        if operation in ("get", "cancel"):
            path = f"/tasks/{urllib.parse.quote(params['id'], safe='')}" + (":cancel" if operation == "cancel" else "")
            method, body = ("GET", None) if operation == "get" else ("POST", {})
        record.method, record.endpoint = f"{method} {path}", self._base + path
        return self._http(method, record, body, stream=operation == "stream")

    def _unwrap(self, document: Document, record: RequestRecord) -> Any:
        raw = _parse(document, record)
        where = f"{record.method} {record.endpoint}"
        error = raw.get("error") if isinstance(raw, dict) else None
        if isinstance(error, dict):
            raise error_from(where, error)
        if document.event == "error":
            raise ProtocolError(f"{where}: the stream broke off with {excerpt(document.text)}")
        if isinstance(raw, dict) and "jsonrpc" in raw and "result" in raw:
            record.notes.append("the answer is wrapped in a JSON-RPC response")
            return raw["result"]
        return raw


def _dump(body: Mapping[str, Any]) -> bytes:
    try:
        return json.dumps(body, allow_nan=False, separators=(",", ":")).encode()
    except (ValueError, TypeError, RecursionError) as error:
        raise HarnessError(f"a message to the agent cannot be written as JSON: {error}") from error


def _parse(document: Document, record: RequestRecord) -> Any:
    try:
        with record.meter.reading():
            return record.meter.parse(document.text)
    except ReplyLimitError as error:
        raise ReplyLimitError(f"{record.method} {record.endpoint}: {error}", limit=error.limit) from error
    except ProtocolError as error:
        if not document.has_end and is_cut(document.text):
            where = f"{record.method} {record.endpoint}"
            raise TransportError(f"{where}: the answer broke off ({error}); found {excerpt(document.text)}") from error
        found = excerpt(document.text) if document.text else "an empty body"
        raise ProtocolError(f"{record.method} {record.endpoint}: {error}; found {found}") from error
