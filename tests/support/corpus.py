"""Queries with what Salesforce makes of them, each with the page of its SOQL and SOSL Reference that says so.

They name standard objects and fields only, and read: any org can be asked them. The local org must agree with all.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from pytest_a2a_bench.benchmarks.crmarena.org import OrgError, QueryResult

Run = Callable[[str], QueryResult]

ACCEPTED = "ok"
_TOO_LARGE = "OPERATION_TOO_LARGE"


@dataclass(frozen=True, slots=True)
class CorpusEntry:
    """A query and what is known of it.

    :param source: page of the reference, with what of it is meant behind a comma.
    :param expected: ``ok``, the error code of the refusal, or another query behind ``=`` that finds the same.
    """

    source: str
    expected: str
    query: str

    @property
    def twin(self) -> str | None:
        """The query that finds the same records, if there is one."""
        return self.expected.removeprefix("= ") if self.expected.startswith("= ") else None


@dataclass(frozen=True, slots=True)
class Difference:
    """An entry that an org treats otherwise.

    :param found: what it did instead, in a line.
    """

    entry: CorpusEntry
    found: str


@cache
def read_corpus() -> tuple[CorpusEntry, ...]:
    """Return all entries, by source."""
    text = Path(__file__).with_name("corpus.json").read_text(encoding="utf-8")
    loaded: dict[str, dict[str, list[str]]] = json.loads(text)
    return tuple(
        CorpusEntry(source, expected, query)
        for source, by_expected in loaded.items()
        for expected, queries in by_expected.items()
        for query in queries
    )


def differences(entries: Iterable[CorpusEntry], run: Run) -> Iterator[Difference]:
    """Ask an org and yield what it treats otherwise. An answer that is too large to read is one.

    :raises InfrastructureError: if the org cannot be asked.
    """
    for entry in entries:
        code, found = _ask(entry.query, run)
        if entry.twin is None:
            if code != entry.expected:
                yield Difference(entry, f"accepted, where {entry.expected} is expected" if code == ACCEPTED else found)
            continue
        other_code, other = _ask(entry.twin, run)
        if code != ACCEPTED or other_code != ACCEPTED:
            yield Difference(entry, found if code != ACCEPTED else other)
        elif found != other and _TOO_LARGE not in (found, other):
            yield Difference(entry, f"finds other records than {entry.twin}")


def _ask(query: str, run: Run) -> tuple[str, Any]:
    """Return ``ok`` and what was found, or the error's code and its last line."""
    try:
        result = run(query)
    except OrgError as refusal:
        if refusal.code == _TOO_LARGE:
            return ACCEPTED, _TOO_LARGE
        return refusal.code, f"{refusal.code}: {refusal.message.strip().splitlines()[-1]}"
    return ACCEPTED, (sorted(str(record.get("Id")) for record in result.records), result.total_size)
