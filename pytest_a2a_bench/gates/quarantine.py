"""Dated entries with a reason in a TOML file, and the quarantine: tasks that are known to be flaky. Pure.

A file is an array of tables of one name; each entry says what it is about, why, and until when it counts. Waivers of
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
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pytest_a2a_bench.errors import ConfigurationError
from pytest_a2a_bench.model import TrialKey, TrialResult
from pytest_a2a_bench.nearest import did_you_mean
from pytest_a2a_bench.redact import one_line
from pytest_a2a_bench.results.baseline import task_name

# A file of another kind is wrong in every line.
_MOST_PROBLEMS = 20
_SHOWN = 60


@dataclass(frozen=True, slots=True)
class EntryForm:
    """What the entries of one kind of file look like, and how messages speak of them.

    :param file: what the file is called in messages: ``waivers``.
    :param table: the name of the array of tables: ``waiver``.
    :param entry: what one entry is called in messages: ``waiver``, of which the first is ``waiver 1``.
    :param keys: every key that an entry may have; the first two are texts that it must have.
    :param why: what to say where one of those is missing.
    :param needs_end: whether ``expires`` must be there.
    :param no_date: what to say of an ``expires`` that cannot be read.
    """

    file: str
    table: str
    entry: str
    keys: tuple[str, ...]
    why: str
    needs_end: bool = False
    no_date: str = "is not a date"


@dataclass(frozen=True, slots=True)
class KnownEntry:
    """One entry that is well formed.

    :param values: all that it says, the reason without blanks around it.
    :param expires: the last day on which it counts; None for ever.
    """

    values: Mapping[str, Any]
    reason: str
    expires: datetime.date | None


def is_over(expires: datetime.date | None, today: datetime.date) -> bool:
    """Return whether the last day on which an entry counts has passed."""
    return expires is not None and expires < today


def read_text(path: Path, form: EntryForm) -> str:
    """Return what is in a file.

    :raises ConfigurationError: if it cannot be read.
    """
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigurationError(f"{form.file} {path}: cannot be read: {error}") from error


def read_entries(
    text: str,
    where: str,
    form: EntryForm,
    further: Callable[[Mapping[str, Any]], Iterator[str]] = lambda entry: iter(()),
    together: Callable[[list[KnownEntry]], Iterator[str]] = lambda entries: iter(()),
) -> tuple[KnownEntry, ...]:
    """Read the text of a file.

    :param where: the file's name, for messages.
    :param further: says what else is wrong with one entry.
    :param together: says what is wrong with the entries as a whole.
    :raises ConfigurationError: naming everything that is wrong with it.
    """
    try:
        data = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise ConfigurationError(f"{form.file} {where}: not TOML: {error}") from error
    # All problems at once, as such files are edited by hand.
    problems = [
        f"unknown key {one_line(key, _SHOWN)!r}; the file is made of [[{form.table}]] tables"
        for key in data
        if key != form.table
    ]
    tables = data.get(form.table, [])
    if not isinstance(tables, list):
        problems.append(f"{form.table} is not an array of tables; write [[{form.table}]]")
        tables = []
    entries = []
    for number, table in enumerate(tables, 1):
        wrong = list(_problems(table, form))
        if isinstance(table, Mapping):
            wrong += further(table)
        problems += [f"{form.entry} {number}: {text}" for text in wrong]
        # Only good entries go on; what is wrong with the others would come again in their words.
        if not wrong:
            entries.append(KnownEntry(table, table["reason"].strip(), _read_date(table.get("expires"))))
    problems += together(entries)
    if problems:
        more = f"; and {len(problems) - _MOST_PROBLEMS} more" if len(problems) > _MOST_PROBLEMS else ""
        raise ConfigurationError(f"{form.file} {where}: " + "; ".join(problems[:_MOST_PROBLEMS]) + more)
    return tuple(entries)


def _problems(table: Any, form: EntryForm) -> Iterator[str]:
    if not isinstance(table, Mapping):
        yield f"{one_line(repr(table), _SHOWN)} is not a table; write [[{form.table}]]"
        return
    for key in table:
        if key not in form.keys:
            near = did_you_mean(key, form.keys)
            yield f"unknown key {one_line(key, _SHOWN)!r}; valid are {', '.join(form.keys)}{near}"
    # The first two keys of every form are required: what it is about, and why.
    for key in form.keys[:2]:
        if not (isinstance(table.get(key), str) and table[key].strip()):
            yield f"{key} is missing or empty; {form.why}"
    if form.needs_end or "expires" in table:
        try:
            _read_date(table.get("expires", ""))
        except ValueError:
            shown = one_line(str(table.get("expires")), _SHOWN)
            yield f"expires = {shown!r} {form.no_date}; write expires = 2027-01-31"


def _read_date(value: Any) -> datetime.date | None:
    """Return a date of TOML, or one in quotes.

    :raises ValueError: if it is neither.
    """
    # First, as a datetime is a date, too, to isinstance.
    if isinstance(value, datetime.datetime):
        return value.date()
    if value is None or isinstance(value, datetime.date):
        return value
    return datetime.date.fromisoformat(value if isinstance(value, str) else "")


# --- the quarantine ---------------------------------------------------------------------------------------------------


_FORM = EntryForm(
    file="quarantine",
    table="quarantine",
    entry="entry",
    keys=("task", "reason", "expires"),
    why="every entry says which task, and why",
    # Without an end an entry is never reviewed.
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
        """Return whether it names a task."""
        # Ids may contain the brackets that a pattern treats as special: the literal id comes first.
        return task_key == self.task or fnmatch.fnmatchcase(task_key, self.task)

    def is_expired(self, today: datetime.date) -> bool:
        """Return whether its last day is over."""
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


def names_no_task(
    entry: Quarantined,
    domains: set[tuple[str, str]],
    groups: Collection[str],
    list_tasks: Callable[[str, str], Iterable[str]],
) -> bool:
    """Return whether an entry is for none of the tasks that there are, as far as is known.

    :param domains: suites and domains of which trials ran; of others nothing is said unless there are no such.
    :param groups: every ``suite/domain`` that there is.
    :param list_tasks: the keys of a suite's and domain's tasks.
    """
    suite, _, rest = entry.task.partition("/")
    domain = rest.partition("/")[0]
    # A pattern in the domain may be for any of those that ran.
    if not domain or any(sign in f"{suite}{domain}" for sign in "*?["):
        chosen = domains
    # A domain that no suite has is a slip of the pen, whatever ran.
    elif f"{suite}/{domain}" not in groups:
        return True
    else:
        chosen = domains & {(suite, domain)}
    tasks = [task for name, of in chosen for task in list_tasks(name, of)]
    # A label is the user's own, and may belong to a test that did not run.
    return bool(tasks) and not any(entry.covers(t) or entry.task.startswith(f"{t}@") for t in tasks)


def describe_quarantine(
    entries: Sequence[Quarantined],
    results: Sequence[TrialResult],
    groups: Collection[str],
    list_tasks: Callable[[str, str], Iterable[str]],
) -> Iterator[str]:
    """Say which entries of a quarantine have ended, are needed no more, or are for no task.

    :param groups: and ``list_tasks``: as :func:`names_no_task` takes them.
    """
    today = datetime.date.today()
    domains = {(r.key.suite, r.key.domain) for r in results}
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
        elif not found and names_no_task(entry, domains, groups, list_tasks):
            yield f"the quarantine of {entry.task} is for no task: there is none of that name"
