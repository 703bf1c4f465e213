"""Tokens are shown nowhere, whatever the agent says about them."""

from __future__ import annotations

import asyncio
import base64
import dataclasses
import json
from typing import Any

import pytest
from examples import sampled
from faulty_server import serve_app
from judged import collect
from starlette.requests import Request
from starlette.responses import JSONResponse

from pytest_a2a_bench.a2a.config import ClientConfig, Credentials
from pytest_a2a_bench.conformance.finding import CheckResult
from pytest_a2a_bench.conformance.report import Report, judge
from pytest_a2a_bench.conformance.scenarios import Scenarios
from pytest_a2a_bench.conformance.target import targets_of
from pytest_a2a_bench.reports.findings import render

BEARER = {"httpAuthSecurityScheme": {"scheme": "bearer"}}
BASIC = {"httpAuthSecurityScheme": {"scheme": "basic"}}
QUERY = {"apiKeySecurityScheme": {"location": "query", "name": "key"}}

PEOPLE = [
    (BEARER, "wonderland-token", "token-of-bob"),
    (BASIC, "alice:looking-glass", "bob:builders-password"),
    (QUERY, "api-key-of-alice", "api-key-of-bob"),
]


class Echo:
    """Refuses everything, and repeats what it was sent: headers, query and body.

    :param kind: ``error`` (a JSON-RPC error) or ``page`` (what is no JSON).
    """

    def __init__(self, kind: str) -> None:
        self.kind = kind
        self.authorizations: list[str] = []

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        request = Request(scope, receive)
        body = (await request.body()).decode("utf-8", "replace")
        self.authorizations.append(request.headers.get("authorization", ""))
        said = f"refused: {request.headers.get('authorization')} {request.url.query} {decoded(request)}"
        if self.kind == "page":
            answer = JSONResponse(f"<p>{said}", 200)
        else:
            error = {"code": -32602, "message": said, "data": [{"@type": "x", "said": said}]}
            answer = JSONResponse({"jsonrpc": "2.0", "id": 1, "error": error, "body": body})
        await answer(scope, receive, send)


def decoded(request: Request) -> str:
    """Return the user and password of basic credentials."""
    scheme, _, rest = request.headers.get("authorization", "").partition(" ")
    return base64.b64decode(rest).decode("utf-8", "replace") if scheme == "Basic" else ""


async def results(echo: Echo, scheme: dict[str, Any], token: str) -> tuple[CheckResult, ...]:
    async with serve_app(echo) as url:
        card = {
            "name": "echo",
            "supportedInterfaces": [{"url": url, "protocolBinding": "JSONRPC", "protocolVersion": "1.0"}],
            "capabilities": {"streaming": True, "pushNotifications": True},
            "securitySchemes": {"one": scheme},
            "securityRequirements": [{"schemes": {"one": {}}}],
        }
        scenarios = Scenarios({"other_token_env": "BOBS_TOKEN", "slow": "slow", "chunks": "chunks"})
        config = ClientConfig(endpoint=url, auth=Credentials(token))
        return await collect(targets_of(card, url, config=config, scenarios=scenarios, timeout=2.0))


@pytest.mark.parametrize("kind", sampled(["error", "page"], 2))
@pytest.mark.parametrize(("scheme", "mine", "theirs"), PEOPLE, ids=["bearer", "basic", "key"])
def test_an_agent_that_repeats_credentials_does_not_bring_them_into_reports(
    monkeypatch: pytest.MonkeyPatch, kind: str, scheme: dict[str, Any], mine: str, theirs: str
) -> None:
    monkeypatch.setenv("BOBS_TOKEN", f"{theirs}\n")
    found = asyncio.run(results(Echo(kind), scheme, mine))
    report = Report("http://127.0.0.1", tuple(judge(found)))
    shown = [render(report, format) for format in ("text", "json", "sarif", "markdown")]
    shown.append(json.dumps([dataclasses.asdict(r) for r in found]))
    assert "refused: " in (" ".join(r.reason for r in found) if kind == "error" else shown[0])
    secrets = [*mine.split(":")[-1:], *theirs.split(":")[-1:], mine, theirs]
    secrets += [base64.b64encode(s.encode()).decode() for s in (mine, theirs)]
    assert not [(secret, n) for n, text in enumerate(shown) for secret in secrets if secret in text]


def test_other_basic_credentials_are_well_formed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BOBS_TOKEN", "bob:builders-password")
    echo = Echo("error")
    asyncio.run(results(echo, BASIC, "alice:looking-glass"))
    sent = {a for a in echo.authorizations if a}
    # The credentials are also sent under a wrong scheme.
    basic = [a.removeprefix("Basic ") for a in sent if a.startswith("Basic ")]
    people = {base64.b64decode(text, validate=True).decode() for text in basic}
    assert people >= {"alice:looking-glass", "nobody:not-a-credential-of-anybody"}
