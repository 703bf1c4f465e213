"""How often a defect is reported, for agents that break many rules by one cause."""

from __future__ import annotations

import asyncio
import json
import socket
from collections.abc import Awaitable, Callable, Container
from typing import Any

import pytest
from faulty.catalogue import FAULTS
from faulty.fault import Fault, each_task, without
from faulty_server import serve_app, serve_faulty
from judged import collect
from mutation import PROMPTS
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import Route

from pytest_a2a_bench.a2a.config import ClientConfig
from pytest_a2a_bench.conformance.card import fetch_card_async
from pytest_a2a_bench.conformance.catalogue import requirement
from pytest_a2a_bench.conformance.finding import FOUND, CheckResult, Exchange, Finding
from pytest_a2a_bench.conformance.grouping import fold
from pytest_a2a_bench.conformance.scenarios import Scenarios
from pytest_a2a_bench.conformance.subject import look_at
from pytest_a2a_bench.conformance.target import targets_of
from pytest_a2a_bench.conformance.wire.reply import ReplyError, read_rest_error, read_rpc_error

Answer = Callable[[Request], Awaitable[Response]]
CARD = {
    "name": "Odd agent",
    "description": "Answers oddly.",
    "version": "1.0.0",
    "capabilities": {"streaming": True},
    "defaultInputModes": ["text/plain"],
    "defaultOutputModes": ["text/plain"],
    "skills": [{"id": "odd", "name": "Odd", "description": "Is odd.", "tags": ["odd"]}],
}


async def judged(url: str, ids: Container[str] | None = None, prompts: Scenarios = PROMPTS) -> list[CheckResult]:
    """Return what is found about the agent at an address and its card, folded."""
    card, _, _ = await fetch_card_async(url)
    assert card is not None
    targets = targets_of(card, url, scenarios=prompts, timeout=5)
    found = await collect(targets, select=lambda p: ids is None or p.requirement.id in ids)
    subject = await asyncio.to_thread(look_at, ClientConfig(endpoint=url))
    return fold([*subject.card_results(), *found])


async def judged_app(answer: Answer, members: Callable[[str], dict[str, Any]]) -> list[CheckResult]:
    """Serve a card with these members and that answer to everything else, and judge it."""
    listener = socket.create_server(("127.0.0.1", 0))
    base = f"http://127.0.0.1:{listener.getsockname()[1]}"

    async def card(request: Request) -> Response:
        return JSONResponse({**CARD, **members(base)})

    routes = [
        Route("/.well-known/{name:path}", card),
        Route("/{path:path}", answer, methods=["GET", "POST", "DELETE"]),
    ]
    async with serve_app(Starlette(routes=routes), listener) as url:
        return await judged(url)


def told(results: list[CheckResult]) -> dict[str, CheckResult]:
    """Return what stands in the report, but for what should only be, such as a card's headers."""
    rows = [r for r in results if r.outcome in FOUND and r.requirement.level == "MUST"]
    assert len({r.requirement.id for r in rows}) == len(rows)
    return {r.requirement.id: r for r in rows}


@pytest.mark.parametrize("bindings", [("JSONRPC",), ("JSONRPC", "HTTP+JSON")])
def test_bodies_that_are_not_json_are_told_once(bindings: tuple[str, ...]) -> None:
    async def torn(request: Request) -> Response:
        return Response('{"jsonrpc": "2.0", "id": 1, "result": {', media_type="application/json")

    def spoken(base: str) -> dict[str, Any]:
        entries = [{"url": f"{base}/", "protocolBinding": b, "protocolVersion": "1.0"} for b in bindings]
        return {"supportedInterfaces": entries}

    rows = told(asyncio.run(judged_app(torn, spoken)))
    assert list(rows) == ["CARD-007"]
    assert rows["CARD-007"].findings[0].found.startswith("what is answered is not JSON: ")
    assert len(rows["CARD-007"].explains) > 40


def test_one_operation_that_answers_no_json_is_no_cause_of_others() -> None:
    async def torn_when_malformed(request: Request) -> Response:
        try:
            call = json.loads(await request.body())
        except ValueError:
            return PlainTextResponse("what?")
        error = {"code": -32001, "message": "no such task"}
        return JSONResponse(
            {"jsonrpc": "2.0", "id": call.get("id") if isinstance(call, dict) else None, "error": error}
        )

    def spoken(base: str) -> dict[str, Any]:
        return {"supportedInterfaces": [{"url": base, "protocolBinding": "JSONRPC", "protocolVersion": "1.0"}]}

    assert "ERR-008" in told(asyncio.run(judged_app(torn_when_malformed, spoken)))


def test_a_card_that_names_the_path_of_one_method_explains_what_is_not_there() -> None:
    async def one_method(request: Request) -> Response:
        try:
            call = json.loads(await request.body())
        except ValueError:
            call = None
        if not isinstance(call, dict) or call.get("method") != "message/stream":
            return JSONResponse({"detail": "Field required"}, 400)
        status = {"state": "completed", "timestamp": "2026-01-01T00:00:00.000Z"}
        task = {"kind": "task", "id": "t", "contextId": "c", "status": status}
        event = json.dumps({"jsonrpc": "2.0", "id": call.get("id"), "result": task})
        return Response(f"data: {event}\n\n", media_type="text/event-stream")

    def spoken(base: str) -> dict[str, Any]:
        url = f"{base}/agents/odd/v1/message:stream"
        return {"url": url, "preferredTransport": "JSONRPC", "protocolVersion": "0.3.0"}

    rows = told(asyncio.run(judged_app(one_method, spoken)))
    assert "V03-CARD-022" not in rows
    # As bad as what it explains, though it is no more than a warning where the rest of the interface is there.
    assert rows["V03-CARD-013"].outcome == "failed"
    assert any(line.startswith("V03-CARD-022 [JSONRPC] ") for line in rows["V03-CARD-013"].explains)


def test_artifacts_that_get_task_has_lost_are_told_once(monkeypatch: pytest.MonkeyPatch) -> None:
    async def judge_forgetful() -> list[CheckResult]:
        async with serve_faulty("forgetful", transport="jsonrpc") as running:
            return await judged(running.url, ("SEND-003", "STREAM-016"))

    forgetful = Fault("forgetful", operations=("GetTask",), reply=each_task(without("artifacts")))
    monkeypatch.setitem(FAULTS, "forgetful", forgetful)
    rows = told(asyncio.run(judge_forgetful()))
    assert list(rows) == ["SEND-003"]
    assert any(line.startswith("STREAM-016 [JSONRPC] ") for line in rows["SEND-003"].explains)


def test_a_stream_that_loses_artifacts_is_a_defect_of_its_own() -> None:
    def row(id: str, pointer: str, **stored: Any) -> CheckResult:
        task = {"id": "t", "status": {"state": "TASK_STATE_COMPLETED"}, **stored}
        seen = Exchange("JSONRPC", "GetTask", "http://h/", response=json.dumps({"jsonrpc": "2.0", "result": task}))
        found = Finding(id, "error", f"{id}: they differ", pointer=pointer, exchanges=(seen,))
        return CheckResult(requirement(id), "JSONRPC", "failed", (found,))

    lost = row("SEND-003", "/task/artifacts")
    assert [r.outcome for r in fold([lost, row("STREAM-016", "/artifacts")])] == ["failed", "explained"]
    there = row("STREAM-016", "/artifacts", artifacts=[{"artifactId": "a"}])
    assert [r.outcome for r in fold([lost, there])] == ["failed", "failed"]
    assert [r.outcome for r in fold([lost, row("STREAM-016", "/status/state")])] == ["failed", "failed"]
    assert [r.outcome for r in fold([row("SEND-003", "/task/status"), there])] == ["failed", "failed"]


def test_prompts_that_lead_elsewhere_break_no_rule() -> None:
    ids = ("SEND-004", "SEND-011", "PART-007", "PART-008")
    elsewhere = Scenarios({**PROMPTS.prompts, **dict.fromkeys(("slow", "input", "file", "url"), "Hello")})

    async def judge_hello() -> list[CheckResult]:
        async with serve_faulty(step=0.01, transport="jsonrpc") as running:
            return await judged(running.url, ids, elsewhere)

    protocol = [r for r in asyncio.run(judge_hello()) if r.requirement.id in ids]
    # That agent answers at once in whatever case.
    by_outcome = {(r.requirement.id, r.outcome) for r in protocol}
    assert by_outcome == {("SEND-004", "passed"), *((id, "skipped") for id in ids[1:])}
    assert all("scenario" in r.reason for r in protocol if r.outcome == "skipped")


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (read_rest_error(None, 404), "404: no message"),
        (read_rest_error({}, 404), "404: no message"),
        (read_rest_error(["gone"], 404), '404: ["gone"]'),
        (read_rpc_error({"code": -32001}, 200), "TaskNotFoundError -32001 200: no message"),
    ],
)
def test_an_error_without_a_message_says_so(error: ReplyError, words: str) -> None:
    assert str(error) == words
