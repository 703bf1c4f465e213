"""Processes that are stopped at any moment, from their very start: nothing of them is left, and no wait is endless."""

from __future__ import annotations

import asyncio
import os
import sys
import time
from pathlib import Path

import pytest
from controlled import PYTHON
from harness import wait_for

from pytest_a2a_bench.platforms.process import GuardedProcess, Kept
from pytest_a2a_bench.results.processes import is_alive


def sleeper(directory: Path) -> Kept:
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
    return Kept((PYTHON, "-I", "-S", str(program)), dict(os.environ), stop_seconds=0.1)


def left_of(directory: Path) -> list[int]:
    """Return the processes that run on."""
    return [pid for pid in (int(path.stem) for path in directory.glob("*.pid")) if is_alive(pid)]


async def _run(kept: Kept) -> None:
    process = GuardedProcess(kept, {})
    try:
        await process.wait()
    finally:
        await process.stop()


@pytest.mark.parametrize("steps", range(9))
def test_a_task_that_is_cancelled_leaves_no_process(
    steps: int, tmp_path: Path, recwarn: pytest.WarningsRecorder
) -> None:
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


def test_stopping_again_gives_the_same_exit_code(tmp_path: Path) -> None:
    async def stop() -> list[int]:
        process = GuardedProcess(Kept((PYTHON, "-c", "import time; time.sleep(600)"), dict(os.environ)), {})
        return [await process.stop(), await process.stop(), await process.wait()]

    assert set(asyncio.run(stop())) <= {128 + 15, 130}


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux stops a process for as long as one likes")
def test_a_guard_that_does_not_answer_is_killed_after_a_limit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def stop() -> int:
        process = GuardedProcess(sleeper(tmp_path), {})
        process._stop_limit = 0.2
        wait_for(lambda: len(list(tmp_path.glob("*.pid"))) == 2)
        os.kill(process._process.pid, 19)
        return await process.stop()

    assert asyncio.run(stop()) == -9
    for pid in left_of(tmp_path):
        os.kill(pid, 9)
