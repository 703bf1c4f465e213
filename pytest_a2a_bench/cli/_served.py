"""Built-in agents in commands: ``builtin:NAME`` in the place of a URL starts that agent, as it does in pytest."""

from __future__ import annotations

import contextlib
import gc
import signal
import threading
from collections.abc import Iterator
from types import FrameType
from typing import NoReturn

from pytest_a2a_bench.agents.launcher import start_builtin
from pytest_a2a_bench.config.settings import BUILTIN_PREFIX
from pytest_a2a_bench.config.values import read_endpoint
from pytest_a2a_bench.errors import ConfigurationError, Terminated


@contextlib.contextmanager
def terminable() -> Iterator[None]:
    """Let SIGTERM do what Ctrl-C does: what was started is ended, and what was made on the agent cleared away."""

    def stop(number: int, frame: FrameType | None) -> NoReturn:
        # What is garbage now is the system's: the interpreter would look through all of it at its end.
        gc.freeze()
        raise Terminated

    # Python lets only the main thread set handlers, and tests run this in others.
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGTERM, stop)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


@contextlib.contextmanager
def served(endpoint: str) -> Iterator[str]:
    """Yield an agent's URL; a built-in one runs until this is left.

    :raises ConfigurationError: if there is no such built-in agent, or it does not start.
    """
    if not endpoint.startswith(BUILTIN_PREFIX):
        with terminable():
            yield endpoint
        return
    try:
        read_endpoint(endpoint)
    except ValueError as error:
        raise ConfigurationError(str(error)) from error
    with terminable(), start_builtin(endpoint) as agent:
        yield agent.url
