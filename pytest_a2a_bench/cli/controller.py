"""``a2a-bench controller [-- COMMAND]``: keep an agent's process as AgentBeats' controllers do, until Ctrl-C.

The agent is started by ``./run.sh``, or by the command, with ``HOST``, ``AGENT_PORT`` and ``AGENT_URL`` in its
environment. ``GET /status``, ``/agents`` and ``/agents/ID`` tell of it, ``POST /agents/ID/reset`` starts it anew, and
``/to_agent/ID/`` leads to it.
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
from pytest_a2a_bench.platforms.process import Kept
from pytest_a2a_bench.secret import Secret

if TYPE_CHECKING:
    from pytest_a2a_bench.platforms.controller import Serving

DEFAULT_PORT = 8010
_RUN = "run.sh"


def configure(parser: ArgumentParser) -> None:
    """Declare the arguments."""
    add = parser.add_argument
    add("command", nargs="*", metavar="COMMAND", help="What starts the agent, after -- (./run.sh)")
    add("--directory", type=Path, default=Path(), metavar="DIR", help="Where it is started (the working directory)")
    add("--host", default="127.0.0.1", help="Address to listen on (%(default)s); any other needs --auth-env")
    add("--port", type=port, default=None, metavar="N", help=f"Port, 0 for any free one ($PORT, else {DEFAULT_PORT})")
    add("--public-url", metavar="URL", help="Base URL under which callers reach it ($CLOUDRUN_HOST, else the address)")
    add("--auth-env", metavar="NAME", help="Require the bearer token that this environment variable holds")
    add("--open-agent", action="store_true", help="Ask for it for states and resets only, not for the agent")
    add("--max-body", type=_size, default=16, metavar="MIB", help="Most MiB of a request's body (%(default)s)")
    add("--stop-timeout", type=_seconds, default=5.0, metavar="SECONDS", help="From SIGTERM to SIGKILL (%(default)g)")
    add("--show-logs", action="store_true", help="Show what the agent writes on stderr, too")


def port(text: str) -> int:
    """Read a port."""
    if not text.isdecimal() or int(text) > 65535:
        raise ArgumentTypeError(f"{text!r} is not a port (0 to 65535)")
    return int(text)


def _size(text: str) -> int:
    if not text.isdecimal() or not 0 < int(text) <= 1024:
        raise ArgumentTypeError(f"{text!r} is not a number of MiB (1 to 1024)")
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
    require_server()
    from pytest_a2a_bench.platforms.controller import ControllerOptions, serve  # what it imports is an extra

    name = namespace.auth_env
    options = ControllerOptions(
        host=namespace.host,
        port=_port(namespace, os.environ),
        public=namespace.public_url or _public(os.environ),
        token=Secret(read_variable("--auth-env", name, os.environ)) if name else None,
        open_agent=namespace.open_agent,
        max_body=namespace.max_body * 1024 * 1024,
    )
    kept = _kept(namespace, os.environ)
    asyncio.run(serve(options, kept, _announce))
    print("stopped", file=sys.stderr)
    return 0


def require_server() -> None:
    """See that what serves HTTP is installed, without importing it.

    :raises MissingExtraError: if it is not.
    """
    for module in ("uvicorn", "starlette"):
        if find_spec(module) is None:
            raise MissingExtraError(module, "assessor", detail="it serves the controller")


def _port(namespace: Namespace, environ: Mapping[str, str]) -> int:
    if namespace.port is not None:
        return int(namespace.port)
    given = environ.get("PORT", "").strip()
    try:
        return port(given) if given else DEFAULT_PORT
    except ArgumentTypeError as error:
        raise ConfigurationError(f"PORT={given}: {error}; unset it, or pass --port") from None


def _public(environ: Mapping[str, str]) -> str | None:
    """Return the base URL that AgentBeats' own controllers read from the environment."""
    host = environ.get("CLOUDRUN_HOST", "").strip()
    if not host:
        return None
    encrypted = environ.get("HTTPS_ENABLED", "").strip().lower() in ("1", "true", "yes", "on", "t", "y")
    return f"{'https' if encrypted else 'http'}://{host}"


def _kept(namespace: Namespace, environ: Mapping[str, str]) -> Kept:
    directory = namespace.directory.resolve()
    if not directory.is_dir():
        raise ConfigurationError(f"controller: --directory {namespace.directory}: there is no such directory")
    if namespace.command:
        command, told = tuple(namespace.command), shlex.join(namespace.command)
    else:
        # By a shell, which also runs scripts without a first line that says by what.
        command, told = ("/bin/sh", "-c", f"exec ./{_RUN}"), _read_script(directory / _RUN)
    return Kept(
        command=command,
        told=told,
        # Who may reset an agent is not for the agent to know.
        environ={key: value for key, value in environ.items() if key != namespace.auth_env},
        directory=directory,
        stop_seconds=namespace.stop_timeout,
        echo=(lambda line: print(line, file=sys.stderr, flush=True)) if namespace.show_logs else None,
        note=lambda state: print(f"agent: {state}", file=sys.stderr, flush=True),
    )


def _read_script(path: Path) -> str:
    try:
        text = path.read_text(encoding="utf-8", errors="replace").strip()
    except OSError as error:
        raise ConfigurationError(
            f"controller: {path} cannot be read ({error.strerror}); write what starts the agent there, or give a "
            "command: a2a-bench controller -- COMMAND"
        ) from error
    if not os.access(path, os.X_OK):
        raise ConfigurationError(f"controller: {path} is not executable; chmod +x it")
    return text


def _announce(serving: Serving) -> None:
    print(
        f"controller answers at {serving.url} (agent at {serving.agent.url}, Ctrl-C stops both)\n"
        f"try: pytest --a2a-endpoint {serving.agent.url} -k airline",
        flush=True,
    )
