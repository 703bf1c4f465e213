"""The HTTP bindings of the faulty agent: what they share, JSON-RPC, and HTTP+JSON."""

import asyncio
import hashlib
import json
import re
from collections.abc import AsyncIterator, Container, Mapping
from dataclasses import dataclass
from email.utils import formatdate
from typing import Any
from urllib.parse import unquote

from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from faulty import odd_writing, old
from faulty.agent import OPERATIONS, STREAMED, FaultyAgent
from faulty.fault import BY_MISTAKE, Caller, Fault, FaultyCall, Json, Packet
from faulty.problems import OperationError, Problem, Violation, failure, invalid

REST_PREFIX = "/rest"


@dataclass(frozen=True)
class Desk:
    """Answers HTTP requests for one agent.

    :param tokens: the names of the callers by their bearer token; empty where everybody may call.
    :param published: the card as it is served.
    :param keys: what its signature is verified with; None where it has none.
    """

    agent: FaultyAgent
    tokens: Mapping[str, str]
    published: Json
    keys: Json | None = None

    def caller(self, request: Request, call: FaultyCall) -> Caller:
        """Return who calls.

        :raises OperationError: without a known token where one is needed.
        """
        # Which operation is asked for is not known yet: the agent looks again at who is let in by mistake.
        fault = self.agent.fault if self.agent.fault.operations else self.agent.faulted(call)
        name = identify(request.headers.get("authorization", ""), self.tokens, fault)
        if self.agent.version == "0.3":
            # What came before there was a header of versions.
            uris = request.headers.get("x-a2a-extensions", "").split(",")
            version = request.headers.get("a2a-version", "") if self.agent.on("wants-version") else "1.0"
            return Caller(name, version, tuple(uri.strip() for uri in uris if uri.strip()))
        version = request.headers.get("a2a-version") or request.query_params.get("A2A-Version", "")
        if self.agent.on("query-version-breaks") and "A2A-Version" in request.query_params:
            raise failure("Internal")
        wanted = ",".join(request.headers.getlist("a2a-extensions"))
        uris = [wanted] if self.agent.on("no-commas") else wanted.split(",")
        return Caller(name, version, tuple(uri.strip() for uri in uris if uri.strip()))

    def respond(
        self, call: FaultyCall, status: int, media: str, body: Any, headers: Mapping[str, str] | None = None
    ) -> Response:
        """Send JSON, as the fault leaves it."""
        packet = Packet(status, {"content-type": media, **(headers or {})}, json.dumps(body).encode())
        if self.agent.on("odd-writing"):
            odd = {**packet.headers, "content-type": f'{media.upper()} ; Charset="UTF-8"'}
            packet = Packet(status, odd, odd_writing.text(body).encode())
        fault = self.agent.faulted(call)
        return packed(fault.packet(call, packet) if fault else packet)

    def stream(self, call: FaultyCall, events: AsyncIterator[str]) -> Response:
        """Send server-sent events."""
        packet = Packet(200, {"content-type": "text/event-stream", "cache-control": "no-store"}, b"")
        fault = self.agent.faulted(call)
        status, headers, body = fault.packet(call, packet) if fault else packet
        if body:
            return packed(Packet(status, headers, body))
        write = _odd_event if self.agent.on("odd-writing") else "data: {}\n\n".format
        written = (write(event) async for event in events)
        return StreamingResponse(_pinging(written) if self.agent.on("only-pings") else written, status, dict(headers))

    def activated(self, caller: Caller) -> dict[str, str]:
        """Return the header that names the extensions that the agent will use."""
        declared = [e["uri"] for e in self.agent.card["capabilities"].get("extensions", ())]
        used = [uri for uri in caller.extensions if uri in declared]
        if self.agent.on("any-extension"):
            used = [*declared, *caller.extensions] if caller.extensions else []
        return {"a2a-extensions": ", ".join(used)} if used else {}

    async def card(self, request: Request) -> Response:
        """Answer with the public card."""
        fault = self.agent.fault
        written = odd_writing.text(self.published) if self.agent.on("odd-writing") else json.dumps(self.published)
        body = written.encode()
        tag = f'"{hashlib.sha256(body).hexdigest()[:16]}"'
        headers = {
            "content-type": "application/json",
            "cache-control": "public, max-age=300",
            "etag": tag,
            "last-modified": formatdate(1_767_225_600, usegmt=True),
        }
        if tag in request.headers.get("if-none-match", ""):
            return Response(status_code=304, headers={k: v for k, v in headers.items() if k != "content-type"})
        return packed(fault.card_packet(Packet(200, headers, body)))

    async def jwks(self, request: Request) -> Response:
        """Answer with the key of the card's signature."""
        return Response(json.dumps(self.keys), media_type="application/jwk-set+json")


def _odd_event(event: str) -> str:
    return odd_writing.event(json.loads(event))


def identify(authorization: str, tokens: Mapping[str, str], fault: Fault | None) -> str:
    """Return the caller's name.

    :raises OperationError: if the token is missing or wrong.
    """
    if not tokens or (fault and "no-auth" in fault.switches):
        return "anybody"
    scheme, _, token = authorization.partition(" ")
    is_known_scheme = scheme.lower() == "bearer" or (fault is not None and "any-scheme" in fault.switches)
    if is_known_scheme and token.strip() in tokens:
        return tokens[token.strip()]
    if fault and (("any-token" in fault.switches and token) or ("no-auth-missing" in fault.switches and not token)):
        return f"{next(iter(tokens.values()))}{BY_MISTAKE if fault.operations else ''}"
    raise failure("Unauthenticated")


def packed(packet: Packet) -> Response:
    """Return a Starlette response."""
    return Response(packet.body, packet.status, dict(packet.headers))


async def body_of(request: Request) -> Any:
    """Read JSON.

    :raises OperationError: if it is none.
    """
    try:
        return json.loads(await request.body())
    except (ValueError, RecursionError) as error:
        raise failure("JSONParse", f"the body is not JSON: {error}") from error


def error_body(error: OperationError, call: FaultyCall, fault: Fault | None) -> Json:
    """Return the REST body of an error."""
    problem = error.problem
    shown: Json = {
        "error": {
            "code": problem.http,
            "status": problem.grpc,
            "message": problem.message,
            "details": list(problem.details),
        }
    }
    return fault.envelope(call, shown) if fault else shown


# -- JSON-RPC --


RPC_MEDIA = "application/json"


class JsonRpc:
    """Reads envelopes and writes them."""

    def __init__(self, desk: Desk) -> None:
        self._desk = desk

    async def handle(self, request: Request) -> Response:
        """Answer one request."""
        number: Any = None
        call = FaultyCall("JSONRPC", "", {})
        try:
            caller = self._desk.caller(request, call)
            envelope = await body_of(request)
            number = _readable_id(envelope)
            call = old.read(self._desk.agent, _read(envelope, self._desk.agent))._replace(version=caller.version)
            headers = self._desk.activated(caller)
            if call.operation in STREAMED:
                return await self._stream(call, caller, number)
            result = await self._desk.agent.call(call, caller)
        except OperationError as error:
            return self._fail(call, number, error)
        outcome = {"result": old.written(self._desk.agent, call, result)}
        return self._desk.respond(call, 200, RPC_MEDIA, self._envelope(call, number, outcome), headers)

    async def _stream(self, call: FaultyCall, caller: Caller, number: Any) -> Response:
        events = await self._desk.agent.stream(call, caller)

        async def envelopes() -> AsyncIterator[str]:
            async for event in events:
                outcome = {"result": old.written(self._desk.agent, call, event)}
                yield json.dumps(self._envelope(call, number, outcome))

        return self._desk.stream(call, envelopes())

    def _fail(self, call: FaultyCall, number: Any, error: OperationError) -> Response:
        problem = self._before_the_agent(call, error.problem)
        shown: Json = {"code": problem.code, "message": problem.message}
        if problem.details and self._desk.agent.version != "0.3":
            shown["data"] = list(problem.details)
        refused = problem.kind == "Unauthenticated"
        headers = {"www-authenticate": 'Bearer realm="a2a"'} if refused else {}
        body = self._envelope(call, number, {"error": shown})
        return self._desk.respond(call, problem.http if refused else 200, RPC_MEDIA, body, headers)

    def _before_the_agent(self, call: FaultyCall, problem: Problem) -> Problem:
        """Let the fault see what went wrong before the agent was asked, as it has seen everything else."""
        fault = self._desk.agent.faulted(call)
        early = (
            problem.kind in ("JSONParse", "InvalidRequest", "MethodNotFound", "Unauthenticated") or not call.operation
        )
        changed = fault.error(call, problem) if fault and early else problem
        return changed if isinstance(changed, Problem) else problem

    def _envelope(self, call: FaultyCall, number: Any, outcome: Json) -> Json:
        fault = self._desk.agent.faulted(call)
        envelope = {"jsonrpc": "2.0", "id": number, **outcome}
        return fault.envelope(call, envelope) if fault else envelope


def _readable_id(envelope: Any) -> Any:
    number = envelope.get("id") if isinstance(envelope, dict) else None
    return number if isinstance(number, str | int | float) and not isinstance(number, bool) else None


def _read(envelope: Any, agent: FaultyAgent) -> FaultyCall:
    if not isinstance(envelope, dict):
        raise failure("InvalidRequest", "a request is one JSON object")
    if envelope.get("jsonrpc") != "2.0":
        raise failure("InvalidRequest", 'jsonrpc must be "2.0"')
    method = envelope.get("method")
    if not isinstance(method, str) or not method:
        raise failure("InvalidRequest", "a method is required")
    params = envelope.get("params", {})
    if agent.on("tenant-first") and isinstance(params, dict) and not params.get("tenant"):
        raise failure("InvalidParams", "a tenant is required")
    operation = old.METHODS.get(method, "") if agent.version == "0.3" else method
    if operation not in OPERATIONS:
        raise failure("MethodNotFound", f"there is no method {method!r}")
    if not isinstance(params, dict):
        raise failure("InvalidParams", "params must be an object")
    return FaultyCall("JSONRPC", operation, params)


async def _pinging(events: AsyncIterator[str]) -> AsyncIterator[str]:
    """Yield the first event, and then comments that keep the connection open."""
    yield await anext(events)
    while True:
        yield ": ping\n\n"
        await asyncio.sleep(0.05)


# -- HTTP+JSON --


REST_MEDIA = "application/a2a+json"

_TENANT = r"(?:(?P<tenant>[^/:]+)/)?"
_CONFIGS = r"tasks/(?P<taskId>[^/]+)/pushNotificationConfigs"
_ROUTES = [
    (re.compile(_TENANT + pattern), verbs, operation)
    for pattern, verbs, operation in (
        (r"message:send", ("POST",), "SendMessage"),
        (r"message:stream", ("POST",), "SendStreamingMessage"),
        (r"tasks", ("GET",), "ListTasks"),
        (r"tasks/(?P<id>[^/]+):cancel", ("POST",), "CancelTask"),
        (r"tasks/(?P<id>[^/]+):subscribe", ("POST", "GET"), "SubscribeToTask"),
        (_CONFIGS, ("POST",), "CreateTaskPushNotificationConfig"),
        (_CONFIGS, ("GET",), "ListTaskPushNotificationConfigs"),
        (_CONFIGS + r"/(?P<id>[^/]+)", ("GET",), "GetTaskPushNotificationConfig"),
        (_CONFIGS + r"/(?P<id>[^/]+)", ("DELETE",), "DeleteTaskPushNotificationConfig"),
        (r"tasks/(?P<id>[^/:]+)", ("GET",), "GetTask"),
        (r"extendedAgentCard", ("GET",), "GetExtendedAgentCard"),
    )
]
_NUMBERS = ("historyLength", "pageSize")
_FLAGS = {"true": True, "false": False}


class Rest:
    """Reads paths and queries, and writes bodies."""

    def __init__(self, desk: Desk) -> None:
        self._desk = desk

    async def handle(self, request: Request) -> Response:
        """Answer one request."""
        call = FaultyCall("HTTP+JSON", "", {})
        try:
            agent = self._desk.agent
            operation, found = _match(
                request,
                "v1/" if agent.version == "0.3" and not agent.on("rest-no-v1") else "",
                is_old=agent.version == "0.3",
                decoded=agent.on("slashes-separate"),
                subscribing=agent.fault.subscribing,
            )
            call = call._replace(operation=operation)
            self._check_media(request)
            caller = self._desk.caller(request, call)
            call = call._replace(params={**await _params(request), **found}, version=caller.version)
            call = old.read(self._desk.agent, call)
            if operation in STREAMED:
                return await self._stream(call, caller)
            result = await self._desk.agent.call(call, caller)
        except OperationError as error:
            return self._fail(call, error)
        headers = self._desk.activated(caller)
        if operation == "GetExtendedAgentCard":
            tag = hashlib.sha256(json.dumps(result).encode()).hexdigest()[:16]
            headers = {**headers, "cache-control": "private, max-age=60", "etag": f'"{tag}"'}
        media = RPC_MEDIA if self._desk.agent.version == "0.3" else REST_MEDIA
        return self._desk.respond(call, 200, media, old.written(self._desk.agent, call, result), headers)

    def _check_media(self, request: Request) -> None:
        media = request.headers.get("content-type", REST_MEDIA).partition(";")[0]
        if self._desk.agent.on("only-a2a-json") and request.method == "POST" and media != REST_MEDIA:
            raise failure("ContentTypeNotSupported", f"{media} is not supported, {REST_MEDIA} is")

    async def _stream(self, call: FaultyCall, caller: Caller) -> Response:
        events = await self._desk.agent.stream(call, caller)

        async def lines() -> AsyncIterator[str]:
            async for event in events:
                yield json.dumps(old.written(self._desk.agent, call, event))

        return self._desk.stream(call, lines())

    def _fail(self, call: FaultyCall, error: OperationError) -> Response:
        fault = self._desk.agent.faulted(call)
        if fault and error.problem.kind in ("JSONParse", "MethodNotFound", "Unauthenticated"):
            changed = fault.error(call, error.problem)
            error = OperationError(changed) if isinstance(changed, Problem) else error
        refused = error.problem.kind == "Unauthenticated"
        headers = {"www-authenticate": 'Bearer realm="a2a"'} if refused else {}
        body = error_body(error, call, fault)
        return self._desk.respond(call, error.problem.http, REST_MEDIA, body, headers)


def _match(
    request: Request, below: str, *, is_old: bool, decoded: bool, subscribing: Container[str]
) -> tuple[str, Json]:
    # From the raw path, so that an encoded slash stays in the identifier that it belongs to.
    raw = bytes(request.scope.get("raw_path") or request.url.path.encode()).decode("ascii", "replace")
    path = raw.partition("?")[0].removeprefix(REST_PREFIX).removeprefix("/")
    path = unquote(path) if decoded else path
    if below:
        inside = path.startswith(below)
        path = {f"{below}card": "extendedAgentCard"}.get(path, path.removeprefix(below)) if inside else ""
    allowed = False
    for pattern, verbs, operation in _ROUTES:
        if found := pattern.fullmatch(path):
            allowed = True
            # Where /v1 is missing it is no tenant either.
            served = subscribing if operation == "SubscribeToTask" else verbs
            if request.method in served and not (is_old and found["tenant"]):
                return operation, {k: unquote(v) for k, v in found.groupdict().items() if v is not None}
    problem = failure("MethodNotFound", f"there is no {request.method} /{path}").problem
    if allowed:
        raise OperationError(Problem(problem.kind, problem.code, 405, problem.grpc, problem.message))
    raise OperationError(problem)


async def _params(request: Request) -> Json:
    if request.method == "POST":
        body = await body_of(request) if await request.body() else {}
        if not isinstance(body, dict):
            raise failure("InvalidParams", "the body must be a JSON object")
        return body
    return {name: _read_query(name, text) for name, text in request.query_params.items() if name != "A2A-Version"}


def _read_query(name: str, text: str) -> Any:
    if name in _NUMBERS:
        try:
            return int(text)
        except ValueError:
            raise invalid([Violation("query", name, "must be a whole number")]) from None
    if name == "includeArtifacts":
        if text.lower() not in _FLAGS:
            raise invalid([Violation("query", name, "must be true or false")])
        return _FLAGS[text.lower()]
    return text
