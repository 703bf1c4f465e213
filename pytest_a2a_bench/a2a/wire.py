"""The bindings over HTTP: JSON-RPC and HTTP+JSON, protocol 1.0 and 0.3."""

from __future__ import annotations

import json
import urllib.parse
from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing
from typing import Any

from pytest_a2a_bench.a2a.auth import AuthParts
from pytest_a2a_bench.a2a.bodies import excerpt, is_cut
from pytest_a2a_bench.a2a.card import Interface
from pytest_a2a_bench.a2a.codec import Form, InEvent, InTask, OutMessage, read_event, read_task, write_send
from pytest_a2a_bench.a2a.http import Document, HttpEdge, HttpRequest, error_from
from pytest_a2a_bench.a2a.requests import RequestRecord
from pytest_a2a_bench.errors import HarnessError, ProtocolError, ReplyLimitError, TransportError

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
