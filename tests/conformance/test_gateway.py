"""Gateways judged against the agent behind them: planted faults, a transparent proxy, an agent that varies."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator
from typing import Any

import pytest
from a2a.types import AgentCardSignature
from full_agent import Features, full_agent
from gateway_faults import FAULTS
from gateway_proxy import TRANSPARENT, Fault, gateway_proxy
from judged import SCRIPTED
from starlette.middleware import Middleware
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from pytest_a2a_bench.a2a.config import ClientConfig, Credentials
from pytest_a2a_bench.conformance.finding import CheckResult
from pytest_a2a_bench.conformance.gateway.run import Pair, meet
from pytest_a2a_bench.conformance.scenarios import Scenarios

PROMPTS = {**SCRIPTED, "slow": "slow 1.2 done"}


class Vendor:
    """Adds a member of its own to results, echoes extensions, and limits one operation, as servers may."""

    def __init__(self, app: ASGIApp, limited: bool = False) -> None:
        self.app, self.limited = app, limited

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        asked = dict(scope.get("headers") or ())
        extensions = asked.get(b"a2a-extensions")
        start: dict[str, Any] = {}

        async def sending(message: Message) -> None:
            if message["type"] == "http.response.start":
                start.update(message)
                return
            headers = [(k, v) for k, v in start["headers"] if k != b"content-length"]
            body = message.get("body", b"")
            if b"application/json" in dict(headers).get(b"content-type", b"") and b'"result"' in body:
                document = json.loads(body)
                if isinstance(document["result"], dict):
                    document["result"]["vendor"] = {"trace": "7"}
                body = json.dumps(document).encode()
            if start.pop("type", None):
                headers += [(b"a2a-extensions", extensions)] if extensions else []
                headers += [(b"retry-after", b"7")] if self.limited and b"-32001" in body else []
                await send({"type": "http.response.start", "status": start["status"], "headers": headers})
            await send({**message, "body": body})

        await self.app(scope, receive, sending if scope["type"] == "http" else send)


SIGNATURE = AgentCardSignature(protected="eyJhbGciOiJFUzI1NiIsInR5cCI6IkpPU0UiLCJraWQiOiIxIn0", signature="MEUCIQDa")


@contextlib.contextmanager
def pair_of(fault: Fault, **config: Any) -> Iterator[Pair]:
    """Serve an agent and a gateway with a fault, and look at both."""
    with gateway_proxy(fault) as proxy:
        features = Features(
            public="" if fault.agent == "own address" else proxy.url,
            grpc=False,
            auth=fault.agent == "auth",
            signatures=(SIGNATURE,) if fault.agent == "signed" else (),
            wraps=(Middleware(Vendor, limited=fault.agent == "limited"),),
        )
        with full_agent(features) as url:
            proxy.target = url
            auth = Credentials("alice-token") if fault.agent == "auth" else None
            gateway, direct = (ClientConfig(endpoint=each, auth=auth, **config) for each in (proxy.url, url))
            yield meet(gateway, direct, timeout=10, scenarios=Scenarios(PROMPTS))


def found(results: list[CheckResult]) -> dict[str, list[str]]:
    """Return requirement -> what was found."""
    return {r.requirement.id: [f.found for f in r.findings] for r in results if r.findings}


def chosen(pair: Pair, rule: str) -> list[CheckResult]:
    """Judge one requirement, and for HTTP+JSON too where JSON-RPC cannot show it."""
    planned = [p for p in pair.plan() if p.requirement.id == rule]
    first = pair.compare(planned[:1])
    return first if found(first) else pair.compare(planned[1:])


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.name.replace(" ", "-"))
def test_a_planted_fault_is_found_and_named(fault: Fault) -> None:
    with pair_of(fault) as pair:
        results = chosen(pair, fault.rule)
    assert [r for r in results if r.outcome in ("failed", "warned")], [(r.name, r.outcome, r.reason) for r in results]


def test_a_transparent_proxy_changes_nothing() -> None:
    with pair_of(TRANSPARENT) as pair:
        results = pair.compare(pair.plan())
        assert found(results) == {}
        assert pair.summary(results).startswith("the gateway changed nothing in ")
