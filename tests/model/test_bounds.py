"""The bounds of a reply: how they are given, what they cut off, and that merging calls says what it always said."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from one_test import in_one_test

from pytest_a2a_bench import dialects
from pytest_a2a_bench.benchmarks.crmarena.actions import TOOLS as ORG
from pytest_a2a_bench.config.rates import read_reply_limits
from pytest_a2a_bench.dialects.calls import merge_calls
from pytest_a2a_bench.dialects.reading import DecodedReply
from pytest_a2a_bench.model import Part, ToolCall, ToolSpec
from pytest_a2a_bench.model.messages import DEFAULT_BOUNDS, MAX_DEPTH, Bounds, is_deeper

BOOK = [ToolSpec("book")]


def call(number: int = 0) -> dict[str, Any]:
    return {"name": "book", "arguments": {"n": number}}


def decode(parts: list[Part], bounds: Bounds, dialect: str = "auto") -> DecodedReply:
    return dialects.get(dialect).decode_reply(parts, BOOK, bounds)


def limits(decoded: DecodedReply) -> list[str]:
    return [f.rule for f in decoded.findings if f.rule.startswith("limit-")]


# --- the option ---


@in_one_test(
    ("text", "expected"),
    [
        ("calls=3", {"calls": 3}),
        ("calls=3, bytes=2M,cpu=0.5", {"calls": 3, "bytes": 2 * 1024**2, "cpu": 0.5}),
        ("total=1G\nbytes=500K", {"total": 1024**3, "bytes": 500 * 1024}),
        ("calls=64,bytes=16M,cpu=5,depth=64,parts=4096,total=256M", {}),
        ("default", {}),
    ],
)
def test_option_is_read(text: str, expected: dict[str, float]) -> None:
    assert read_reply_limits(text) == expected


@in_one_test(
    ("text", "complaint"),
    [
        ("", "empty"),
        ("64", "the limits are calls, parts, bytes, depth, cpu, total"),
        ("call=3", "'call' is no limit of a reply"),
        ("calls=0", "calls=0 is not a whole number from 1 up to"),
        ("calls=1.5", "not a whole number"),
        ("calls=3M", "'3M' is not a number"),
        ("cpu=0", "not seconds above 0"),
        ("depth=65", "up to 64"),
        ("bytes=2G", "up to 2.14748e"),
        ("calls=3,calls=4", "calls is given twice"),
        ("cpu=nan", "not a number"),
    ],
)
def test_wrong_options_say_what_would_be_right(text: str, complaint: str) -> None:
    with pytest.raises(ValueError, match=complaint):
        read_reply_limits(text)


# --- depth ---


@in_one_test("inner", [[], {}, 1, None, "x"])
def test_depth_counts_lists_and_objects(inner: Any) -> None:
    value, levels = inner, int(isinstance(inner, list | dict))
    for _ in range(50):
        value, levels = {"a": [value]}, levels + 2
    assert not is_deeper(value, levels)
    assert is_deeper(value, levels - 1)


@in_one_test("kind", ["data", "text"])
def test_deep_calls_are_unreadable_and_the_limit_is_named(kind: str) -> None:
    def said(depth: int) -> Part:
        arguments = json.loads('{"n": ' + "[" * depth + "]" * depth + "}")
        body = {"tool_call": {"name": "book", "arguments": arguments}}
        return Part.of_data(body) if kind == "data" else Part.of_text(json.dumps(body))

    assert decode([said(5)], Bounds(depth=8)).calls
    deep = decode([said(6)], Bounds(depth=8))
    assert (deep.calls, deep.unreadable, limits(deep)) == ((), True, ["limit-depth"])
    assert not decode([said(6)], DEFAULT_BOUNDS).unreadable
    assert decode([said(MAX_DEPTH)], DEFAULT_BOUNDS).unreadable


def test_arguments_that_are_a_text_count_as_deep_as_they_are() -> None:
    inner = json.dumps({"n": json.loads("[" * 20 + "]" * 20)})
    part = Part.of_data({"tool_call": {"name": "book", "arguments": inner}})
    assert decode([part], DEFAULT_BOUNDS).calls
    assert decode([part], Bounds(depth=8)).unreadable


# --- calls, parts, CPU ---


@in_one_test("dialect", ["auto", "sierra"])
def test_calls_beyond_the_limit_are_not_carried_out(dialect: str) -> None:
    every = {"tool_calls": [call(n) for n in range(3_000)]}
    reply = decode([Part.of_data(every), Part.of_text(json.dumps({"tool_calls": [call(-1)]}))], DEFAULT_BOUNDS, dialect)
    assert [c.arguments["n"] for c in reply.calls] == list(range(64))
    assert not reply.unreadable
    [finding] = [f for f in reply.findings if f.rule == "limit-calls"]
    assert finding.message.startswith("the reply has 3001 calls; only the first 64")


def test_parts_beyond_the_limit_are_not_read() -> None:
    parts = [Part.of_text("a"), Part.of_text("b"), Part.of_data({"tool_calls": [call()]})]
    reply = decode(parts, Bounds(parts=2))
    assert (reply.text, reply.calls, limits(reply)) == ("a\nb", (), ["limit-parts"])
    assert limits(decode(parts, Bounds(parts=3))) == []
    org = [Part.of_text("hm"), Part.of_data({"action": "x"})]
    assert limits(dialects.get("crm_action").decode_reply(org, ORG, Bounds(parts=1))) == ["limit-parts"]


def test_a_reply_that_takes_too_long_to_read_is_cut() -> None:
    parts = [Part.of_data({"tool_calls": [call()]}), Part.of_text("{" * 1_000)]
    reply = decode(parts, Bounds(cpu=1e-9))
    assert (reply.calls, reply.unreadable, limits(reply)) == ((), True, ["limit-cpu"])
    org = dialects.get("crm_action").decode_reply(parts, ORG, Bounds(cpu=1e-9))
    assert (org.calls, org.unreadable, limits(org)) == ((), True, ["limit-cpu"])


# --- merging ---


def merge_slowly(data: list[ToolCall], text: list[ToolCall]) -> list[ToolCall]:
    """Merge as the definition has it: each call of a text repeats a call of the data, rather one with the same id."""

    def same(one: ToolCall, other: ToolCall) -> bool:
        return (one.name, one.arguments) == (other.name, other.arguments)

    def may_echo(one: ToolCall, other: ToolCall) -> bool:
        return same(one, other) and (not one.id or not other.id or one.id == other.id)

    left, merged = list(data), list(data)
    for other in text:
        may_be = [c for c in left if may_echo(c, other)]
        if not may_be:
            merged.append(other)
            continue
        same_id = [c for c in may_be if c.id == other.id]
        left.remove((same_id or sorted(may_be, key=lambda c: [d.id for d in data if same(d, c)].index(c.id)))[-1])
    return merged


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-1, 2) | st.sampled_from([0.0, 1.0, 1.5, "", "a"]),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from("ab"), inner, max_size=2),
    max_leaves=4,
)
CALLS = st.lists(
    st.builds(
        ToolCall,
        st.sampled_from("xy"),
        st.dictionaries(st.just("n"), JSON, max_size=1),
        st.sampled_from(["", "1", "2"]),
    ),
    max_size=8,
)


@given(CALLS, CALLS)
def test_merging_is_what_its_definition_says(data: list[ToolCall], text: list[ToolCall]) -> None:
    assert merge_calls(data, text) == merge_slowly(data, text)


def test_merging_many_calls_compares_few() -> None:
    """Twenty thousand calls took 51 s of CPU when each was compared with each."""

    class Name(str):
        compared = 0

        def __eq__(self, other: object) -> bool:
            Name.compared += 1
            return str.__eq__(self, other)

        __hash__ = str.__hash__

    data = [ToolCall(Name("book"), {"n": n}) for n in range(2_000)]
    text = [ToolCall(Name("book"), {"n": n}) for n in reversed(range(2_000))]
    assert merge_calls(data, text) == data
    assert Name.compared < 20_000
