"""``a2a-bench show --browser``: a run in a browser while it goes on, over real HTTP and in a real Chromium."""

from __future__ import annotations

import functools
import json
import os
import signal
import socket
import struct
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import pytest
from browser import Browser, axe_source
from commands import command
from finished_runs import write_run
from made_trials import made_trial
from one_test import in_one_test

from pytest_a2a_bench.model import TrialKey
from pytest_a2a_bench.reports.live import Server, Watched
from pytest_a2a_bench.results import lock
from pytest_a2a_bench.results.store import Store

KEYS = [f"made/even/{i}#0" for i in range(6)]


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """A run of which two of six trials have finished."""
    results = [made_trial(KEYS[0]), made_trial(KEYS[1], success=False)]
    return write_run(tmp_path / "results", results, absent=KEYS[2:])


@pytest.fixture
def going(run: Path) -> Iterator[lock.Lock]:
    """The run goes on: somebody holds its directory."""
    held = lock.take(run, "pytest")
    yield held
    held.release()


@pytest.fixture
def server(run: Path, going: lock.Lock) -> Iterator[Server]:
    with Server(Watched(run)) as started:
        yield started


def finish(run: Path, *keys: str) -> None:
    for key in keys:
        Store(run).write(made_trial(key, run_id="run"))


def fetch(url: str, **headers: str) -> str:
    with urlopen(Request(url, headers=headers)) as answer:
        assert answer.headers["Cache-Control"] == "no-store"
        return str(answer.read().decode())


def status(server: Server, query: str = "") -> dict[str, Any]:
    return dict(json.loads(fetch(f"{server.url}status?{query}")))


def test_it_tells_of_each_trial_as_it_finishes_until_the_run_is_over(
    run: Path, going: lock.Lock, server: Server
) -> None:
    first = status(server)
    assert (first["done"], first["total"], first["running"]) == (2, 6, True)
    assert first["line"].startswith("2 of 6 trials, 1 of 2 passed (50%), cost $0.020")
    assert first["last"] == ["made/even/1#0: communicate: the agent says 42", "made/even/0#0: passed"]

    finish(run, *KEYS[2:4])
    later = status(server, "wait=1")
    assert (later["done"], later["last"][0]) == (4, "made/even/3#0: passed")

    going.release()
    last = status(server)
    assert not last["running"]
    # How long ago it began says nothing of how long it took.
    assert last["line"].endswith("passed (75%), cost $0.040; the run is over")


def test_without_javascript_there_is_the_report(run: Path, server: Server) -> None:
    assert '<noscript>This page needs JavaScript; <a href="report">' in fetch(server.url)
    assert "made/even/1#0" in fetch(server.url + "report")
    finish(run, KEYS[5])
    assert "made/even/5#0" in fetch(server.url + "report")


@in_one_test("path", ["", "report", "status", "live.js", "x", "../x"])
def test_a_request_without_the_token_sees_nothing(server: Server, path: str) -> None:
    base = f"http://127.0.0.1:{server.server_address[1]}"
    for url in (f"{base}/{path}", f"{base}/{'x' * len(server.token)}/{path}"):
        with pytest.raises(HTTPError, match="404"):
            fetch(url)
    # A name that was made to lead here is no way in, either.
    with pytest.raises(HTTPError, match="404"):
        fetch(server.url + path, Host="evil.example")


def test_a_directory_without_a_run_says_so(tmp_path: Path) -> None:
    with Server(Watched(tmp_path)) as empty:
        assert "it has no run.json" in status(empty)["line"]
        assert "there are no trial files" in fetch(empty.url + "report")
    assert "no such directory" in command("show", "--browser", "--results", tmp_path / "nowhere", code=2).err


@dataclass
class Leaving(Watched):
    """What is asked for by a client that is gone before it has the answer."""

    client: socket.socket | None = None

    def report(self) -> str:
        assert self.client is not None
        self.client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.client.close()
        return "x" * 1_000_000


class Heard(Server):
    """Tells what ended a request."""

    error: BaseException | None = None

    def handle_error(self, request: Any, client_address: Any) -> None:
        super().handle_error(request, client_address)
        self.error = sys.exception()
        self.woken.set()


def test_a_terminal_hears_nothing_of_whoever_leaves(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    watched = Leaving(tmp_path)
    with Heard(watched) as server:
        watched.client = socket.create_connection(("127.0.0.1", server.server_address[1]))
        host = f"127.0.0.1:{server.server_address[1]}"
        watched.client.sendall(f"GET /{server.token}/report HTTP/1.1\r\nHost: {host}\r\n\r\n".encode())
        assert server.woken.wait(240)
    assert isinstance(server.error, ConnectionError)
    assert capsys.readouterr().err == ""


def test_a_report_that_cannot_be_read_is_a_line(run: Path) -> None:
    with Server(Watched(run, past=run / ("x" * 300))) as server:
        assert "name too long" in fetch(server.url + "report")


def test_the_command_says_where_and_ends_by_ctrl_c(run: Path) -> None:
    command = [sys.executable, "-m", "pytest_a2a_bench.cli", "show", "--browser", "--results", str(run)]
    # A shell's background job, as CI may be, ignores Ctrl-C, and its children inherit that.
    heed = functools.partial(signal.signal, signal.SIGINT, signal.SIG_DFL)
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, preexec_fn=heed) as process:
        try:
            assert process.stdout is not None
            url = process.stdout.readline().split()[0]
            assert "the run is over" in fetch(f"{url}status")
            process.send_signal(signal.SIGINT)
            assert process.wait(60) == 0
        finally:
            process.kill()


@pytest.mark.slow
def test_a_person_sees_it_grow(run: Path, going: lock.Lock, server: Server, browser: Browser) -> None:
    browser.visit(server.url)
    browser.wait("document.getElementById('line').textContent.startsWith('2 of 6')")
    browser.wait("document.getElementById('report').contentDocument?.querySelector('#trials-table tbody tr') != null")
    browser.run("window.loads = 0; document.getElementById('report').addEventListener('load', () => window.loads++)")

    finish(run, *KEYS[2:5])
    browser.wait("document.getElementById('more').textContent === 'Show 3 more'")
    assert browser.run("return document.getElementById('bar').value") == 5
    # Whoever reads is not disturbed.
    assert browser.run("return window.loads") == 0
    browser.one("#more").click()
    browser.wait("window.loads === 1")
    assert browser.one("#more").is_displayed() is False

    browser.run(axe_source())
    found = browser.driver.execute_async_script("axe.run({iframes: false}).then(arguments[0])")
    assert [v["id"] for v in found["violations"]] == []
    finish(run, KEYS[5])
    going.release()
    browser.wait("document.getElementById('line').textContent.endsWith('the run is over')")
    browser.wait("window.loads === 2")
    assert [m for m in browser.messages() if "favicon" not in m] == []


def test_the_next_run_is_seen_where_the_last_one_was(run: Path, server: Server) -> None:
    assert status(server)["done"] == 2
    write_run(run, [made_trial(KEYS[0], success=False)], run_id="next", absent=KEYS[1:])
    message = status(server)
    assert (message["done"], message["last"]) == (1, ["made/even/0#0: communicate: the agent says 42"])


@pytest.mark.parametrize("content", ["{", "[" * 100_000, ""], ids=["truncated", "deep", "empty"])
def test_a_damaged_file_hides_no_other(run: Path, content: str) -> None:
    damaged = Store(run).path(TrialKey.parse(KEYS[0]))
    damaged.write_text(content, encoding="utf-8")
    watched = Watched(run)
    for _ in range(2):
        message = watched.look()
        assert (message["done"], message["total"]) == (1, 6)
        assert message["line"].endswith("; 1 trial file cannot be read; the run is over")
        assert message["why"][0].startswith(str(damaged)[:200])
        assert message["last"] == ["made/even/1#0: communicate: the agent says 42"]
    finish(run, KEYS[0])
    message = watched.look()
    assert (message["done"], len(message["why"]), "cannot be read" in message["line"]) == (2, 1, False)


def test_a_file_that_was_read_while_it_was_written_is_read_again(run: Path) -> None:
    path = Store(run).path(TrialKey.parse(KEYS[0]))
    whole, at = path.read_bytes(), path.stat().st_mtime_ns
    path.write_bytes(whole[:100])
    os.utime(path, ns=(at, at))
    watched = Watched(run)
    assert watched.look()["done"] == 1
    path.write_bytes(whole)
    # A clock that has not moved on in between.
    os.utime(path, ns=(at, at))
    assert watched.look()["done"] == 2
