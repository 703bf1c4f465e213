"""The process of ``builtin:NAME``: it prints its address as one JSON line, and ends when its parent does."""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import select
import signal
import sys
import threading

from pytest_a2a_bench.agents.options import AgentOptions, add_arguments, from_namespace
from pytest_a2a_bench.errors import A2ABenchError
from pytest_a2a_bench.tracing import without_sdk_spans


def main(argv: list[str] | None = None) -> int:
    """Serve the agent that the arguments name. Return 0 after a clean stop, 2 if it cannot be served."""
    parser = argparse.ArgumentParser(prog="python -m pytest_a2a_bench.agents")
    add_arguments(parser)
    namespace = parser.parse_args(argv)
    try:
        options = from_namespace(namespace)
        threading.Thread(target=_end_with_parent, args=(os.getppid(),), daemon=True).start()
        _run(options)
    except A2ABenchError as error:
        print(error, file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        pass
    return 0


def _run(options: AgentOptions) -> None:
    without_sdk_spans()
    # After the watch over the parent has begun: these imports take a second, in which the parent may die.
    from pytest_a2a_bench.agents.server import Served, serve

    def announce(served: Served) -> None:
        print(json.dumps(served._asdict()), flush=True)

    asyncio.run(serve(options, announce))


def _end_with_parent(parent: int) -> None:
    """End this process when the pipe from its parent closes, or when its parent is another than it was.

    The pipe alone would do, were it not for forks of the parent that keep its end open.
    """
    while os.getppid() == parent:
        readable, _, _ = select.select([sys.stdin], [], [], 1.0)
        if readable and not os.read(sys.stdin.fileno(), 4096):
            break
    os.kill(os.getpid(), signal.SIGTERM)
    # A server that is deaf to SIGTERM (still importing, say) must not survive its parent either.
    threading.Event().wait(3.0)
    os._exit(1)


if __name__ == "__main__":
    sys.exit(main())
