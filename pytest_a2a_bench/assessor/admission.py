"""When an assessment may run: limits of this process, and of each caller on all that share a results directory.

What is kept of an assessment says that it runs, and that is its permit: it is written under a lock of the directory,
after those of the same caller were counted, and ends with the assessment, whichever process holds that by then.
"""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable

from pytest_a2a_bench.assessor.slots import Place, Slots
from pytest_a2a_bench.assessor.terms import Terms
from pytest_a2a_bench.results import lock
from pytest_a2a_bench.results.assessments import Kept, Record
from pytest_a2a_bench.results.lock import InUseError, Lock

OWNER = "a2a-bench assess"
"""Who holds the locks of the directories of assessments."""

SILENCE = 15.0
"""Seconds after which a caller hears something, if there is nothing new: gateways give up on silent streams."""

LOOK = 1.0
"""Seconds between two readings of what is kept, while anybody waits for one."""

_LOCKED = ".admission"
_PATIENCE = 10.0
"""Most seconds to wait for the lock, which is held for as long as it takes to count."""

Tell = Callable[[str], Awaitable[None]]


class Watch:
    """Reads what is kept once for all who wait for it, and not at all while nobody does. Belongs to one event loop."""

    def __init__(self, kept: Kept) -> None:
        self.kept = kept
        self._coming: asyncio.Task[list[Record]] | None = None

    async def next(self) -> list[Record]:
        """Wait for the next reading.

        :raises OSError: as :meth:`Kept.all` does.
        """
        if self._coming is None or self._coming.done():
            self._coming = asyncio.create_task(self._read())
        return await asyncio.shield(self._coming)

    async def _read(self) -> list[Record]:
        await asyncio.sleep(LOOK)
        return await asyncio.to_thread(self.kept.all)


class Admission:
    """Lets assessments run. Belongs to one event loop.

    :param is_shared: whether other processes hold assessments in the same directory.
    """

    def __init__(self, terms: Terms, watch: Watch, *, is_shared: bool) -> None:
        self._terms = terms
        self._watch = watch
        self._is_shared = is_shared
        self.slots = Slots(terms.at_once, terms.per_caller, terms.waiting)

    async def take(self, record: Record, *, again: bool) -> Place:
        """Take a place for an assessment; what is kept of it says already that it waits.

        :param again: as :meth:`Slots.take` has it.
        :raises Full: if its caller has too many that wait.
        """
        elsewhere = 0
        if self._is_shared:
            found = await asyncio.to_thread(self._watch.kept.all)
            here = self.slots.names
            # Each counts those before it, so that of two who come at once on two processes one is the first.
            elsewhere = sum(
                one.state == "waiting"
                and one.caller == record.caller
                and one.name not in here
                and (one.submitted, one.name) < (record.submitted, record.name)
                for one in found
            )
        return self.slots.take(record.name, record.caller, again=again, elsewhere=elsewhere)

    async def wait(self, record: Record, place: Place, tell: Tell) -> Record:
        """Wait until an assessment may run, and return what is now kept of it.

        :param tell: hears how many are before it.
        """
        told = float("-inf")
        while True:
            if place.runs.is_set():
                running = dataclasses.replace(record, state="running")
                refused = await asyncio.to_thread(self._permit, running)
                if refused is None:
                    return running
                self._note(refused)
                place.step_back()
                continue
            if time.monotonic() - told >= SILENCE:
                await tell(f"waiting: {place.ahead} before this one")
                told = time.monotonic()
            await self._wait_a_moment(place)

    async def _wait_a_moment(self, place: Place) -> None:
        if self._is_shared:
            with contextlib.suppress(OSError):  # a directory that comes back
                self._note(await self._watch.next())
            return
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(place.runs.wait(), SILENCE)

    def _note(self, found: Iterable[Record]) -> None:
        here = self.slots.names
        running = (one.caller for one in found if one.state == "running" and one.name not in here)
        self.slots.note_elsewhere(Counter(running))

    def _permit(self, record: Record) -> list[Record] | None:
        """Keep that an assessment runs, or return what is kept where its caller has as many that run as may."""
        directory = self._terms.directory(record.name)
        if not self._is_shared:
            record.write(directory)
            return None
        held = self._lock_of_all()
        try:
            found = self._watch.kept.all()
            others = (one for one in found if one.state == "running" and one.name != record.name)
            if held is None or sum(one.caller == record.caller for one in others) >= self._terms.per_caller:
                return found
            record.write(directory)
            return None
        finally:
            if held is not None:
                held.release()

    def _lock_of_all(self) -> Lock | None:
        deadline = time.monotonic() + _PATIENCE
        while time.monotonic() < deadline:
            with contextlib.suppress(InUseError):
                return lock.take(self._terms.results / _LOCKED, OWNER)
            time.sleep(0.01)
        return None
