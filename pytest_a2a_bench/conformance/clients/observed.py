"""An agent that observes its client: for tests of one's own client, and for ``a2a-bench check --client``."""

from __future__ import annotations

import time
from collections.abc import Iterable

from pytest_a2a_bench import __version__
from pytest_a2a_bench.a2a import loop
from pytest_a2a_bench.conformance.clients.agent import CARDS, SITUATIONS
from pytest_a2a_bench.conformance.clients.rules import judge_client
from pytest_a2a_bench.conformance.clients.serving import ClientServer
from pytest_a2a_bench.conformance.finding import BINDINGS, VERSIONS, Finding
from pytest_a2a_bench.conformance.report import Report, judge
from pytest_a2a_bench.conformance.waivers import Waiver
from pytest_a2a_bench.errors import ConfigurationError
from pytest_a2a_bench.listener import BindAddress
from pytest_a2a_bench.text import one_line


class ObservedAgent:
    """A correct agent whose tasks are situations; it records its client's requests and judges the client.

    A word in a task's text chooses the situation, such as ``slow``; without one, each new conversation gets the next.

    :param place: where it listens; by default an ephemeral port of the loopback address.
    :param retry_after: seconds that a client is asked to wait.
    """

    situations: tuple[str, ...] = tuple(SITUATIONS)
    """The words that choose a situation."""
    cards: tuple[str, ...] = tuple(CARDS)
    """The names of cards for :meth:`at`."""

    def __init__(self, place: BindAddress | None = None, retry_after: int = 1) -> None:
        self._server = ClientServer(place, retry_after)
        self._began = time.monotonic()

    def __enter__(self) -> ObservedAgent:
        loop.run(self._server.start())
        return self

    def __exit__(self, *exc: object) -> None:
        loop.run(self._server.close())

    @property
    def url(self) -> str:
        """The agent's base URL; its card has each binding in both versions, in the order of preference."""
        return self._server.url

    def at(self, *names: str) -> str:
        """Return a base URL with another card.

        :param names: bindings (``HTTP+JSON``) and versions (``0.3``), which alone the card has then, and one of
            :attr:`cards`, such as ``dead-interface``.
        :raises ConfigurationError: for any other name.
        """
        if unknown := set(names) - {*CARDS, *BINDINGS, *VERSIONS}:
            every = ", ".join([*CARDS, *BINDINGS, *VERSIONS])
            raise ConfigurationError(f"there is no card {', '.join(sorted(unknown))}; there are {every}")
        return "/".join([self.url, *names])

    @property
    def requests(self) -> int:
        """How many requests for operations came."""
        return len(self._server.seen.calls)

    def wait(self, requests: int = 0) -> None:
        """Wait until so many requests came; 0 waits for ever."""
        loop.run(self._wait(requests))

    async def _wait(self, requests: int) -> None:
        while not 0 < requests <= self.requests:
            self._server.changed.clear()
            await self._server.changed.wait()

    def report(self, waivers: Iterable[Waiver] = (), *, strict: bool = False) -> Report:
        """Return the report on the client so far; requirements that no request was about are skipped as not observed.

        :param strict: whether a SHOULD that is not kept fails.
        """
        loop.run(self._server.settle())
        seen = self._server.seen
        every = tuple(waivers)
        interfaces = dict.fromkeys(f"{call.version} {call.binding}" for call in seen.calls)
        headers = [call.headers for call in seen.calls] + [card.headers for card in seen.cards]
        agents = dict.fromkeys(h["user-agent"] for h in headers if "user-agent" in h)
        return Report(
            self.url,
            tuple(judge(judge_client(seen), waivers=every, strict=strict)),
            agent=f"client {one_line(', '.join(agents), 200)}".strip(),
            interfaces=tuple(interfaces),
            waivers=every,
            strict=strict,
            seconds=time.monotonic() - self._began,
            tool={"name": "pytest-a2a-bench", "version": __version__},
        )

    @property
    def findings(self) -> list[Finding]:
        """The findings about the client: rule, severity, found, expected, spec and the request that shows it."""
        return [finding for row in self.report().rows if row.is_finding for finding in row.findings]
