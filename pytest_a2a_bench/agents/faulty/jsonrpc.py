"""The JSON-RPC binding of the faulty agent."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from pytest_a2a_bench.agents.faulty.agent import OPERATIONS, STREAMED, Caller
from pytest_a2a_bench.agents.faulty.fault import FaultyCall, Json
from pytest_a2a_bench.agents.faulty.http import Desk, body_of
from pytest_a2a_bench.agents.faulty.problems import OperationError, Problem, failure

MEDIA = "application/json"


class JsonRpc:
    """Reads envelopes and writes them."""

    def __init__(self, desk: Desk) -> None:
        self._desk = desk

    async def handle(self, request: Request) -> Response:
        """Answer one request."""
        number: Any = None
        call = FaultyCall("JSONRPC", "", {})
        try:
            caller = self._desk.caller(request, "JSONRPC")
            envelope = await body_of(request)
            number = _readable_id(envelope)
            call = _read(envelope)._replace(version=caller.version)
            headers = self._desk.activated(caller)
            if call.operation in STREAMED:
                return await self._stream(call, caller, number)
            result = await self._desk.agent.call(call, caller)
        except OperationError as error:
            return self._fail(call, number, error)
        return self._desk.respond(call, 200, MEDIA, self._envelope(call, number, {"result": result}), headers)

    async def _stream(self, call: FaultyCall, caller: Caller, number: Any) -> Response:
        events = await self._desk.agent.stream(call, caller)

        async def envelopes() -> AsyncIterator[str]:
            async for event in events:
                yield json.dumps(self._envelope(call, number, {"result": event}))

        return self._desk.stream(call, envelopes())

    def _fail(self, call: FaultyCall, number: Any, error: OperationError) -> Response:
        problem = self._before_the_agent(call, error.problem)
        shown: Json = {"code": problem.code, "message": problem.message}
        if problem.details:
            shown["data"] = list(problem.details)
        refused = problem.kind == "Unauthenticated"
        headers = {"www-authenticate": 'Bearer realm="a2a"'} if refused else {}
        body = self._envelope(call, number, {"error": shown})
        return self._desk.respond(call, problem.http if refused else 200, MEDIA, body, headers)

    def _before_the_agent(self, call: FaultyCall, problem: Problem) -> Problem:
        """Let the fault see what went wrong before the agent was asked, as it has seen everything else."""
        fault = self._desk.agent.faulted("JSONRPC")
        early = (
            problem.kind in ("JSONParse", "InvalidRequest", "MethodNotFound", "Unauthenticated") or not call.operation
        )
        changed = fault.error(call, problem) if fault and early else problem
        return changed if isinstance(changed, Problem) else problem

    def _envelope(self, call: FaultyCall, number: Any, outcome: Json) -> Json:
        fault = self._desk.agent.faulted("JSONRPC")
        envelope = {"jsonrpc": "2.0", "id": number, **outcome}
        return fault.envelope(call, envelope) if fault else envelope


def _readable_id(envelope: Any) -> Any:
    number = envelope.get("id") if isinstance(envelope, dict) else None
    return number if isinstance(number, str | int | float) and not isinstance(number, bool) else None


def _read(envelope: Any) -> FaultyCall:
    if not isinstance(envelope, dict):
        raise failure("InvalidRequest", "a request is one JSON object")
    if envelope.get("jsonrpc") != "2.0":
        raise failure("InvalidRequest", 'jsonrpc must be "2.0"')
    method = envelope.get("method")
    if not isinstance(method, str) or not method:
        raise failure("InvalidRequest", "a method is required")
    if method not in OPERATIONS:
        raise failure("MethodNotFound", f"there is no method {method!r}")
    params = envelope.get("params", {})
    if not isinstance(params, dict):
        raise failure("InvalidParams", "params must be an object")
    return FaultyCall("JSONRPC", method, params)
