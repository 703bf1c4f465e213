"""An agent that costs next to nothing, for measuring whoever talks to it: JSON-RPC by hand on asyncio, and gRPC.

    python perf/peer.py [--latency SECONDS] [--grpc]

Answers every message with the same few words after ``--latency`` seconds. Prints the URL of its card, and ends when its
standard input does. :func:`peer` starts one in a process of its own.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

_LENGTH = re.compile(rb"content-length: *(\d+)", re.IGNORECASE)
_REPLY = {"message": {"messageId": "m", "role": "ROLE_AGENT", "parts": [{"text": "fine, thank you"}], "contextId": "c"}}


@contextlib.contextmanager
def peer(latency: float = 0.0, *, grpc: bool = False) -> Iterator[str]:
    """Run the agent in another process and give its URL."""
    command = [sys.executable, str(Path(__file__)), "--latency", str(latency), *(["--grpc"] if grpc else [])]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        yield process.stdout.readline().strip()
        process.stdin.close()


class Connection(asyncio.Protocol):
    """One connection of a client; requests on it come one after another."""

    def __init__(self, card: bytes, latency: float) -> None:
        self._card, self._latency = card, latency
        self._buffer = b""

    def connection_made(self, transport: Any) -> None:
        """Keep what is written to."""
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        """Answer when a request is complete."""
        self._buffer += data
        head, found, rest = self._buffer.partition(b"\r\n\r\n")
        length = _LENGTH.search(head)
        size = int(length[1]) if length else 0
        if not found or len(rest) < size:
            return
        self._buffer = rest[size:]
        if head.startswith(b"GET"):
            self._answer(self._card)
            return
        identity = json.loads(rest[:size])["id"]
        body = json.dumps({"jsonrpc": "2.0", "id": identity, "result": _REPLY}).encode()
        asyncio.get_running_loop().call_later(self._latency, self._answer, body)

    def _answer(self, body: bytes) -> None:
        head = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n" % len(body)
        self._transport.write(head + body)


def card(url: str, binding: str) -> dict[str, Any]:
    """Return the agent's card."""
    return {
        "name": "peer",
        "description": "says the same to everybody",
        "version": "1",
        "supportedInterfaces": [{"url": url, "protocolBinding": binding, "protocolVersion": "1.0"}],
        "capabilities": {},
        "defaultInputModes": ["text/plain"],
        "defaultOutputModes": ["text/plain"],
        "skills": [{"id": "talk", "name": "talk", "description": "talks", "tags": ["talk"]}],
    }


async def _serve_grpc(latency: float) -> tuple[Any, str]:
    import grpc.aio
    from a2a.types import a2a_pb2, a2a_pb2_grpc
    from google.protobuf import json_format

    reply = json_format.ParseDict(_REPLY, a2a_pb2.SendMessageResponse())

    class Servicer(a2a_pb2_grpc.A2AServiceServicer):  # type: ignore[misc]
        async def SendMessage(self, request: Any, context: Any) -> Any:
            if latency:
                await asyncio.sleep(latency)
            return reply

    server = grpc.aio.server()
    a2a_pb2_grpc.add_A2AServiceServicer_to_server(Servicer(), server)
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    return server, f"127.0.0.1:{port}"


async def serve(latency: float, *, grpc: bool) -> None:
    """Serve until standard input ends."""
    loop = asyncio.get_running_loop()
    told: list[bytes] = [b""]
    server = await loop.create_server(lambda: Connection(told[0], latency), "127.0.0.1", 0, backlog=4096)
    url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    kept = await _serve_grpc(latency) if grpc else None
    described = card(url, "JSONRPC") if kept is None else card(kept[1], "GRPC")
    told[0] = json.dumps(described).encode()
    print(url, flush=True)
    await asyncio.to_thread(sys.stdin.read)


def main() -> None:
    """Serve."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--latency", type=float, default=0.0)
    parser.add_argument("--grpc", action="store_true")
    options = parser.parse_args()
    asyncio.run(serve(options.latency, grpc=options.grpc))


if __name__ == "__main__":
    main()
