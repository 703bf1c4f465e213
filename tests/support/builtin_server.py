"""A built-in agent in this process, where it is not the process that is tested: it starts in a tenth of the time."""

from __future__ import annotations

from contextlib import AbstractContextManager

from on_loop import on_loop

from pytest_a2a_bench.agents.brain import Brain
from pytest_a2a_bench.agents.options import parse_spec
from pytest_a2a_bench.agents.server import Served, running


def served(spec: str, brain: Brain | None = None) -> AbstractContextManager[Served]:
    """Serve an agent that a spec names, on the loop thread of the client.

    :param brain: thinks in place of that which the spec names.
    """
    return on_loop(running(parse_spec(spec), brain))
