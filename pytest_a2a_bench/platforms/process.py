"""A command that runs in a process group of its own, with bounded logs, and is stopped for certain."""

from __future__ import annotations

import asyncio
import contextlib
import random
import socket
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from pytest_a2a_bench.errors import ConfigurationError
from pytest_a2a_bench.platforms import guard
from pytest_a2a_bench.platforms.logs import BoundedLog

STOP_SECONDS = 5.0
"""Seconds between SIGTERM and SIGKILL."""

_PORTS = range(20_000, 32_000)
"""Below what systems give to whoever asks for any (Linux from 32768, others from 49152): such a one may be taken before
it is used."""

_CHUNK = 65536
_READ_SECONDS = 5.0


class GuardedProcess:
    """A running command, behind :mod:`~pytest_a2a_bench.platforms.guard`.

    :ivar stdout: what it wrote, and so for ``stderr``.
    """

    def __init__(self, process: asyncio.subprocess.Process, stdout: BoundedLog, stderr: BoundedLog) -> None:
        self._process = process
        self.stdout = stdout
        self.stderr = stderr
        assert process.stdout is not None
        assert process.stderr is not None
        self._reading = asyncio.gather(_read(process.stdout, stdout), _read(process.stderr, stderr))

    @property
    def exit_code(self) -> int | None:
        """The command's exit code, 128 + N where signal N ended it; None while it runs."""
        return self._process.returncode

    async def wait(self) -> int:
        """Wait until it has ended and all that it wrote was read, and return its exit code."""
        code = await self._process.wait()
        # Where nothing can be adopted, a daemon may live on and hold the pipes open.
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(asyncio.shield(self._reading), _READ_SECONDS)
        return code

    async def stop(self) -> int:
        """End it and everything that it has started, and return its exit code. Safe to call again."""
        stdin = self._process.stdin
        assert stdin is not None
        stdin.close()
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            await stdin.wait_closed()
        return await self.wait()


async def start(
    command: Sequence[str],
    *,
    environ: Mapping[str, str],
    directory: Path | None = None,
    stop_seconds: float = STOP_SECONDS,
    echo: Callable[[str], None] | None = None,
) -> GuardedProcess:
    """Start a command.

    One that cannot be started is a process that ends with 127 and says why on stderr, as in a shell.

    :param environ: its whole environment.
    :param stop_seconds: between SIGTERM and SIGKILL.
    :param echo: called with each line that it writes.
    """
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-I", "-S", guard.__file__, str(stop_seconds), *command),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        env=dict(environ),
        cwd=directory,
        # Ctrl-C in a terminal is for whoever started it, which stops it in its turn.
        start_new_session=True,
    )
    return GuardedProcess(process, BoundedLog(echo), BoundedLog(echo))


async def _read(stream: asyncio.StreamReader, log: BoundedLog) -> None:
    while data := await stream.read(_CHUNK):
        log.feed(data)
    log.feed(b"")


def free_port() -> int:
    """Return a port of 127.0.0.1 that nobody listens on now, and that no system gives to whoever asks for any port.

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
