"""Quarantine: tasks that are known to be flaky, each with its reason and an end. Pure.

A file in TOML::

    [[quarantine]]
    task = "tau2/airline/1[25]"   # a task's key, or a pattern of such
    reason = "the policy text contradicts itself, issue 17"
    expires = 2027-01-31          # the last day on which it counts

A quarantined trial is still run and reported, and a miss of it fails nothing and counts in no rate.
"""

from __future__ import annotations

import datetime
import fnmatch
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from pytest_a2a_bench.gates.known import EntryForm, is_over, read_entries, read_text

_FORM = EntryForm(
    file="quarantine",
    table="quarantine",
    entry="entry",
    keys=("task", "reason", "expires"),
    why="every entry says which task, and why",
    # Without an end nobody ever looks at an entry again.
    needs_end=True,
    no_date="is no date",
)


@dataclass(frozen=True, slots=True)
class Quarantined:
    """One entry.

    :param task: a task's key (``tau2/airline/12``), or a glob pattern.
    :param expires: the last day on which it counts.
    """

    task: str
    reason: str
    expires: datetime.date

    def covers(self, task_key: str) -> bool:
        """Tell whether it names a task."""
        # Ids may contain the brackets that a pattern treats as special: the literal id comes first.
        return task_key == self.task or fnmatch.fnmatchcase(task_key, self.task)

    def is_expired(self, today: datetime.date) -> bool:
        """Tell whether its last day is over."""
        return is_over(self.expires, today)

    def to_json(self) -> list[str]:
        """Return it as texts."""
        return [self.task, self.reason, self.expires.isoformat()]

    @classmethod
    def from_json(cls, data: Iterable[str]) -> Quarantined:
        """Read what :meth:`to_json` wrote."""
        task, reason, expires = data
        return cls(task, reason, datetime.date.fromisoformat(expires))


def entry_for(task_key: str, entries: Iterable[Quarantined], today: datetime.date) -> Quarantined | None:
    """Return the entry that quarantines a task today, or None."""
    return next((e for e in entries if not e.is_expired(today) and e.covers(task_key)), None)


def read(path: Path) -> tuple[Quarantined, ...]:
    """Read a file.

    :raises ConfigurationError: naming everything that is wrong with it.
    """
    entries = read_entries(read_text(path, _FORM), str(path), _FORM)
    # The form wants an end, so that every entry has one.
    return tuple(Quarantined(e.values["task"], e.reason, e.expires) for e in entries if e.expires is not None)
