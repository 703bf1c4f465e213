"""Judging the judge of 0.3: a real server of that version behind a hand that changes what goes through it."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import dataclass
from typing import Any

import httpx
import pytest
from examples import sampled
from faulty_server import serve_app
from judged import SCRIPTED, collect
from scripted import scripted_agent
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route

from pytest_a2a_bench.conformance.finding import CheckResult
from pytest_a2a_bench.conformance.scenarios import Scenarios
from pytest_a2a_bench.conformance.target import targets_of

Json = dict[str, Any]


@dataclass(frozen=True)
class Hand:
    """One fault.

    :param breaks: the requirements whose checks all have to notice it.
    :param request: changes a JSON-RPC request in place.
    :param answer: changes a JSON-RPC response, in place or to what it returns, also within a stream.
    """

    name: str
    breaks: tuple[str, ...] = ()
    request: Callable[[Json], Any] = lambda request: None
    answer: Callable[[Json], Any] = lambda answer: None
    media: str = "application/json"


def each(change: Callable[[Json], Any]) -> Callable[[Json], Any]:
    """Change every object of an answer."""

    def walk(value: Any) -> None:
        if isinstance(value, dict):
            change(value)
        for inner in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
            walk(inner)

    return walk


def renamed(old: str, new: str) -> Callable[[Json], Any]:
    return each(lambda found: found.update({new: found.pop(old)}) if old in found else None)


def error(old: int, new: int) -> Callable[[Json], Any]:
    def change(answer: Json) -> None:
        if answer.get("error", {}).get("code") == old:
            answer["error"]["code"] = new

    return change


def value(name: str, make: Callable[[Any], Any]) -> Callable[[Json], Any]:
    return each(lambda found: found.update({name: make(found[name])}) if name in found else None)


def wrap(answer: Json) -> None:
    if answer.get("result", {}).get("kind") == "task":
        answer["result"] = {"task": answer["result"]}


def forget_task(request: Json) -> None:
    request.get("params", {}).get("message", {}).pop("taskId", None)


def never_block(request: Json) -> None:
    if "blocking" in request.get("params", {}).get("configuration", {}):
        request["params"]["configuration"]["blocking"] = False


def lose(method: str) -> Callable[[Json], Any]:
    return lambda request: request.update(method="no/such") if request.get("method") == method else None


HANDS = (
    Hand("other methods", ("V03-RPC-001",), request=lose("tasks/get")),
    Hand("text", ("V03-RPC-002",), media="text/plain"),
    Hand("other id", ("V03-RPC-003",), answer=lambda answer: answer.update(id="other")),
    Hand("jsonrpc 1.0", ("V03-RPC-003",), answer=lambda answer: answer.update(jsonrpc="1.0")),
    Hand("unknown method", ("V03-RPC-004",), answer=error(-32601, -32000)),
    Hand("task not found", ("V03-RPC-005", "V03-SEND-005", "V03-TASK-002"), answer=error(-32001, -32603)),
    Hand("no kind", ("V03-DM-001",), answer=each(lambda found: found.pop("kind", None))),
    Hand("upper case states", ("V03-DM-002",), answer=value("state", lambda s: f"TASK_STATE_{s.upper()}")),
    Hand("upper case roles", ("V03-DM-003",), answer=value("role", lambda r: f"ROLE_{r.upper()}")),
    Hand("no context", ("V03-DM-004",), answer=each(lambda found: found.pop("contextId", None))),
    Hand("data is a list", ("V03-DM-006",), answer=value("data", lambda d: [d])),
    Hand("snake case", ("V03-DM-007",), answer=renamed("messageId", "message_id")),
    Hand("wrapped", ("V03-SEND-001",), answer=wrap),
    Hand("never blocks", ("V03-SEND-002",), request=never_block),
    Hand("tasks go on", ("V03-SEND-004", "V03-SEND-005"), request=forget_task),
    Hand("bare events", ("V03-STREAM-001",), answer=lambda a: a["result"] if "final" in a.get("result", {}) else None),
    Hand("no final", ("V03-STREAM-002",), answer=each(lambda found: found.pop("final", None))),
    Hand("no resubscribing", ("V03-STREAM-003",), request=lose("tasks/resubscribe")),
    Hand("no getting", ("V03-TASK-001",), answer=renamed("history", "messages"), request=lose("tasks/get")),
    Hand("not cancelable", ("V03-TASK-002",), answer=error(-32002, -32603)),
    Hand("no push", ("V03-PUSH-004",), answer=error(-32003, -32603)),
)


def proxy(client: httpx.AsyncClient, upstream: str, hand: Hand) -> Starlette:
    """Return an application that passes requests on."""

    def changed(document: Any) -> Any:
        found = hand.answer(document) if isinstance(document, dict) else None
        return document if found is None else found

    async def pass_on(request: Request) -> Response:
        body = await request.body()
        try:
            asked = json.loads(body)
            hand.request(asked)
            body = json.dumps(asked).encode()
        except (ValueError, AttributeError, RecursionError):
            pass  # What is no JSON-RPC goes through as it is.
        headers = {k: v for k, v in request.headers.items() if k not in ("host", "content-length")}
        sent = client.build_request("POST", upstream, content=body, headers=headers)
        response = await client.send(sent, stream=True)
        if "event-stream" in response.headers.get("content-type", ""):
            return StreamingResponse(events(response), 200, media_type="text/event-stream")
        found = changed(json.loads(await response.aread()))
        return Response(json.dumps(found), response.status_code, {"content-type": hand.media})

    async def events(response: httpx.Response) -> AsyncIterator[str]:
        async for line in response.aiter_lines():
            name, _, text = line.partition(":")
            yield f"data: {json.dumps(changed(json.loads(text)))}\n" if name == "data" else f"{line}\n"
        await response.aclose()

    return Starlette(routes=[Route("/", pass_on, methods=["POST"])])


@pytest.fixture(scope="module")
def upstream() -> Iterator[str]:
    """URL of a server that has no fault."""
    with scripted_agent() as agent:
        yield str(agent.url)


async def judge(upstream: str, hand: Hand) -> tuple[CheckResult, ...]:
    async with httpx.AsyncClient() as client:
        card = (await client.get(f"{upstream}/.well-known/agent-card.json")).json()
    old = [i for i in card["supportedInterfaces"] if (i["protocolVersion"], i["protocolBinding"]) == ("0.3", "JSONRPC")]
    async with httpx.AsyncClient(timeout=30) as client, serve_app(proxy(client, old[0]["url"], hand)) as url:
        mine = {**card, "supportedInterfaces": [{**old[0], "url": url}]}
        targets = targets_of(mine, url, scenarios=Scenarios(SCRIPTED), timeout=5)
        wanted = {r for h in HANDS for r in h.breaks} if not hand.breaks else set(hand.breaks)
        return await collect(targets, select=lambda p: p.requirement.id in wanted)


def noticed(results: tuple[CheckResult, ...]) -> set[str]:
    return {r.requirement.id for r in results if r.outcome not in ("passed", "skipped")}


def test_the_hand_that_changes_nothing_is_not_noticed(upstream: str) -> None:
    results = asyncio.run(judge(upstream, Hand("none")))
    assert noticed(results) == set()
    assert {r.requirement.id for r in results if r.outcome == "passed"} == {r for h in HANDS for r in h.breaks}


@pytest.mark.parametrize("hand", sampled(HANDS, 3), ids=lambda hand: hand.name.replace(" ", "-"))
def test_each_fault_is_noticed_by_every_check_that_it_concerns(upstream: str, hand: Hand) -> None:
    assert noticed(asyncio.run(judge(upstream, hand))) == set(hand.breaks)
