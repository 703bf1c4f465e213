import asyncio
import itertools
import os
import subprocess
import sys
import threading
from types import FrameType
from typing import Any

import pytest

from pytest_a2a_bench.a2a import loop
from pytest_a2a_bench.errors import HarnessError, TrialCancelledError


async def _thread() -> str:
    return threading.current_thread().name


def test_all_callers_share_one_thread() -> None:
    names: set[str] = set()
    threads = [threading.Thread(target=lambda: names.add(loop.run(_thread()))) for _ in range(5)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert names == {"a2a-bench-loop"} == {asyncio.run(loop.bridge(_thread()))}


def test_timeout_cancels_the_coroutine() -> None:
    ended = threading.Event()

    async def sleeper() -> None:
        try:
            await asyncio.sleep(30)
        finally:
            ended.set()

    with pytest.raises(TimeoutError):
        loop.run(sleeper(), 0.05)
    assert ended.wait(60)


def test_a_wait_ends_when_its_stop_is_set() -> None:
    stop, began, ended = loop.Stop(), threading.Event(), threading.Event()

    async def sleeper() -> None:
        began.set()
        try:
            await asyncio.sleep(600)
        finally:
            ended.set()

    def interrupt() -> None:
        began.wait()
        stop.set()

    threading.Thread(target=interrupt).start()
    with stop.ends_waiting(), pytest.raises(TrialCancelledError):
        loop.run(sleeper())
    assert ended.wait(60)
    with stop.ends_waiting(), pytest.raises(TrialCancelledError):
        loop.run(sleeper())
    # What clears away afterwards is not stopped.
    assert loop.run(_thread()) == "a2a-bench-loop"


def test_ctrl_c_at_any_line_of_a_wait_is_a_keyboard_interrupt() -> None:
    before, lines = sys.gettrace(), 0

    def interrupt(frame: FrameType, event: str, arg: object) -> Any:
        nonlocal lines
        if event == "line":
            lines -= 1
            if not lines:
                raise KeyboardInterrupt
        return interrupt

    def trace(frame: FrameType, event: str, arg: object) -> Any:
        return interrupt if frame.f_code in (loop._wait.__code__, threading.Condition.wait.__code__) else None

    for number in itertools.count(1):
        lines = number
        sys.settrace(trace)
        try:
            loop.run(asyncio.sleep(0.01))
            break
        except KeyboardInterrupt:
            pass
        finally:
            sys.settrace(before)
    assert number > 5
    assert loop.run(_thread()) == "a2a-bench-loop"


def test_waiting_for_oneself_is_refused() -> None:
    async def nested() -> None:
        loop.run(_thread())

    with pytest.raises(HarnessError, match="own thread"):
        loop.run(nested())


def test_a_forked_child_gets_its_own_loop() -> None:
    code = (
        "import os\n"
        "from pytest_a2a_bench.a2a import loop\n"
        "async def pid(): return os.getpid()\n"
        "loop.run(pid())\n"
        "child = os.fork()\n"
        "if child == 0:\n"
        "    os._exit(0 if loop.run(pid(), 5) == os.getpid() else 1)\n"
        "raise SystemExit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))"
    )
    assert subprocess.run([sys.executable, "-W", "ignore", "-c", code], timeout=20, check=False).returncode == 0


def test_the_interpreter_ends_quickly_and_quietly_with_work_under_way() -> None:
    code = (
        "import asyncio\n"
        "from pytest_a2a_bench.a2a import loop\n"
        "loop.submit(asyncio.sleep(3600))\n"
        "loop.run(asyncio.sleep(0))"
    )
    # The work under way takes an hour; whoever waits for it runs into the time limit.
    done = subprocess.run([sys.executable, "-c", code], timeout=120, capture_output=True, check=True, env=os.environ)
    assert done.stderr == b""
