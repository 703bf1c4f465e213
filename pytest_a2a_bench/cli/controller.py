"""``a2a-bench controller [-- COMMAND]``: run an agent's process behind a controller in AgentBeats' form, until Ctrl-C.

The agent is started by ``./run.sh``, or by the command, with ``HOST``, ``AGENT_PORT`` and ``AGENT_URL`` in its
environment; ``{host}`` and ``{port}`` in the command are replaced. ``GET /status``, ``/agents`` and ``/agents/ID``
describe it, ``POST /agents/ID/reset`` restarts it, and ``/to_agent/ID/`` leads to it.
"""

from __future__ import annotations

import asyncio
import os
import shlex
import sys
from argparse import ArgumentParser, ArgumentTypeError, Namespace
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from pytest_a2a_bench.a2a.network import read_variable
from pytest_a2a_bench.errors import ConfigurationError, MissingExtraError
from pytest_a2a_bench.redact import Secret
from pytest_a2a_bench.text import refusing

if TYPE_CHECKING:
    from pytest_a2a_bench.platforms.controller import Serving

DEFAULT_PORT = 8010
_RUN = "run.sh"


def configure(parser: ArgumentParser) -> None:
    """Declare the arguments."""
    add = parser.add_argument
    add("command", nargs="*", metavar="COMMAND", help="Command that starts the agent, after -- (./run.sh)")
    add("--host", default="127.0.0.1", help="Address to listen on (%(default)s); any other needs --auth-env")
    add("--port", type=port, default=None, metavar="N", help=f"Port, 0 for any free one ($PORT, else {DEFAULT_PORT})")
    add("--public-url", metavar="URL", help="Base URL under which callers reach it ($CLOUDRUN_HOST, else the address)")
    add("--auth-env", metavar="NAME", help="Require the bearer token that this environment variable holds")
    add("--open-agent", action="store_true", help="Require it for states and resets only, not for the agent")
    add("--stop-timeout", type=_seconds, default=5.0, metavar="SECONDS", help="From SIGTERM to SIGKILL (%(default)g)")
    add("--show-logs", action="store_true", help="Show the agent's output on stderr, too")


def port(text: str) -> int:
    """Read a port number."""
    if not text.isdecimal() or int(text) > 65535:
        raise ArgumentTypeError(f"{text!r} is not a port (0 to 65535)")
    return int(text)


def _seconds(text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = -1.0
    if not 0 <= seconds <= 3600:
        raise ArgumentTypeError(f"{text!r} is not a number of seconds (0 to 3600)")
    return seconds


def run(namespace: Namespace) -> int:
    """Serve the controller."""
    for module in ("uvicorn", "starlette", "psutil"):
        if find_spec(module) is None:
            raise MissingExtraError(module, "assessor", detail="the controller needs it")
    from pytest_a2a_bench.platforms.controller import ControllerOptions, serve  # imports an extra
    from pytest_a2a_bench.platforms.process import Command

    name = namespace.auth_env
    # By a shell, which also runs scripts that have no first line with an interpreter.
    words = tuple(namespace.command) or ("/bin/sh", "-c", f"exec ./{_RUN}")
    options = ControllerOptions(
        host=namespace.host,
        port=_port_of(os.environ) if namespace.port is None else namespace.port,
        public=namespace.public_url or _public_url(os.environ),
        token=Secret(read_variable("--auth-env", name, os.environ)) if name else None,
        open_agent=namespace.open_agent,
        shown_command=shlex.join(words) if namespace.command else _read_script(Path(_RUN)),
        report=lambda state: _say(f"agent: {state}"),
    )
    command = Command(
        words,
        # The agent must not be able to reset itself.
        {key: value for key, value in os.environ.items() if key != name},
        namespace.stop_timeout,
        _say if namespace.show_logs else None,
    )
    asyncio.run(serve(options, command, _announce))
    _say("stopped")
    return 0


def _port_of(environ: Mapping[str, str]) -> int:
    given = environ.get("PORT", "").strip()
    try:
        return port(given) if given else DEFAULT_PORT
    except ArgumentTypeError as error:
        raise ConfigurationError(f"PORT={given}: {error}; unset it, or pass --port") from None


def _public_url(environ: Mapping[str, str]) -> str | None:
    """Return the base URL from the variables that AgentBeats' own controllers read."""
    host = environ.get("CLOUDRUN_HOST", "").strip()
    encrypted = environ.get("HTTPS_ENABLED", "").strip().lower() in ("1", "true", "yes", "on", "t", "y")
    return f"{'https' if encrypted else 'http'}://{host}" if host else None


def _read_script(path: Path) -> str:
    remedy = "write what starts the agent there, or give a command: a2a-bench controller -- COMMAND"
    with refusing(f"controller: {path.absolute()} cannot be read", remedy):
        text = path.read_text(encoding="utf-8", errors="replace").strip()
    if not os.access(path, os.X_OK):
        raise ConfigurationError(f"controller: {path.absolute()} is not executable; chmod +x it")
    return text


def _say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


def _announce(serving: Serving) -> None:
    print(
        f"controller answers at {serving.url} (agent at {serving.agent.url}, Ctrl-C stops both)\n"
        f"try: pytest --a2a-endpoint {serving.agent.url} -k airline",
        flush=True,
    )
