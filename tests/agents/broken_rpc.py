"""A JSON-RPC agent that answers what a test tells it to, right or wrong."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from typing import Any

from in_thread import served_in_thread
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

from pytest_a2a_bench.listener import listen
from pytest_a2a_bench.quiet_server import serving


def make_card(url: str) -> dict[str, Any]:
    """Return a card with one JSON-RPC interface that streams."""
    return {
        "name": "broken",
        "description": "Answers what a test tells it to.",
        "version": "1",
        "supportedInterfaces": [{"url": f"{url}/rpc", "protocolBinding": "JSONRPC", "protocolVersion": "1.0"}],
        "capabilities": {"streaming": True},
        "defaultInputModes": ["text/plain"],
        "defaultOutputModes": ["text/plain"],
        "skills": [{"id": "obey", "name": "obey", "description": "Obeys.", "tags": ["test"]}],
    }


@contextlib.contextmanager
def broken_rpc(
    task: Mapping[str, Any],
    events: Sequence[Any],
    *,
    media_type: str = "text/event-stream",
    rpc_id: str = "",
    linger: float = 0.0,
) -> Iterator[str]:
    """Serve: every call gets the task, every stream the events.

    :param rpc_id: used in place of the request's id.
    :param linger: seconds that a stream stays open after its last event.
    """
    listener = listen("127.0.0.1", 0)
    url = f"http://127.0.0.1:{listener.getsockname()[1]}"

    async def card(request: Request) -> Response:
        return JSONResponse(make_card(url))

    async def rpc(request: Request) -> Response:
        asked = await request.json()
        envelope = {"jsonrpc": "2.0", "id": rpc_id or asked["id"]}

        async def stream() -> AsyncIterator[str]:
            for event in events:
                yield f"data: {json.dumps({**envelope, 'result': event})}\n\n"
            await asyncio.sleep(linger)

        if asked["method"] in ("SendStreamingMessage", "SubscribeToTask"):
            return StreamingResponse(stream(), media_type=media_type)
        result = {"task": dict(task)} if asked["method"] == "SendMessage" else dict(task)
        return JSONResponse({"jsonrpc": "2.0", "id": asked["id"], "result": result})

    routes = [Route("/.well-known/agent-card.json", card), Route("/rpc", rpc, methods=["POST"])]
    with served_in_thread(lambda: serving(Starlette(routes=routes), listener, log_level="critical")):
        yield url
