"""A program that runs a command and sees to it that nothing of it is left, whoever dies first.

``python -I -S guard.py SECONDS COMMAND...`` starts the command in a process group of its own. When the guard's stdin
ends, which it also does when whoever started the guard is killed, the group gets SIGTERM, and what is left after so
many seconds SIGKILL. Where Linux lets it, the guard adopts every process that the command leaves behind, daemons in
sessions of their own included, and kills those, too. It ends with the command's exit code, 128 + N where signal N
ended it.

It stands alone and imports little: it runs beside each agent for as long as that does.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import select
import signal
import sys
import time

_SET_CHILD_SUBREAPER = 36  # prctl(2)
_CANNOT_START = 127
_PAUSE = 0.02


def main(arguments: list[str]) -> int:
    """Run the command, and return its exit code."""
    seconds, command = float(arguments[0]), arguments[1:]
    adopts = _adopt_orphans()
    woken, waker = os.pipe()
    os.set_blocking(waker, False)
    # Before the command is started, so that its end is never missed.
    signal.set_wakeup_fd(waker, warn_on_full_buffer=False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, _stop_reading)
    try:
        process = os.posix_spawnp(
            command[0],
            command,
            os.environ,
            # Nobody speaks to an agent by its stdin, and ours is what tells us to stop.
            file_actions=[(os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0)],
            setpgroup=0,
            setsigdef=[signal.SIGCHLD, signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGPIPE],
            setsigmask=[],
        )
    except OSError as error:
        print(f"{command[0]}: {error.strerror}", file=sys.stderr)
        return _CANNOT_START
    code = _wait(process, woken)
    if code is None:
        code = _terminate(process, seconds)
    _kill_all(process, adopts=adopts)
    return code


def _adopt_orphans() -> bool:
    """Become the parent of every descendant whose own parent dies."""
    if sys.platform != "linux":
        return False
    with contextlib.suppress(OSError, AttributeError):
        return bool(ctypes.CDLL(None).prctl(_SET_CHILD_SUBREAPER, 1, 0, 0, 0) == 0)
    return False


def _stop_reading(*_: object) -> None:
    with contextlib.suppress(OSError):
        os.close(0)


def _wait(process: int, woken: int) -> int | None:
    """Return the exit code of the process once it ends, or None once it is to be stopped."""
    while True:
        code = _reap(process)
        if code is not None:
            return code
        try:
            readable, _, _ = select.select([0, woken], [], [])
        except (OSError, ValueError):  # a signal told us to stop, and closed stdin
            return None
        if woken in readable:
            os.read(woken, 4096)
        if 0 in readable and not _read_on():
            return None


def _read_on() -> bool:
    try:
        return bool(os.read(0, 4096))
    except OSError:
        return False


def _terminate(process: int, seconds: float) -> int:
    """Ask the group to end, and insist."""
    code = None
    _signal_group(process, signal.SIGTERM)
    deadline = time.monotonic() + seconds
    # A shell is gone at once, and what it has started may still be putting its things in order.
    while (code is None or _signal_group(process, 0)) and time.monotonic() < deadline:
        time.sleep(_PAUSE)
        code = _first(_reap(process), code)
    _signal_group(process, signal.SIGKILL)
    while code is None:
        time.sleep(_PAUSE)
        code = _reap(process)
    return code


def _first(new: int | None, old: int | None) -> int | None:
    return old if new is None else new


def _reap(process: int) -> int | None:
    """Collect every child that has ended; return the exit code of the one that is meant if it is among them."""
    found = None
    while True:
        try:
            ended, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return found
        if ended == 0:
            return found
        if ended == process:
            code = os.waitstatus_to_exitcode(status)
            found = code if code >= 0 else 128 - code


def _kill_all(process: int, *, adopts: bool) -> None:
    """Kill what is left of the group, and every child that we have adopted, until there is none."""
    _signal_group(process, signal.SIGKILL)
    while adopts:
        # A child may have children, which become ours when it is dead.
        for child in _children():
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(child, signal.SIGKILL)
        try:
            os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return
        time.sleep(_PAUSE / 10)


def _signal_group(process: int, number: int) -> bool:
    """Send a signal to all of the group; tell whether there still was anybody."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process, number)
        return True
    return False


def _children() -> list[int]:
    """Return the processes whose parent this one is (proc(5))."""
    ours = str(os.getpid())
    found = []
    for name in filter(str.isdecimal, os.listdir("/proc")):
        with contextlib.suppress(OSError), open(f"/proc/{name}/stat", encoding="utf-8", errors="replace") as file:
            # The name in brackets may hold anything.
            if file.read().rpartition(")")[2].split()[1] == ours:
                found.append(int(name))
    return found


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
