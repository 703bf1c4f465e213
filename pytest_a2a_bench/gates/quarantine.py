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
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pytest_a2a_bench.errors import ConfigurationError
from pytest_a2a_bench.redact import one_line

_KEYS = ("task", "reason", "expires")


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
        return self.expires < today

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
    try:
        data = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigurationError(f"quarantine {path}: cannot be read: {error}") from error
    except tomllib.TOMLDecodeError as error:
        raise ConfigurationError(f"quarantine {path}: not TOML: {error}") from error
    problems = [f"unknown key {one_line(k, 60)!r}; the file is made of [[quarantine]]" for k in data if k != _TABLE]
    entries = data.get(_TABLE, [])
    if not isinstance(entries, list):
        problems.append("quarantine is not an array of tables; write [[quarantine]]")
        entries = []
    for number, entry in enumerate(entries, 1):
        problems += [f"entry {number}: {text}" for text in _problems(entry)]
    if problems:
        raise ConfigurationError(f"quarantine {path}: " + "; ".join(problems))
    return tuple(Quarantined(e["task"], e["reason"].strip(), _date(e["expires"])) for e in entries)


_TABLE = "quarantine"


def _problems(entry: Any) -> Iterator[str]:
    if not isinstance(entry, Mapping):
        yield f"{one_line(repr(entry), 60)} is not a table; write [[quarantine]]"
        return
    for key in entry:
        if key not in _KEYS:
            yield f"unknown key {one_line(key, 60)!r}; valid are {', '.join(_KEYS)}"
    for key in ("task", "reason"):
        if not (isinstance(entry.get(key), str) and entry[key].strip()):
            yield f"{key} is missing or empty; every entry says which task, and why"
    try:
        _date(entry.get("expires"))
    except ValueError:
        yield f"expires = {one_line(str(entry.get('expires')), 60)!r} is no date; write expires = 2027-01-31"


def _date(value: Any) -> datetime.date:
    if isinstance(value, datetime.datetime):
        return value.date()
    if isinstance(value, datetime.date):
        return value
    return datetime.date.fromisoformat(value if isinstance(value, str) else "")
