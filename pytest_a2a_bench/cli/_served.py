"""Built-in agents in commands: ``builtin:NAME`` in the place of a URL starts that agent, as it does in pytest."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from pytest_a2a_bench.agents.launcher import start_builtin
from pytest_a2a_bench.config.settings import BUILTIN_PREFIX
from pytest_a2a_bench.config.values import read_endpoint
from pytest_a2a_bench.errors import ConfigurationError


@contextlib.contextmanager
def served(endpoint: str) -> Iterator[str]:
    """Yield an agent's URL; a built-in one runs until this is left.

    :raises ConfigurationError: if there is no such built-in agent, or it does not start.
    """
    if not endpoint.startswith(BUILTIN_PREFIX):
        yield endpoint
        return
    try:
        read_endpoint(endpoint)
    except ValueError as error:
        raise ConfigurationError(str(error)) from error
    with start_builtin(endpoint) as agent:
        yield agent.url
