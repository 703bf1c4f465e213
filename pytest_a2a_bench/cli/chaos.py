"""``a2a-bench chaos URL``: an HTTP proxy before an agent that injects faults until Ctrl-C.

Give the URL that it prints to a client in place of the agent's, whose card it shows with its own address.
"""

from __future__ import annotations

import asyncio
import dataclasses
import sys
from argparse import Action, ArgumentParser, ArgumentTypeError, Namespace
from typing import Any

from pytest_a2a_bench.a2a.client import AgentConnection
from pytest_a2a_bench.a2a.config import ClientConfig
from pytest_a2a_bench.chaos.faults import FAULTS, Call, Draws, parse_faults
from pytest_a2a_bench.chaos.proxy import Faults, proxy_before, until_stopped
from pytest_a2a_bench.cli import _connection
from pytest_a2a_bench.redact import one_line, redact_url

SOME = ("reset=0.05", "after-delivery=0.02", "half-close=0.02", "503=0.05", "429=0.02")
"""Which faults are injected where none is named."""

KINDS = {"messages": ("send", "task"), "sends": ("send",), "all": ("send", "task", "card", "other")}


def configure(parser: ArgumentParser) -> None:
    """Declare the arguments."""
    add = parser.add_argument
    add("url", metavar="URL", help="The agent's base URL, or its card's")
    add("--fault", action="append", metavar="NAME=RATE", help=f"A fault and its probability ({' '.join(SOME)})")
    add("--list", action=_List, nargs=0, help="List all faults")
    add("--seed", type=int, default=0, metavar="N", help="The same seed gives the same faults (0)")
    add("--on", choices=KINDS, default="messages", help="Requests that may meet a fault (messages and task reads)")
    add("--hang", type=float, default=600.0, metavar="SECONDS", help="Silence of hang-before and hang-after (600)")
    add("--host", default="127.0.0.1", help="Address to listen on (%(default)s)")
    add("--port", type=_port, default=0, metavar="N", help="Port to listen on (any free one)")
    add("--public-url", metavar="URL", help="Base URL that the card shows (the address that it listens on)")
    add("--wait", type=float, default=0.0, metavar="SECONDS", help="Wait so long for the agent to answer (0)")
    _connection.add_arguments(parser)


def _port(text: str) -> int:
    if not text.isdecimal() or int(text) > 65535:
        raise ArgumentTypeError(f"{text!r} is not a port (0 to 65535)")
    return int(text)


class _List(Action):
    def __call__(self, parser: ArgumentParser, *_: Any) -> None:
        print("\n".join(f"{name:<15} {text}" for name, text in FAULTS.items()))
        parser.exit()


def run(namespace: Namespace) -> int:
    """Serve the proxy."""
    draws = Draws(parse_faults(namespace.fault or SOME), namespace.seed, KINDS[namespace.on])
    config = dataclasses.replace(_connection.read_config(namespace, namespace.url), wait=namespace.wait)
    faults = Faults(draws, namespace.hang, report=lambda fault, call: _report(draws, fault, call))
    asyncio.run(_serve(namespace, config, faults))
    counts = ", ".join(f"{name} {count}" for name, count in sorted(faults.injected.items()))
    print(f"chaos: {draws.requests} requests, {faults.injected.total()} faults ({counts or 'none'})", file=sys.stderr)
    return 0


def _report(draws: Draws, fault: str, call: Call) -> None:
    about = f"{call.method} {call.message_id}".rstrip()
    print(one_line(f"request {draws.requests}: {fault} ({about})"), flush=True)


async def _serve(namespace: Namespace, config: ClientConfig, faults: Faults) -> None:
    connection = AgentConnection(config)
    try:
        card = await connection.await_until_ready()
    finally:
        await connection.aclose()
    async with proxy_before(
        card.url, faults, namespace.host, namespace.port, public=namespace.public_url, network=config.network
    ) as url:
        print(
            f"chaos before {redact_url(namespace.url, query=False)} (Ctrl-C stops it)\n"
            f"try: pytest --a2a-endpoint {url} -k airline",
            flush=True,
        )
        await until_stopped()
