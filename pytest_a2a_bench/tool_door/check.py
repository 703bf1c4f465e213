"""Whether the options of ``--a2a-tools`` go together: asked before anything runs. Opens nothing."""

from __future__ import annotations

from collections.abc import Iterator
from importlib.util import find_spec

from pytest_a2a_bench.a2a.network import LOOPBACK, BindAddress, read_bind_address
from pytest_a2a_bench.config.settings import Settings
from pytest_a2a_bench.errors import ConfigurationError
from pytest_a2a_bench.tool_door import SERVER

_MODULES = ("mcp_types", "uvicorn")
"""What the server needs, of the extra ``mcp``; the package ``mcp`` before 2.0 has no ``mcp_types`` beside it."""


def missing_modules() -> list[str]:
    """Return what is not installed of what the server needs."""
    return [name for name in _MODULES if find_spec(name) is None]


def place_of(settings: Settings) -> BindAddress:
    """Return where the tools of trials are served.

    :raises ConfigurationError: if the settings name no place.
    """
    return read_bind_address(settings.mcp_bind, settings.mcp_url, SERVER, any_port=True) or LOOPBACK


def problems(settings: Settings, processes: bool = False) -> Iterator[str]:
    """Say what is wrong, a sentence each.

    :param processes: whether several processes hold the trials: each has a server of its own.
    """
    if settings.tools != "mcp":
        if settings.mcp_bind or settings.mcp_url:
            yield "mcp-bind and mcp-url say where --a2a-tools mcp listens: add --a2a-tools mcp"
        return
    if missing := missing_modules():
        yield f"--a2a-tools=mcp needs {', '.join(missing)}; run: pip install 'pytest-a2a-bench[mcp]'"
    if settings.dialect != "auto":
        yield (
            f"--a2a-dialect={settings.dialect} says how calls are written in messages, and with --a2a-tools=mcp the "
            "agent makes them by itself: leave it out (calls in its answers are read in every dialect)"
        )
    for name, value in (("--a2a-record", settings.record), ("--a2a-replay", settings.replay)):
        if value:
            yield (
                f"{name} and --a2a-tools=mcp exclude each other: a cassette holds the messages of A2A, and what the "
                "agent calls by itself is not among them"
            )
    try:
        place = place_of(settings)
    except ConfigurationError as error:
        yield f"{error} (mcp-bind, mcp-url)"
        return
    if processes and place.port:
        yield (
            f"--a2a-set mcp-bind={settings.mcp_bind} is one port, and -n starts several processes, each with a server: "
            "use --a2a-concurrency instead of -n, or give port 0 without mcp-url"
        )
