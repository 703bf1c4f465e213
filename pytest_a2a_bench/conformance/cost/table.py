"""How many messages each check sends, and which faults it finds: measured on the built-in correct agent.

``data/cost.json`` is written by ``python perf/conformance_cost.py``. It has a row for every check, for its further
cells, and for every object that checks share (a *node*), and for each how its messages follow from a few facts about
the agent.
"""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any

from pytest_a2a_bench.conformance.check import ADDED
from pytest_a2a_bench.conformance.cost.facts import Facts

SELF = "self"
"""Stands in the table for the binding that a node belongs to."""


def crossed(id: str) -> str:
    """Return the node of a check's further cells, which the profile ``full`` tries."""
    return f"crossed {id}"


@dataclass(frozen=True, slots=True)
class Use:
    """What one node sends by itself, and which other nodes it needs; bindings are spelt out or :data:`SELF`.

    :param messages: messages that an agent works on, by binding.
    :param refused: messages that a correct agent refuses, by binding.
    :param needs: (binding, node) of what is made for it.
    """

    messages: Mapping[str, int]
    refused: Mapping[str, int]
    needs: tuple[tuple[str, str], ...]

    @property
    def size(self) -> tuple[int, int, int]:
        """For comparison."""
        return sum(self.messages.values()), sum(self.refused.values()), len(self.needs)


_Row = tuple[tuple[str, ...], Mapping[tuple[Any, ...], Use]]


@dataclass(frozen=True, slots=True)
class CostTable:
    """The measurements.

    :param rows: (version, binding, node) -> names of facts that decide, and what follows from their values; several,
        which add up.
    :param kills: (version, requirement id) -> names of the faults that its check finds.
    :param unsafe: (version, requirement id) -> why it is not for an agent in production.
    """

    rows: Mapping[tuple[str, str, str], Sequence[_Row]]
    kills: Mapping[tuple[str, str], frozenset[str]]
    unsafe: Mapping[tuple[str, str], str]

    def use(self, version: str, binding: str, node: str, facts: Facts) -> Use:
        """Return what a node sends; where facts are as nobody has measured, the most that it may."""
        # Sent by the check itself, and shared with no other.
        if (node, version) in ADDED:
            return Use({SELF: ADDED[node, version].messages}, {}, ())
        found = [_chosen(row, facts) for row in self.rows.get((version, binding, node), ())]
        messages, refused = Counter[str](), Counter[str]()
        for use in found:
            messages.update(use.messages)
            refused.update(use.refused)
        return Use(messages, refused, tuple(need for use in found for need in use.needs))


def _chosen(row: _Row, facts: Facts) -> Use:
    names, cases = row
    found = cases.get(tuple(facts.get(name) for name in names))
    return found if found is not None else max(cases.values(), key=lambda use: use.size)


@cache
def load_table() -> CostTable:
    """Return the measurements that this package has."""
    data = json.loads((files("pytest_a2a_bench.conformance") / "data" / "cost.json").read_text(encoding="utf-8"))
    return parse_table(data)


def parse_table(data: Mapping[str, Any]) -> CostTable:
    """Read the table from its JSON form."""
    rows: defaultdict[tuple[str, str, str], list[_Row]] = defaultdict(list)
    for row in data["nodes"]:
        cases = {tuple(case["values"]): _use(case) for case in row["cases"]}
        for binding in row["bindings"]:
            rows[row["version"], binding, row["node"]].append((tuple(row["facts"]), cases))
    kills = {(v, id): frozenset(names) for v, ids in data["kills"].items() for id, names in ids.items()}
    unsafe = {(v, id): why for v, ids in data["unsafe"].items() for id, why in ids.items()}
    return CostTable(rows, kills, unsafe)


def _use(case: Mapping[str, Any]) -> Use:
    needs = tuple((str(binding), str(node)) for binding, node in case.get("needs", ()))
    return Use(case.get("messages", {}), case.get("refused", {}), needs)
