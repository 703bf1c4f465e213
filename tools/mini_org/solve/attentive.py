"""An agent that knows names by heart and reads what an org says of them: errors, and the description of its fields."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from pytest_a2a_bench.benchmarks.crmarena.org import OrgError, QueryResult

MOST_REPAIRS = 20
"""How often one query is put right before it is given up."""

Told = Sequence[Mapping[str, Any]]
"""What an agent is told of a schema: ``[{"object": name, "fields": {name: description}}, ...]``."""

_COLUMN = re.compile(r"ERROR at Row:1:Column:(\d+)\nNo such column '(\w+)' on entity '(\w+)'")
_RELATIONSHIP = re.compile(r"ERROR at Row:1:Column:(\d+)\nDidn't understand relationship '(\w+)' in field path")


def attentive(run: Callable[[str], QueryResult], told: Told, remembered: Told) -> Callable[[str], list[dict[str, Any]]]:
    """Return what asks an org whose fields have other names than an agent remembers, until it understands.

    :param told: the org's description of itself.
    :param remembered: the description that the agent has learned by heart: a field is known again by its words.
    :returns: takes a query of one line in the remembered names, returns records under these.
    """
    names = _renamed(told, remembered)

    def ask(query: str) -> list[dict[str, Any]]:
        back: dict[str, str] = {}
        for _ in range(MOST_REPAIRS):
            try:
                return [_rename(record, back) for record in run(query).records]
            except OrgError as refusal:
                repaired = _repair(query, refusal.message, names, back)
                if repaired is None:
                    raise
                query = repaired
        return []

    return ask


def _renamed(told: Told, remembered: Told) -> dict[tuple[str, str], str]:
    """Return by object and remembered name what a field is called now."""
    now = {(str(each["object"]), text): name for each in told for name, text in each["fields"].items() if text}
    return {
        (str(each["object"]), name): now.get((str(each["object"]), text), name)
        for each in remembered
        for name, text in each["fields"].items()
    }


def _repair(query: str, message: str, names: Mapping[tuple[str, str], str], back: dict[str, str]) -> str | None:
    """Return the query with the name that was refused put right, or None if nothing better is known."""
    if found := _COLUMN.search(message):
        at, old, sobject = int(found[1]) - 1, found[2], found[3]
        new = names.get((sobject, old))
    elif found := _RELATIONSHIP.search(message):
        at, old = int(found[1]) - 1, found[2]
        # Of a path the object is the one that its last step leads to, which by heart is called like the step.
        step = re.search(r"\b(\w+)\.\Z", query[:at])
        sobject = back.get(step[1], step[1]) if step else _source(query, at)
        field = old[:-1] + "c" if old.endswith("__r") else f"{old}Id"
        renamed = names.get((sobject, field))
        new = renamed and (renamed[:-1] + "r" if renamed.endswith("__c") else renamed.removesuffix("Id"))
    else:
        return None
    if not new or new == old or query[at : at + len(old)] != old:
        return None
    back[new] = old
    return query[:at] + new + query[at + len(old) :]


def _source(query: str, at: int) -> str:
    """Return the object that the SELECT around a place is from."""
    found = re.search(r"\bFROM (\w+)", query[at:]) or re.search(r".*\bFROM (\w+)", query[:at])
    return found[1] if found else ""


def _rename(record: Mapping[str, Any], back: Mapping[str, str]) -> dict[str, Any]:
    return {
        back.get(name, name): _rename(value, back) if isinstance(value, dict) else value
        for name, value in record.items()
    }
