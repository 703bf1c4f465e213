"""What one blocking turn costs its client: ours, a2a-sdk's and bare httpx, against the same agent in another process.

    python perf/turn.py [--turns 3000] [--json FILE]

Counted is the process that asks, and no other: its CPU time (user and system), and its retired instructions where the
machine has counters for them. Each row is a process of its own, which has warmed up before it is counted, and the least
of some rounds is taken: what a busy machine adds is never negative. Prints a table and writes JSON.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import ctypes
import json
import os
import platform
import struct
import subprocess
import sys
import time
import uuid
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

from peer import peer

_WARM_UP = 200
_ROUNDS = 5
_TEXT = "I would like to change my reservation, please. " * 4

Ask = Callable[[], Awaitable[object]]


# -- the clients --


@contextlib.asynccontextmanager
async def ours(url: str) -> Any:
    """Ask as a trial does: a session, with history, metrics and all the checks of an answer."""
    from pytest_a2a_bench.a2a import loop
    from pytest_a2a_bench.a2a.client import AgentConnection
    from pytest_a2a_bench.a2a.config import ClientConfig
    from pytest_a2a_bench.model import Part

    connection = AgentConnection(ClientConfig(endpoint=url))
    # A conversation of a trial has some 20 messages, and keeps them.
    state: list[Any] = [connection.session(), 0]

    async def ask() -> object:
        state[1] += 1
        if state[1] % 20 == 0:
            state[0] = connection.session()
        return await state[0].asend([Part.of_text(_TEXT)])

    yield ask
    await connection.aclose()
    loop.shutdown()


@contextlib.asynccontextmanager
async def ours_from_thread(url: str) -> Any:
    """Ask as tau2's orchestrator does: from a thread that waits."""
    async with ours(url) as ask:
        import pytest_a2a_bench.a2a.loop as loops

        def waiting() -> object:
            return loops.run(ask())

        yield waiting


@contextlib.asynccontextmanager
async def ours_on_its_loop(url: str) -> Any:
    """Ask from the loop that the connections live on, as the other clients do: nothing is handed over."""
    async with ours(url) as ask:
        yield ask


@contextlib.asynccontextmanager
async def sdk(url: str) -> Any:
    """Ask with a2a-sdk's client."""
    import httpx
    from a2a.client import A2ACardResolver, ClientConfig, ClientFactory
    from a2a.types import a2a_pb2

    async with httpx.AsyncClient() as http:
        card = await A2ACardResolver(http, url).get_agent_card()
        bindings = ["JSONRPC", "GRPC"]
        options: dict[str, Any] = {"streaming": False, "httpx_client": http, "supported_protocol_bindings": bindings}
        with contextlib.suppress(ImportError):
            import grpc.aio

            options["grpc_channel_factory"] = grpc.aio.insecure_channel
        client = ClientFactory(ClientConfig(**options)).create(card)

        async def ask() -> object:
            message = a2a_pb2.Message(
                message_id=uuid.uuid4().hex, role=a2a_pb2.ROLE_USER, parts=[a2a_pb2.Part(text=_TEXT)]
            )
            answers = client.send_message(a2a_pb2.SendMessageRequest(message=message))
            return [a async for a in answers]

        yield ask


@contextlib.asynccontextmanager
async def bare(url: str) -> Any:
    """Ask with httpx and json alone."""
    import httpx

    async with httpx.AsyncClient() as http:

        async def ask() -> object:
            message = {"messageId": uuid.uuid4().hex, "role": "ROLE_USER", "parts": [{"text": _TEXT}]}
            body = {"jsonrpc": "2.0", "id": uuid.uuid4().hex, "method": "SendMessage", "params": {"message": message}}
            answer = await http.post(url, json=body, headers={"A2A-Version": "1.0"})
            return answer.json()["result"]

        yield ask


CLIENTS = {
    "ours": (ours, False),
    "ours, from a thread": (ours_from_thread, False),
    "ours on its loop": (ours_on_its_loop, False),
    "a2a-sdk": (sdk, False),
    "httpx": (bare, False),
    "ours, gRPC": (ours, True),
    "ours on its loop, gRPC": (ours_on_its_loop, True),
    "a2a-sdk, gRPC": (sdk, True),
}


# -- counting --


@contextlib.contextmanager
def instructions() -> Iterator[Callable[[], int | None]]:
    """Give what reads this process's retired instructions of user space, of all threads begun from now on."""
    # PERF_TYPE_HARDWARE, its size, PERF_COUNT_HW_INSTRUCTIONS; inherit, exclude_kernel and exclude_hv.
    attributes = struct.pack("IIQQQQQ", 0, 128, 1, 0, 0, 0, 1 << 1 | 1 << 5 | 1 << 6).ljust(128, b"\0")
    numbers = {"x86_64": 298, "aarch64": 241}
    number = numbers.get(platform.machine()) if sys.platform == "linux" else None
    handle = -1 if number is None else ctypes.CDLL(None).syscall(number, attributes, 0, -1, -1, 0)
    try:
        yield lambda: struct.unpack("Q", os.read(handle, 8))[0] if handle >= 0 else None
    finally:
        if handle >= 0:
            os.close(handle)


def measure(name: str, url: str, turns: int) -> dict[str, Any]:
    """Count one client in this process; the least of some rounds, by the turn."""
    client, _ = CLIENTS[name]
    found: list[tuple[float, float | None]] = []

    def several(ask: Callable[[], object], count: int) -> None:
        for _ in range(count):
            ask()

    async def rounds(read: Callable[[], int | None]) -> None:
        async with client(url) as ask:
            for number in range(_ROUNDS + 1):
                count = turns // _ROUNDS if number else _WARM_UP
                cpu, retired = time.process_time(), read()
                if client is ours_from_thread:
                    await asyncio.to_thread(several, ask, count)
                else:
                    for _ in range(count):
                        await ask()
                after = read()
                many = None if after is None or retired is None else (after - retired) / count
                if number:
                    found.append(((time.process_time() - cpu) / count, many))

    with instructions() as read:
        if client is ours_on_its_loop:
            from pytest_a2a_bench.a2a import loop

            loop.run(rounds(read))
        else:
            asyncio.run(rounds(read))
    counted = [many for _, many in found if many is not None]
    return {
        "client": name,
        "cpu_ms": round(min(cpu for cpu, _ in found) * 1000, 3),
        "instructions": round(min(counted)) if counted else None,
    }


def main() -> None:
    """Measure and report."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--turns", type=int, default=3000)
    parser.add_argument("--json", type=Path, default=Path(__file__).parent / "results" / "turn.json")
    parser.add_argument("--only", metavar="CLIENT", choices=CLIENTS, help="measure one, and print it as JSON")
    parser.add_argument("--url", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.url:
        print(json.dumps(measure(options.only, options.url, options.turns)))
        return
    rows = []
    print(f"{'a blocking turn':24} {'CPU ms':>8} {'M instructions':>15}")
    for name in [options.only] if options.only else CLIENTS:
        with peer(grpc=CLIENTS[name][1]) as url:
            command = [sys.executable, __file__, "--only", name, "--url", url, "--turns", str(options.turns)]
            row = json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
        many = row["instructions"]
        shown = f"{many / 1e6:.2f}" if many else "-"
        print(f"{name:24} {row['cpu_ms']:8.2f} {shown:>15}", flush=True)
        rows.append(row)
    options.json.parent.mkdir(parents=True, exist_ok=True)
    options.json.write_text(json.dumps({"rows": rows, "python": platform.python_version()}, indent=1) + "\n")
    print(f"written to {options.json}")


if __name__ == "__main__":
    main()
