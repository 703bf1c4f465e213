"""What runs in place of ``python`` where tests start one: hands over to a warm process, or becomes a plain Python.

It needs no site-packages and so starts in 30 ms.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import signal
import socket
import sys
from typing import NamedTuple

FORWARDED = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2)


class Warm(NamedTuple):
    """Where the warm process listens, and what it may be asked to run.

    :param python: the real interpreter, which runs everything else.
    :param codes: the programs of ``python -c`` that it may run.
    :param settings: the environment variables of Python itself under which it was started.
    """

    python: str
    address: str
    codes: list[str]
    settings: dict[str, str]


def python_settings() -> dict[str, str]:
    """Return the environment variables of Python itself, but for the path of modules, which a fork can change."""
    return {k: v for k, v in os.environ.items() if k.startswith("PYTHON") and k != "PYTHONPATH"}


def is_warm(warm: Warm, arguments: list[str]) -> bool:
    """Whether these arguments are a run of pytest with our plugin alone, a worker of it, or a built-in agent."""
    rest = list(itertools.dropwhile(("-u", "-B", "-P").__contains__, arguments))
    if rest[:1] == ["-mpytest"] or rest[:2] == ["-m", "pytest"]:
        # Other people's plugins want to be imported by pytest itself.
        return "PYTEST_DISABLE_PLUGIN_AUTOLOAD" in os.environ and python_settings() == warm.settings
    return rest[:1] == ["-c"] and rest[1] in warm.codes and python_settings() == warm.settings


def hand_over(connection: socket.socket, arguments: list[str]) -> int:
    """Give the warm process what to run, with this process's files, and return the pid of its fork.

    :raises OSError: if there is no such process.
    """
    asked = {"executable": sys.argv[0], "arguments": arguments, "cwd": os.getcwd(), "environ": dict(os.environ)}
    request = json.dumps(asked).encode()
    socket.send_fds(connection, [len(request).to_bytes(4, "big")], [0, 1, 2])
    connection.sendall(request)
    if not (answer := connection.recv(4)):
        raise ConnectionResetError
    return int.from_bytes(answer, "big")


def await_end(connection: socket.socket, child: int) -> int:
    """Pass signals on to the fork until it ends, and return its exit code."""
    # Who waits for the end of our output waits for the child's: this process must not hold it open.
    nothing = os.open(os.devnull, os.O_RDWR)
    for number in (0, 1, 2):
        os.dup2(nothing, number)

    def forward(number: int, _: object) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.kill(child, number)

    for number in FORWARDED:
        signal.signal(number, forward)
    status = connection.recv(4)
    return os.waitstatus_to_exitcode(int.from_bytes(status, "big")) if status else 70


def main(warm: Warm) -> None:
    """Do what ``python`` with these arguments does, and end as it ends."""
    arguments = sys.argv[1:]
    with socket.socket(socket.AF_UNIX) as connection:
        try:
            if not is_warm(warm, arguments):
                raise ConnectionError
            connection.connect(warm.address)
            child = hand_over(connection, arguments)
        except OSError:
            os.execv(warm.python, [warm.python, *arguments])
        code = await_end(connection, child)
    if code < 0:
        with contextlib.suppress(OSError):  # SIGKILL needs no default
            signal.signal(-code, signal.SIG_DFL)
        os.kill(os.getpid(), -code)
    os._exit(code)
