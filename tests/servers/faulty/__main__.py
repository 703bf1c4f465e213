"""``python tests/servers/faulty``: serve the agent until Ctrl-C, or until its parent ends, and print its URL."""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import dataclasses
import os
import signal
import sys
import threading
from pathlib import Path

sys.path[0] = str(Path(__file__).parent.parent)

from faulty.catalogue import describe  # noqa: E402
from faulty.fault import VARIANTS  # noqa: E402
from faulty.serving import FaultyOptions, serving  # noqa: E402
from pytest_a2a_bench.errors import ConfigurationError  # noqa: E402


def main() -> int:
    """Serve the agent that the arguments name. Return 0 after a clean stop, 2 if it cannot be served."""
    parser = argparse.ArgumentParser(prog="python tests/servers/faulty", description=__doc__)
    add = parser.add_argument
    add("--port", type=int, default=0, help="HTTP port (default: any free one)")
    add("--fault", help="the requirement that it breaks (default: none, a correct server)")
    add(
        "--variant",
        default="auto",
        choices=("auto", *VARIANTS),
        help="features of its card",
    )
    add("--step", type=float, default=0.2, metavar="SECONDS", help="how long each step of a slow task takes")
    add("--transport", choices=("all", "jsonrpc", "rest", "grpc"), default="all")
    add("--protocol", choices=("both", "1.0", "0.3"), default="both")
    add("--tokens", metavar="TOKEN,...", help="bearer tokens of its callers (variant guarded)")
    add("--list-faults", action="store_true", help="list all faults and the requirements that they break")
    add("--with-parent", action="store_true", help="end when stdin is closed")
    given = parser.parse_args()
    if given.list_faults:
        print(describe())
        return 0
    if given.with_parent:
        threading.Thread(target=_end_with_parent, daemon=True).start()
    options = FaultyOptions(**{f.name: getattr(given, f.name) for f in dataclasses.fields(FaultyOptions)})
    try:
        asyncio.run(_serve(options, given.port))
    except ConfigurationError as error:
        print(error, file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        pass
    return 0


async def _serve(options: FaultyOptions, port: int) -> None:
    stopped = asyncio.Event()
    with contextlib.suppress(NotImplementedError):
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stopped.set)
    async with serving(options, port) as running:
        print(running.url, flush=True)
        await stopped.wait()


def _end_with_parent() -> None:
    while os.read(sys.stdin.fileno(), 4096):
        pass
    os.kill(os.getpid(), signal.SIGTERM)


if __name__ == "__main__":
    sys.exit(main())
