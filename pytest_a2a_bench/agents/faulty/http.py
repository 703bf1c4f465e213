"""What the HTTP bindings share: the card, credentials, and sending a response through the fault's hand."""

from __future__ import annotations

import hashlib
import json
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from email.utils import formatdate
from typing import Any

from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from pytest_a2a_bench.agents.faulty.agent import Caller, FaultyAgent
from pytest_a2a_bench.agents.faulty.fault import Fault, FaultyCall, Json, Packet
from pytest_a2a_bench.agents.faulty.problems import OperationError, failure

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

    def caller(self, request: Request, binding: str) -> Caller:
        """Return who calls.

        :raises OperationError: without a known token where one is needed.
        """
        name = identify(request.headers.get("authorization", ""), self.tokens, self.agent.faulted(binding))
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
        fault = self.agent.faulted(call.binding)
        return packed(fault.packet(call, packet) if fault else packet)

    def stream(self, call: FaultyCall, events: AsyncIterator[str]) -> Response:
        """Send server-sent events."""
        packet = Packet(200, {"content-type": "text/event-stream", "cache-control": "no-store"}, b"")
        fault = self.agent.faulted(call.binding)
        status, headers, _ = fault.packet(call, packet) if fault else packet
        return StreamingResponse((f"data: {event}\n\n" async for event in events), status, dict(headers))

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
        body = json.dumps(self.published).encode()
        tag = f'"{hashlib.sha256(body).hexdigest()[:16]}"'
        headers = {
            "content-type": "application/json",
            "cache-control": "public, max-age=300",
            "etag": tag,
            "last-modified": formatdate(1_767_225_600, usegmt=True),
        }
        if tag in request.headers.get("if-none-match", "") and "no-304" not in fault.switches:
            return Response(status_code=304, headers={k: v for k, v in headers.items() if k != "content-type"})
        return packed(fault.card_packet(Packet(200, headers, body)))

    async def jwks(self, request: Request) -> Response:
        """Answer with the key of the card's signature."""
        return Response(json.dumps(self.keys), media_type="application/jwk-set+json")


def identify(authorization: str, tokens: Mapping[str, str], fault: Fault | None) -> str:
    """Return the caller's name.

    :raises OperationError: if the token is missing or wrong.
    """
    if not tokens or (fault and "no-auth" in fault.switches):
        return "anybody"
    scheme, _, token = authorization.partition(" ")
    if scheme.lower() == "bearer" and token.strip() in tokens:
        return tokens[token.strip()]
    if fault and (("any-token" in fault.switches and token) or ("no-auth-missing" in fault.switches and not token)):
        return next(iter(tokens.values()))
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
