"""Decides for each request what happens to it, and restarts what is served."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from pytest_a2a_bench.chaos.calls import Call
from pytest_a2a_bench.chaos.door import Door
from pytest_a2a_bench.chaos.draws import RESTART, Draws, is_hit
from pytest_a2a_bench.chaos.journal import Journal
from pytest_a2a_bench.chaos.spec import STATUS_FAULTS, ChaosSpec, StatusFault


class Monkey:
    """What all listeners of one proxy share.

    :param on_restart: restarts the agent itself, where it is ours; it has lost its memory afterwards.
    """

    def __init__(
        self, spec: ChaosSpec, journal: Journal, on_restart: Callable[[], Awaitable[None]] | None = None
    ) -> None:
        self.spec = spec
        self.journal = journal
        self.doors: list[Door] = []
        self._draws = Draws(spec)
        self._on_restart = on_restart
        self._restarting: asyncio.Task[None] | None = None

    def meet(self, call: Call) -> Fate:
        """Decide about a request that came in."""
        if not is_hit(self.spec, call):
            return Fate(self, call, None, None)
        fault = self._draws.next(call)
        self.journal.requests = self._draws.requests
        return Fate(self, call, self._draws.requests, fault)

    async def hang(self) -> None:
        """Be silent."""
        await asyncio.sleep(self.spec.hang)

    def restart(self) -> None:
        """Drop every connection, restart the agent where it is ours, and refuse connections meanwhile."""
        for door in self.doors:
            door.shut()
            door.drop()
        if self._restarting is None or self._restarting.done():
            self._restarting = asyncio.ensure_future(self._restart())

    async def _restart(self) -> None:
        if self._on_restart is not None:
            await self._on_restart()
        await asyncio.sleep(self.spec.restart_pause)
        for door in self.doors:
            await door.open()

    async def start(self) -> None:
        """Open the doors, or let them refuse for the time of a slow start."""
        for door in self.doors:
            if self.spec.slow_start:
                door.refuse_for(self.spec.slow_start)
            else:
                await door.open()

    async def stop(self) -> None:
        """Let no restart open a door any more; the doors are closed by who made them."""
        if self._restarting is not None:
            self._restarting.cancel()
            await asyncio.gather(self._restarting, return_exceptions=True)


class Fate:
    """What happens to one request.

    :param number: of the request among those that may be hit; None where it is not one of them.
    """

    def __init__(self, monkey: Monkey, call: Call, number: int | None, fault: str | None) -> None:
        self.monkey = monkey
        self.call = call
        self.number = number
        self.fault = fault
        self._is_settled = fault is None

    @property
    def status(self) -> StatusFault | None:
        """The error status that it is answered with."""
        return STATUS_FAULTS.get(self.fault or "")

    @property
    def in_content(self) -> str | None:
        """The fault as far as it may change what the answer says.

        A conversation gets its name from its first answer: that one cannot be wrong, for nobody knows another.
        """
        return None if self.fault == "wrong-context" and self.call.begins else self.fault

    @property
    def is_restart(self) -> bool:
        """Whether the agent restarts instead of answering."""
        return self.fault == RESTART

    def note(self) -> None:
        """Note that the fault is injected. Safe to call again."""
        self._settle(injected=True)

    def settle(self) -> None:
        """Note that it was not, if so: there was nothing to do it to, or nobody waited for it."""
        self._settle(injected=False)

    def _settle(self, *, injected: bool) -> None:
        if not self._is_settled and self.fault is not None and self.number is not None:
            self._is_settled = True
            self.monkey.journal.fault(self.number, self.fault, self.call, injected=injected)

    def trouble(self, error: BaseException) -> None:
        """Note that the agent itself broke."""
        self.monkey.journal.trouble(self.number, self.call, f"{type(error).__name__}: {error}".rstrip(": "))

    async def hang(self) -> None:
        """Note the silence, and be silent."""
        self.note()
        await self.monkey.hang()
