"""Dated entries with a reason in a TOML file, and the quarantine: tasks that are known to be flaky. Pure.

A file is an array of tables of one name; each entry has a subject, a reason and an expiry date. Waivers of
the conformance suite have the same form. A quarantine::

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
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, ClassVar, Generic, TypeVar

from pytest_a2a_bench.errors import ConfigurationError
from pytest_a2a_bench.model import TrialKey, TrialResult
from pytest_a2a_bench.model.keys import Limits
from pytest_a2a_bench.results.stats import task_name
from pytest_a2a_bench.results.store import adapter_of, described
from pytest_a2a_bench.text import one_line

Entry = TypeVar("Entry")

Words = Annotated[str, Limits((("strip_whitespace", True), ("min_length", 1)))]
"""A text that is not blank."""

FORBID_OTHERS = {"extra": "forbid"}
"""The pydantic configuration of an entry: keys that it does not have are problems."""

# A file of another kind is wrong in every line.
_MOST_PROBLEMS = 20
_SHOWN = 60


@dataclass(frozen=True, slots=True)
class EntriesFile(Generic[Entry]):
    """One kind of file.

    :param name: its name in messages: ``waivers``.
    :param table: the name of the array of tables: ``waiver``.
    :param entry: the dataclass of an entry.
    """

    name: str
    table: str
    entry: type[Entry]

    def read(self, path: Path, check: Callable[[list[Entry]], Iterable[str]] = lambda entries: ()) -> tuple[Entry, ...]:
        """Read a file; like :meth:`parse`.

        :raises ConfigurationError: also if the file cannot be read.
        """
        try:
            text = path.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise ConfigurationError(f"{self.name} {path}: cannot be read: {error}") from error
        return self.parse(text, str(path), check)

    def parse(
        self, text: str, where: str, check: Callable[[list[Entry]], Iterable[str]] = lambda entries: ()
    ) -> tuple[Entry, ...]:
        """Read the text of a file.

        :param where: the file's name, for messages.
        :param check: returns further problems of the entries.
        :raises ConfigurationError: with everything that is wrong.
        """
        try:
            data = tomllib.loads(text)
        except tomllib.TOMLDecodeError as error:
            raise ConfigurationError(f"{self.name} {where}: not TOML: {error}") from error
        # All problems at once, as such files are edited by hand.
        problems = [
            f"unknown key {one_line(key, _SHOWN)!r}; the file is made of [[{self.table}]] tables"
            for key in data
            if key != self.table
        ]
        tables = data.get(self.table, [])
        if not isinstance(tables, list):
            problems.append(f"{self.table} is not an array of tables; write [[{self.table}]]")
            tables = []
        entries: list[Entry] = []
        for number, table in enumerate(tables, 1):
            problems += [f"{self.table} {number}: {text}" for text in self._take(table, entries)]
        problems += check(entries)
        if problems:
            more = f"; and {len(problems) - _MOST_PROBLEMS} more" if len(problems) > _MOST_PROBLEMS else ""
            raise ConfigurationError(f"{self.name} {where}: " + "; ".join(problems[:_MOST_PROBLEMS]) + more)
        return tuple(entries)

    def _take(self, table: Any, entries: list[Entry]) -> Iterator[str]:
        """Add an entry, or yield its problems."""
        from pydantic import ValidationError

        try:
            entries.append(adapter_of(self.entry).validate_python(table))
        except ValidationError as error:
            for each in error.errors(include_url=False, include_context=False):
                key = one_line(".".join(map(str, each["loc"])), _SHOWN)
                if not key:
                    yield f"{described(each['input'])} is not a table; write [[{self.table}]]"
                elif each["type"] == "unexpected_keyword_argument":
                    yield f"unknown key {key!r}"
                elif each["type"] == "missing":
                    yield f"{key} is missing"
                else:
                    message = each["msg"].replace("Input", "it").replace("String", "it")
                    yield f"{key} = {described(each['input'])}: {message}"


def is_over(expires: datetime.date | None, today: datetime.date) -> bool:
    """Return whether the last day on which an entry counts has passed."""
    return expires is not None and expires < today


# --- the quarantine ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Quarantined:
    """One entry.

    :param task: a task's key (``tau2/airline/12``), or a glob pattern.
    :param expires: the last day on which it counts.
    """

    __pydantic_config__: ClassVar = FORBID_OTHERS

    task: Words
    reason: Words
    # Required, as an entry without an end is never reviewed.
    expires: datetime.date

    def covers(self, task_key: str) -> bool:
        """Return whether it names a task."""
        # Ids may contain the brackets that a pattern treats as special: the literal id comes first.
        return task_key == self.task or fnmatch.fnmatchcase(task_key, self.task)

    def is_expired(self, today: datetime.date) -> bool:
        """Return whether its last day is over."""
        return is_over(self.expires, today)


def entry_for(task_key: str, entries: Iterable[Quarantined], today: datetime.date) -> Quarantined | None:
    """Return the entry that quarantines a task today, or None."""
    return next((e for e in entries if not e.is_expired(today) and e.covers(task_key)), None)


QUARANTINE = EntriesFile("quarantine", "quarantine", Quarantined)


def quarantine_of(key: TrialKey, entries: Sequence[Quarantined]) -> Quarantined | None:
    """Return the entry that quarantines a trial today, or None."""
    if not entries:
        return None
    today = datetime.date.today()
    found = entry_for(key.task_key, entries, today)
    # Without a label first: an entry for a task holds for every label of it.
    return found or entry_for(task_name(key), entries, today)


def covers(entry: Quarantined, key: TrialKey) -> bool:
    """Return whether an entry names a trial's task, with or without its label."""
    return entry.covers(key.task_key) or entry.covers(task_name(key))


def describe_quarantine(entries: Sequence[Quarantined], results: Sequence[TrialResult]) -> Iterator[str]:
    """Yield which entries of a quarantine have ended, are needed no more, or match no trial of a domain that ran."""
    today = datetime.date.today()
    for entry in entries:
        found = [r for r in results if covers(entry, r.key)]
        # An error says nothing about whether the entry is still needed.
        judged = [r for r in found if r.status == "evaluated"]
        if found and entry.is_expired(today):
            # Of several entries another one may still hold.
            again = any(quarantine_of(r.key, entries) is None for r in found)
            what = "it counts again" if again else "another entry still covers it"
            yield f"the quarantine of {entry.task} ended on {entry.expires}: {what}"
        elif judged and all(r.success for r in judged):
            every = "its trial" if len(judged) == 1 else f"all {len(judged)} trials"
            yield f"quarantined, and {every} succeeded: {entry.task} ({entry.reason})"
        elif not found and any(entry.task.startswith(f"{r.key.suite}/{r.key.domain}/") for r in results):
            yield f"the quarantine of {entry.task} matches no trial of this run"
