"""``--a2a-live``: a run is shown while it goes on, from whichever process."""

from __future__ import annotations

import json
import signal
import threading
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import pytest
from harness import Bench, wait_for
from raw_agent import Request, fine, raw_agent

from pytest_a2a_bench.model import TrialKey
from pytest_a2a_bench.reports.live import Watched
from pytest_a2a_bench.results import lock
from pytest_a2a_bench.results.live import Growing

TALK = """
import pytest

@pytest.mark.a2a_scenario("Good morning", "Where is it?")
def test_talk(trial):
    assert trial.said("fine")
"""


class Asked:
    """An agent that looks at the run from outside when it is asked for the second time."""

    def __init__(self, results: Path) -> None:
        self.seen: list[dict[str, Any]] = []
        self._watched = Watched(results)
        self._count = 0

    def __call__(self, request: Request) -> bytes:
        self._count += b"SendMessage" in request.body
        if self._count == 2:
            told = self._watched.look()
            self.seen += [told, *(self._watched.look(now["id"])["talk"] for now in told["now"])]
        return fine(request)


@pytest.mark.parametrize("live", [True, False], ids=["on", "off"])
def test_a_conversation_can_be_watched_while_it_is_held(pytester: pytest.Pytester, bench: Bench, live: bool) -> None:
    pytester.makepyfile(TALK)
    asked = Asked(pytester.path / "a2a-results")
    with raw_agent(asked) as agent:
        result = bench(f"--a2a-endpoint={agent.url}", "-q", *(["--a2a-live"] if live else []))
    result.assert_outcomes(passed=1)
    assert asked.seen[0]["running"]
    shown = [line for line in result.outlines if line.endswith(" shows this run")]
    if live:
        _, talk = asked.seen
        said = [(turn["role"], turn["text"]) for turn in talk["turns"]]
        assert said == [("user", "Good morning"), ("agent", "fine"), ("user", "Where is it?")]
        assert shown[0].startswith("a2a: http://127.0.0.1:")
    else:
        assert (asked.seen[0]["now"], shown) == ([], [])
    # Nothing of it stays.
    assert not (pytester.path / "a2a-results" / "live").exists()


def test_a_run_that_holds_nothing_leaves_another_runs_conversations(pytester: pytest.Pytester, bench: Bench) -> None:
    pytester.makepyfile("def test_other(): pass")
    directory = pytester.path / "a2a-results"
    held = lock.take(directory, "pytest")
    conversation = Growing(directory, TrialKey.parse("made/even/1#0"), "run")
    result = bench("--a2a-live")
    result.assert_outcomes(passed=1)
    assert len(list((directory / "live").iterdir())) == 1
    conversation.end()
    held.release()


def test_a_taken_port_and_a_path_in_its_place_are_usage_errors(
    pytester: pytest.Pytester, desk: Bench, noop_url: str
) -> None:
    taken = noop_url.rstrip("/").rpartition(":")[2]
    result = desk("--a2a-live", taken)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines([f"*--a2a-live {taken}: cannot listen there: *"])
    result = desk("--a2a-live", "test_desk.py")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["*--a2a-live: 'test_desk.py' is no port*before a path*"])


def _held(request: Request, go_on: threading.Event) -> bytes:
    """Answer each first message at once, and each second one when it is time."""
    if "Where is it" in request.body.decode():
        go_on.wait(240)
    return fine(request)


@pytest.mark.slow
def test_the_page_tells_of_all_workers(pytester: pytest.Pytester, bench: Bench) -> None:
    pytester.makepyfile(TALK)
    go_on = threading.Event()
    arguments = ("--a2a-trials=2", "-n2", "--a2a-live", "--a2a-min-pass=0.5")
    with (
        raw_agent(lambda request: _held(request, go_on)) as agent,
        bench.popen(f"--a2a-endpoint={agent.url}", *arguments) as process,
    ):
        assert process.stdout is not None
        url = next(line for line in process.stdout if b" shows this run" in line).split()[1].decode()
        reader = threading.Thread(target=process.stdout.read)
        reader.start()
        try:
            _watch(url, go_on)
        finally:
            go_on.set()
        assert process.wait(240) == 0
        reader.join()


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_whoever_waits_for_a_page_no_longer_has_the_summary(
    pytester: pytest.Pytester, bench: Bench, number: signal.Signals
) -> None:
    pytester.makepyfile(TALK)
    # Longer than is waited for the process: only the signal ends the wait.
    pytester.makeconftest("from pytest_a2a_bench.plugin.report import page\npage._LAST_LOOK = 600.0")
    go_on = threading.Event()
    with (
        raw_agent(lambda request: _held(request, go_on)) as agent,
        bench.popen(f"--a2a-endpoint={agent.url}", "--a2a-live") as process,
    ):
        assert process.stdout is not None
        url = next(line for line in process.stdout if b" shows this run" in line).split()[1].decode()
        assert _status(url)["running"]
        go_on.set()
        while _status(url, "&wait=1")["running"]:
            pass
        # The report is not asked for.
        process.send_signal(number)
        said = process.communicate(timeout=240)[0].decode()
        assert process.returncode == 0
    assert "a2a benchmark summary" in said
    assert "1 passed" in said
    assert "Traceback" not in said


def _watch(url: str, go_on: threading.Event) -> None:
    told: list[dict[str, Any]] = []

    def both() -> bool:
        told.append(_status(url))
        return [now["messages"] for now in told[-1]["now"]] == [3, 3]

    wait_for(both)
    assert {now["waits"] for now in told[-1]["now"]} == {"agent"}
    assert (told[-1]["done"], told[-1]["total"], told[-1]["running"]) == (0, 2, True)
    found = _status(url, f"&talk={told[-1]['now'][0]['id']}&from=2")
    assert [turn["text"] for turn in found["talk"]["turns"]] == ["Where is it?"]
    assert found["done"] == 0
    go_on.set()
    while (last := _status(url, "&wait=1"))["running"]:
        pass
    assert last["done"] == 2
    # Pytest waits until open pages have loaded the last report.
    with urlopen(f"{url}report?page=test") as report:
        assert "min_pass" in report.read().decode()


def _status(url: str, query: str = "") -> dict[str, Any]:
    with urlopen(f"{url}status?page=test{query}") as answer:
        return dict(json.load(answer))
