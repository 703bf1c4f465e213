from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import warm_python
from harness import wait_for

Start = Callable[[str], subprocess.Popen[str]]

TEST = """
import os, sys

def test_it():
    assert "litellm" not in sys.modules and "a2a.client" in sys.modules
    with open("pids.txt", "w") as stream:
        stream.write(f"{os.getpid()} {os.getppid()} ")
    exec(os.environ["THEN"])
"""


@pytest.fixture
def start(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Start:
    """Start a run of pytest whose only test does what is given, and wait until it is there."""
    if sys.executable == warm_python.FRESH:
        pytest.skip("forks are offered on Linux only")
    (tmp_path / "test_it.py").write_text(TEST)
    for name in [name for name in os.environ if name.startswith("PYTEST_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    monkeypatch.chdir(tmp_path)

    def begin(then: str) -> subprocess.Popen[str]:
        monkeypatch.setenv("THEN", then)
        command = [sys.executable, "-m", "pytest", "-q", "-s", "-pno:cacheprovider"]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        wait_for(lambda: len(pids()) == 2 or process.poll() is not None)
        return process

    return begin


def pids() -> list[int]:
    """Return the process ids of the run and of the process that it was forked from."""
    path = Path("pids.txt")
    return [int(word) for word in path.read_text().split()] if path.exists() else []


def gone(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    return False


def test_it_runs_in_a_fork_with_the_callers_files(start: Start) -> None:
    process = start("print('said')")
    out = process.communicate(timeout=120)[0]
    assert process.returncode == 0
    assert "said" in out
    assert pids()[0] != process.pid
    assert pids()[1] != os.getpid()


@pytest.mark.parametrize(("then", "code"), [("assert 0", 1), ("os._exit(9)", 9), ("os.kill(os.getpid(), 9)", -9)])
def test_it_ends_as_its_fork_ends(start: Start, then: str, code: int) -> None:
    process = start(then)
    process.communicate(timeout=120)
    assert process.returncode == code


def test_a_signal_is_for_the_fork(start: Start) -> None:
    process = start("import time; time.sleep(600)")
    process.send_signal(signal.SIGINT)
    assert "KeyboardInterrupt" in process.communicate(timeout=120)[0]
    assert process.returncode == pytest.ExitCode.INTERRUPTED


def test_a_fork_does_not_outlive_who_was_killed(start: Start) -> None:
    process = start("import time; time.sleep(600)")
    process.kill()
    process.communicate(timeout=120)
    wait_for(lambda: gone(pids()[0]))


def test_everything_else_is_a_plain_python(start: Start) -> None:
    code = "import os, sys; print(os.getpid(), sys.executable, len(sys.modules) < 100)"
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True) as process:
        out = process.communicate(timeout=120)[0]
    assert out.split() == [str(process.pid), warm_python.FRESH, "True"]
