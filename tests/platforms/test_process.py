"""Processes that are stopped at any moment leave no process behind; their logs are bounded and show no secret."""

import asyncio
import contextlib
import json
import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from controlled import PYTHON
from examples import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from threaded_http import Handler, HttpServer

from pytest_a2a_bench.a2a import loop
from pytest_a2a_bench.platforms.once import ControllerError, reset_agent
from pytest_a2a_bench.platforms.process import BoundedLog, Command, Process
from pytest_a2a_bench.redact import KNOWN, KnownSecret, Secret
from pytest_a2a_bench.results.store import is_alive


def sleeper(directory: Path) -> Command:
    """Return a command that leaves its process id in a file, starts another that ignores SIGTERM, and sleeps."""
    program = directory / "sleeper.py"
    child = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); time.sleep(600)"
    program.write_text(
        "import os, pathlib, subprocess, sys, time\n"
        f"child = subprocess.Popen([sys.executable, '-I', '-S', '-c', {child!r}])\n"
        f"pathlib.Path({str(directory)!r}, f'{{os.getpid()}}.pid').touch()\n"
        f"pathlib.Path({str(directory)!r}, f'{{child.pid}}.pid').touch()\n"
        "time.sleep(600)\n"
    )
    return Command((PYTHON, "-I", "-S", str(program)), dict(os.environ), stop_seconds=0.1)


def left_of(directory: Path) -> list[int]:
    """Return the processes that run on."""
    return [pid for pid in (int(path.stem) for path in directory.glob("*.pid")) if is_alive(pid)]


async def _run(kept: Command) -> None:
    process = Process(kept, 0, "")
    try:
        await process.wait()
    finally:
        await process.stop()


@pytest.mark.parametrize("steps", range(9))
def test_a_cancelled_task_leaves_no_process(steps: int, tmp_path: Path, recwarn: pytest.WarningsRecorder) -> None:
    """After each step of the event loop, the first ones while the process starts."""
    kept = sleeper(tmp_path)

    async def cancel() -> None:
        task = asyncio.ensure_future(_run(kept))
        for _ in range(steps):
            await asyncio.sleep(0)
        # What is started has time to start its own, while the loop has none.
        time.sleep(0.1 if steps % 2 else 0.0)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)

    asyncio.run(cancel())
    assert left_of(tmp_path) == []
    assert [str(warning.message) for warning in recwarn] == []


def test_a_stop_that_is_cancelled_is_finished_all_the_same(tmp_path: Path) -> None:
    async def cancel_twice() -> None:
        task = asyncio.ensure_future(_run(sleeper(tmp_path)))
        while len(list(tmp_path.glob("*.pid"))) < 2:
            await asyncio.sleep(0.01)
        for _ in range(3):
            task.cancel()
            await asyncio.sleep(0)
        with pytest.raises(asyncio.CancelledError):
            await task
        assert left_of(tmp_path) == []

    asyncio.run(cancel_twice())


def test_stopping_again_gives_the_same_exit_code() -> None:
    async def stop() -> list[int]:
        process = Process(Command((PYTHON, "-c", "import time; time.sleep(600)")), 0, "")
        await process.stop()
        await process.stop()
        return [await process.wait(), await process.wait()]

    assert set(asyncio.run(stop())) <= {128 + 15, 130}


@settings(max_examples=examples(50), deadline=None)
@given(st.lists(st.integers(0, 30), min_size=1, max_size=80))
def test_a_long_one_keeps_its_beginning_and_its_end(lengths: list[int]) -> None:
    log = BoundedLog(head=50, tail=100)
    lines = [f"{number:03}{'x' * length}\n" for number, length in enumerate(lengths)]
    for line in lines:
        log.feed(line.encode())
    whole, kept = "".join(lines), log.text()
    if kept == whole:
        return
    first, expected, last = kept.partition("[... ")
    gone, _, last = last.partition(" bytes left out ...]\n")
    assert expected
    assert whole.startswith(first)
    assert whole.endswith(last)
    assert len(first) + int(gone) + len(last) == len(whole)
    assert len(first) <= 50
    assert len(last) <= 100


def test_a_line_without_end_is_shown_and_bounded() -> None:
    log = BoundedLog(head=0, tail=40_000)
    for _ in range(100):
        log.feed(b"y" * 10_000)
    assert len(log.text()) < 80_000
    assert "bytes left out" in log.text()


def test_a_secret_that_comes_in_pieces_is_hidden() -> None:
    forget = KNOWN.remember([KnownSecret("KEY", "sk-canary-5d41402abc4b2a76")])
    log = BoundedLog()
    for piece in (b"the key is sk-canary-5d4", b"1402abc4b2a76 and", b" no other\nsk-canary-5d41402abc4b2a76"):
        log.feed(piece)
    text = log.text()
    forget()
    assert text == "the key is *** and no other\n***"


# The platform's side of a controller, with controllers that are wrong in one way each.


Answers = Callable[[str, int], tuple[int, object]]


@contextlib.contextmanager
def answering(answers: Answers) -> Iterator[str]:
    """Serve what a function of the request ("GET /agents") and its number (from 0) returns: status and JSON."""
    asked: list[str] = []

    class Controller(Handler):
        def do_GET(self) -> None:
            self.body()
            line = f"{self.command} {self.path}"
            status, found = answers(line, asked.count(line))
            asked.append(line)
            body = found if isinstance(found, bytes) else json.dumps(found).encode()
            self.answer(status, body)

        do_POST = do_GET

    with HttpServer(Controller) as server:
        yield server.url


def reset(url: str, token: Secret | None = None, seconds: float = 30.0) -> str:
    return loop.run(reset_agent(url, token, seconds))


def test_moments_of_trouble_in_a_reset_are_waited_out() -> None:
    def answers(line: str, number: int) -> tuple[int, object]:
        if line == "GET /agents":
            return 200, {"first": {"state": "running"}, "second": {}}
        if line == "POST /agents/first/reset":
            return 200, {"message": "requested"}
        # As AgentBeats' own does while it moves files about.
        return [(500, b"Internal Server Error"), (200, {"state": "starting"}), (200, {"state": "running"})][number]

    with answering(answers) as url:
        assert reset(f"{url}/") == f"{url}/to_agent/first"


@pytest.mark.parametrize(
    ("answers", "complaint"),
    [
        (lambda line, number: (200, {}), "keeps no agent"),
        (lambda line, number: (200, b"<html>"), "GET http://127.0.0.1:.*/agents: HTTP 200 <html>"),
        (lambda line, number: (200, ["x"]), "HTTP 200"),
        (lambda line, number: (401, {}), "HTTP 401 .*--controller-auth-env"),
        (lambda line, number: (200 if line == "GET /agents" else 503, {"a": {}}), "POST .*/agents/a/reset: HTTP 503"),
        (lambda line, number: (200, {"a": {}, "state": "starting"}), "is starting after its reset"),
        (
            lambda line, number: (200, {"a": {}, "state": "finished(2)", "stderr_log": "x\n no key "}),
            "saying 'x no key'",
        ),
    ],
)
def test_problems_of_a_controller_are_reported(answers: Answers, complaint: str) -> None:
    with answering(answers) as url, pytest.raises(ControllerError, match=complaint):
        reset(url, seconds=0.1)


def test_a_controller_that_is_not_there_is_reported() -> None:
    with pytest.raises(ControllerError, match=r"GET http://127\.0\.0\.1:9/agents: .*Connect"):
        reset("http://127.0.0.1:9")
