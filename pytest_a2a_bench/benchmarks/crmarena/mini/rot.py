"""Distractor rows: an org that has grown old, with rows that look like the others and leave every answer as it is.

In the mini org near misses come first (:mod:`.near_misses`); those here are the rest, and all of other orgs.
Three things keep them out of every answer. They are dated :data:`~.rot_rows.YEARS_BEFORE` years or more before the
first row of the org, so no period that a task names reaches them. They hang together among themselves: nothing that a
task names by its id has one of them as a child. And where an answer counts rows without a date, they do not qualify:
cases are closed, without issue and order item; leads are converted; quotes are not accepted; products are not active;
no user joins a territory. Issues, territories, users and price books are never added.

Nobody can promise this for articles about which a reader has to judge, as in the published tasks: there the added
articles are about the canteen and the car park, which no question is about.
"""

from __future__ import annotations

import re
import sqlite3
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from datetime import date
from typing import Any

from pytest_a2a_bench.benchmarks.crmarena.mini.building import NewRow, SeededRandom, key_prefixes
from pytest_a2a_bench.benchmarks.crmarena.mini.rot_rows import MAKERS, AgedOrg

_FALLBACK = date(2020, 1, 1)
_DATED = "[12][0-9][0-9][0-9]-*"
_DATE = re.compile(r"\d{4}-\d{2}-\d{2}")

B2B_SIZES: tuple[tuple[str, int], ...] = (
    ("Account", 101),
    ("Contact", 886),
    ("Lead", 1465),
    ("Opportunity", 1170),
    ("OpportunityLineItem", 4926),
    ("Case", 153),
    ("CaseHistory__c", 393),
    ("Quote", 704),
    ("QuoteLineItem", 2966),
    ("Contract", 163),
    ("EmailMessage", 5686),
    ("LiveChatTranscript", 58),
    ("VoiceCallTranscript__c", 4033),
    ("Order", 163),
    ("OrderItem", 689),
    ("Product2", 51),
    ("PricebookEntry", 50),
    ("Knowledge__kav", 194),
    ("Task", 4783),
    ("Event", 54),
)
"""Rows by object of upstream's b2b org, as far as rows are added: what measuring at its size takes."""


def distractors(rows: Mapping[str, Sequence[Mapping[str, Any]]], n: int, seed: int) -> dict[str, list[NewRow]]:
    """Return ``n`` distractor rows for an org, by object; the same arguments give the same rows.

    :param rows: the org's rows, or those of a part of it; only objects that it has get more.
    """
    org = _aged_org_of_rows(rows)
    _spread(org, n, SeededRandom(seed, "rot"))
    return org.made


def add_rot(
    connection: sqlite3.Connection, n: int, seed: int, near: Mapping[str, Sequence[NewRow]] | None = None
) -> int:
    """Put ``n`` distractor rows into an org that is a SQLite database, and return how many were added.

    :param connection: a writable copy: the official files are never changed.
    :param near: rows by object that are put in first and count as distractors, see :mod:`.near_misses`.
    """
    near = near or {}
    org = _aged_org_of_tables(connection)
    _spread(org, max(0, n - sum(map(len, near.values()))), SeededRandom(seed, "rot"))
    with connection:
        for name in sorted({*near, *org.made}):
            columns = org.columns[name]
            named = ", ".join(f'"{column}"' for column in columns)
            marks = ", ".join("?" for _ in columns)
            rows = [*near.get(name, ()), *org.made.get(name, ())]
            values = ([row.get(column) for column in columns] for row in rows)
            connection.executemany(f'INSERT INTO "{name}" ({named}) VALUES ({marks})', values)
    return sum(map(len, near.values())) + sum(map(len, org.made.values()))


def pad(rows: Mapping[str, Sequence[NewRow]], sizes: Mapping[str, int], seed: int) -> dict[str, list[NewRow]]:
    """Return the rows with so many distractors that every object named has the size that is asked for, or more."""
    org = _aged_org_of_rows(rows)
    rng = SeededRandom(seed, "pad")
    for name, make in MAKERS.items():
        for _ in range(sizes.get(name, 0) - len(rows.get(name, ()))):
            org.add(name, make(org, rng))
    return {name: [*made, *org.made.get(name, [])] for name, made in rows.items()}


def _spread(org: AgedOrg, n: int, rng: SeededRandom) -> None:
    names = [name for name in MAKERS if name in org.columns]
    for number in range(n if names else 0):
        name = names[number % len(names)]
        org.add(name, MAKERS[name](org, rng))


def _aged_org_of_rows(rows: Mapping[str, Sequence[Mapping[str, Any]]]) -> AgedOrg:
    return AgedOrg(
        columns={name: tuple(all_[0]) for name, all_ in rows.items() if all_},
        counts=Counter({name: len(all_) for name, all_ in rows.items()}),
        users=[str(row["Id"]) for row in rows.get("User", ())],
        first=_first_day(value for all_ in rows.values() for row in all_ for value in row.values()),
    )


def _aged_org_of_tables(connection: sqlite3.Connection) -> AgedOrg:
    names = [row[0] for row in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table' ORDER BY name")]
    known = [name for name in names if name in key_prefixes()]
    columns = {name: [row[1] for row in connection.execute(f'PRAGMA table_info("{name}")')] for name in known}
    dated = [
        connection.execute(f'SELECT MIN("{column}") FROM "{name}" WHERE "{column}" GLOB ?', (_DATED,)).fetchone()[0]
        for name in known
        for column in columns[name]
        if "Date" in column or "Time" in column or column in ("ValidFrom", "ValidTo")
    ]
    return AgedOrg(
        columns=columns,
        counts=Counter({name: connection.execute(f'SELECT COUNT(*) FROM "{name}"').fetchone()[0] for name in known}),
        users=[row[0] for row in connection.execute('SELECT "Id" FROM "User" ORDER BY "Id"')]
        if "User" in known
        else [],
        first=_first_day(dated),
    )


def _first_day(values: Iterable[object]) -> date:
    """Return the earliest date among values of any kind."""
    days = [value[:10] for value in values if isinstance(value, str) and _DATE.match(value)]
    return date.fromisoformat(min(days)) if days else _FALLBACK
