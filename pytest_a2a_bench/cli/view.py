"""``a2a-bench view [DIR]``: the report of a run in a browser, while it goes on and after it, until Ctrl-C.

It listens on this machine alone, and its URL has a token that nobody else knows.
"""

from __future__ import annotations

import threading
import webbrowser
from argparse import ArgumentParser, Namespace
from pathlib import Path

from pytest_a2a_bench.cli._results import results_directory
from pytest_a2a_bench.cli.controller import port
from pytest_a2a_bench.errors import ConfigurationError
from pytest_a2a_bench.reports.live import serving
from pytest_a2a_bench.results import manifest


def configure(parser: ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument(
        "directory", nargs="?", metavar="DIR", type=results_directory, default=Path("a2a-results"), help="(a2a-results)"
    )
    parser.add_argument("--baseline", metavar="FILE|DIR", type=results_directory, help="earlier run to compare with")
    parser.add_argument("--port", type=port, default=0, metavar="N", help="where to listen (any free port)")
    parser.add_argument("--open", action="store_true", help="open it in a browser")


def run(namespace: Namespace) -> int:
    """Serve until Ctrl-C."""
    if not (namespace.directory / manifest.NAME).exists() and not namespace.directory.is_dir():
        raise ConfigurationError(f"{namespace.directory}: no such directory; give a run's --a2a-results")
    with serving(namespace.directory, namespace.baseline, namespace.port) as server:
        print(f"{server.url} shows {namespace.directory}; Ctrl-C ends it", flush=True)
        if namespace.open:
            webbrowser.open(server.url)
        try:
            threading.Event().wait()
        except KeyboardInterrupt:
            return 0
    return 0
