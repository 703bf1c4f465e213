"""The HTTP+JSON binding of the faulty agent."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import AsyncIterator
from typing import Any
from urllib.parse import unquote

from starlette.requests import Request
from starlette.responses import Response

from pytest_a2a_bench.agents.faulty.agent import STREAMED, Caller
from pytest_a2a_bench.agents.faulty.fault import FaultyCall, Json
from pytest_a2a_bench.agents.faulty.http import REST_PREFIX, Desk, body_of, error_body
from pytest_a2a_bench.agents.faulty.problems import OperationError, Problem, Violation, failure, invalid

MEDIA = "application/a2a+json"

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
            operation, found = _match(request)
            call = call._replace(operation=operation)
            self._check_media(request)
            caller = self._desk.caller(request, "HTTP+JSON")
            call = call._replace(params={**await _params(request), **found}, version=caller.version)
            if operation in STREAMED:
                return await self._stream(call, caller)
            result = await self._desk.agent.call(call, caller)
        except OperationError as error:
            return self._fail(call, error)
        headers = self._desk.activated(caller)
        if operation == "GetExtendedAgentCard":
            tag = hashlib.sha256(json.dumps(result).encode()).hexdigest()[:16]
            headers = {**headers, "cache-control": "private, max-age=60", "etag": f'"{tag}"'}
        return self._desk.respond(call, 200, MEDIA, result, headers)

    def _check_media(self, request: Request) -> None:
        media = request.headers.get("content-type", MEDIA).partition(";")[0]
        if self._desk.agent.on("only-a2a-json") and request.method == "POST" and media != MEDIA:
            raise failure("ContentTypeNotSupported", f"{media} is not supported, {MEDIA} is")

    async def _stream(self, call: FaultyCall, caller: Caller) -> Response:
        events = await self._desk.agent.stream(call, caller)

        async def lines() -> AsyncIterator[str]:
            async for event in events:
                yield json.dumps(event)

        return self._desk.stream(call, lines())

    def _fail(self, call: FaultyCall, error: OperationError) -> Response:
        fault = self._desk.agent.faulted("HTTP+JSON")
        if fault and error.problem.kind in ("JSONParse", "MethodNotFound", "Unauthenticated"):
            changed = fault.error(call, error.problem)
            error = OperationError(changed) if isinstance(changed, Problem) else error
        refused = error.problem.kind == "Unauthenticated"
        headers = {"www-authenticate": 'Bearer realm="a2a"'} if refused else {}
        body = error_body(error, call, fault)
        return self._desk.respond(call, error.problem.http, MEDIA, body, headers)


def _match(request: Request) -> tuple[str, Json]:
    # From the raw path, so that an encoded slash stays in the identifier that it belongs to.
    raw = bytes(request.scope.get("raw_path") or request.url.path.encode()).decode("ascii", "replace")
    path = raw.partition("?")[0].removeprefix(REST_PREFIX).removeprefix("/")
    allowed = False
    for pattern, verbs, operation in _ROUTES:
        if found := pattern.fullmatch(path):
            allowed = True
            if request.method in verbs:
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
