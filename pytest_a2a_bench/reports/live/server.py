"""Serves a run's page on this machine alone, at a URL with a token that nobody else knows."""

from __future__ import annotations

import contextlib
import hmac
import json
import secrets
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from http.client import HTTP_PORT
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self
from urllib.parse import parse_qs

from pytest_a2a_bench.errors import ConfigurationError
from pytest_a2a_bench.reports.html.explorer import safe_json
from pytest_a2a_bench.reports.live.watched import Watched

_LOOK_EVERY = 1.0
_MOST_DIGITS = 9


class Server(ThreadingHTTPServer):
    """Serves one run at a URL that cannot be guessed; a context manager, within which it does.

    :param watched: what it shows.
    :param number: the port, 0 for any free one.
    :param option: what named the port.
    :raises ConfigurationError: if the port is taken.
    """

    daemon_threads = True

    def __init__(self, watched: Watched, number: int = 0, option: str = "--port") -> None:
        self.watched = watched
        self.token = secrets.token_urlsafe(16)
        self.ended = threading.Event()
        self.woken = threading.Event()
        self._looking = 0
        self._owed = 0
        self._changed = threading.Condition()
        try:
            super().__init__(("127.0.0.1", number), _Handler)
        except OSError as error:
            raise ConfigurationError(f"{option} {number}: cannot listen there: {error.strerror or error}") from error

    @property
    def url(self) -> str:
        """Where the page is."""
        return f"http://127.0.0.1:{self.server_address[1]}/{self.token}/"

    def __enter__(self) -> Self:
        threading.Thread(target=self.serve_forever, name="a2a-live", daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self.ended.set()
        self.woken.set()
        self.shutdown()
        self.server_close()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Be silent about whoever left while they were answered: this terminal shows a run."""
        if not isinstance(sys.exception(), ConnectionError | TimeoutError):
            super().handle_error(request, client_address)

    @contextlib.contextmanager
    def looked_at(self) -> Iterator[None]:
        """Count who looks."""
        with self._changed:
            self._looking += 1
        try:
            yield
        finally:
            with self._changed:
                self._looking -= 1

    def told_the_end(self) -> None:
        """Note that somebody has what came of the run."""
        with self._changed:
            self._owed -= 1
            self._changed.notify_all()

    def let_them_see(self, seconds: float) -> None:
        """Say that the run is over, and wait until all who look have what came of it; not longer than that."""
        with self._changed:
            self.watched.is_over = True
            self._owed = self._looking
            self.woken.set()
            self._changed.wait_for(lambda: self._owed <= 0, seconds)


def hosts(number: int) -> set[str]:
    """Return what a client that was given our URL calls our host, by the port at which we listen."""
    names = ("127.0.0.1", "localhost")
    # That of http is left out (RFC 9110 4.2.3).
    return {f"{name}:{number}" for name in names} | (set(names) if number == HTTP_PORT else set())


class _Handler(BaseHTTPRequestHandler):
    server: Server

    def do_GET(self) -> None:
        # A page of another origin may have its name lead to this address: then the host is not ours.
        _, token, path = [*self.path.partition("?")[0].split("/", 2), "", ""][:3]
        own = self.headers.get("Host", "") in hosts(self.server.server_address[1])
        pages = {"": self._shell, "report": self._report, "events": self._events, "talk": self._talk}
        page: Callable[[], None] | None = pages.get(path)
        if not own or page is None or not hmac.compare_digest(token.encode(), self.server.token.encode()):
            self.send_error(404)
            return
        page()

    def _shell(self) -> None:
        page, policy = self.server.watched.shell()
        self._send(page, {"Content-Security-Policy": policy})

    def _report(self) -> None:
        over = self.server.watched.is_over
        self._send(self.server.watched.report(), {})
        if over:
            self.server.told_the_end()

    def _talk(self) -> None:
        asked = parse_qs(self.path.partition("?")[2])
        begin = asked.get("from", ["0"])[0]
        # Nobody said so much; and Python refuses to read a number of thousands of digits.
        first = int(begin[:_MOST_DIGITS]) if begin.isdecimal() else 0
        found = self.server.watched.talk(asked.get("id", [""])[0], first)
        self._send(safe_json(found), {}, "application/json")

    def _send(self, page: str, headers: Mapping[str, str], kind: str = "text/html") -> None:
        body = page.encode("utf-8", "replace")
        self.send_response(200)
        self._head({"Content-Type": f"{kind}; charset=utf-8", "Content-Length": str(len(body)), **headers})
        self.wfile.write(body)

    def _events(self) -> None:
        with self.server.looked_at():
            self._stream()

    def _stream(self) -> None:
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
            self.server.woken.wait(_LOOK_EVERY)

    def _head(self, headers: Mapping[str, str]) -> None:
        always = {"Cache-Control": "no-store", "X-Content-Type-Options": "nosniff", "Referrer-Policy": "no-referrer"}
        for name, value in {**always, **headers}.items():
            self.send_header(name, value)
        self.end_headers()

    def log_message(self, format: str, *args: object) -> None:
        """Be silent: a terminal shows the URL."""
