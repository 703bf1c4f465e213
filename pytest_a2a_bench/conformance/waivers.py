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
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from pytest_a2a_bench.conformance.catalogue import load_gateway_requirements, load_requirements
from pytest_a2a_bench.conformance.finding import BINDINGS, VERSIONS, CheckResult
from pytest_a2a_bench.results.gates.terms import FORBID_OTHERS, EntriesFile, Words, is_over
from pytest_a2a_bench.text import did_you_mean, one_line

_CARD = "card"


@dataclass(frozen=True, slots=True)
class Waiver:
    """One known defect.

    :param expires: the last day on which it counts; None for ever.
    :param binding: the only binding that it is for; empty for all.
    :param version: the only protocol version that it is for; empty for all.
    """

    __pydantic_config__: ClassVar = FORBID_OTHERS

    id: Words
    reason: Words
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
    """Return the waiver for a check: the narrowest one, or None."""
    entry = result.requirement
    found = [w for w in waivers if w.covers(entry.id, entry.version, result.binding)]
    return max(found, key=lambda w: bool(w.binding) + bool(w.version), default=None)


def read_waivers(path: str | Path, known: Iterable[str] | None = None, acts: Iterable[str] = ()) -> tuple[Waiver, ...]:
    """Read a file of waivers.

    :param known: ids that a waiver may name; by default those of the catalogues, and of the ACTS tests ``acts``.
    :raises ConfigurationError: naming everything that is wrong with the file.
    """
    ids = {*_catalogue(), *acts} if known is None else known
    return _FILE.read(Path(path), lambda waivers: _problems(waivers, ids))


def _problems(waivers: list[Waiver], known: Iterable[str]) -> Iterator[str]:
    ids = frozenset(known)
    seen: set[str] = set()
    for waiver in waivers:
        if waiver.id not in ids:
            yield f"id {one_line(waiver.id, 60)!r} is no requirement of the catalogue{did_you_mean(waiver.id, ids)}"
        for key, value, valid in (
            ("binding", waiver.binding, (*BINDINGS, _CARD)),
            ("version", waiver.version, VERSIONS),
        ):
            if value and value not in valid:
                yield f"{key} = {one_line(repr(value), 60)} is not one of {', '.join(valid)}"
        if str(waiver) in seen:
            yield f"{waiver} is waived twice; keep one of them"
        seen.add(str(waiver))


def _catalogue() -> Iterator[str]:
    yield from (entry.id for version in VERSIONS for entry in load_requirements(version))
    yield from (entry.id for entry in load_gateway_requirements())


_FILE = EntriesFile("waivers", "waiver", Waiver)
