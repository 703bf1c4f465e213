"""``python -m pytest_a2a_bench.chaos URL``: run the fault proxy before an agent until Ctrl-C."""

from __future__ import annotations

import argparse
import asyncio
import os
import sys
from collections.abc import Sequence

from pytest_a2a_bench.a2a.client import AgentConnection
from pytest_a2a_bench.a2a.config import ClientConfig
from pytest_a2a_bench.a2a.network import Network
from pytest_a2a_bench.chaos.faults import FAULTS, Call, Draws, parse_faults
from pytest_a2a_bench.chaos.proxy import Faults, proxy_before, until_stopped
from pytest_a2a_bench.config.settings import Settings
from pytest_a2a_bench.errors import A2ABenchError
from pytest_a2a_bench.redact import redact_url
from pytest_a2a_bench.text import one_line

DEFAULT = ("reset=0.05", "after-delivery=0.02", "half-close=0.02", "503=0.05", "429=0.02")
"""The faults where none is named."""

KINDS = {"messages": ("send", "task"), "sends": ("send",), "all": ("send", "task", "card", "other")}


def make_parser() -> argparse.ArgumentParser:
    """Return the parser of the arguments."""
    parser = argparse.ArgumentParser(
        prog="python -m pytest_a2a_bench.chaos",
        description="An HTTP proxy before an A2A agent that injects faults. Give its URL to the client.",
        epilog="faults:\n" + "\n".join(f"  {name:<15} {text}" for name, text in FAULTS.items()),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add = parser.add_argument
    add("url", metavar="URL", help="the agent's base URL, or its card's")
    add("--fault", action="append", metavar="NAME=RATE", help=f"a fault and its probability ({' '.join(DEFAULT)})")
    add("--seed", type=int, default=0, metavar="N", help="the same seed gives the same faults (0)")
    add("--on", choices=KINDS, default="messages", help="requests that may meet a fault (messages and task reads)")
    add("--hang", type=float, default=600.0, metavar="SECONDS", help="silence of hang-before and hang-after (600)")
    add("--host", default="127.0.0.1", help="address to listen on (%(default)s)")
    add("--port", type=int, default=0, choices=range(65536), metavar="N", help="port to listen on (any free one)")
    add("--public-url", metavar="URL", help="base URL that the card shows (the address that it listens on)")
    add("--wait", type=float, default=0.0, metavar="SECONDS", help="wait so long for the agent to answer (0)")
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """Run the proxy, and return the exit code."""
    arguments = make_parser().parse_args(argv)
    try:
        draws = Draws(parse_faults(arguments.fault or DEFAULT), arguments.seed, KINDS[arguments.on])
        faults = Faults(draws, arguments.hang, report=lambda fault, call: _report(draws, fault, call))
        asyncio.run(_serve(arguments, faults))
    except A2ABenchError as error:
        print(f"chaos: {one_line(str(error))}", file=sys.stderr)
        return 2
    counts = ", ".join(f"{name} {count}" for name, count in sorted(faults.injected.items()))
    print(f"chaos: {draws.requests} requests, {faults.injected.total()} faults ({counts or 'none'})", file=sys.stderr)
    return 0


def _report(draws: Draws, fault: str, call: Call) -> None:
    about = f"{call.method} {call.message_id}".rstrip()
    print(one_line(f"request {draws.requests}: {fault} ({about})"), flush=True)


async def _serve(arguments: argparse.Namespace, faults: Faults) -> None:
    network = Network.from_settings(Settings(), os.environ)
    connection = AgentConnection(ClientConfig(endpoint=arguments.url, network=network, wait=arguments.wait))
    try:
        card = await connection.await_until_ready()
    finally:
        await connection.aclose()
    async with proxy_before(
        card.url, faults, arguments.host, arguments.port, public=arguments.public_url, network=network
    ) as url:
        print(
            f"chaos before {redact_url(arguments.url, query=False)} (Ctrl-C stops it)\n"
            f"try: pytest --a2a-endpoint {url} -k airline",
            flush=True,
        )
        await until_stopped()


if __name__ == "__main__":
    sys.exit(main())
