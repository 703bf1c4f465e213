"""The programs of an assessment as ``scenario.toml`` and the command line name them, and a command as a child process:
bounded logs, a port of its own, and no descendant left when it is stopped.
"""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import os
import random
import shlex
import socket
import subprocess
import sys
import threading
import time
import tomllib
import urllib.parse
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Annotated, Any

import psutil
from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, ValidationError, field_validator

import pytest_a2a_bench
from pytest_a2a_bench.agents.options import parse_spec, require_server
from pytest_a2a_bench.config.settings import BUILTIN_PREFIX
from pytest_a2a_bench.errors import ConfigurationError
from pytest_a2a_bench.redact import KNOWN
from pytest_a2a_bench.text import reason_of

HOST = "127.0.0.1"

_MARK = "A2A_BENCH_PROCESS"
"""Environment variable by which the descendants of a process are found; a daemon inherits it, too."""

_PORTS = range(20_000, 32_000)
"""Below the ports that systems give to a server that asks for any (Linux from 32768, others from 49152)."""

_ROOT = str(Path(pytest_a2a_bench.__file__).parent.parent)
_CANNOT_START = 127
_KILL_SECONDS = 5.0
_LONGEST_LINE = 16 * 1024


@dataclass(frozen=True, slots=True)
class Command:
    """A command line with its environment.

    :param words: the command line; ``{host}`` and ``{port}`` in it are replaced by the address to listen on.
    :param environ: its environment, to which :class:`Process` adds variables.
    :param stop_seconds: seconds between SIGTERM and SIGKILL.
    :param echo: called, on a thread, with each line that it writes.
    """

    words: tuple[str, ...]
    environ: Mapping[str, str] = field(default_factory=lambda: dict(os.environ))
    stop_seconds: float = 5.0
    echo: Callable[[str], None] | None = None


class Process:
    """A running command; it is started when the object is made.

    It gets ``HOST``, ``AGENT_PORT`` and ``AGENT_URL`` in its environment. A command that cannot be started is a
    process that has ended with exit code 127 and says why on stderr, as in a shell.

    :param url: URL by which callers reach it.
    :ivar stdout: its output; likewise ``stderr``.
    """

    def __init__(self, command: Command, port: int, url: str) -> None:
        self.stdout, self.stderr = BoundedLog(), BoundedLog()
        self._stop_seconds = command.stop_seconds
        self._mark = uuid.uuid4().hex
        self._process: subprocess.Popen[bytes] | None = None
        self._threads: list[threading.Thread] = []
        self._tree: set[psutil.Process] = set()
        words = [word.replace("{port}", str(port)).replace("{host}", HOST) for word in command.words]
        where = {"HOST": HOST, "AGENT_PORT": str(port), "AGENT_URL": url, _MARK: self._mark}
        try:
            # In a session of its own: Ctrl-C in a terminal is for this process, which then stops the child.
            self._process = process = subprocess.Popen(
                words,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                env={**command.environ, **where},
                start_new_session=True,
            )
        except OSError as error:
            self.stderr.feed(f"{words[0]}: {reason_of(error)}\n".encode())
            return
        with contextlib.suppress(psutil.Error):
            self._tree.add(psutil.Process(process.pid))
        for stream, log in ((process.stdout, self.stdout), (process.stderr, self.stderr)):
            self._threads.append(threading.Thread(target=_read, args=(stream, log, command.echo), daemon=True))
            self._threads[-1].start()

    def usage(self) -> dict[str, float]:
        """Return ``cpu_seconds`` and ``memory_bytes`` (resident) of the command and its descendants that run."""
        cpu = memory = 0.0
        for process in self._running():
            with contextlib.suppress(psutil.Error), process.oneshot():
                cpu += sum(process.cpu_times()[:2])
                memory += process.memory_info().rss
        return {"cpu_seconds": round(cpu, 3), "memory_bytes": int(memory)}

    async def wait(self) -> int:
        """Wait until the command has ended, and return its exit code: 128 + N where signal N ended it."""
        return await asyncio.to_thread(self._wait)

    async def stop(self) -> None:
        """End the command and all of its descendants. If the task is cancelled meanwhile, that is done all the same."""
        stopping, cancelled = asyncio.ensure_future(asyncio.to_thread(self._stop)), None
        while not stopping.done():
            try:
                await asyncio.shield(stopping)
            except asyncio.CancelledError as error:
                cancelled = error
        if cancelled is not None:
            raise cancelled

    def _wait(self) -> int:
        if self._process is None:
            return _CANNOT_START
        code = self._process.wait()
        # A daemon may live on and keep the pipes open.
        for thread in self._threads:
            thread.join(1.0)
        return code if code >= 0 else 128 - code

    def _stop(self) -> None:
        for process in self._running():
            with contextlib.suppress(psutil.Error):
                process.terminate()
        _until(lambda: not self._running(), self._stop_seconds)
        _until(self._is_killed, _KILL_SECONDS)
        if self._process is not None:
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(_KILL_SECONDS)

    def _is_killed(self) -> bool:
        """Kill every process that is left; return whether there was none."""
        left = self._running()
        for process in left:
            with contextlib.suppress(psutil.Error):
                process.kill()
        return not left

    def _running(self) -> set[psutil.Process]:
        """Return the command's process and its descendants that run: children of children, and daemons by the mark."""
        for process in list(self._tree):
            with contextlib.suppress(psutil.Error):
                self._tree.update(process.children(recursive=True))
        for process in psutil.process_iter():
            with contextlib.suppress(psutil.Error, OSError):
                if process.environ().get(_MARK) == self._mark:
                    self._tree.add(process)
        return {process for process in self._tree if is_running(process)}


def is_running(process: psutil.Process) -> bool:
    """Return whether a process runs; one that has ended and was not reaped by its parent does not."""
    try:
        return bool(process.is_running() and process.status() != psutil.STATUS_ZOMBIE)
    except psutil.Error:
        return False


class BoundedLog:
    """The beginning and the end of an output stream. Of several threads one may feed it.

    :param head: bytes of its beginning that are kept, ``tail`` of its end.
    """

    def __init__(self, *, head: int = 32 * 1024, tail: int = 224 * 1024) -> None:
        self._room, self._limit = head, tail
        self._head, self._tail = bytearray(), bytearray()
        self._dropped = 0
        self._lock = threading.Lock()

    def feed(self, data: bytes) -> None:
        """Add output."""
        with self._lock:
            taken = max(0, self._room - len(self._head))
            self._head += data[:taken]
            self._tail += data[taken:]
            excess = max(0, len(self._tail) - self._limit)
            del self._tail[:excess]
            self._dropped += excess

    def text(self) -> str:
        """Return the output without known secrets; a line says where some was left out."""
        with self._lock:
            head, tail, dropped = bytes(self._head), bytes(self._tail), self._dropped
        if not dropped:
            return KNOWN.hide((head + tail).decode(errors="replace"))
        # Cut at line breaks: half a secret would not be recognised.
        first, last = head[: head.rfind(b"\n") + 1], tail[tail.find(b"\n") + 1 :]
        dropped += len(head) + len(tail) - len(first) - len(last)
        gap = f"[... {dropped} bytes left out ...]\n"
        return KNOWN.hide(first.decode(errors="replace") + gap + last.decode(errors="replace"))


def _read(stream: IO[bytes], log: BoundedLog, echo: Callable[[str], None] | None) -> None:
    with stream, contextlib.suppress(ValueError):
        while line := stream.readline(_LONGEST_LINE):
            log.feed(line)
            if echo is not None:
                echo(line.decode(errors="replace").rstrip("\n"))


def _until(condition: Callable[[], bool], seconds: float) -> None:
    deadline = time.monotonic() + seconds
    while not condition() and time.monotonic() < deadline:
        time.sleep(0.05)


def own_command(*arguments: str) -> tuple[str, ...]:
    """Return the command line of ``a2a-bench``, run by this interpreter from where this package was imported."""
    bootstrap = "import sys; sys.path.append(sys.argv.pop(1)); from pytest_a2a_bench.cli.main import main; "
    return (sys.executable, "-P", "-c", f"{bootstrap}sys.exit(main())", _ROOT, *arguments)


def free_port() -> int:
    """Return a port of 127.0.0.1 that no server listens on; raises ConfigurationError if there is none."""
    for port in random.sample(_PORTS, 100):
        with socket.socket() as probe, contextlib.suppress(OSError):
            # As servers do, so that the port of a server that ended a minute ago counts as free.
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind((HOST, port))
            return port
    raise ConfigurationError(f"no port of {HOST} from {_PORTS[0]} to {_PORTS[-1]} is free; end what listens there")


CONTROLLER_PREFIX = "controller:"
ASSESSOR = "green_agent"


def _check_url(text: str) -> str:
    parts = urllib.parse.urlsplit(text)
    if parts.scheme not in ("http", "https") or not parts.hostname or parts.port == 0:
        raise ValueError(f"{text!r} is not a URL such as http://127.0.0.1:9009")
    return text.rstrip("/")


def _split(command: Any) -> tuple[str, ...]:
    if isinstance(command, tuple):
        return command
    if not isinstance(command, str):
        raise ValueError(f"{command!r} is not a valid string")
    return tuple(shlex.split(command))


class Party(BaseModel):
    """The assessor or an agent; the aliases are the names in a ``scenario.toml``.

    :param role: its name in the request.
    :param url: its base URL, or that of its controller; empty where it is started on a free port.
    :param words: command line that starts it; empty where it runs already.
    :param builtin: name of the built-in agent that the command starts.
    :param identity: its id on a leaderboard.
    """

    model_config = ConfigDict(frozen=True, strict=True, populate_by_name=True)

    role: str = Field(default=ASSESSOR, min_length=1)
    url: Annotated[str, AfterValidator(_check_url)] = Field(default="", validation_alias="endpoint")
    words: Annotated[tuple[str, ...], BeforeValidator(_split)] = Field(default=(), validation_alias="cmd")
    identity: str = Field(default="", validation_alias="agentbeats_id")
    builtin: str = ""
    is_controller: bool = False

    @property
    def title(self) -> str:
        """Its role in messages: only AgentBeats calls an assessor green."""
        return "the assessor" if self.role == ASSESSOR else self.role

    @classmethod
    def read(cls, role: str, text: str, option: str) -> Party:
        """Read ``builtin:NAME``, ``controller:URL``, a URL, or a command line.

        :param option: the option that it was given by, for messages.
        :raises ConfigurationError: if it is none of them.
        """
        if text.startswith(BUILTIN_PREFIX):
            agent = parse_spec(text.removeprefix(BUILTIN_PREFIX))
            require_server(f"the built-in agent {agent.name!r}")
            agent = dataclasses.replace(agent, port=agent.port or free_port())
            words = own_command("agent", *agent.to_argv())
            return cls(role=role, url=f"http://127.0.0.1:{agent.port}", words=words, builtin=agent.name)
        url = text.removeprefix(CONTROLLER_PREFIX)
        is_controller = url != text
        try:
            if is_controller or url.startswith(("http://", "https://")):
                return cls(role=role, url=_check_url(url), is_controller=is_controller)
            if not (words := _split(text)):
                raise ValueError("it is empty; give builtin:NAME, a URL, controller:URL, or a command")
        except ValueError as error:
            raise ConfigurationError(f"{option} {text!r}: {error}") from error
        return cls(role=role, words=words)


class _Assessor(Party):
    url: Annotated[str, AfterValidator(_check_url)] = Field(validation_alias="endpoint")


class _Agent(_Assessor):
    role: str = Field(min_length=1)


class Scenario(BaseModel):
    """The content of a ``scenario.toml``."""

    model_config = ConfigDict(frozen=True, strict=True)

    assessor: _Assessor = Field(validation_alias="green_agent")
    agents: tuple[_Agent, ...] = Field(validation_alias="participants")
    config: Mapping[str, Any] = {}

    @field_validator("agents", mode="before")
    @classmethod
    def _has_each_role_once(cls, found: Any) -> Any:
        roles = [str(one.get("role")) for one in found if isinstance(one, dict)] if isinstance(found, list) else []
        if not found:
            raise ValueError("expected at least one")
        if twice := {role for role in roles if roles.count(role) > 1}:
            raise ValueError(f"the role {', '.join(sorted(twice))} is there twice")
        return tuple(found) if isinstance(found, list) else found


def read_scenario(path: Path) -> Scenario:
    """Read a file; raises ConfigurationError naming everything that is wrong with it."""
    try:
        return Scenario.model_validate(tomllib.loads(path.read_text(encoding="utf-8")))
    except OSError as error:
        raise ConfigurationError(f"{path} cannot be read: {reason_of(error)}") from error
    except ValidationError as error:
        problems = [f"{'.'.join(map(str, one['loc']))}: {one['msg']}" for one in error.errors()]
        raise ConfigurationError(f"{path}: {'; '.join(problems)}") from error
    except ValueError as error:
        raise ConfigurationError(f"{path} is not TOML: {error}") from error
