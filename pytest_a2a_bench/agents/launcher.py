"""Start a built-in agent in a process of its own, and end it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from importlib.util import find_spec
from pathlib import Path
from types import TracebackType
from typing import IO, Self

import pytest_a2a_bench
from pytest_a2a_bench import extensions
from pytest_a2a_bench.agents.options import AgentOptions, parse_spec
from pytest_a2a_bench.config.settings import BUILTIN_PREFIX, Settings
from pytest_a2a_bench.errors import ConfigurationError, MissingExtraError
from pytest_a2a_bench.text import waiting_for

START_TIMEOUT = 300.0
"""Seconds that an agent may take to start: imports on a busy two-core runner can take ten."""

_STOP_TIMEOUT = 5.0

_PACKAGE_ROOT = str(Path(pytest_a2a_bench.__file__).parent.parent)
_BOOTSTRAP = (
    "import json, os, sys; sys.path.extend(sys.argv.pop(1).split(os.pathsep)); "
    "from pytest_a2a_bench import extensions; extensions.take_over(json.loads(sys.argv.pop(1))); "
    "from pytest_a2a_bench.agents.__main__ import main; sys.exit(main())"
)


class BuiltinAgent:
    """A running built-in agent.

    :param url: base URL to give to a client.
    """

    def __init__(self, process: subprocess.Popen[bytes], errors: IO[bytes], url: str, card_url: str) -> None:
        self._process = process
        self._errors = errors
        self.url = url
        self.card_url = card_url

    @property
    def pid(self) -> int:
        """The process id."""
        return self._process.pid

    def stop(self) -> None:
        """End the process and wait for it. Safe to call again."""
        _end(self._process)
        self._errors.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()


def start_builtin(spec: str, settings: Settings | None = None, *, timeout: float = START_TIMEOUT) -> BuiltinAgent:
    """Start the agent that a spec names, e.g. ``oracle`` or ``oracle?latency=0.05&reply=task``.

    All bindings and protocol versions are served unless the spec says otherwise, whatever the settings ask: the client
    chooses. With an ``auth_env`` in the spec, its variable must be set in this process's environment.

    :param settings: the run's settings: where its benchmarks' golds are. Nothing else in them changes what is served.
    :raises ConfigurationError: if the spec is wrong or the agent does not start; the message has the end of its stderr.
    :raises MissingExtraError: if what serves it is not installed.
    """
    options = parse_spec(spec.removeprefix(BUILTIN_PREFIX), settings)
    require_server(f"the built-in agent {options.name!r}")
    errors = tempfile.TemporaryFile()
    process = _spawn(options, errors)
    try:
        with waiting_for(f"the built-in agent {options.name!r} to start"):
            line = _first_line(process, timeout)
        served = json.loads(line)
        return BuiltinAgent(process, errors, served["url"], served["card_url"])
    except (ValueError, KeyError, TypeError):
        code = _exit_code(process)
        _end(process)
        message = _failure(options, code, _tail(errors), timeout)
        errors.close()
        raise ConfigurationError(message) from None
    except BaseException:
        _end(process)
        errors.close()
        raise


def require_server(what: str) -> None:
    """See that the libraries that serve a built-in agent are installed, without importing them.

    :raises MissingExtraError: if one of them is not.
    """
    for module in ("uvicorn", "starlette", "sse_starlette"):
        if find_spec(module) is None:
            raise MissingExtraError(module, "agents", detail=f"it serves {what}")


def _spawn(options: AgentOptions, errors: IO[bytes]) -> subprocess.Popen[bytes]:
    # A session of its own: Ctrl-C in the terminal is for pytest, which stops the agent when the last trial is over.
    # -P -c instead of -m: the package may be importable here by sys.path alone, and the user's working directory must
    # not shadow the server's imports.
    return subprocess.Popen(
        [sys.executable, "-P", "-c", _BOOTSTRAP, *_surroundings(options), *options.to_argv()],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=errors,
        start_new_session=True,
    )


def _surroundings(options: AgentOptions) -> tuple[str, str]:
    """Return the module search path and the project's extensions, as arguments of that process."""
    places = dict.fromkeys([*_places(options), *extensions.places()])
    return os.pathsep.join(places), json.dumps(extensions.passed_on())


def _places(options: AgentOptions) -> list[str]:
    """Return the directories that this package and the players of a project's own suites are imported from."""
    places = [_PACKAGE_ROOT]
    for module in options.players.values():
        found = find_spec(module.partition(".")[0])
        if found is not None and found.origin is not None:
            places.append(str(Path(found.origin).parents[1 if found.submodule_search_locations else 0]))
    return list(dict.fromkeys(places))


def _first_line(process: subprocess.Popen[bytes], timeout: float) -> bytes:
    """Return the first line of stdout, or what there is of it when the process ends or the time is up."""
    found: list[bytes] = []
    stdout = process.stdout
    assert stdout is not None
    reader = threading.Thread(target=lambda: found.append(stdout.readline()), daemon=True)
    reader.start()
    deadline = time.monotonic() + timeout
    while reader.is_alive() and time.monotonic() < deadline:
        reader.join(min(0.5, max(0.0, deadline - time.monotonic())))
    return found[0] if found else b""


def _exit_code(process: subprocess.Popen[bytes]) -> int | None:
    """Return the exit code of a process that ended by itself, or None. Its stdout closes a moment before it ends."""
    try:
        return process.wait(1.0)
    except subprocess.TimeoutExpired:
        return None


def _end(process: subprocess.Popen[bytes]) -> None:
    """End a process: by closing its stdin and SIGTERM, then by SIGKILL."""
    if process.stdin and not process.stdin.closed:
        process.stdin.close()
    process.terminate()
    try:
        process.wait(_STOP_TIMEOUT)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
    if process.stdout and not process.stdout.closed:
        process.stdout.close()


def _failure(options: AgentOptions, code: int | None, stderr: str, timeout: float) -> str:
    what = f"did not answer within {timeout:g} s" if code is None else f"ended with exit code {code}"
    said = f": {stderr}" if stderr else " and wrote nothing to stderr"
    return f"built-in agent {options.name!r} {what} at its start{said}"


def _tail(errors: IO[bytes]) -> str:
    size = errors.seek(0, 2)
    errors.seek(max(0, size - 2000))
    return errors.read().decode(errors="replace").strip()
