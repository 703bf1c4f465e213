"""One request and its answer, whatever the binding: parameters, result, error, events (pure)."""

from __future__ import annotations

import asyncio
import json
import re
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Protocol

from pytest_a2a_bench.a2a.bodies import as_list
from pytest_a2a_bench.a2a.config import AuthParts
from pytest_a2a_bench.conformance.finding import CARD, Exchange
from pytest_a2a_bench.conformance.protocol.streams import is_end
from pytest_a2a_bench.model.messages import json_object

DOMAIN = "a2a-protocol.org"
ERROR_INFO = "google.rpc.ErrorInfo"
BAD_REQUEST = "google.rpc.BadRequest"
AUTH_STATUSES = (401, 403)
AUTH_GRPC_STATUSES = ("UNAUTHENTICATED", "PERMISSION_DENIED")


class _Unset:
    def __repr__(self) -> str:
        return "UNSET"


UNSET: Final = _Unset()
"""Marks an argument that was not given, where None means something."""


@dataclass(frozen=True, slots=True)
class WireRequest:
    """One request, before it is spelled for a binding.

    :param operation: an operation's 1.0 name; on JSON-RPC any other method name goes out as it is.
    :param body: replaces the body: bytes and text as they are, anything else as JSON.
    :param version_header: value of ``A2A-Version``; None leaves it out.
    :param rpc_id: the JSON-RPC id; by default a new number.
    :param until: reading of a stream stops, with ``ended`` False, after the first event for which this is true.
    :param on_event: called with each event as it comes.
    :param linger: how many seconds a stream is read on after the event that ends its task; then it is left, with
        ``ended`` False. 0.0 for as long as there is time.
    :param query: added to the URL's query (HTTP bindings).
    :param path: HTTP bindings: is asked with ``http_method`` below the interface's URL.
    :param auth: whether to send the user's credentials; or others in their place.
    """

    operation: str
    params: Mapping[str, Any] = field(default_factory=dict)
    headers: Mapping[str, str] = field(default_factory=dict)
    version_header: str | None = None
    body: Any = UNSET
    rpc_id: Any = UNSET
    stream: bool = False
    timeout: float = 10.0
    until: Callable[[Any], bool] | None = None
    on_event: Callable[[Any], None] | None = None
    linger: float = 0.0
    query: Mapping[str, str] = field(default_factory=dict)
    http_method: str = ""
    path: str | None = None
    auth: bool | AuthParts = True

    def credentials(self, own: AuthParts) -> AuthParts:
        """Return the credentials to send, where ``own`` are the user's."""
        return self.auth if isinstance(self.auth, AuthParts) else own if self.auth else AuthParts()


@dataclass
class Reading:
    """An answer while it is read.

    :param stopped: whether it was left after an event, as the request wants.
    :param is_over: whether the event came that ends its task, after which a stream is left, too.
    :param limit: the time that it has.
    """

    request: WireRequest
    started: float = field(default_factory=time.monotonic)
    status: int | None = None
    headers: dict[str, str] = field(default_factory=dict)
    times: list[float] = field(default_factory=list)
    problem: str = ""
    ended: bool = False
    stopped: bool = False
    is_over: bool = False
    limit: asyncio.Timeout | None = None

    def take(self, payload: Any, at: float) -> None:
        """Note an event that came at a moment; before the next is awaited, as what waits for it must act meanwhile."""
        self.times.append(at - self.started)
        if self.request.on_event is not None:
            self.request.on_event(payload)
        if self.limit is not None and self.request.linger and is_end(payload):
            self.is_over = True
            self.limit.reschedule(asyncio.get_running_loop().time() + self.request.linger)
        self.stopped = self.request.until is not None and self.request.until(payload)


@dataclass(frozen=True, slots=True)
class ErrorRow:
    """One row of the specification's table of errors (1.0.1 §5.4).

    :param http_old: the HTTP status of 1.0.0 where it differs; ``grpc_old`` likewise. 1.0.1 rewrote six of nine rows:
        what was right in 1.0.0 is a warning and no failure.
    """

    name: str
    code: int
    http: int
    grpc: str
    http_old: int = 0
    grpc_old: str = ""

    @property
    def reason(self) -> str:
        """``ErrorInfo.reason`` of an error of A2A's own, such as TASK_NOT_FOUND; empty for those of JSON-RPC."""
        own = -32099 <= self.code <= -32000
        return re.sub(r"(?<!^)(?=[A-Z])", "_", self.name.removesuffix("Error")).upper() if own else ""


ERRORS: Mapping[str, ErrorRow] = {
    row.name: row
    for row in (
        ErrorRow("TaskNotFoundError", -32001, 404, "NOT_FOUND"),
        ErrorRow("TaskNotCancelableError", -32002, 400, "FAILED_PRECONDITION", 409),
        ErrorRow("PushNotificationNotSupportedError", -32003, 400, "FAILED_PRECONDITION", grpc_old="UNIMPLEMENTED"),
        ErrorRow("UnsupportedOperationError", -32004, 400, "FAILED_PRECONDITION", grpc_old="UNIMPLEMENTED"),
        ErrorRow("ContentTypeNotSupportedError", -32005, 400, "INVALID_ARGUMENT", 415),
        ErrorRow("InvalidAgentResponseError", -32006, 500, "INTERNAL", 502),
        ErrorRow("ExtendedAgentCardNotConfiguredError", -32007, 400, "FAILED_PRECONDITION"),
        ErrorRow("ExtensionSupportRequiredError", -32008, 400, "FAILED_PRECONDITION"),
        ErrorRow("VersionNotSupportedError", -32009, 400, "FAILED_PRECONDITION", grpc_old="UNIMPLEMENTED"),
        ErrorRow("ParseError", -32700, 400, "INVALID_ARGUMENT"),
        ErrorRow("InvalidRequestError", -32600, 400, "INVALID_ARGUMENT"),
        ErrorRow("MethodNotFoundError", -32601, 404, "UNIMPLEMENTED"),
        ErrorRow("InvalidParamsError", -32602, 400, "INVALID_ARGUMENT"),
        ErrorRow("InternalError", -32603, 500, "INTERNAL"),
    )
}
# By number or by reason, never by message: texts are for people, and the specification does not fix them.
_BY_CODE = {row.code: row.name for row in ERRORS.values()}
_BY_REASON = {row.reason: row.name for row in ERRORS.values() if row.reason}


@dataclass(frozen=True, slots=True)
class ReplyError:
    """An error, in the words that every binding shares.

    :param name: the specification's name of it (``TaskNotFoundError``), empty where the answer does not say.
    :param code: JSON-RPC code, where the answer has one.
    :param details: the ``google.rpc`` objects, as JSON.
    """

    name: str = ""
    message: str = ""
    code: int | None = None
    http_status: int | None = None
    grpc_status: str = ""
    details: tuple[Any, ...] = ()
    raw: Any = None

    @property
    def reason(self) -> str:
        """``ErrorInfo.reason``, or empty."""
        info = self.detail(ERROR_INFO)
        return str(info.get("reason") or "") if info else ""

    def detail(self, kind: str) -> Mapping[str, Any] | None:
        """Return the first detail of a ``google.rpc`` type."""
        return _detail(self.details, kind)

    # Where there is a status only, several errors share it.
    def may_be(self, name: str) -> bool:
        """Return whether this can be that error: by code, by reason, or where neither is given by status."""
        if self.name:
            return self.name == name
        # HTTP statuses are only a hint where JSON-RPC has given a code, as its answers are 200.
        row = ERRORS[name]
        if self.http_status is not None and self.code is None:
            return self.http_status in (row.http, row.http_old)
        return bool(self.grpc_status) and self.grpc_status in (row.grpc, row.grpc_old)

    @property
    def shape(self) -> tuple[object, ...]:
        """What a program can tell it apart by: texts may differ, as they name ids."""
        return self.name, self.code, self.http_status, self.grpc_status, self.reason

    @property
    def is_internal(self) -> bool:
        """Whether it says that the server broke down."""
        broken = self.name == "InternalError" or self.grpc_status in ("INTERNAL", "UNKNOWN")
        return broken or (self.code is None and (self.http_status or 0) >= 500)

    # The message is the agent's: a page of it would bury what is said about it.
    def __str__(self) -> str:
        # Servers that refuse credentials often put the status into the body as well, where JSON-RPC has its code.
        numbers = dict.fromkeys((self.code, self.http_status))
        marks = [self.name, *(str(n or "") for n in numbers), self.grpc_status]
        return f"{' '.join(m for m in marks if m)}: {self.message[:300] or 'no message'}"


@dataclass(frozen=True, slots=True)
class WireReply:
    """One answer.

    :param document: the whole body as JSON (with the JSON-RPC envelope), None where it is not JSON.
    :param result: the operation's result as JSON, None where there is none.
    :param events: results of the events of a stream, in order; ``documents`` are the same with their envelopes.
    :param ended: whether the server itself ended the answer, in time and in order.
    :param problem: why there is no answer that can be read, else empty.
    :param times: seconds after the request at which each event came.
    """

    exchange: Exchange
    status: int | None = None
    headers: Mapping[str, str] = field(default_factory=dict)
    document: Any = None
    result: Any = None
    error: ReplyError | None = None
    events: tuple[Any, ...] = ()
    documents: tuple[Any, ...] = ()
    ended: bool = False
    problem: str = ""
    times: tuple[float, ...] = ()
    rpc_id: Any = None

    @property
    def ok(self) -> bool:
        """Whether it is a result, not an error and not noise."""
        return self.error is None and not self.problem and (self.result is not None or bool(self.events))

    def may_be(self, *names: str) -> bool:
        """Return whether it can be one of these errors of the specification's table."""
        return self.error is not None and any(map(self.error.may_be, names))

    @property
    def is_null(self) -> bool:
        """Whether there is a result, and it is null."""
        document = self.document
        return isinstance(document, Mapping) and "result" in document and document["result"] is None

    @property
    def has_auth_status(self) -> bool:
        """Whether its HTTP or gRPC status says that credentials are missing or wrong."""
        error = self.error
        if error is None:
            return False
        http = error.http_status in AUTH_STATUSES or self.status in AUTH_STATUSES
        return http or error.grpc_status in AUTH_GRPC_STATUSES

    @property
    def is_refused(self) -> bool:
        """Whether the request was refused for its credentials: an A2A error shows that it was not."""
        error = self.error
        if error is None or self.has_auth_status:
            return error is not None
        # JSON-RPC has no code for it, so servers take one that is in no table.
        return self.exchange.binding == "JSONRPC" and error.code is not None and error.name not in ERRORS

    @property
    def is_internal_error(self) -> bool:
        """Whether it is an error that says that the server broke down."""
        return self.error is not None and self.error.is_internal

    @property
    def is_breakdown(self) -> bool:
        """Whether the server failed, rather than refuse: an internal error, or a status of HTTP that says so."""
        if self.error is None:
            # 501 says that something is not there.
            return bool(self.problem) and self.exchange.binding != "GRPC" and (self.status or 0) >= 500
        return self.is_internal_error and self.error.name in ("", "InternalError") and self.status != 501

    @property
    def content_type(self) -> str:
        """The media type, without its parameters, in lower case."""
        return self.headers.get("content-type", "").partition(";")[0].strip().lower()

    def describe(self) -> str:
        """Describe the answer in a few words."""
        if self.problem:
            return self.problem
        if self.error is not None:
            return f"error {self.error}"
        if self.is_null:
            return f"`result` is null: status {self.status} with {self.exchange.response[:200]!r}"
        if self.events or self.documents:
            return f"a stream of {len(self.events)} event{'s' * (len(self.events) != 1)}"
        return f"status {self.status} with {self.exchange.response[:200]!r}"


class Wire(Protocol):
    """A connection to one interface."""

    # One method for every operation: what differs between bindings (verbs, paths, envelopes) is the wire's business, so
    # that a check is written once and asked on each of them.
    async def call(self, request: WireRequest) -> WireReply:
        """Send a request and read the answer; the agent's answer never raises.

        :raises SkipCheck: if the binding has no form for the request.
        """
        ...

    async def close(self) -> None:
        """Close all connections."""
        ...


class SkipCheck(Exception):
    """The check does not apply here; the message says why, and how to enable it."""


class NoAnswer(Exception):
    """The agent gave no answer that a check needs, so that its requirement cannot be judged."""

    def __init__(self, message: str, reply: WireReply | None = None) -> None:
        self.reply = reply
        super().__init__(message)


def _as_json(value: Any) -> str:
    """Return the value in the place of an error; None if there is none."""
    return "" if value is None else json.dumps(value, ensure_ascii=False)[:300]


def read_rpc_error(raw: Any, status: int | None) -> ReplyError:
    """Read the ``error`` member of a JSON-RPC answer."""
    if not isinstance(raw, Mapping):
        return ReplyError(message=_as_json(raw), raw=raw, http_status=status)
    code = raw.get("code")
    # In Python True is 1, and in JSON it is no number. A code that is a text is one finding (ERR-001), not many.
    found = re.fullmatch(r"-?\d{1,9}", str(code), re.ASCII) if isinstance(code, int | str) else None
    number = int(found[0]) if found else None
    details = tuple(as_list(raw.get("data")))
    name = _BY_CODE.get(number, "") if number is not None else ""
    return ReplyError(name, str(raw.get("message") or ""), number, status, "", details, raw)


def read_rest_error(document: Any, status: int) -> ReplyError:
    """Read an error answer of HTTP+JSON: in the form of 1.0, in problem+json, or as 0.3's JSONRPCError (its §7.1)."""
    # problem+json (RFC 9457) has its members at the top; examples of the specification (section 3.3) have this form.
    raw = document.get("error", document) if isinstance(document, Mapping) else document
    if not isinstance(raw, Mapping):
        return ReplyError(message=_as_json(raw), http_status=status, raw=document)
    found = tuple(as_list(raw.get("details")))
    message = str(raw.get("message") or raw.get("detail") or raw.get("title") or "")
    # In AIP-193 the name of the gRPC status; in problem+json the HTTP status again, as a number.
    grpc_status = raw.get("status")
    numbered = read_rpc_error(raw, status)
    return ReplyError(
        _name_of(found, is_invalid=status == ERRORS["InvalidParamsError"].http) or numbered.name,
        message,
        numbered.code if numbered.name else None,
        status,
        grpc_status if isinstance(grpc_status, str) else "",
        found,
        document,
    )


def read_grpc_error(status: str, message: str, details: Iterable[Any]) -> ReplyError:
    """Read a gRPC status with its details."""
    found = tuple(details)
    name = _name_of(found, is_invalid=status == ERRORS["InvalidParamsError"].grpc)
    return ReplyError(name, message, None, None, status, found, {"status": status, "message": message})


def error_in(exchange: Exchange) -> ReplyError | None:
    """Return the error of an exchange that is kept as evidence, as far as its text still has it; None for none."""
    document = json_object(exchange.response) or json_object(next(iter(exchange.events), ""))
    if exchange.binding == "GRPC":
        words = (str(document.get("status") or ""), str(document.get("message") or ""))
        return read_grpc_error(*words, document.get("details") or ()) if exchange.status else None
    if exchange.binding == "JSONRPC" or exchange.binding == CARD:
        found = document.get("error")
        return read_rpc_error(found, exchange.status) if isinstance(found, Mapping) else None
    is_error = (exchange.status or 0) >= 300 or isinstance(document.get("error"), Mapping)
    return read_rest_error(document, exchange.status or 0) if is_error else None


def has_failed(exchange: Exchange) -> bool:
    """Return whether the server failed instead of answering."""
    error = error_in(exchange)
    return error.is_internal if error is not None else exchange.binding != "GRPC" and (exchange.status or 0) >= 500


def _detail(details: Iterable[Any], kind: str) -> Mapping[str, Any] | None:
    typed = (d for d in details if isinstance(d, Mapping) and str(d.get("@type", "")).endswith(kind))
    return next(typed, None)


def _name_of(details: Iterable[Any], *, is_invalid: bool) -> str:
    """Return the name of an error by its reason.

    :param is_invalid: whether its status is that of a validation error, which violations of fields tell from others.
    """
    info = _detail(details, ERROR_INFO) or {}
    is_invalid = is_invalid and _detail(details, BAD_REQUEST) is not None
    return _BY_REASON.get(str(info.get("reason") or ""), "InvalidParamsError" if is_invalid else "")
