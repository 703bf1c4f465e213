"""The built-in oracle behind chaos, in this process: one cell of fault, binding, protocol version and streaming."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass

from pytest_a2a_bench.a2a import loop
from pytest_a2a_bench.agents.behind_chaos import behind_chaos
from pytest_a2a_bench.agents.options import parse_spec
from pytest_a2a_bench.chaos.journal import Journal


@dataclass(frozen=True)
class Harried:
    """An agent that chaos stands before.

    :param journal: what was done so far.
    """

    url: str
    journal: Journal


@contextlib.contextmanager
def harried(chaos: str, spec: str = "oracle") -> Iterator[Harried]:
    """Serve an agent behind chaos, on the loop thread of the client.

    :param chaos: as ``--chaos`` takes it.
    :param spec: the agent with its options, such as ``oracle?protocol=0.3&transport=rest``.
    """
    journal = Journal()
    options = parse_spec(f"{spec}{'&' if '?' in spec else '?'}chaos={chaos}")
    context = behind_chaos(options, journal)

    async def leave() -> None:
        await context.__aexit__(None, None, None)

    served = loop.run(context.__aenter__())
    try:
        yield Harried(served.url, journal)
    finally:
        loop.run(leave())
