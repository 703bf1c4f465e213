"""The bindings over HTTP: JSON-RPC and HTTP+JSON, protocol 1.0 and 0.3."""

from __future__ import annotations

import json
import urllib.parse
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import aclosing
from typing import Any, Protocol

from pytest_a2a_bench.a2a.auth import AuthParts
from pytest_a2a_bench.a2a.bodies import excerpt
from pytest_a2a_bench.a2a.card import Interface
from pytest_a2a_bench.a2a.codec import Form, read_event, read_task, write_send
from pytest_a2a_bench.a2a.http import Document, HttpEdge, HttpRequest, error_from
from pytest_a2a_bench.a2a.messages import InEvent, InTask, OutMessage
from pytest_a2a_bench.a2a.requests import RequestRecord
from pytest_a2a_bench.errors import HarnessError, ProtocolError, ReplyLimitError

_SEND_SUFFIXES = ("/message:send", "/message:stream")
# A2A 1.0 §5.3 renamed the methods of 0.3.
_METHODS = {
    "1.0": {"send": "SendMessage", "stream": "SendStreamingMessage", "get": "GetTask", "cancel": "CancelTask"},
    "0.3": {"send": "message/send", "stream": "message/stream", "get": "tasks/get", "cancel": "tasks/cancel"},
}


class Wire(Protocol):
    """One binding of one protocol version to one interface of an agent."""

    interface: Interface

    def send(self, message: OutMessage, record: RequestRecord, *, stream: bool) -> AsyncGenerator[InEvent, None]:
        """Send a message and yield what comes back: one event, or several where it streams."""
        ...

    async def get_task(self, task_id: str, record: RequestRecord) -> InTask:
        """Ask for an a2a_task."""
        ...

    async def cancel_task(self, task_id: str, record: RequestRecord) -> InTask:
        """Ask the agent to stop an a2a_task."""
        ...

    async def close(self) -> None:
        """Let go of what this wire alone holds."""
        ...


class Tape(Protocol):
    """Something between a conversation and the agent: see the package ``cassettes``."""

    async def wire(self, real: Callable[[], Awaitable[Wire]]) -> Wire:
        """Return the wire to use. ``real`` returns the one to the agent."""
        ...

    def timed(self, seconds: float) -> float:
        """Return how long a turn took, given how long it took now."""
        ...


class _HttpWire:
    """What both bindings over HTTP share."""

    def __init__(self, edge: HttpEdge, interface: Interface, auth: AuthParts, older: Form) -> None:
        self.interface = interface
        self._edge = edge
        self._auth = auth
        self._form: Form = "1.0" if interface.version == "1.0" else older

    async def close(self) -> None:
        """Do nothing: the connections belong to the edge."""

    async def _events(self, results: AsyncGenerator[Any, None], record: RequestRecord) -> AsyncGenerator[InEvent, None]:
        async with aclosing(results):
            async for result in results:
                with record.meter.reading():
                    event = read_event(result, self._form)
                yield event

    async def _read_task(self, results: AsyncGenerator[Any, None], record: RequestRecord) -> InTask:
        async with aclosing(results):
            async for result in results:
                return read_task(result, self._form)
        raise ProtocolError(f"{record.method} {record.endpoint}: the answer is empty")


class JsonRpcWire(_HttpWire):
    """JSON-RPC 2.0 over HTTP POST."""

    def __init__(self, edge: HttpEdge, interface: Interface, auth: AuthParts) -> None:
        super().__init__(edge, interface, auth, "0.3")
        self._methods = _METHODS[self._form]

    def send(self, message: OutMessage, record: RequestRecord, *, stream: bool) -> AsyncGenerator[InEvent, None]:
        """Send a message and yield what comes back."""
        params = write_send(message, self._form, self.interface.tenant)
        return self._events(self._results("stream" if stream else "send", params, record), record)

    async def get_task(self, task_id: str, record: RequestRecord) -> InTask:
        """Ask for an a2a_task."""
        return await self._task("get", task_id, record)

    async def cancel_task(self, task_id: str, record: RequestRecord) -> InTask:
        """Ask the agent to stop an a2a_task."""
        return await self._task("cancel", task_id, record)

    async def _task(self, operation: str, task_id: str, record: RequestRecord) -> InTask:
        params = {"id": task_id}
        if self.interface.tenant and self._form == "1.0":
            params["tenant"] = self.interface.tenant
        return await self._read_task(self._results(operation, params, record), record)

    async def _results(
        self, operation: str, params: Mapping[str, Any], record: RequestRecord
    ) -> AsyncGenerator[Any, None]:
        record.method = self._methods[operation]
        record.endpoint = self._url(operation)
        body = {"jsonrpc": "2.0", "id": record.request_id, "method": record.method, "params": params}
        headers = _headers(self._form, stream=operation == "stream")
        request = HttpRequest("POST", record.endpoint, _dump(body), headers, self._auth)
        async with aclosing(self._edge.documents(request, record)) as documents:
            async for document in documents:
                yield self._unwrap(document, record)

    def _url(self, operation: str) -> str:
        """Return where to post: some cards name the path of one operation, whose sibling has the other's name."""
        # agno's, for one, is the path of message:stream.
        url = self.interface.url
        if operation in ("send", "stream") and url.endswith(_SEND_SUFFIXES):
            return f"{url.rpartition(':')[0]}:{operation}"
        return url

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
        self._base = _rest_base(interface, self._form)

    def send(self, message: OutMessage, record: RequestRecord, *, stream: bool) -> AsyncGenerator[InEvent, None]:
        """Send a message and yield what comes back."""
        params = write_send(message, self._form, self.interface.tenant)
        path = "/message:stream" if stream else "/message:send"
        return self._events(self._results("POST", path, params, record, stream=stream), record)

    async def get_task(self, task_id: str, record: RequestRecord) -> InTask:
        """Ask for an a2a_task."""
        return await self._task("GET", f"/tasks/{urllib.parse.quote(task_id, safe='')}", None, record)

    async def cancel_task(self, task_id: str, record: RequestRecord) -> InTask:
        """Ask the agent to stop an a2a_task."""
        return await self._task("POST", f"/tasks/{urllib.parse.quote(task_id, safe='')}:cancel", {}, record)

    async def _task(self, method: str, path: str, body: Mapping[str, Any] | None, record: RequestRecord) -> InTask:
        return await self._read_task(self._results(method, path, body, record, stream=False), record)

    async def _results(
        self, method: str, path: str, body: Mapping[str, Any] | None, record: RequestRecord, *, stream: bool
    ) -> AsyncGenerator[Any, None]:
        record.method = f"{method} {path.partition('?')[0]}"
        record.endpoint = self._base + path
        content = None if body is None else _dump(body)
        request = HttpRequest(method, record.endpoint, content, _headers(self._form, stream=stream), self._auth)
        async with aclosing(self._edge.documents(request, record)) as documents:
            async for document in documents:
                yield self._unwrap(document, record)

    def _unwrap(self, document: Document, record: RequestRecord) -> Any:
        raw = _parse(document, record)
        error = raw.get("error") if isinstance(raw, dict) else None
        if isinstance(error, dict):
            raise error_from(f"{record.method} {record.endpoint}", error)
        if document.event == "error":
            raise ProtocolError(
                f"{record.method} {record.endpoint}: the stream broke off with {excerpt(document.text)}"
            )
        if isinstance(raw, dict) and "jsonrpc" in raw and "result" in raw:
            record.notes.append("the answer is wrapped in a JSON-RPC response")
            return raw["result"]
        return raw


def _rest_base(interface: Interface, form: Form) -> str:
    base = interface.url.rstrip("/")
    for suffix in _SEND_SUFFIXES:
        base = base.removesuffix(suffix)
    if form != "1.0" and not base.endswith("/v1"):
        base += "/v1"
    # The tenant is a path segment in this binding, and a parameter in the others (§8.3.2, 11.3).
    if interface.tenant and form == "1.0":
        base += "/" + urllib.parse.quote(interface.tenant, safe="")
    return base


def _headers(form: Form, *, stream: bool) -> dict[str, str]:
    accept = "text/event-stream, application/json" if stream else "application/json"
    headers = {"Accept": accept, "Content-Type": "application/json"}
    # No header means 0.3 (§3.6.2), so an older server never sees one that it does not know.
    if form == "1.0":
        headers["A2A-Version"] = "1.0"
    return headers


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
        found = excerpt(document.text) if document.text else "an empty body"
        raise ProtocolError(f"{record.method} {record.endpoint}: {error}; found {found}") from error
