"""A JSON-RPC agent that answers what a test tells it to, right or wrong."""

import contextlib
import json
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from raw_agent import Answer, Request, raw_agent, rpc, stream_head


def make_card(url: str) -> dict[str, Any]:
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
    last: str = "",
) -> Iterator[str]:
    """Serve: every call gets the task, every stream the events.

    :param rpc_id: used in place of the request's id.
    :param linger: seconds that a stream stays open after its last event.
    :param last: data of a further event, as it is.
    """

    def stream(request: Request) -> Iterator[bytes]:
        yield stream_head(media_type)
        for event in events:
            envelope = {"jsonrpc": "2.0", "id": rpc_id or request.json["id"], "result": event}
            yield f"data: {json.dumps(envelope)}\n\n".encode()
        if last:
            yield f"data: {last}\n\n".encode()
        time.sleep(linger)

    def answer(request: Request) -> Answer:
        method = request.json["method"]
        if method in ("SendStreamingMessage", "SubscribeToTask"):
            return stream(request)
        return rpc({"task": task} if method == "SendMessage" else task, request)

    with raw_agent(answer) as agent:
        agent.card = make_card(agent.url)
        yield agent.url
