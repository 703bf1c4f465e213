"""An agent that counts what reaches it, over every binding, and a proxy of chaos before it."""

from __future__ import annotations

import asyncio
import contextlib
import json
import socket
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import grpc
import grpc.aio
import httpx
from a2a.types import a2a_pb2, a2a_pb2_grpc
from faulty_server import serve_app
from google.protobuf import json_format
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

from pytest_a2a_bench.a2a.card import CARD_PATH, AgentCard, load_card, parse_card
from pytest_a2a_bench.chaos.journal import Journal
from pytest_a2a_bench.chaos.proxy import Listen, standing_before
from pytest_a2a_bench.chaos.spec import parse_chaos

_STATES = ("TASK_STATE_SUBMITTED", "TASK_STATE_WORKING", "TASK_STATE_COMPLETED")


def _task(state: str) -> dict[str, Any]:
    parts = [{"text": f"{state} " + "x" * 200}]
    message = {"messageId": "reply", "role": "ROLE_AGENT", "contextId": "context-1", "taskId": "task-1", "parts": parts}
    status = {"state": state, "message": message}
    return {"task": {"id": "task-1", "contextId": "context-1", "status": status}}


@dataclass
class CountingAgent(a2a_pb2_grpc.A2AServiceServicer):
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

    async def SendMessage(self, request: Any, context: Any) -> Any:
        self.worked.append(request.message.message_id)
        return json_format.ParseDict(_task(_STATES[-1]), a2a_pb2.SendMessageResponse())

    async def SendStreamingMessage(self, request: Any, context: Any) -> AsyncIterator[Any]:
        self.worked.append(request.message.message_id)
        for state in _STATES:
            yield json_format.ParseDict(_task(state), a2a_pb2.StreamResponse())

    async def GetTask(self, request: Any, context: Any) -> None:
        await context.abort(grpc.StatusCode.NOT_FOUND, f"no task {request.id}", (("reason", "forgotten"),))


@dataclass
class Scene:
    """An agent, and the proxy before it.

    :param url: the proxy's.
    """

    agent: CountingAgent
    url: str
    card_url: str
    journal: Journal
    log: Path | None

    async def card(self) -> AgentCard:
        """Return the card that the proxy shows."""
        async with httpx.AsyncClient() as client:
            return load_card((await client.get(self.card_url)).content, self.card_url)

    async def grpc_address(self) -> str:
        """Return the proxy's gRPC address, ``host:port``."""
        return next(i.url for i in (await self.card()).interfaces if i.transport == "grpc").removeprefix("http://")

    def logged(self) -> list[dict[str, Any]]:
        """Return the lines of the log."""
        assert self.log is not None
        return [json.loads(line) for line in self.log.read_text().splitlines()]


@contextlib.asynccontextmanager
async def under_chaos(spec: str, log: Path | None = None) -> AsyncIterator[Scene]:
    """Serve an agent that counts, with a proxy before it."""
    agent = CountingAgent()
    broken: list[dict[str, Any]] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: broken.append(context))
    async with contextlib.AsyncExitStack() as stack:
        server = grpc.aio.server(options=[("grpc.so_reuseport", 0)])
        a2a_pb2_grpc.add_A2AServiceServicer_to_server(agent, server)  # type: ignore[no-untyped-call]
        port = server.add_insecure_port("127.0.0.1:0")
        await server.start()
        stack.push_async_callback(server.stop, 0)
        listener = socket.create_server(("127.0.0.1", 0))
        url = await stack.enter_async_context(serve_app(agent.app(), listener))
        places = {"JSONRPC": url, "HTTP+JSON": f"{url}rest", "GRPC": f"http://127.0.0.1:{port}"}
        interfaces = [{"url": u, "protocolBinding": b, "protocolVersion": "1.0"} for b, u in places.items()]
        agent.card = {"name": "counting", "supportedInterfaces": interfaces, "signatures": [{"signature": "x"}]}
        journal = Journal(log)
        stack.callback(journal.close)
        card = parse_card(agent.card, url + CARD_PATH[1:])
        standing = await stack.enter_async_context(standing_before(card, parse_chaos(spec), journal, Listen()))
        yield Scene(agent, standing.url, standing.card_url, journal, log)
    # What a task of the proxy's dies of is seen by nobody else.
    assert not broken
