"""What the plugin's tests share: a benchmark whose tasks say what happens, and how to load the plugin."""

from __future__ import annotations

import contextlib
import json
import re
import signal
import subprocess
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

import pytest_a2a_bench

ROOT = Path(pytest_a2a_bench.__file__).parent.parent


class Bench:
    """Runs pytest with this plugin: in this process, or where a process is what is tested, in one of its own.

    :ivar path: the directory of the runs.
    """

    def __init__(self, pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch, *first: str) -> None:
        self.path = pytester.path
        self._pytester = pytester
        self._environ = monkeypatch
        self.makepyfile = pytester.makepyfile
        self.makeconftest = pytester.makeconftest
        self.makepyprojecttoml = pytester.makepyprojecttoml
        self.makefile = pytester.makefile
        self.mkdir = pytester.mkdir
        self._first = first

    def with_options(self, *options: str) -> Bench:
        """Return what runs pytest with these options, too."""
        return Bench(self._pytester, self._environ, *self._first, *options)

    def tasks(self, names: str) -> None:
        """Choose the tasks of the desk benchmark."""
        self._environ.setenv("DESK_TASKS", names)

    def add_to_conftest(self, code: str) -> None:
        with (self.path / "conftest.py").open("a") as stream:
            stream.write(code)

    def copy_files(self, folder: Path) -> None:
        """Copy the files of a folder to where the runs are."""
        for path in folder.iterdir():
            if path.is_file():
                (self.path / path.name).write_bytes(path.read_bytes())

    def stored(self, results: str = "a2a-results") -> list[dict[str, Any]]:
        """Return the trial files of a results directory."""
        return [json.loads(path.read_text()) for path in sorted((self.path / results / "trials").glob("*.json"))]

    def __call__(self, *args: str | Path) -> pytest.RunResult:
        # This run's filter makes errors of warnings; a user's does not.
        with warnings.catch_warnings():
            warnings.resetwarnings()
            return self._pytester.runpytest_inprocess(*self._arguments(args), no_reraise_ctrlc=True)

    def refused(self, *args: str | Path) -> pytest.LineMatcher:
        """Run what is a wrong usage, and return what it says of it."""
        result = self(*args)
        assert result.ret == pytest.ExitCode.USAGE_ERROR, result.stdout.str()
        assert "Traceback" not in result.stderr.str() + result.stdout.str()
        return result.stderr

    def apart(self, *args: str | Path) -> pytest.RunResult:
        """Run pytest in a process of its own, as each run that offers tools over MCP needs.

        pytester forgets what a run imports, and what is left of MCP's libraries would close this process's capture.
        """
        return self._pytester.runpytest_subprocess(*self._arguments(args), timeout=240)

    def _arguments(self, args: tuple[str | Path, ...]) -> list[str | Path]:
        # Plugins are not autoloaded here: other people's cost more time than the tests themselves.
        every = [*self._first, *args]
        xdist = ["-pxdist.plugin"] if any(str(a).startswith("-n") for a in every) else []
        return [*xdist, *every]

    def popen(self, *args: str) -> subprocess.Popen[bytes]:
        process: subprocess.Popen[bytes] = self._pytester.popen(
            [sys.executable, "-m", "pytest", *map(str, self._arguments(args))],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            # A shell's background job, as CI may be, ignores Ctrl-C, and its children inherit that.
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
        )
        return process


DESK = '''
"""A benchmark whose task ids say what happens (ok, bad, down, skip, bug, broken, crash, flaky, or a message is lost
once or always: lost, gone; its user is at fault once or always: left, leaves, or once before all breaks: vain) and for
how long.

"meet-4" lasts until four trials have been started; "stuck-4" so long, whatever anybody does, and "refused" is what
the first try meets.
"""

import os, pathlib, time

from pytest_a2a_bench.benchmarks.base import Outcome
from pytest_a2a_bench.errors import (
    AuthenticationError, DeliveryUncertain, EvaluatorError, JudgeMissingError, TransportError, TrialCancelledError
)
from pytest_a2a_bench.model import BenchTask, Reward, RewardCheck, ToolCall, Turn, Usage, UserFault
from pytest_a2a_bench.benchmarks.registry import Suite

HERE = pathlib.Path(__file__).parent
TASKS = os.environ.get("DESK_TASKS", "ok").split()


def note(what, key):
    with open(HERE / "log.txt", "a") as stream:
        stream.write(f"{what} {key} {os.getpid()} {time.time():.3f}\\n")


class Desk:
    name = "desk"

    def run_trial(self, context):
        key = context.key
        note("start", key)
        kind, *rest = key.task_id.split("-")
        seconds = float(rest[0]) if rest and rest[0][0].isdigit() else 0.0
        if kind == "meet":
            many, seconds, last = int(seconds), 0.0, time.monotonic() + 60
            while (HERE / "log.txt").read_text().count("start ") < many and time.monotonic() < last:
                time.sleep(0.02)
        if kind == "stuck":
            time.sleep(seconds)
            seconds = 0.0
        elif context.cancel.wait(seconds):
            note("cancelled", key)
            return Outcome(error=TrialCancelledError(f"{key} was cancelled"))
        note("end", key)
        if kind == "crash":
            os._exit(9)
        if kind == "down" or (kind == "flaky" and not (HERE / key.file_stem).exists()):
            (HERE / key.file_stem).touch()
            return Outcome(error=TransportError("connection reset by peer"))
        if kind == "gone" or (kind == "lost" and not (HERE / key.file_stem).exists()):
            (HERE / key.file_stem).touch()
            reason = "HTTP 502" if kind == "gone" else "reset after delivery"
            error = DeliveryUncertain("the answer was lost", reason=reason)
            return Outcome(error=error, agent_usage=Usage(10, 5, 0.25))
        if kind == "refused" and not (HERE / key.file_stem).exists():
            (HERE / key.file_stem).touch()
            return Outcome(error=AuthenticationError("HTTP 401 Unauthorized", refused=True))
        if kind == "skip":
            return Outcome(error=JudgeMissingError("needs a judge; pass --a2a-judge-llm"))
        if kind == "broken":
            return Outcome(error=EvaluatorError("tau2's evaluator raised KeyError: 'seat'"))
        if kind == "bug":
            raise ValueError("a bug in the benchmark")
        fault = None
        if kind == "vain" and (HERE / key.file_stem).exists():
            return Outcome(error=TransportError("connection reset by peer"), agent_usage=Usage(10, 5, 0.25))
        if kind in ("leaves", "vain") or (kind == "left" and not (HERE / key.file_stem).exists()):
            (HERE / key.file_stem).touch()
            fault = UserFault("ended_before_the_write", "the agent asked \\x1b[31mwhether to go on")
        value = 0.0 if kind == "bad" or fault or (kind == "odd" and key.trial % 2) else 1.0
        diff = () if value else ("db.x: expected 1, found 2",)
        checks = (RewardCheck("communicate", "the price is 42", value == 1.0),)
        return Outcome(
            reward=Reward(value, ("DB",), {"DB": value}, checks=checks, db_diff=diff),
            termination_reason="user_stop",
            user_fault=fault,
            transcript=(
                Turn("user", "help \\x1b[31mme"),
                Turn("agent", calls=(ToolCall("look", {"at": 1}),)),
                Turn("tool", "nothing", tool="look"),
                Turn("agent", "so\\x07rry"),
            ),
            agent_usage=Usage(10, 5, 0.25),
            provenance={"user": "scripted", "benchmark": "desk 1", "evaluation_type": "all"},
            dialect="tool_call",
        )


BENCHMARK = Desk()
SUITE = Suite(
    name="desk",
    domains=("front",),
    available=lambda: ("front",),
    splits=lambda domain: ("base",),
    load_tasks=lambda domain, split: [BenchTask("desk", "front", t, ("base",)) for t in TASKS],
    benchmark="desk",
)
'''

DESK_CONFTEST = """
def pytest_a2a_bench_suites():
    import desk
    return [desk.SUITE]
"""

DESK_TEST = """
import pytest

@pytest.mark.desk("front")
def test_desk(trial):
    assert trial.success
"""


EXPECTED_TO_FAIL = DESK_TEST.replace("@pytest.mark.desk", "@pytest.mark.xfail\n@pytest.mark.desk")


def wait_for(condition: Callable[[], bool], seconds: float = 120.0) -> None:
    """Wait until something is so; the seconds are for a machine that is very busy, not what may be expected."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "waited in vain"
        time.sleep(0.05)


def log_of(run: Bench, what: str = "start") -> list[str]:
    """Return the task ids that the desk benchmark started (ended, cancelled), in order."""
    path = run.path / "log.txt"
    lines = path.read_text().splitlines() if path.exists() else []
    return [re.sub(r"^desk/front/|#.*$", "", line.split()[1]) for line in lines if line.split()[0] == what]


def ids(result: pytest.RunResult) -> list[str]:
    """Return the node ids that ``--co -q`` printed."""
    return [line for line in result.outlines if "::" in line]


def counts(result: pytest.RunResult) -> dict[str, int]:
    """Return how many items passed, failed and ended in errors, of those of which there are some."""
    found = result.parseoutcomes()
    return {name: found[name] for name in ("passed", "failed", "errors") if name in found}


@contextlib.contextmanager
def url_of(*command: str | Path) -> Iterator[str]:
    """Run a program as long as the context lasts, and give the first line that it prints: where it serves."""
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        yield process.stdout.readline().strip()
        process.kill()


def verdict_of(run: Bench, results: str = "a2a-results") -> dict[str, Any]:
    """Return the ``verdict.json`` of a run."""
    found: dict[str, Any] = json.loads((run.path / results / "verdict.json").read_text())
    return found


def junit_cases(path: Path) -> dict[str, ElementTree.Element]:
    """Return a junit file's test cases by name."""
    return {case.attrib["name"]: case for case in ElementTree.parse(path).iter("testcase")}


def kinds(path: Path) -> dict[str, list[str]]:
    """Return what a junit file says of each test case by its children: failure, error, skipped or nothing."""
    said = ("properties", "system-out")
    return {name: [c.tag for c in case if c.tag not in said] for name, case in junit_cases(path).items()}


def junit_properties(case: ElementTree.Element) -> dict[str, str]:
    """Return a test case's properties."""
    return {p.attrib["name"]: p.attrib["value"] for p in case.iter("property")}
