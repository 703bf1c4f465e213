"""A program that runs a command and ends all of its processes, whichever dies first: the command or the guard's parent.

``python -I -S guard.py SECONDS COMMAND...`` starts the command in a process group of its own. When the guard's stdin
ends, which it also does when its parent is killed, the group gets SIGTERM, and what is left after so many seconds
SIGKILL. On Linux the guard adopts every process that the command leaves behind, daemons in sessions of their own
included, and kills those, too. It ends with the command's exit code, 128 + N where signal N ended it.

It stands alone and imports little: it runs beside each agent for as long as that does.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import sys
import threading
import time

KILL_SECONDS = 5.0
"""Most seconds that processes are waited for after SIGKILL."""

_SIGNALS = {signal.SIGCHLD, signal.SIGTERM, signal.SIGINT, signal.SIGHUP}
_SET_CHILD_SUBREAPER = 36  # prctl(2)
_CANNOT_START = 127
_PAUSE = 0.02


def main(arguments: list[str]) -> int:
    """Run the command, and return its exit code."""
    seconds, command = float(arguments[0]), arguments[1:]
    if sys.platform == "linux":
        with contextlib.suppress(OSError, AttributeError):
            ctypes.CDLL(None).prctl(_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    # Before the command is started: a signal that comes at any time waits until it is asked for.
    signal.pthread_sigmask(signal.SIG_BLOCK, _SIGNALS)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    try:
        process = os.posix_spawnp(
            command[0],
            command,
            os.environ,
            # The agent's stdin is empty; ours tells us when to stop.
            file_actions=[(os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0)],
            setpgroup=0,
            setsigdef=[signal.SIGPIPE],
            setsigmask=[],
        )
    except OSError as error:
        print(f"{command[0]}: {error.strerror}", file=sys.stderr)
        return _CANNOT_START
    threading.Thread(target=_stop_at_end_of_stdin, daemon=True).start()
    code = None
    while code is None and signal.sigwait(_SIGNALS) == signal.SIGCHLD:
        code = _reap(process)
    if code is None:
        code = _terminate(process, seconds)
    _kill_all(process)
    return 128 + signal.SIGKILL if code is None else code


def _stop_at_end_of_stdin() -> None:
    with contextlib.suppress(OSError):
        while os.read(0, 4096):
            pass
    os.kill(os.getpid(), signal.SIGTERM)


def _terminate(process: int, seconds: float) -> int | None:
    """Send SIGTERM to the group, and wait for all of it; return the exit code, None where it did not end."""
    code = None
    deadline = time.monotonic() + seconds
    _signal_group(process, signal.SIGTERM)
    # A shell ends at once, and what it has started may still be shutting down.
    while (code is None or _signal_group(process, 0)) and time.monotonic() < deadline:
        time.sleep(_PAUSE)
        found = _reap(process)
        code = code if found is None else found
    return code


def _reap(process: int) -> int | None:
    """Collect every child that has ended; return the exit code of the command if it is among them."""
    found = None
    with contextlib.suppress(ChildProcessError):
        while (ended := os.waitpid(-1, os.WNOHANG))[0]:
            if ended[0] == process:
                code = os.waitstatus_to_exitcode(ended[1])
                found = code if code >= 0 else 128 - code
    return found


def _kill_all(process: int) -> None:
    """Kill what is left of the group, and every process that we have adopted, until there is none."""
    _signal_group(process, signal.SIGKILL)
    deadline = time.monotonic() + KILL_SECONDS
    while time.monotonic() < deadline:
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
    """Send a signal to all of the group; return whether there is any process in it."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process, number)
        return True
    return False


def _children() -> list[int]:
    """Return the processes whose parent this one is (proc(5)); none where there is no such directory."""
    found = []
    for name in filter(str.isdecimal, os.listdir("/proc") if os.path.isdir("/proc") else ()):
        with contextlib.suppress(OSError), open(f"/proc/{name}/stat", encoding="utf-8", errors="replace") as file:
            # The name in brackets may hold anything.
            if int(file.read().rpartition(")")[2].split()[1]) == os.getpid():
                found.append(int(name))
    return found


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
