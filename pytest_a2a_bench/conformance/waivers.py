"""Waivers: known defects that must not fail a run, each with its reason and an end.

A file in TOML::

    [[waiver]]
    id = "SEND-003"
    reason = "the gateway rewrites ids until release 2.4"
    expires = 2027-01-31
    binding = "JSONRPC"  # optional
    version = "1.0"      # optional
"""

from __future__ import annotations

import datetime
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pytest_a2a_bench.conformance.catalogue import ADDED, load_requirements
from pytest_a2a_bench.conformance.finding import BINDINGS, VERSIONS, CheckResult
from pytest_a2a_bench.gates.quarantine import EntryForm, KnownEntry, is_over, read_entries, read_text
from pytest_a2a_bench.nearest import did_you_mean
from pytest_a2a_bench.redact import one_line

_CARD = "card"
_FORM = EntryForm(
    file="waivers",
    table="waiver",
    entry="waiver",
    keys=("id", "reason", "expires", "binding", "version"),
    why="every waiver says what it is for and why",
)


@dataclass(frozen=True, slots=True)
class Waiver:
    """One known defect.

    :param expires: the last day on which it counts; None for ever.
    :param binding: the only binding that it is for; empty for all.
    :param version: the only protocol version that it is for; empty for all.
    """

    id: str
    reason: str
    expires: datetime.date | None = None
    binding: str = ""
    version: str = ""

    def covers(self, id: str, version: str, binding: str) -> bool:
        """Return whether it is about one check."""
        return self.id == id and self.version in ("", version) and self.binding in ("", binding)

    def is_expired(self, today: datetime.date) -> bool:
        """Return whether its last day is over."""
        return is_over(self.expires, today)

    def __str__(self) -> str:
        where = f"[{self.binding}]" if self.binding else ""
        return f"{self.version}/{self.id}{where}" if self.version else f"{self.id}{where}"


def waiver_of(result: CheckResult, waivers: Iterable[Waiver]) -> Waiver | None:
    """Return the waiver for a check: the one that says most exactly what it is for, or None."""
    entry = result.requirement
    found = [w for w in waivers if w.covers(entry.id, entry.version, result.binding)]
    # The narrower of two: a waiver for one binding is the more deliberate one.
    return max(found, key=lambda w: bool(w.binding) + bool(w.version), default=None)


def read_waivers(path: str | Path, known: Iterable[str] | None = None) -> tuple[Waiver, ...]:
    """Read a file of waivers.

    :param known: ids that a waiver may name; by default those of the catalogues.
    :raises ConfigurationError: naming everything that is wrong with the file.
    """
    return parse_waivers(read_text(Path(path), _FORM), str(path), known)


def parse_waivers(text: str, where: str, known: Iterable[str] | None = None) -> tuple[Waiver, ...]:
    """Read the text of a file of waivers.

    :param where: the file's name, for messages.
    :raises ConfigurationError: naming everything that is wrong with it.
    """
    # Read from the catalogue when asked, so that tests can have ids of their own.
    ids = frozenset(_catalogue() if known is None else known)
    entries = read_entries(text, where, _FORM, lambda entry: _problems(entry, ids), _doubled)
    return tuple(map(_waiver, entries))


def _problems(entry: Mapping[str, Any], ids: frozenset[str]) -> Iterator[str]:
    id = entry.get("id")
    if isinstance(id, str) and id.strip() and id not in ids:
        yield f"id {one_line(id, 60)!r} is no requirement of the catalogue{did_you_mean(id, ids)}"
    for key, valid in (("binding", (*BINDINGS, _CARD)), ("version", VERSIONS)):
        if key in entry and entry[key] not in valid:
            yield f"{key} = {one_line(repr(entry[key]), 60)} is not one of {', '.join(valid)}"


def _waiver(entry: KnownEntry) -> Waiver:
    values = entry.values
    return Waiver(values["id"], entry.reason, entry.expires, values.get("binding", ""), values.get("version", ""))


def _doubled(entries: list[KnownEntry]) -> Iterator[str]:
    seen: set[str] = set()
    for name in map(str, map(_waiver, entries)):
        if name in seen:
            yield f"{name} is waived twice; keep one of them"
        seen.add(name)


def _catalogue() -> Iterator[str]:
    yield from (entry.id for version in VERSIONS for entry in load_requirements(version))
    yield from (id for id, _ in ADDED)
