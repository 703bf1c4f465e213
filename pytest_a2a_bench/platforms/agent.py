"""One agent that a controller keeps: its process, its port, and the state that AgentBeats' controllers tell of it."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import json
import uuid
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import httpx

from pytest_a2a_bench.a2a.card import CARD_PATH, LEGACY_CARD_PATH
from pytest_a2a_bench.a2a.network import USUAL
from pytest_a2a_bench.a2a.transport import open_client
from pytest_a2a_bench.platforms.cards import shown_card
from pytest_a2a_bench.platforms.process import STOP_SECONDS, GuardedProcess, free_port, start

PENDING, STARTING, RUNNING, RESET_REQUESTED = "pending", "starting", "running", "reset_requested"
NOT_FOUND = "File not found."
"""What AgentBeats' controllers answer in place of a card or log that there is not yet."""

HOST = "127.0.0.1"
_CHECK_SECONDS = 0.2
_CARD_SECONDS = 2.0
_MAX_CARD = 4 * 1024 * 1024
_NOT_KEPT = httpx.Limits(max_keepalive_connections=0)


@dataclasses.dataclass(frozen=True, slots=True)
class Kept:
    """What is kept, and how.

    :param command: what starts the agent; it gets ``HOST``, ``AGENT_PORT`` and ``AGENT_URL`` in its environment.
    :param told: the command as ``/status`` tells it.
    :param environ: the environment that these are added to.
    :param stop_seconds: between SIGTERM and SIGKILL.
    :param echo: called with each line that the agent writes.
    :param note: called with each state that it comes to.
    """

    command: tuple[str, ...]
    told: str
    environ: Mapping[str, str]
    directory: Path | None = None
    stop_seconds: float = STOP_SECONDS
    echo: Callable[[str], None] | None = None
    note: Callable[[str], None] = lambda _: None


class KeptAgent:
    """An agent's process through its resets.

    :param public: URL of the controller, below which callers reach the agent.
    :ivar state: ``pending``, ``starting``, ``running`` (its card was seen), ``reset_requested`` or ``finished(CODE)``.
    :ivar port: where it listens now, on 127.0.0.1.
    :ivar generation: how often it was started.
    """

    def __init__(self, kept: Kept, public: str) -> None:
        self.id = uuid.uuid4().hex
        self.url = f"{public}/to_agent/{self.id}"
        self.state = PENDING
        self.port = free_port()
        self.generation = 0
        self._kept = kept
        self._process: GuardedProcess | None = None
        self._card: str | None = None
        self._wake = asyncio.Event()

    @property
    def is_reachable(self) -> bool:
        """Whether a request may be tried: its process runs, and shall go on."""
        return self.state in (STARTING, RUNNING)

    def describe(self) -> dict[str, str]:
        """Return state, logs and card as AgentBeats' controllers tell them."""
        process = self._process
        return {
            "state": self.state,
            "stdout_log": process.stdout.text() if process else NOT_FOUND,
            "stderr_log": process.stderr.text() if process else NOT_FOUND,
            "agent_card": self._card or NOT_FOUND,
        }

    def request_reset(self) -> None:
        """Have the process ended and started anew; whoever asks for the state from now on does not see the old one."""
        self._become(RESET_REQUESTED)
        self._wake.set()

    async def keep(self) -> None:
        """Start the agent, watch it, and reset it when asked, until this is cancelled; then end it."""
        try:
            async with open_client(USUAL, limits=_NOT_KEPT, timeout=_CARD_SECONDS) as client:
                while True:
                    await self._live_once(client)
        finally:
            await self._end()

    async def _live_once(self, client: httpx.AsyncClient) -> None:
        """Start it, and return when it is to be started again."""
        await self._begin()
        process = self._process
        assert process is not None
        ended, woken = asyncio.ensure_future(process.wait()), asyncio.ensure_future(self._wake.wait())
        try:
            while self.state != RESET_REQUESTED:
                # One that has ended waits for its reset.
                waited = {woken} if ended.done() else {woken, ended}
                seconds = _CHECK_SECONDS if self.state == STARTING else None
                await asyncio.wait(waited, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
                if self.is_reachable and ended.done():
                    self._become(f"finished({ended.result()})")
                elif self.state == STARTING:
                    await self._look_for_card(client)
        finally:
            for task in (ended, woken):
                task.cancel()
            await asyncio.gather(ended, woken, return_exceptions=True)
        await self._end()

    async def _begin(self) -> None:
        self._wake.clear()
        self.state = PENDING
        self._card = None
        self.port = free_port()
        self.generation += 1
        environ = {**self._kept.environ, "HOST": HOST, "AGENT_PORT": str(self.port), "AGENT_URL": self.url}
        self._process = await start(
            self._kept.command,
            environ=environ,
            directory=self._kept.directory,
            stop_seconds=self._kept.stop_seconds,
            echo=self._kept.echo,
        )
        if self.state == PENDING:
            self._become(STARTING)

    async def _look_for_card(self, client: httpx.AsyncClient) -> None:
        port = self.port
        for path in (CARD_PATH, LEGACY_CARD_PATH):
            with contextlib.suppress(httpx.HTTPError, ValueError):
                answer = await client.get(f"http://{HOST}:{port}{path}", headers={"accept": "application/json"})
                if answer.status_code == 200 and len(answer.content) <= _MAX_CARD and isinstance(answer.json(), dict):
                    card = json.loads(shown_card(answer.content, self.url))
                    if self.state == STARTING:
                        self._card = json.dumps(card, indent=2, ensure_ascii=False)
                        self._become(RUNNING)
                    return

    def _become(self, state: str) -> None:
        self.state = state
        self._kept.note(state)

    async def _end(self) -> None:
        if self._process is not None:
            await asyncio.shield(self._process.stop())


def running(agents: Sequence[KeptAgent]) -> int:
    """Return how many agents have shown their card and have not ended since."""
    return sum(agent.state == RUNNING for agent in agents)
