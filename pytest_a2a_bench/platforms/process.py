"""A command that runs in a process group of its own, with bounded logs, and whose end is certain."""

from __future__ import annotations

import asyncio
import contextlib
import random
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from pytest_a2a_bench.errors import ConfigurationError
from pytest_a2a_bench.platforms import guard
from pytest_a2a_bench.platforms.logs import BoundedLog

HOST = "127.0.0.1"
STOP_SECONDS = 5.0
"""Seconds between SIGTERM and SIGKILL."""

_PORTS = range(20_000, 32_000)
"""Below those that systems give to a server that asks for any port (Linux from 32768, others from 49152)."""

_CHUNK = 65536
_READ_SECONDS = 5.0


@dataclass(frozen=True, slots=True)
class Kept:
    """A command that is run, once or several times.

    :param told: the command as a controller's ``/status`` shows it.
    :param environ: its environment, beside what each run adds.
    :param stop_seconds: between SIGTERM and SIGKILL.
    :param echo: called with each line that it writes, on a thread.
    :param note: called with each state that a controller's agent comes to.
    """

    command: tuple[str, ...]
    environ: Mapping[str, str]
    told: str = ""
    directory: Path | None = None
    stop_seconds: float = STOP_SECONDS
    echo: Callable[[str], None] | None = None
    note: Callable[[str], None] = lambda _: None


class GuardedProcess:
    """A running command, behind :mod:`~pytest_a2a_bench.platforms.guard`. It starts where the object is made.

    No await lies between its start and the object, so that a cancelled task can always :meth:`stop` it. One that
    cannot be started is a process that ends with 127 and says why on stderr, as in a shell.

    :param environ: what is added to its environment.
    :ivar stdout: what it wrote, and so for ``stderr``.
    """

    def __init__(self, kept: Kept, environ: Mapping[str, str]) -> None:
        self.stdout, self.stderr = BoundedLog(kept.echo), BoundedLog(kept.echo)
        self._stop_limit = kept.stop_seconds + guard.KILL_SECONDS + 2 * _READ_SECONDS
        self._process = subprocess.Popen(
            [sys.executable, "-I", "-S", guard.__file__, str(kept.stop_seconds), *kept.command],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env={**kept.environ, **environ},
            cwd=kept.directory,
            # Ctrl-C in a terminal is for us, and we stop it in turn.
            start_new_session=True,
        )
        self._ended: Future[int] = Future()
        # Waiting for it may be cancelled; it itself may not.
        self._ended.set_running_or_notify_cancel()
        threading.Thread(target=self._watch, name="a2a-process", daemon=True).start()

    async def wait(self) -> int:
        """Wait until it has ended, and return its exit code: 128 + N where signal N ended it."""
        return await asyncio.wrap_future(self._ended)

    async def stop(self) -> int:
        """End it and everything that it has started, and return its exit code. Safe to call again.

        Takes at most ``stop_seconds`` and 30 seconds. A task that is cancelled meanwhile is so when that is done.
        """
        assert self._process.stdin is not None
        self._process.stdin.close()
        deadline, cancelled = time.monotonic() + self._stop_limit, None
        while not self._ended.done():
            try:
                await asyncio.wait_for(self.wait(), max(0.0, deadline - time.monotonic()))
            except asyncio.CancelledError as error:
                cancelled = error
            except TimeoutError:
                self._process.kill()
                break
        if cancelled is not None:
            raise cancelled
        return await self.wait()

    def _watch(self) -> None:
        logs = ((self._process.stdout, self.stdout), (self._process.stderr, self.stderr))
        reading = [threading.Thread(target=_read, args=pair, name="a2a-process-log", daemon=True) for pair in logs]
        for thread in reading:
            thread.start()
        code = self._process.wait()
        # Where nothing can be adopted, a daemon may live on and hold the pipes open.
        for thread in reading:
            thread.join(_READ_SECONDS)
        self._ended.set_result(code)


def _read(stream: IO[bytes], log: BoundedLog) -> None:
    with stream, contextlib.suppress(ValueError):
        while data := stream.read1(_CHUNK):  # type: ignore[attr-defined]
            log.feed(data)
        log.feed(b"")


def free_port() -> int:
    """Return a port of 127.0.0.1 that nobody listens on now, and that no system gives to a server that asks for any.

    :raises ConfigurationError: if there is none.
    """
    for port in random.sample(_PORTS, 100):
        with socket.socket() as probe:
            # As servers do: what ended a minute ago is no hindrance.
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            with contextlib.suppress(OSError):
                probe.bind(("127.0.0.1", port))
                return port
    raise ConfigurationError(f"no port of 127.0.0.1 from {_PORTS[0]} to {_PORTS[-1]} is free; end what listens there")
