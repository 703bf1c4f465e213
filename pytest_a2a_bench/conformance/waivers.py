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
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pytest_a2a_bench.conformance.finding import BINDINGS, VERSIONS, CheckResult
from pytest_a2a_bench.errors import ConfigurationError
from pytest_a2a_bench.redact import one_line

_KEYS = ("id", "reason", "expires", "binding", "version")
_CARD = "card"
_MAX_PROBLEMS = 20


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
        """Tell whether it is about one check."""
        return self.id == id and self.version in ("", version) and self.binding in ("", binding)

    def is_expired(self, today: datetime.date) -> bool:
        """Tell whether its last day is over."""
        return self.expires is not None and self.expires < today

    def __str__(self) -> str:
        where = f"[{self.binding}]" if self.binding else ""
        return f"{self.version}/{self.id}{where}" if self.version else f"{self.id}{where}"


def waiver_of(result: CheckResult, waivers: Iterable[Waiver]) -> Waiver | None:
    """Return the waiver for a check: the one that says most exactly what it is for, or None."""
    entry = result.requirement
    found = [w for w in waivers if w.covers(entry.id, entry.version, result.binding)]
    return max(found, key=lambda w: bool(w.binding) + bool(w.version), default=None)


def read_waivers(path: str | Path, known: Iterable[str] | None = None) -> tuple[Waiver, ...]:
    """Read a file of waivers.

    :param known: ids that a waiver may name; by default those of the catalogues.
    :raises ConfigurationError: naming everything that is wrong with the file.
    """
    try:
        text = Path(path).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigurationError(f"waivers {path}: cannot be read: {error}") from error
    return parse_waivers(text, str(path), known)


def parse_waivers(text: str, where: str, known: Iterable[str] | None = None) -> tuple[Waiver, ...]:
    """Read the text of a file of waivers.

    :param where: the file's name, for messages.
    :raises ConfigurationError: naming everything that is wrong with it.
    """
    try:
        data = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise ConfigurationError(f"waivers {where}: not TOML: {error}") from error
    ids = frozenset(_catalogue() if known is None else known)
    entries = data.get("waiver", [])
    problems = [
        f"unknown key {one_line(k, 60)!r}; the file is made of [[waiver]] tables" for k in data if k != "waiver"
    ]
    if not isinstance(entries, list):
        problems.append("waiver is not an array of tables; write [[waiver]]")
        entries = []
    waivers = []
    for number, entry in enumerate(entries, 1):
        found = list(_problems(entry, ids))
        problems += [f"waiver {number}: {text}" for text in found]
        if not found:
            waivers.append(_waiver(entry))
    problems += _doubled(waivers)
    if problems:
        more = f"; and {len(problems) - _MAX_PROBLEMS} more" if len(problems) > _MAX_PROBLEMS else ""
        raise ConfigurationError(f"waivers {where}: " + "; ".join(problems[:_MAX_PROBLEMS]) + more)
    return tuple(waivers)


def _problems(entry: Any, ids: frozenset[str]) -> Iterator[str]:
    if not isinstance(entry, Mapping):
        yield f"{one_line(repr(entry), 60)} is not a table; write [[waiver]]"
        return
    for key in entry:
        if key not in _KEYS:
            yield f"unknown key {one_line(key, 60)!r}; valid are {', '.join(_KEYS)}"
    for key in ("id", "reason"):
        if not (isinstance(entry.get(key), str) and entry[key].strip()):
            yield f"{key} is missing or empty; every waiver says what it is for and why"
    id = entry.get("id")
    if isinstance(id, str) and id.strip() and id not in ids:
        yield f"id {one_line(id, 60)!r} is no requirement of the catalogue"
    if "expires" in entry and not _is_date(entry["expires"]):
        yield f"expires = {one_line(str(entry['expires']), 60)!r} is not a date; write expires = 2027-01-31"
    for key, valid in (("binding", (*BINDINGS, _CARD)), ("version", VERSIONS)):
        if key in entry and entry[key] not in valid:
            yield f"{key} = {one_line(repr(entry[key]), 60)} is not one of {', '.join(valid)}"


def _is_date(value: Any) -> bool:
    if isinstance(value, str):
        try:
            datetime.date.fromisoformat(value)
        except ValueError:
            return False
        return True
    return isinstance(value, datetime.date)


def _waiver(entry: Mapping[str, Any]) -> Waiver:
    expires = entry.get("expires")
    if isinstance(expires, str):
        expires = datetime.date.fromisoformat(expires)
    if isinstance(expires, datetime.datetime):
        expires = expires.date()
    return Waiver(entry["id"], entry["reason"].strip(), expires, entry.get("binding", ""), entry.get("version", ""))


def _doubled(waivers: list[Waiver]) -> Iterator[str]:
    seen: set[str] = set()
    for waiver in waivers:
        if str(waiver) in seen:
            yield f"{waiver} is waived twice; keep one of them"
        seen.add(str(waiver))


def _catalogue() -> Iterator[str]:
    from pytest_a2a_bench.conformance.requirements import load_requirements

    return (entry.id for version in VERSIONS for entry in load_requirements(version))
