"""A corpus of replies: what is a call, what is only spoken of, and what nobody can tell."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path
from typing import Any

import pytest
from one_test import in_one_test

from pytest_a2a_bench import dialects
from pytest_a2a_bench.model import Part, ToolSpec

CORPUS = tomllib.loads((Path(__file__).parents[1] / "support" / "replies.toml").read_text("utf-8"))["reply"]
TOOLS = {
    "get_user": {"id": {"type": "string"}, "n": {"type": "integer"}},
    "cancel": {"id": {"type": "string"}},
    "book": {
        "flights": {"type": "array"},
        "insurance": {"anyOf": [{"type": "boolean"}, {"type": "null"}]},
        "total": {"type": "integer"},
    },
}


def parts_of(reply: dict[str, Any]) -> list[Part]:
    data = [Part.of_data(json.loads(reply["data"]))] if "data" in reply else []
    return [*data, *map(Part.of_text, reply["texts"])]


def tools_of(reply: dict[str, Any]) -> list[ToolSpec]:
    return [ToolSpec(n, "", {"type": "object", "properties": TOOLS[n]}) for n in reply.get("tools", TOOLS)]


@in_one_test("reply", CORPUS, ids=lambda r: r["name"])
def test_what_comes_of_a_reply(reply: dict[str, Any]) -> None:
    decoded = dialects.get("auto").decode_reply(parts_of(reply), tools_of(reply))
    found = [[c.name, c.arguments] for c in decoded.calls]
    assert json.dumps(found) == json.dumps(json.loads(reply.get("calls", "[]")))
    assert decoded.unreadable is (reply["comes"] == "reminded")
    assert bool(found) is (reply["comes"] == "calls")
    if not found:
        assert decoded.text == reply.get("says", "\n".join(reply["texts"]))
    assert [f.rule for f in decoded.findings] == reply["findings"]


@pytest.mark.parametrize("name", ["tool_call", "agentbeats", "sierra", "data"])
def test_every_dialect_carries_out_the_same(name: str) -> None:
    for reply in CORPUS:
        decoded = dialects.get(name).decode_reply(parts_of(reply), tools_of(reply))
        found = [[c.name, c.arguments] for c in decoded.calls]
        assert json.dumps(found) == json.dumps(json.loads(reply.get("calls", "[]"))), reply["name"]
        assert decoded.unreadable is (reply["comes"] == "reminded"), reply["name"]


def test_names_are_told_apart() -> None:
    assert len(CORPUS) >= 60
    assert len({r["name"] for r in CORPUS}) == len(CORPUS)
