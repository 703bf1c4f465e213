"""Agents that nothing can be judged on: told once for each interface, with what to do, and not run against them."""

import asyncio
from typing import Any

import httpx
import pytest
from faulty.fault import Fault
from faulty_server import TOKENS, Late, interposed, serve_faulty, start_faulty
from judged import collect, planned_for
from mutation import results_of
from raw_agent import Request, raw_agent, response, rpc, rpc_error, task

from pytest_a2a_bench.a2a.client import AgentConnection
from pytest_a2a_bench.a2a.codec import TERMINAL
from pytest_a2a_bench.a2a.config import ClientConfig, Credentials
from pytest_a2a_bench.conformance.card.fetch import fetch_card_async
from pytest_a2a_bench.conformance.engine import run_checks
from pytest_a2a_bench.conformance.finding import FOUND, CheckResult
from pytest_a2a_bench.conformance.grouping import fold
from pytest_a2a_bench.conformance.protocol.payloads import state_of
from pytest_a2a_bench.conformance.scenarios import Scenarios
from pytest_a2a_bench.conformance.session.health import CARD_RULES, WITHOUT_CREDENTIALS
from pytest_a2a_bench.conformance.target import Target, targets_of
from pytest_a2a_bench.errors import CardError
from pytest_a2a_bench.model.messages import Part


async def guarded(token: str) -> tuple[CheckResult, ...]:
    """Judge an agent that wants a token, without allowing the origin of its gRPC port."""
    async with serve_faulty(None, "guarded") as running:
        card, _, _ = await fetch_card_async(running.url)
        assert card is not None
        config = ClientConfig(running.url, auth=Credentials(token, "MY_TOKEN") if token else None)
        targets = targets_of(card, running.url, config=config, scenarios=Scenarios({"task": "hi"}))
        groups = {"auth", "card", "get-task", "list-tasks", "send", "validation"}
        return await collect(targets, select=lambda p: p.requirement.group in groups)


def expected(results: tuple[CheckResult, ...], outcome: str) -> dict[str, list[CheckResult]]:
    """Return results by binding, without what is judged with no credentials."""
    found: dict[str, list[CheckResult]] = {}
    for r in results:
        if r.outcome == outcome and r.requirement.group not in WITHOUT_CREDENTIALS:
            found.setdefault(r.binding, []).append(r)
    return found


def test_a_token_that_is_withheld_is_reported_once_with_the_origin_to_allow() -> None:
    results = asyncio.run(guarded(TOKENS[0]))
    assert [r.name for r in results if r.outcome in ("failed", "warned")] == []
    errors = expected(results, "error")
    assert {binding: len(found) for binding, found in errors.items()} == {"GRPC": 1}
    (error,) = errors["GRPC"]
    assert "MY_TOKEN was withheld" in error.reason
    assert "A2A_ALLOWED_ORIGINS=http://127.0.0.1:" in error.reason
    assert not expected(results, "passed").get("GRPC")
    assert len(expected(results, "passed")["JSONRPC"]) > 20


def test_a_missing_token_is_reported_once_for_each_interface() -> None:
    results = asyncio.run(guarded(""))
    assert [r.name for r in results if r.outcome in ("failed", "warned")] == []
    errors = expected(results, "error")
    assert {binding: len(found) for binding, found in errors.items()} == {"JSONRPC": 1, "HTTP+JSON": 1, "GRPC": 1}
    assert all("put a token in A2A_AUTH_TOKEN" in found[0].reason for found in errors.values())
    judged = {r.requirement.id for r in results if r.outcome == "passed"}
    assert judged >= {"AUTH-001", "AUTH-003", "AUTH-004", "AUTH-005"}


def test_a_token_that_is_wrong_is_said_to_be() -> None:
    results = asyncio.run(guarded("not-that-one"))
    assert all(
        "MY_TOKEN was sent and refused" in expected(results, "error")[b][0].reason for b in ("JSONRPC", "HTTP+JSON")
    )
    assert not [r for r in results if "not-that-one" in r.reason]


def test_an_agent_that_refuses_only_unknown_tasks_is_judged() -> None:
    def forbidding(request: Request) -> bytes:
        if request.json["method"] == "SendMessage":
            return rpc({"task": task("COMPLETED")}, request)
        return rpc_error(-32050, "forbidden", request, "403 Forbidden")

    with raw_agent(forbidding) as agent:
        judged = collect(targets_of(agent.card, agent.url), select=lambda p: p.requirement.id == "SEND-001")
        (result,) = [r for r in asyncio.run(judged) if r.binding == "JSONRPC"]
    assert result.outcome == "passed"


# Web frameworks say in JSON that there is no such path, too: Spring's form has a member `error`.
@pytest.mark.parametrize("words", [{"detail": "Task not found"}, {"status": 404, "error": "Not Found", "path": "/"}])
@pytest.mark.parametrize(("binding", "sends"), [("HTTP+JSON", True), ("HTTP+JSON", False), ("JSONRPC", False)])
def test_a_404_in_json_is_an_agents_that_answers_messages(words: dict[str, Any], binding: str, sends: bool) -> None:
    def answer(request: Request) -> bytes:
        is_send = "message:send" in request.path or b'"SendMessage"' in request.body
        return response({"error": {"code": 400}}, "400 Bad") if sends and is_send else response(words, "404 Not Found")

    with raw_agent(answer) as agent:
        card = {"supportedInterfaces": [{"url": agent.url, "protocolBinding": binding, "protocolVersion": "1.0"}]}
        judged = collect(targets_of(card, agent.url), select=lambda p: p.requirement.id in ("CARD-007", "GET-001"))
        found = {r.requirement.id: r for r in asyncio.run(judged) if r.binding == binding}
    assert found["GET-001"].reason.startswith("the interface is not there: HTTP 404") is not sends
    assert found["CARD-007"].outcome == ("passed" if sends else "failed")


def test_a_code_that_is_in_no_table_is_no_refusal_where_no_credentials_are_wanted() -> None:
    with raw_agent(lambda request: rpc_error(-32000, "model not loaded", request)) as agent:
        every = collect(targets_of(agent.card, agent.url), select=lambda p: p.requirement.id in {"SEND-001", "GET-001"})
        found = {r.requirement.id: r for r in asyncio.run(every) if r.binding == "JSONRPC"}
    assert found["SEND-001"].outcome == "failed"
    assert "model not loaded" in found["SEND-001"].findings[0].found
    assert found["GET-001"].outcome == "error"


@pytest.mark.parametrize("served", [0, 1])
def test_an_agent_that_limits_requests_is_an_error_and_no_failure(served: int) -> None:
    asked: list[Request] = []

    def answer(request: Request) -> bytes:
        asked.append(request)
        if len(asked) > served:
            return response({"error": "slow down"}, "429 Too Many Requests")
        return rpc_error(-32001, "Task not found", request)

    with raw_agent(answer) as agent:
        judged = collect(targets_of(agent.card, agent.url), select=lambda p: p.requirement.group in ("send", "errors"))
        found = [r for r in asyncio.run(judged) if r.binding == "JSONRPC"]
    errors = [r for r in found if r.outcome == "error"]
    assert all("limits requests" in r.reason for r in errors)
    assert (len(errors) > 1) is bool(served)
    assert [r.name for r in found if r.outcome in ("failed", "warned")] == []


async def slow(seconds: float, methods: tuple[str, ...], timeout: float, groups: set[str]) -> Any:
    """Judge a slow agent, and return the results and what it was asked that it kept waiting."""
    agents: list[Late] = []

    def wrap(app: Any) -> Late:
        agents.append(Late(app, seconds, *methods))
        return agents[0]

    async with interposed(wrap, step=60.0) as (card, url, _):
        found = targets_of(card, url, scenarios=Scenarios({"slow": "slow please"}), timeout=timeout)
        return await collect(found, select=lambda p: p.requirement.group in groups), agents[0].asked


@pytest.mark.slow
def test_an_agent_that_never_answers_ends_the_run_soon() -> None:
    results, asked = asyncio.run(slow(30.0, (), 1.0, {"send", "get-task", "cancel", "auth", "validation"}))
    assert len(asked) == 3, "two rounds of requests that run into the limit, whatever is to be judged"
    judged = [r for r in results if r.binding == "JSONRPC"]
    errors = [r for r in judged if r.outcome == "error"]
    assert len(errors) == 1
    assert errors[0].reason.startswith("nothing is answered within 1 s; ")
    assert "--a2a-timeout" in errors[0].reason
    assert {r.outcome for r in judged} == {"error", "skipped"}


@pytest.mark.slow
def test_a_late_answer_is_an_error_and_names_the_timeout_option() -> None:
    results, _ = asyncio.run(slow(2.0, ("SendMessage",), 0.8, {"send", "get-task"}))
    judged = [r for r in results if r.binding == "JSONRPC"]
    assert [r.name for r in judged if r.outcome in ("failed", "warned")] == []
    late = [r for r in judged if r.outcome == "error"]
    assert late
    assert [r.reason for r in late if not ("within 0.8 s" in r.reason and "--a2a-timeout" in r.reason)] == []
    assert {r.requirement.id for r in judged if r.outcome == "passed"} >= {"GET-002"}


async def left_of(found: tuple[Target, ...], *ids: str) -> tuple[list[str], list[str]]:
    """Run some checks, and return the reasons of their results and what the run says that it left."""
    left: list[str] = []
    planned = planned_for(found, lambda p: p.requirement.id in ids)
    return [r.reason async for r in run_checks(found, planned, left=left)], left


def test_tasks_of_messages_that_were_answered_too_late_are_found_and_cancelled() -> None:
    async def late() -> tuple[list[str], list[str]]:
        async with interposed(lambda app: Late(app, 2.0, "SendMessage", at="start"), step=60.0) as (card, url, agent):
            found = targets_of(card, url, scenarios=Scenarios({"slow": "slow please"}), timeout=0.5)
            _, left = await left_of(found, "SEND-004")
            async with httpx.AsyncClient() as client:
                asked = {"jsonrpc": "2.0", "id": 1, "method": "ListTasks", "params": {}}
                listed = (await client.post(agent, json=asked, headers={"A2A-Version": "1.0"})).json()
            return [state_of(task) for task in listed["result"]["tasks"]], left

    states, left = asyncio.run(late())
    assert states
    assert set(states) <= TERMINAL
    assert "canceled" in states
    assert left == []


def test_tasks_that_could_not_be_canceled_are_reported() -> None:
    async def lost() -> list[str]:
        async with interposed(lambda app: Late(app, 30.0, "SendMessage")) as (card, url, _):
            return (await left_of(targets_of(card, url, timeout=0.5), "SEND-001"))[1]

    (text,) = asyncio.run(lost())
    assert "messages to JSONRPC 1.0 at http://127.0.0.1" in text
    assert "tasks of theirs may still run" in text


def test_a_message_that_could_not_be_written_is_not_looked_for_afterwards() -> None:
    async def inexpressible() -> tuple[list[str], list[str]]:
        async with serve_faulty(None, "bare", transport="grpc") as running:
            card, _, _ = await fetch_card_async(running.url)
            found = targets_of(card or {}, running.url)
            return await left_of(found, "SEND-015", "VAL-007", "VAL-008", "VAL-009")

    reasons, left = asyncio.run(inexpressible())
    assert any("protobuf cannot hold this request" in reason for reason in reasons)
    assert left == []


def _says_1_0(card: dict[str, Any]) -> dict[str, Any]:
    kept = {k: v for k, v in card.items() if k not in ("url", "preferredTransport", "additionalInterfaces")}
    entry = {"url": card["url"], "protocolBinding": "JSONRPC", "protocolVersion": "1.0"}
    return {**kept, "protocolVersion": "1.0", "supportedInterfaces": [entry]}


def _says_0_3(card: dict[str, Any]) -> dict[str, Any]:
    kept = {k: v for k, v in card.items() if k != "supportedInterfaces"}
    url = card["supportedInterfaces"][0]["url"]
    return {**kept, "protocolVersion": "0.3.0", "url": url, "preferredTransport": "JSONRPC"}


@pytest.mark.parametrize(("spoken", "said", "change"), [("0.3", "1.0", _says_1_0), ("1.0", "0.3", _says_0_3)])
def test_a_card_that_says_another_version_than_is_spoken_is_one_finding(spoken: str, said: str, change: Any) -> None:
    fault = Fault(version=spoken, card=change)
    rows = [r for r in fold(asyncio.run(results_of(fault))) if r.outcome in FOUND]
    assert [row.requirement.id for row in rows] == [CARD_RULES[said]]
    assert f"the card says A2A {said}, and this URL speaks {spoken}" in rows[0].findings[0].found

    with start_faulty(fault, "full", transport="jsonrpc") as agent:
        with pytest.raises(CardError, match=rf"speaks A2A {spoken}, and not {said}.*--a2a-protocol {spoken}"):
            AgentConnection(ClientConfig(agent.url)).wait_until_ready()
        # What the user names overrides the card.
        with AgentConnection(ClientConfig(agent.url, protocol=spoken)) as connection:
            connection.wait_until_ready()
            assert connection.session().send([Part("text", "hello")]).state == "completed"


def test_a_bot_challenge_is_no_refusal_of_the_agent() -> None:
    (error,) = expected(asyncio.run(results_of("challenge")), "error")["JSONRPC"]
    assert "a bot challenge answers in the agent's place (cf-mitigated: challenge)" in error.reason
    assert "A2A_AUTH_TOKEN" not in error.reason
