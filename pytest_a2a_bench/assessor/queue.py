"""The queue of assessments: when one may run, by limits of this process and of each caller.

A caller's limits hold for all processes that share a results directory. The record of an assessment says that it runs,
and that is its permit: it is written under a lock of the directory, after those of the same caller were counted, and
ends with the assessment, whichever process runs that by then.
"""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import time
from collections import Counter
from collections.abc import Awaitable, Callable

from filelock import FileLock, Timeout

from pytest_a2a_bench.assessor.request import BadRequest
from pytest_a2a_bench.assessor.terms import Terms
from pytest_a2a_bench.results.assessments import Kept, Record

SILENCE = 15.0
"""Seconds after which a caller gets an update, if there is nothing new: gateways give up on silent streams."""

LOOK = 1.0
"""Seconds between two readings of the records, while an assessment waits."""

_PATIENCE = 10.0
"""Most seconds to wait for the lock, which a process keeps for as long as it counts."""


class Queue:
    """Assessments in the order in which they came. Belongs to one event loop.

    :param is_shared: whether other processes run assessments in the same directory.
    :ivar waiting: name -> caller of those that wait here; ``running`` of those that run here.
    """

    def __init__(self, terms: Terms, kept: Kept, *, is_shared: bool) -> None:
        self._terms = terms
        self._kept = kept
        self._is_shared = is_shared
        self.waiting: dict[str, str] = {}
        self.running: dict[str, str] = {}
        self._elsewhere: Counter[str] = Counter()
        self._changed = asyncio.Event()
        self._reading: asyncio.Task[list[Record]] | None = None

    async def join(self, record: Record, *, again: bool) -> None:
        """Let an assessment wait; its record says already that it does.

        :param again: whether it was in a queue before a restart, so that it is not refused.
        :raises BadRequest: if its caller has too many that wait.
        """
        waiting = sum(caller == record.caller for caller in self.waiting.values())
        if self._is_shared:
            # Each counts those before it, so that of two who come at once on two processes one is the first.
            waiting += sum(
                other.state == "waiting"
                and other.caller == record.caller
                and not self._is_here(other)
                and (other.submitted, other.name) < (record.submitted, record.name)
                for other in await asyncio.to_thread(self._kept.all)
            )
        if waiting >= self._terms.waiting and not again and not self._has_room(record.caller):
            raise BadRequest(
                [f"{waiting} of your assessments wait already, the limit here; ask again when one of them has ended"]
            )
        self.waiting[record.name] = record.caller

    async def wait(self, record: Record, tell: Callable[[str], Awaitable[None]]) -> Record:
        """Wait until an assessment may run, and return its record, which then says so.

        :param tell: gets the number of assessments before this one, as a sentence.
        """
        last = float("-inf")
        while True:
            changed = self._changed
            if next((name for name, caller in self.waiting.items() if self._has_room(caller)), None) == record.name:
                self.running[record.name] = self.waiting.pop(record.name)
                self._wake()
                running = dataclasses.replace(record, state="running")
                refused = await asyncio.to_thread(self._permit, running)
                if refused is None:
                    return running
                self.waiting = {record.name: self.running.pop(record.name), **self.waiting}
                self._note(refused)
                continue
            if time.monotonic() - last >= SILENCE:
                await tell(f"waiting: {list(self.waiting).index(record.name)} before this one")
                last = time.monotonic()
            with contextlib.suppress(OSError, TimeoutError):  # a directory that comes back
                if self._is_shared:
                    self._note(await self._next_reading())
                else:
                    await asyncio.wait_for(changed.wait(), SILENCE)

    def leave(self, record: Record) -> None:
        """Take an assessment out, whether it runs or waits. Safe to call again."""
        self.running.pop(record.name, None)
        self.waiting.pop(record.name, None)
        self._wake()

    def _wake(self) -> None:
        self._changed.set()
        self._changed = asyncio.Event()

    def _has_room(self, caller: str) -> bool:
        mine = self._elsewhere[caller] + sum(other == caller for other in self.running.values())
        return len(self.running) < self._terms.at_once and mine < self._terms.per_caller

    def _is_here(self, record: Record) -> bool:
        return record.name in self.running or record.name in self.waiting

    # -- other processes --

    def _note(self, found: list[Record]) -> None:
        """Count what each caller has running in other processes."""
        self._elsewhere = Counter(one.caller for one in found if one.state == "running" and not self._is_here(one))

    async def _next_reading(self) -> list[Record]:
        """Wait for the next reading of the records, which all that wait share."""
        if self._reading is None or self._reading.done():
            self._reading = asyncio.create_task(self._read())
        return await asyncio.shield(self._reading)

    async def _read(self) -> list[Record]:
        await asyncio.sleep(LOOK)
        return await asyncio.to_thread(self._kept.all)

    def _permit(self, record: Record) -> list[Record] | None:
        """Write that an assessment runs, or return the records where its caller has as many that run as may."""
        directory = self._terms.directory(record.name)
        if not self._is_shared:
            record.write(directory)
            return None
        try:
            with FileLock(self._terms.results / ".admission.lock", timeout=_PATIENCE):
                found = self._kept.all()
                others = (one for one in found if one.state == "running" and one.name != record.name)
                if sum(one.caller == record.caller for one in others) >= self._terms.per_caller:
                    return found
                record.write(directory)
                return None
        except Timeout:
            return self._kept.all()
