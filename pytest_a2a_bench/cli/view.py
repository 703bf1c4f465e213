"""``a2a-bench view [DIR]``: a run in a browser, while it goes on and after it, until Ctrl-C.

Of two directories the second is shown beside the first, an earlier run: what changed, and each conversation beside the
same one of before. A run with --a2a-live shows its conversations message by message. It listens on this machine alone,
and its URL has a token that nobody else knows.
"""

from __future__ import annotations

import threading
import webbrowser
from argparse import ArgumentParser, Namespace
from pathlib import Path

from pytest_a2a_bench.cli._results import results_directory
from pytest_a2a_bench.cli.controller import port
from pytest_a2a_bench.errors import ConfigurationError
from pytest_a2a_bench.reports.live import Server, Watched
from pytest_a2a_bench.results import manifest


def configure(parser: ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument(
        "directories",
        nargs="*",
        metavar="DIR",
        type=results_directory,
        help="a run (a2a-results), or an earlier one and a later one",
    )
    parser.add_argument("--baseline", metavar="FILE|DIR", type=results_directory, help="earlier run to compare with")
    parser.add_argument("--history", metavar="PATH", type=Path, help="runs of --a2a-history-file, to show over time")
    parser.add_argument("--port", type=port, default=0, metavar="N", help="where to listen (any free port)")
    parser.add_argument("--open", action="store_true", help="open it in a browser")


def run(namespace: Namespace) -> int:
    """Serve until Ctrl-C."""
    *earlier, directory = namespace.directories or [Path("a2a-results")]
    if len(earlier) > 1 or (earlier and namespace.baseline):
        raise ConfigurationError("give one run, or two of which the first is the earlier, or one and --baseline")
    for each in (*earlier, directory):
        if not (each / manifest.NAME).exists() and not each.is_dir():
            raise ConfigurationError(f"{each}: no such directory; give a run's --a2a-results")
    baseline = earlier[0] if earlier else namespace.baseline
    with Server(Watched(directory, baseline, past=namespace.history), namespace.port) as server:
        beside = f" beside {baseline}" if baseline else ""
        print(f"{server.url} shows {directory}{beside}; Ctrl-C ends it", flush=True)
        if namespace.open:
            webbrowser.open(server.url)
        try:
            threading.Event().wait()
        except KeyboardInterrupt:
            return 0
    return 0
