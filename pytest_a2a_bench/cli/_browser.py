"""Serve the page of a run on this machine, while it goes on and after it, until Ctrl-C."""

from __future__ import annotations

import threading
import webbrowser
from argparse import Namespace
from pathlib import Path

from pytest_a2a_bench.errors import ConfigurationError
from pytest_a2a_bench.reports.live import Server, Watched
from pytest_a2a_bench.results import manifest


def run(namespace: Namespace, directory: Path) -> int:
    """Serve until Ctrl-C."""
    if not (directory / manifest.NAME).exists() and not directory.is_dir():
        raise ConfigurationError(f"{directory}: no such directory; give a run's --a2a-results")
    baseline = namespace.baseline
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
