"""``a2a-bench view [DIR]``: the report of a run in a browser, while it goes on and after it, until Ctrl-C.

It listens on this machine alone, and its URL has a token that nobody else knows.
"""

from __future__ import annotations

import datetime
import hmac
import json
import secrets
import threading
import webbrowser
from argparse import ArgumentParser, Namespace
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from pytest_a2a_bench.cli import _live_page
from pytest_a2a_bench.cli._results import results_directory
from pytest_a2a_bench.cli.controller import port
from pytest_a2a_bench.cli.report import gather
from pytest_a2a_bench.errors import A2ABenchError, ConfigurationError
from pytest_a2a_bench.model import TrialKey
from pytest_a2a_bench.redact import one_line
from pytest_a2a_bench.reports.html import render
from pytest_a2a_bench.reports.html.records import why
from pytest_a2a_bench.results import lock, manifest
from pytest_a2a_bench.results.progress import Progress
from pytest_a2a_bench.results.store import Store

_LOOK_EVERY = 1.0
_LAST = 8


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


@dataclass
class Watched:
    """A run's directory: what is there, each file read once."""

    directory: Path
    baseline: Path | None = None
    _done: dict[str, Mapping[str, Any]] = field(default_factory=dict)
    _last: list[str] = field(default_factory=list)
    _run: str = ""
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def look(self) -> dict[str, Any]:
        """Return how far the run is, as JSON."""
        with self._lock:
            return self._look()

    def _look(self) -> dict[str, Any]:
        # Asked first: what ends between the two is seen at the next look.
        running = lock.is_in_use(self.directory)
        try:
            asked = manifest.load(self.directory)
            self._read(asked)
        except (A2ABenchError, OSError) as error:
            return {"name": "", "line": one_line(str(error)), "done": 0, "total": 0, "last": [], "running": running}
        done = [self._done[key] for key in asked.keys if key in self._done]
        line = Progress(tuple(done), len(asked.keys), _age(self.directory)).line.removeprefix("a2a: ")
        if not running:
            line = line.partition(", about ")[0] + "; the run is over"
        name = one_line(asked.agent or asked.endpoint, 80)
        return {
            "name": name, "line": line, "done": len(done), "total": len(asked.keys),
            "last": self._last[: -_LAST - 1 : -1], "running": running,
        }  # fmt: skip

    def _read(self, asked: manifest.Manifest) -> None:
        """Read the trials that have finished since the last look; of another run, all."""
        if asked.run_id != self._run:
            self._run = asked.run_id
            self._done.clear()
            self._last.clear()
        store = Store(self.directory)
        for key in asked.keys:
            result = store.read(TrialKey.parse(key)) if key not in self._done else None
            if result is None or result.run_id not in asked.runs:
                continue
            self._done[key] = {
                "status": result.status,
                "success": result.success,
                "cost_usd": result.cost,
                "duration_s": result.duration,
                "reused_from": result.reused_from,
            }
            said = "passed" if result.success else one_line(why(result), 80) or result.status
            self._last.append(f"{one_line(key, 80)}: {said}")

    def report(self) -> str:
        """Return the report's page as it is now."""
        try:
            return render(gather(self.directory, self.baseline, None))
        except A2ABenchError as error:
            return _live_page.waiting(str(error))

    def shell(self) -> tuple[str, str]:
        """Return the page around it, and its policy."""
        told = self.look()
        return _live_page.shell(
            told["name"], told["line"], told["done"], told["total"], told["last"], running=told["running"]
        )


def _age(directory: Path) -> float:
    """Return the seconds since the run began: its manifest is written then."""
    began = datetime.datetime.fromtimestamp((directory / manifest.NAME).stat().st_mtime)
    return max(0.0, (datetime.datetime.now() - began).total_seconds())


class Server(ThreadingHTTPServer):
    """Serves one directory at a URL that cannot be guessed."""

    daemon_threads = True

    def __init__(self, watched: Watched, number: int) -> None:
        self.watched = watched
        self.token = secrets.token_urlsafe(16)
        self.ended = threading.Event()
        try:
            super().__init__(("127.0.0.1", number), _Handler)
        except OSError as error:
            raise ConfigurationError(f"--port {number}: cannot listen there: {error.strerror or error}") from error

    @property
    def url(self) -> str:
        """Where the page is."""
        return f"http://127.0.0.1:{self.server_address[1]}/{self.token}/"

    def __enter__(self) -> Server:
        threading.Thread(target=self.serve_forever, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self.ended.set()
        self.shutdown()
        self.server_close()


def serving(directory: Path, baseline: Path | None = None, number: int = 0) -> Server:
    """Return what serves a directory, as a context manager.

    :raises ConfigurationError: if the port is taken.
    """
    return Server(Watched(directory, baseline), number)


class _Handler(BaseHTTPRequestHandler):
    server: Server

    def do_GET(self) -> None:
        # A page of another origin may have its name lead to this address: then the host is not ours.
        host = self.headers.get("Host", "")
        _, token, path = [*self.path.partition("?")[0].split("/", 2), "", ""][:3]
        own = host in {f"{name}:{self.server.server_address[1]}" for name in ("127.0.0.1", "localhost")}
        page: Callable[[], None] | None = {"": self._shell, "report": self._report, "events": self._events}.get(path)
        if not own or page is None or not hmac.compare_digest(token.encode(), self.server.token.encode()):
            self.send_error(404)
            return
        page()

    def _shell(self) -> None:
        page, policy = self.server.watched.shell()
        self._send(page, {"Content-Security-Policy": policy})

    def _report(self) -> None:
        self._send(self.server.watched.report(), {})

    def _send(self, page: str, headers: Mapping[str, str]) -> None:
        body = page.encode()
        self.send_response(200)
        self._head({"Content-Type": "text/html; charset=utf-8", "Content-Length": str(len(body)), **headers})
        self.wfile.write(body)

    def _events(self) -> None:
        self.send_response(200)
        self._head({"Content-Type": "text/event-stream"})
        before = None
        while not self.server.ended.is_set():
            told = self.server.watched.look()
            # Also where nothing changed: the time goes on, and whoever left is noticed by writing to them.
            try:
                self.wfile.write(f"data: {json.dumps(told)}\n\n".encode() if told != before else b": still here\n\n")
                self.wfile.flush()
            except OSError:
                return
            if not told["running"]:
                return
            before = told
            self.server.ended.wait(_LOOK_EVERY)

    def _head(self, headers: Mapping[str, str]) -> None:
        always = {"Cache-Control": "no-store", "X-Content-Type-Options": "nosniff", "Referrer-Policy": "no-referrer"}
        for name, value in {**always, **headers}.items():
            self.send_header(name, value)
        self.end_headers()

    def log_message(self, format: str, *args: object) -> None:
        """Be silent: a terminal shows the URL."""
