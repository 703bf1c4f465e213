"""``a2a-bench show --browser``: a run in a browser while it goes on, over real HTTP and in a real Chromium."""

import functools
import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import pytest
from browser import Browser
from commands import refused
from finished_runs import write_run
from made_trials import made_trial
from one_test import in_one_test

from pytest_a2a_bench.model import AgentSaid, Briefing, ToolCall, ToolReturned, ToolSpec, TrialKey, UserSaid
from pytest_a2a_bench.reports.live import Server, Watched
from pytest_a2a_bench.results import lock
from pytest_a2a_bench.results.live import Growing
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


def test_it_tells_of_each_trial_as_it_finishes_until_the_next_run(run: Path, going: lock.Lock, server: Server) -> None:
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
    assert '<noscript>This page needs JavaScript; <a href="report">' in fetch(server.url)
    assert "made/even/1#0" in fetch(server.url + "report")
    finish(run, KEYS[5])
    assert "made/even/5#0" in fetch(server.url + "report")
    write_run(run, [made_trial(KEYS[0], success=False)], run_id="next", absent=KEYS[1:])
    message = status(server)
    assert (message["done"], message["last"]) == (1, ["made/even/0#0: communicate: the agent says 42"])


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
    assert "no such directory" in refused("show", "--browser", "--results", tmp_path / "nowhere")
    assert "--browser shows a whole run" in refused("show", "airline/1", "--browser")


def test_a_terminal_hears_nothing_of_clients_that_leave(server: Server, capsys: pytest.CaptureFixture[str]) -> None:
    for error, heard in ((BrokenPipeError(), False), (ValueError("a bug"), True)):
        try:
            raise error
        except (OSError, ValueError):
            server.handle_error(None, ("127.0.0.1", 9))
        assert ("Traceback" in capsys.readouterr().err) is heard


def test_a_report_that_cannot_be_read_is_a_line(run: Path) -> None:
    with Server(Watched(run, past=run / ("x" * 300))) as server:
        assert "name too long" in fetch(server.url + "report")


@pytest.mark.slow
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

    assert browser.axe(iframes=False) == []
    finish(run, KEYS[5])
    going.release()
    browser.wait("document.getElementById('line').textContent.endsWith('the run is over')")
    browser.wait("window.loads === 2")
    assert [m for m in browser.messages() if "favicon" not in m] == []


def test_floors_are_shown_before_a_trial_of_theirs_has_finished(run: Path, going: lock.Lock) -> None:
    path = run / "run.json"
    plan = json.loads(path.read_text())
    plan["settings"] |= {"min_pass": {"": 0.6, "made!": 0.4, "odd": 0.3}}
    path.write_text(json.dumps(plan))
    with Server(Watched(run)) as server:
        assert status(server)["floors"] == [
            "all trials: 50% of 60%, not reached so far",
            "made: 50% of 40%, reached so far",
            "odd: 30%, and no trial has finished",
        ]


def test_a_damaged_file_hides_no_other(run: Path) -> None:
    damaged = Store(run).path(TrialKey.parse(KEYS[0]))
    damaged.write_text("[" * 100_000, encoding="utf-8")
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


# The page of a run while conversations are held, over real HTTP and in a real Chromium.


BRIEFING = Briefing("Be kind.", (ToolSpec("look", "Looks."),))
HOSTILE = "</script><img src=x onerror='window.pwned = 1'>\x1b[31m\u202e\u2066{{1}}' onclick='window.pwned=1"


@dataclass
class Going:
    """A run that goes on: one of six trials has missed, and two are being held."""

    directory: Path
    server: Server
    held: list[Growing]
    lock: lock.Lock

    def finish(self, at: int) -> None:
        Store(self.directory).write(made_trial(KEYS[at], run_id="run"))
        if at - 1 < len(self.held):
            self.held[at - 1].end()


@pytest.fixture
def talking(tmp_path: Path) -> Iterator[Going]:
    directory = write_run(tmp_path / "results", [made_trial(KEYS[0], success=False)], absent=KEYS[1:])
    taken = lock.take(directory, "pytest")
    held = [Growing(directory, TrialKey.parse(key), "run") for key in KEYS[1:3]]
    held[0].hear(BRIEFING, [UserSaid("Good morning")])
    held[0].hear(BRIEFING, [AgentSaid(calls=(ToolCall("look", {"at": 1}, "c1"),)), ToolReturned("c1", "look", "[1]")])
    with Server(Watched(directory)) as server:
        yield Going(directory, server, held, taken)
    taken.release()


def test_a_conversation_is_reported_from_where_it_is_known(talking: Going) -> None:
    message = talking.server.watched.look()
    assert [(now["name"], now["messages"], now["waits"]) for now in message["now"]] == [
        (KEYS[1], 3, "agent"),
        (KEYS[2], 0, "begins"),
    ]
    assert message["why"] == ["1x agent: left out what the user had to be told"] or len(message["why"]) == 1
    url = f"{talking.server.url}status?talk={message['now'][0]['id']}"
    talk = json.loads(fetch(url))["talk"]
    assert (talk["policy"], talk["tools"]) == ("Be kind.", ["look: Looks."])
    assert [turn["role"] for turn in talk["turns"]] == ["user", "agent", "tool"]
    later = json.loads(fetch(f"{url}&from=2"))["talk"]
    assert ([turn["role"] for turn in later["turns"]], "policy" in later) == (["tool"], False)
    assert json.loads(fetch(f"{url}&from=x"))["talk"] == talk
    assert json.loads(fetch(f"{url}&from={'9' * 5_000}"))["talk"]["turns"] == []
    assert json.loads(fetch(f"{talking.server.url}status?talk=../../run"))["talk"] is None
    for wrong in (url.replace(talking.server.token, "x" * len(talking.server.token)), url.replace("status", "live")):
        with pytest.raises(HTTPError, match="404"):
            fetch(wrong)
    with pytest.raises(HTTPError, match="404"):
        fetch(url, Host="evil.example")
    # What has ended is the report's; what another run left behind is nobody's.
    Growing(talking.directory, TrialKey.parse(KEYS[3]), "before")
    Store(talking.directory).write(made_trial(KEYS[1], run_id="run"))
    assert [now["key"] for now in talking.server.watched.look()["now"]] == [KEYS[2]]
    talking.held[1].hear(BRIEFING, [UserSaid(HOSTILE)])
    message = talking.server.watched.look()
    raw = fetch(f"{talking.server.url}status?talk={message['now'][0]['id']}")
    assert not set(raw) & set("<>&\x1b\u202e\u2066")


def test_pages_that_are_open_at_the_end_are_waited_for(talking: Going) -> None:
    url = talking.server.url
    assert fetch(f"{url}report?page=a")
    for page in "abc":
        assert json.loads(fetch(f"{url}status?page={page}"))["running"]
    waiting = threading.Thread(target=talking.server.let_them_see, args=(240.0,))
    waiting.start()
    while json.loads(fetch(f"{url}status?page=a&wait=1"))["running"]:
        pass
    # One has the last report, one is closed.
    assert "made/even/0#0" in fetch(f"{url}report?page=a")
    fetch(f"{url}closed?page=b")
    assert not json.loads(fetch(f"{url}status?page=a"))["running"]
    assert waiting.is_alive()
    fetch(f"{url}report?page=c")
    waiting.join(240)
    assert not waiting.is_alive()


def test_two_runs_are_side_by_side(tmp_path: Path) -> None:
    before = write_run(tmp_path / "before", [made_trial(KEYS[0], said="once"), made_trial(KEYS[2])])
    after = write_run(tmp_path / "after", [made_trial(KEYS[0], success=False), made_trial("made/even/2#1")])
    watched = Watched(after, before)
    page = watched.report()
    assert 'id="baseline"' in page
    assert str(before) in page


@pytest.mark.slow
def test_a_person_sees_a_conversation_grow(talking: Going, browser: Browser) -> None:
    browser.visit(talking.server.url)
    browser.wait("document.querySelectorAll('#talk .turn').length === 3")
    assert browser.texts("#inflight b") == [KEYS[1], KEYS[2]]
    lists = "[...document.querySelectorAll('#now > :first-child > div')].map(d => d.getBoundingClientRect())"
    assert browser.run(f"return {lists}.every((d, i, all) => d.width > 200 && (!i || d.top > all[i - 1].top))")
    assert browser.one("#talk-title").text == KEYS[1]
    assert browser.texts("#talk .turn .who") == ["User", "Agent", "Tool"]
    assert browser.one("#tab-now").text == "Now (2)"
    browser.run("window.first = document.querySelector('#talk .turn')")

    talking.held[0].hear(BRIEFING, [AgentSaid("It is there.")])
    browser.wait("document.querySelectorAll('#talk .turn').length === 4")
    # What was there is the same still: nobody loses their place.
    assert browser.run("return window.first === document.querySelector('#talk .turn')")

    talking.held[1].hear(BRIEFING, [UserSaid(HOSTILE)])
    browser.run("document.querySelectorAll('#inflight button')[1].focus()")
    browser.press("\ue007")
    browser.wait("document.querySelectorAll('#talk .turn').length === 1")
    assert browser.one("#talk-title").text == KEYS[2]
    assert "onerror" in browser.one("#talk .bubble").text
    assert browser.run("return [window.pwned, document.querySelectorAll('#talk img').length]") == [None, 0]
    pressed = "[...document.querySelectorAll('#inflight button')].map(b => b.getAttribute('aria-pressed')).join()"
    browser.wait(f"{pressed} === 'false,true'")
    # The focus stays, although the list is drawn anew every second.
    talking.held[1].hear(BRIEFING, [AgentSaid("No.")])
    browser.wait("document.querySelectorAll('#talk .turn').length === 2")
    assert browser.run("return document.activeElement.querySelector('b')?.textContent") == KEYS[2]

    talking.finish(2)
    browser.wait("document.querySelector('#talk-state button')")
    browser.one("#talk-state button").click()
    browser.wait("!document.getElementById('reported').hidden")
    frame = "document.getElementById('report').contentDocument"
    browser.wait(f"{frame}.querySelector('#viewer-title')?.textContent === '{KEYS[2]}'")
    assert [m for m in browser.messages() if "favicon" not in m] == []


@pytest.mark.slow
def test_tabs_work_by_keys_and_the_end_shows_the_report(talking: Going, browser: Browser) -> None:
    browser.visit(talking.server.url)
    browser.wait("document.getElementById('tab-now').textContent === 'Now (2)'")
    browser.run("document.getElementById('tab-now').focus()")
    browser.press("\ue014")
    state = "return [document.activeElement.id, document.getElementById('now').hidden]"
    assert browser.run(state) == ["tab-report", True]
    browser.press("\ue012")
    assert browser.run(state) == ["tab-now", False]
    browser.visit(talking.server.url)
    browser.wait("document.getElementById('tab-now').textContent === 'Now (2)'")
    for at in range(1, 6):
        talking.finish(at)
    talking.lock.release()
    browser.wait("document.getElementById('line').textContent.endsWith('the run is over')")
    browser.wait("document.getElementById('now').hidden")
    browser.wait("document.getElementById('status').textContent === '6 of 6 trials have finished'")


@pytest.mark.slow
@pytest.mark.parametrize(("width", "dark"), [(1280, False), (1280, True), (390, False)])
def test_axe_finds_nothing_while_a_run_goes_on(talking: Going, browser: Browser, width: int, dark: bool) -> None:
    browser.visit(talking.server.url, width=width, dark=dark)
    browser.wait("document.querySelectorAll('#talk .turn').length === 3")
    browser.run("document.querySelectorAll('details').forEach(d => d.open = true)")
    assert browser.run("return document.documentElement.scrollWidth <= innerWidth")
    assert browser.axe(iframes=False) == []
