"""An agent that counts the messages that reach it over HTTP, behind a proxy that injects faults."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import Any

import httpx
from faulty_server import serve_app
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

from pytest_a2a_bench.a2a.card import CARD_PATH, AgentCard, load_card
from pytest_a2a_bench.chaos.faults import Draws
from pytest_a2a_bench.chaos.proxy import Faults, proxy_before

_STATES = ("TASK_STATE_SUBMITTED", "TASK_STATE_WORKING", "TASK_STATE_COMPLETED")


def _task(state: str) -> dict[str, Any]:
    parts = [{"text": f"{state} " + "x" * 200}]
    message = {"messageId": "reply", "role": "ROLE_AGENT", "contextId": "context-1", "taskId": "task-1", "parts": parts}
    status = {"state": state, "message": message}
    return {"task": {"id": "task-1", "contextId": "context-1", "status": status}}


@dataclass
class CountingAgent:
    """What reached it.

    :param worked: ids of the messages that it answered.
    """

    worked: list[str] = field(default_factory=list)
    card: dict[str, Any] = field(default_factory=dict)

    def app(self) -> Starlette:
        """Return its HTTP bindings."""
        return Starlette(
            routes=[
                Route(CARD_PATH, self._card, methods=["GET"]),
                Route("/", self._rpc, methods=["POST"]),
                Route("/rest/message:send", self._rest, methods=["POST"]),
                Route("/rest/message:stream", self._rest, methods=["POST"]),
            ]
        )

    async def _card(self, request: Request) -> Response:
        return JSONResponse(self.card)

    async def _rpc(self, request: Request) -> Response:
        body = json.loads(await request.body())
        return self._reply(body["params"], "Stream" in body["method"], {"jsonrpc": "2.0", "id": body["id"]})

    async def _rest(self, request: Request) -> Response:
        return self._reply(json.loads(await request.body()), request.url.path.endswith("stream"), None)

    def _reply(self, params: dict[str, Any], stream: bool, envelope: dict[str, Any] | None) -> Response:
        self.worked.append(params["message"]["messageId"])
        answers = [envelope | {"result": _task(s)} if envelope else _task(s) for s in _STATES]
        if not stream:
            return JSONResponse(answers[-1])
        events = "".join(f"data: {json.dumps(answer)}\n\n" for answer in answers)
        return StreamingResponse(iter([events]), media_type="text/event-stream")


@dataclass
class Scene:
    """An agent, and the proxy before it.

    :param url: the proxy's.
    :param injected: each fault that was injected, with the number of its request.
    """

    agent: CountingAgent
    url: str
    card_url: str
    faults: Faults
    injected: list[tuple[int, str]]

    async def card(self) -> AgentCard:
        """Return the card that the proxy shows."""
        async with httpx.AsyncClient() as client:
            return load_card((await client.get(self.card_url)).content, self.card_url)


@contextlib.asynccontextmanager
async def behind_faults(
    rates: dict[str, float],
    *,
    seed: int = 1,
    kinds: tuple[str, ...] = ("send", "task"),
    hang: float = 600.0,
    retry_after: int = 1,
) -> AsyncIterator[Scene]:
    """Serve an agent that counts, with a proxy before it."""
    agent, draws = CountingAgent(), Draws(rates, seed, kinds)
    broken: list[dict[str, Any]] = []
    injected: list[tuple[int, str]] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: broken.append(context))
    faults = Faults(draws, hang, retry_after, lambda fault, _: injected.append((draws.requests, fault)))
    async with serve_app(agent.app()) as url:
        places = {"JSONRPC": url, "HTTP+JSON": f"{url}rest", "GRPC": "http://127.0.0.1:9"}
        interfaces = [{"url": u, "protocolBinding": b, "protocolVersion": "1.0"} for b, u in places.items()]
        agent.card = {"name": "counting", "supportedInterfaces": interfaces, "signatures": [{"signature": "x"}]}
        async with proxy_before(url + CARD_PATH[1:], faults) as card_url:
            yield Scene(agent, card_url.removesuffix(CARD_PATH[1:]), card_url, faults, injected)
    # What a task of the proxy's dies of is seen by nobody else.
    assert not broken
