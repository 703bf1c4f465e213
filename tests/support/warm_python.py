"""A process that has imported what runs of pytest and built-in agents import, and forks for each of them.

A run of pytest in a process of its own costs 2 to 5 s of CPU, nearly all of it for the same imports. While tests run,
``sys.executable`` is a small program (``warm_client``) that hands a run, a worker of it or a built-in agent to that
process (``warm_server``); a fork of it with the caller's files, directory and environment does the work. To the caller
nothing looks different: what it started is a process with a pid, which can be waited for and killed, and the fork never
outlives it. What is about starting Python itself takes ``FRESH``, and so does everything that such a process starts.
"""

from __future__ import annotations

import contextlib
import os
import select
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path

from warm_client import Warm, python_settings

import pytest_a2a_bench
from pytest_a2a_bench.agents import launcher

FRESH = os.environ.setdefault("TESTS_FRESH_PYTHON", sys.executable)
"""The interpreter that starts from nothing; a worker of this run is itself a fork, and has it from who started it."""

VARIABLE = "TESTS_WARM_PYTHON"
"""The environment variable by which the workers of this run know the program that stands in for ``python``."""

CODES = ["import sys;exec(eval(sys.stdin.readline()))", launcher._BOOTSTRAP]
"""What ``python -c`` runs in a worker of xdist, and in a built-in agent."""

START = (
    "import sys; path = sys.path[:]; sys.path[:0] = sys.argv[2:]; "
    "import warm_server; warm_server.main(int(sys.argv[1]), path)"
)


@contextlib.contextmanager
def offered() -> Iterator[str | None]:
    """Offer a warm process as long as this one lives; it is started when it is first asked for.

    :return: the program that stands in for ``python``, or None where this is not Linux.
    """
    if sys.platform != "linux":
        yield None
        return
    folder = Path(tempfile.mkdtemp(prefix="warm-"))
    process: list[subprocess.Popen[bytes]] = []
    environ = dict(os.environ)

    def start_when_asked() -> None:
        select.select([listener], [], [])
        if folder.exists():
            process.append(_start(listener, environ))
            # Only there is it open now: should that process die, callers are refused and start Python from nothing.
            listener.close()

    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(folder / "socket"))
        listener.listen(64)
        program = folder / "python"
        warm = Warm(FRESH, str(folder / "socket"), CODES, python_settings())
        program.write_text(
            f"#!{FRESH} -IS\nimport sys\nsys.path.insert(0, {str(Path(__file__).parent)!r})\n"
            f"import warm_client\nwarm_client.main(warm_client.Warm(*{tuple(warm)!r}))\n"
        )
        program.chmod(0o700)
        threading.Thread(target=start_when_asked, daemon=True).start()
        try:
            yield str(program)
        finally:
            shutil.rmtree(folder)
            for one in process:
                with one:
                    one.terminate()


def _start(listener: socket.socket, environ: dict[str, str]) -> subprocess.Popen[bytes]:
    places = [str(Path(pytest_a2a_bench.__file__).parent.parent), str(Path(__file__).parent)]
    # A process with threads cannot be forked safely, and NumPy's linear algebra would start some.
    changed = {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "OPENBLAS_NUM_THREADS": "1"}
    # As in the runs at the project's root: it works at another place.
    changed["HYPOTHESIS_STORAGE_DIRECTORY"] = str(Path(__file__).parents[2] / ".hypothesis")
    # Its own stdin is what tells it that this process has ended.
    return subprocess.Popen(
        [FRESH, "-P", "-c", START, str(listener.fileno()), *places],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        pass_fds=[listener.fileno()],
        env={k: v for k, v in environ.items() if k != "PYTHONPATH"} | changed,
        cwd="/",
        start_new_session=True,
    )
