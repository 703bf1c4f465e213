"""Cards and answers, good and bad, with the findings that are expected of each: data that other tools can read too."""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from pytest_a2a_bench.conformance import data
from pytest_a2a_bench.conformance.card import check_card
from pytest_a2a_bench.conformance.catalogue import requirement
from pytest_a2a_bench.conformance.checks.data_model import RULES
from pytest_a2a_bench.conformance.checks.streaming import RULES as STREAM_RULES

KINDS = ("cards", "answers")


class Vector(NamedTuple):
    """One card, or one answer of A2A 1.0.

    :param content: the card; or an answer: ``binding``, ``operation``, ``request`` and ``result``, or the ``events`` of
        a stream, all of them without the envelope of JSON-RPC.
    :param findings: requirement and JSON pointer of each finding that is expected; empty for a good one.
    """

    kind: str
    name: str
    content: Any
    findings: tuple[tuple[str, str], ...] = ()

    @property
    def found(self) -> list[tuple[str, str]]:
        """The findings that there are."""
        if self.kind == "cards":
            return [(finding.rule, finding.pointer) for finding in check_card(self.content)]
        events: Sequence[Any] = self.content.get("events", ())
        values = events or [self.content["result"]]
        found = [(id, p.pointer) for id, rule in RULES.items() if "V03" not in id for v in values for p in rule(v)]
        if events:
            found += [(id, p.pointer) for id, rule in STREAM_RULES.items() if "V03" not in id for p in rule(events)]
        return list(dict.fromkeys(found))


@cache
def load(kind: str) -> tuple[Vector, ...]:
    """Return the vectors of a kind, one of :data:`KINDS`."""
    rows = data.load(f"vectors_{kind}.jsonl")
    return tuple(Vector(kind, r["name"], r["content"], tuple((id, at) for id, at in r["findings"])) for r in rows)


def write(directory: Path) -> int:
    """Write every vector as a file of its own, with an ``index.json`` of expected findings; return their number."""
    index = []
    for vector in (vector for kind in KINDS for vector in load(kind)):
        path = directory / vector.kind / f"{vector.name.replace(' ', '-')}.json"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(_json(vector.content), encoding="utf-8")
        findings = [
            {"requirement": id, "pointer": pointer, "level": entry.level, "spec": entry.spec, "text": entry.text}
            for id, pointer in vector.findings
            for entry in (requirement(id),)
        ]
        index.append({"file": str(path.relative_to(directory)), "findings": findings})
    (directory / "index.json").write_text(_json(index), encoding="utf-8")
    return len(index)


def _json(value: Any) -> str:
    return json.dumps(value, indent=2, ensure_ascii=False) + "\n"
