"""Who may run now: a place for each assessment, limits for all and for each caller, first come first served."""

from __future__ import annotations

import asyncio
from collections import Counter


class Full(Exception):
    """There is no place left, not even to wait."""


class Place:
    """The place of one assessment: it waits, runs, and is given back."""

    def __init__(self, slots: Slots, name: str, caller: str) -> None:
        self._slots = slots
        self.name = name
        self.caller = caller
        self.runs = asyncio.Event()

    @property
    def ahead(self) -> int:
        """How many of those that wait came before."""
        return self._slots.ahead_of(self)

    def give_back(self) -> None:
        """Let others take it. Safe to call again."""
        self._slots.remove(self)

    def step_back(self) -> None:
        """Wait again, before all others: a limit that holds for more than one process was reached meanwhile."""
        self._slots.step_back(self)


class Slots:
    """The places of one process. Belongs to one event loop.

    :param at_once: how many run here.
    :param per_caller: how many of one caller run, here and elsewhere.
    :param waiting: how many of one caller may wait, here and elsewhere.
    """

    def __init__(self, at_once: int, per_caller: int, waiting: int) -> None:
        self._at_once, self._per_caller, self._most_waiting = at_once, per_caller, waiting
        self._waiting: list[Place] = []
        self._running: list[Place] = []
        self._elsewhere: Counter[str] = Counter()

    def take(self, name: str, caller: str, *, again: bool = False, elsewhere: int = 0) -> Place:
        """Take a place, which runs at once if it can (``Place.runs``).

        :param name: of the assessment.
        :param again: for an assessment that had one before a restart: it is never refused.
        :param elsewhere: how many of the caller wait in other processes.
        :raises Full: if the caller has too many that wait.
        """
        mine = elsewhere + sum(place.caller == caller for place in self._waiting)
        if mine >= self._most_waiting and not again and not self._has_room(caller):
            raise Full(
                f"{mine} of your assessments wait already, which is all that may; ask again when one of them has ended"
            )
        place = Place(self, name, caller)
        self._waiting.append(place)
        self._advance()
        return place

    @property
    def running(self) -> int:
        """How many run."""
        return len(self._running)

    @property
    def waiting(self) -> int:
        """How many wait."""
        return len(self._waiting)

    @property
    def names(self) -> frozenset[str]:
        """The assessments that have a place here."""
        return frozenset(place.name for place in (*self._waiting, *self._running))

    def note_elsewhere(self, running: Counter[str]) -> None:
        """Take note of how many of each caller run in other processes."""
        self._elsewhere = running
        self._advance()

    def step_back(self, place: Place) -> None:
        """Let a place that runs wait again, before all others."""
        if place in self._running:
            self._running.remove(place)
            self._waiting.insert(0, place)
            place.runs.clear()
            self._advance()

    def ahead_of(self, place: Place) -> int:
        """Return how many came before a place that waits."""
        return self._waiting.index(place) if place in self._waiting else 0

    def remove(self, place: Place) -> None:
        """Take a place back, whether it runs or waits."""
        for places in (self._waiting, self._running):
            if place in places:
                places.remove(place)
        self._advance()

    def _has_room(self, caller: str) -> bool:
        mine = self._elsewhere[caller] + sum(place.caller == caller for place in self._running)
        return len(self._running) < self._at_once and mine < self._per_caller

    def _advance(self) -> None:
        for place in list(self._waiting):
            if self._has_room(place.caller):
                self._waiting.remove(place)
                self._running.append(place)
                place.runs.set()
