"""``a2a-bench chaos URL``: stand before an agent and inject faults until Ctrl-C.

Give the URL that it prints to a client in place of the agent's, whose card it shows with its own addresses.
"""

from __future__ import annotations

import asyncio
import dataclasses
import sys
from argparse import Action, ArgumentParser, ArgumentTypeError, Namespace
from typing import Any

from pytest_a2a_bench.a2a.client import AgentConnection
from pytest_a2a_bench.a2a.config import ClientConfig
from pytest_a2a_bench.chaos.journal import Journal
from pytest_a2a_bench.chaos.proxy import Listen, standing_before, until_stopped
from pytest_a2a_bench.chaos.spec import ChaosSpec, describe, parse_chaos
from pytest_a2a_bench.cli import _connection
from pytest_a2a_bench.redact import redact_url

SOME = "reset=0.05,after-delivery=0.02,half-close=0.02,503=0.05,429-retry=0.02,dribble=0.01"
"""What is injected where nobody says what."""


def configure(parser: ArgumentParser) -> None:
    """Declare the arguments."""
    add = parser.add_argument
    add("url", metavar="URL", help="The agent's base URL, or its card's")
    add("--chaos", metavar="SPEC", default=SOME, help="Faults, settings, seed (%(default)s)")
    add("--chaos-log", metavar="FILE", help="Add a line of JSON to it for each fault")
    add("--list", action=_List, nargs=0, help="List all faults and settings of a SPEC")
    add("--host", default="127.0.0.1", help="Address to listen on (%(default)s)")
    add("--port", type=_port, default=0, metavar="N", help="Port of the card and of what is beside it (any free one)")
    add("--grpc-port", type=_port, default=0, metavar="N", help="Port of gRPC (any free one)")
    add("--public-url", metavar="URL", help="Base URL that the card shows (the address that it listens on)")
    add("--wait", type=float, default=0.0, metavar="SECONDS", help="Wait so long for the agent to answer (0)")
    _connection.add_arguments(parser)


def _port(text: str) -> int:
    if not text.isdecimal() or int(text) > 65535:
        raise ArgumentTypeError(f"{text!r} is not a port (0 to 65535)")
    return int(text)


class _List(Action):
    def __call__(self, parser: ArgumentParser, *_: Any) -> None:
        print(describe())
        parser.exit()


def run(namespace: Namespace) -> int:
    """Stand before the agent."""
    spec = parse_chaos(namespace.chaos)
    config = dataclasses.replace(_connection.read_config(namespace, namespace.url), wait=namespace.wait)
    journal = Journal(namespace.chaos_log)
    try:
        asyncio.run(_stand(namespace, config, spec, journal))
    finally:
        journal.close()
    print(journal.summary(spec), file=sys.stderr)
    return 0


async def _stand(namespace: Namespace, config: ClientConfig, spec: ChaosSpec, journal: Journal) -> None:
    connection = AgentConnection(config)
    try:
        card = await connection.await_until_ready()
    finally:
        await connection.aclose()
    listen = Listen(namespace.host, namespace.port, namespace.grpc_port, namespace.public_url)
    async with standing_before(card, spec, journal, listen, network=config.network) as standing:
        print(
            f"chaos before {redact_url(namespace.url, query=False)} answers at {standing.url} "
            f"(card {standing.card_url}, Ctrl-C stops it)\n"
            f"try: pytest --a2a-endpoint {standing.url} -k airline",
            flush=True,
        )
        await until_stopped()
