"""Shortcuts: ways to answer that look right, each a change of what the reference solver asks or reads.

Distractor rows are kept where one of these falls for them; an agent whose answer is that of a shortcut took it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Generator, Mapping
from dataclasses import dataclass
from typing import Any

from mini_org.solve import choose_steps
from mini_org.solve.task import AgentTask, Record, Steps, literal

Asking = Callable[[str], Generator[str, list[Record], list[Record]]]
"""Takes a query of the reference solver, yields what is asked instead, and returns what is read of it."""


@dataclass(frozen=True, slots=True)
class Shortcut:
    """A way to answer wrongly.

    :param says: what is done, as it stands behind "one who".
    """

    name: str
    says: str
    ask: Asking


_STATUS = r"(?:[\w.]+\.)?Status (?:!?= '[^']*'|(?:NOT )?IN \([^)]*\))"


def _ignore_status(query: str) -> Generator[str, list[Record], list[Record]]:
    bare = re.sub(rf" AND {_STATUS}", "", query)
    bare = re.sub(rf"WHERE {_STATUS} AND ", "WHERE ", bare)
    records = yield re.sub(rf" WHERE {_STATUS}", "", bare)
    # A draft is a version whose status is not looked at.
    return [_with(record, "FAQ_Answer__c", lambda text: text.replace(", draft", ", in force", 1)) for record in records]


def _ignore_end(query: str) -> Generator[str, list[Record], list[Record]]:
    records = yield re.sub(r" AND [\w.]+ <=? \d{4}-\d\d-\d\d(?:T00:00:00Z)?", "", query)
    return records


def _first_article(query: str) -> Generator[str, list[Record], list[Record]]:
    records = yield query
    first: dict[str, Record] = {}
    for number, record in enumerate(records):
        first.setdefault(str(record.get("Title", number)), record)
    return list(first.values())


_BY_ID = re.compile(r"\b((?:\w+\.)*)(\w+?)(Id|Id__c) = '(00Q\w+|006\w+|0Q0\w+|01t\w+)'")
_NAMED = {"00Q": "Lead", "006": "Opportunity", "0Q0": "Quote", "01t": "Product2"}


def _join_by_name(query: str) -> Generator[str, list[Record], list[Record]]:
    found = _BY_ID.search(query)
    if found is None:
        records = yield query
        return records
    path, stem, suffix, key = found.groups()
    named = yield f"SELECT Name FROM {_NAMED[key[:3]]} WHERE Id = '{key}'"
    relationship = f"{path}{stem}Id__r" if suffix == "Id__c" else f"{path}{stem}"
    if named:
        query = query.replace(found[0], f"{relationship}.Name = {literal(str(named[0]['Name']))}")
    records = yield query
    return records


def _count_twice(query: str) -> Generator[str, list[Record], list[Record]]:
    records = yield query
    # Made different, so that nothing is the same record twice.
    return [
        {**record, "CreatedDate": f"{record['CreatedDate']}#{number}"} if "OldValue__c" in record else record
        for number, record in enumerate(records)
    ]


def _ignore_currency(query: str) -> Generator[str, list[Record], list[Record]]:
    records = yield re.sub(r" AND (?:\w+\.)*Pricebook2\.Name = '[^']*'", "", query)
    return records


def _count_deleted(query: str) -> Generator[str, list[Record], list[Record]]:
    records = yield re.sub(r" AND (?:\w+\.)*Owner\.Id != null", "", query)
    return records


def _take_namesake(query: str) -> Generator[str, list[Record], list[Record]]:
    found = re.fullmatch(r"(SELECT AccountId FROM Contact WHERE )Id = '(003\w+)'", query)
    if found is None:
        records = yield query
        return records
    named = yield f"SELECT FirstName, LastName FROM Contact WHERE Id = '{found[2]}'"
    same = " AND ".join(f"{name} = {literal(str(person[name]))}" for person in named[:1] for name in _PERSON)
    records = yield f"{found[1]}{same or f'Id = {literal(found[2])}'} ORDER BY Id DESC"
    return records


_PERSON = ("FirstName", "LastName")


def _with(record: Record, field: str, change: Callable[[str], str]) -> Record:
    value = record.get(field)
    return {**record, field: change(value)} if isinstance(value, str) else record


SHORTCUTS: Mapping[str, Shortcut] = {
    each.name: each
    for each in (
        Shortcut("ignores-status", "looks at no status", _ignore_status),
        Shortcut("ignores-end", "does not end its period where the question does", _ignore_end),
        Shortcut("first-article", "takes the first article of a title, not the one in force", _first_article),
        Shortcut("joins-by-name", "takes records of the same name for one", _join_by_name),
        Shortcut("ignores-currency", "adds up amounts in several currencies", _ignore_currency),
        Shortcut("counts-deleted-owners", "counts what belongs to users who are deleted", _count_deleted),
        Shortcut("takes-a-namesake", "takes another contact of the same name for the customer", _take_namesake),
        Shortcut("counts-twice", "counts a record twice that is there twice", _count_twice),
    )
}
"""By name."""


def take(shortcut: Shortcut, task: AgentTask) -> Steps:
    """Return the steps of the reference solver, changed by a shortcut."""
    steps = choose_steps(task)
    try:
        query = next(steps)
        while True:
            records = yield from shortcut.ask(query)
            query = steps.send(records)
    except StopIteration as end:
        return str(end.value)


def answer(steps: Steps, run: Callable[[str], Any]) -> str:
    """Return what steps come to.

    :param run: asks an org, like ``Org.run``.
    """
    try:
        query = next(steps)
        while True:
            query = steps.send(list(run(query).records))
    except StopIteration as end:
        return str(end.value)
