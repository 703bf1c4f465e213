"""``a2a-bench agent NAME``: serve a built-in agent until Ctrl-C."""

from __future__ import annotations

import asyncio
import logging
import sys
from argparse import ArgumentParser, Namespace
from typing import TYPE_CHECKING

from pytest_a2a_bench.agents.options import AgentOptions, add_arguments, from_namespace, require_server
from pytest_a2a_bench.benchmarks import registry
from pytest_a2a_bench.config.settings import TAGGED_AGENTS
from pytest_a2a_bench.tracing import without_sdk_spans

if TYPE_CHECKING:
    from pytest_a2a_bench.agents.server import Served


def configure(parser: ArgumentParser) -> None:
    """Declare the arguments."""
    add_arguments(parser)


def run(namespace: Namespace) -> int:
    """Serve the agent."""
    options = from_namespace(namespace)
    require_server("the built-in agents")
    registry.register_players(options.players)
    for suite in options.players:
        registry.get_player(suite)
    without_sdk_spans()
    # The SDK logs each request that it refuses, some with a traceback; the caller is answered.
    logging.getLogger("a2a").setLevel(logging.CRITICAL)
    from pytest_a2a_bench.agents.server import serve  # what it imports is an extra

    def announce(served: Served) -> None:
        print(greeting(options, served), flush=True)

    try:
        asyncio.run(serve(options, announce))
    except KeyboardInterrupt:
        pass
    print("stopped", file=sys.stderr)
    return 0


def greeting(options: AgentOptions, served: Served) -> str:
    """Return the text that is printed once the agent answers."""
    tag = " --a2a-set tag-trials=on" if options.name in TAGGED_AGENTS else ""
    auth = f" --a2a-auth-env {options.auth_env}" if options.auth_env else ""
    # A suite that is only given by its player is not known here, nor are its domains.
    own = next(iter(options.players), "")
    choice = f"-m {own}" if own else f"-k {registry.load(next(registry.players())[0]).domains[0]}"
    return (
        f"{options.name} answers at {served.url} (card {served.card_url}, Ctrl-C stops it)\n"
        f"try: pytest --a2a-endpoint {served.url}{tag}{auth} {choice}"
    )
