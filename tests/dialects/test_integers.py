"""Integers that a protobuf ``Struct`` turned into floats come back by the tool's schema."""

import copy
import json
from typing import Any

from examples import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from one_test import in_one_test

from pytest_a2a_bench.dialects.integers import restore_integers

INTEGER = {"type": "integer"}
NUMBER = {"type": "number"}


def as_struct(value: Any) -> Any:
    """Do what protobuf's ``Value`` does to numbers."""
    if isinstance(value, int) and not isinstance(value, bool):
        return float(value)
    if isinstance(value, dict):
        return {k: as_struct(v) for k, v in value.items()}
    return [as_struct(v) for v in value] if isinstance(value, list) else value


def exact(value: Any) -> str:
    """Write a value so that 1, 1.0 and true differ."""
    return json.dumps(value, sort_keys=True)


def obj(**properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties}


@in_one_test(
    ("schema", "value", "wanted"),
    [
        (obj(n=INTEGER), {"n": 2.0}, {"n": 2}),
        (obj(n=INTEGER), {"n": -0.0}, {"n": 0}),
        (obj(n=NUMBER), {"n": 2.0}, {"n": 2.0}),
        (obj(n={"enum": [1, 2.0]}), {"n": 2.0}, {"n": 2.0}),
        (obj(n={"enum": [True]}), {"n": 1.0}, {"n": 1.0}),
        (obj(n={"type": "number", "multipleOf": 5}), {"n": 10.0}, {"n": 10}),
        (obj(a={"items": [NUMBER, INTEGER], "additionalItems": INTEGER}), {"a": [1.0, 1.0, 1.0]}, {"a": [1.0, 1, 1]}),
        ({"properties": {"x": NUMBER}, "additionalProperties": INTEGER}, {"n": 2.0, "x": 2.0}, {"n": 2, "x": 2.0}),
        ({"additionalProperties": True}, {"n": 2.0}, {"n": 2.0}),
        ({}, {"n": 2.0}, {"n": 2.0}),
        (True, {"n": 2.0}, {"n": 2.0}),
        ({**obj(n={"$ref": "#/$defs/a~1b%25"}), "$defs": {"a/b%": INTEGER}}, {"n": 2.0}, {"n": 2}),
        ({**obj(n={"$ref": "#/definitions/x"}), "definitions": {"x": INTEGER}}, {"n": 2.0}, {"n": 2}),
        (obj(n={"$ref": "#/$defs/nowhere"}), {"n": 2.0}, {"n": 2.0}),
        (obj(n={"$ref": "https://example.com/schema"}), {"n": 2.0}, {"n": 2.0}),
        (obj(n={"anyOf": [{"$ref": "#/properties/n"}, INTEGER]}), {"n": 2.0}, {"n": 2}),
    ],
)
def test_the_schema_decides(schema: Any, value: Any, wanted: Any) -> None:
    assert exact(restore_integers(value, schema)) == exact(wanted)


def test_only_the_branch_that_a_value_can_be_counts() -> None:
    branches = [
        {**obj(kind={"const": "weight"}, v=NUMBER), "required": ["kind", "v"]},
        {**obj(kind={"const": "count"}, v=INTEGER), "required": ["kind", "v"]},
    ]
    schema = obj(x={"anyOf": branches})
    assert exact(restore_integers({"x": {"kind": "weight", "v": 2.0}}, schema)) == '{"x": {"kind": "weight", "v": 2.0}}'
    assert exact(restore_integers({"x": {"kind": "count", "v": 2.0}}, schema)) == '{"x": {"kind": "count", "v": 2}}'
    lists = {"anyOf": [{"type": "array", "items": INTEGER}, {"type": "array", "items": NUMBER}]}
    assert exact(restore_integers([1.0, 2.5], lists)) == "[1.0, 2.5]"
    assert exact(restore_integers([1.0, 2.0], lists)) == "[1, 2]"


def test_the_copy_is_deep_and_the_original_untouched() -> None:
    value = {"a": [{"n": 1.0}]}
    before = copy.deepcopy(value)
    restored = restore_integers(value, obj(a={"items": obj(n=INTEGER)}))
    restored["a"][0]["n"] = 99
    assert exact(value) == exact(before)


def test_schemas_that_refer_to_themselves_end() -> None:
    loop: dict[str, Any] = {"$ref": "#"}
    assert restore_integers({"n": 1.0}, loop) == {"n": 1.0}
    tree = {**obj(n=INTEGER, children={"items": {"$ref": "#"}}), "required": ["n"]}
    value = as_struct({"n": 1, "children": [{"n": 2, "children": [{"n": 3}]}]})
    assert exact(restore_integers(value, tree)) == '{"children": [{"children": [{"n": 3}], "n": 2}], "n": 1}'


Pair = tuple[dict[str, Any], Any]
# "number" is given no whole values: once a float, always a float, and nothing on the wire could tell.
FRACTIONS = st.floats(allow_nan=False, allow_infinity=False).filter(lambda x: not x.is_integer())
INTEGERS = st.integers(-(2**53), 2**53)
LEAVES: st.SearchStrategy[Pair] = st.one_of(
    st.tuples(st.just({"type": "integer"}), INTEGERS),
    st.tuples(st.just({"type": "number"}), FRACTIONS),
    st.tuples(st.just({"type": ["integer", "null"]}), INTEGERS | st.none()),
    st.tuples(st.just({"type": "string"}), st.text(max_size=5)),
    st.tuples(st.just({"type": "boolean"}), st.booleans()),
    st.tuples(st.just({"anyOf": [INTEGER, NUMBER]}), INTEGERS | FRACTIONS),
    st.tuples(st.just({"enum": [1, "one", None, True]}), st.sampled_from([1, "one", None, True])),
    st.tuples(st.just({"const": 7}), st.just(7)),
)
NAMES = st.sampled_from(["a", "b", "c", "d/e", "~f"])


def _object(fields: dict[str, Pair]) -> Pair:
    schemas = {k: s for k, (s, _) in fields.items()}
    schema = {"type": "object", "properties": schemas, "required": list(fields), "additionalProperties": False}
    return schema, {k: v for k, (_, v) in fields.items()}


def _tuple(fields: list[Pair]) -> Pair:
    return {"type": "array", "prefixItems": [s for s, _ in fields], "items": False}, [v for _, v in fields]


def _extend(inner: st.SearchStrategy[Pair]) -> st.SearchStrategy[Pair]:
    return st.one_of(
        st.dictionaries(NAMES, inner, max_size=3).map(_object),
        st.lists(inner, max_size=3).map(_tuple),
        inner.map(lambda p: ({"type": "array", "items": p[0]}, [p[1], p[1]])),
        inner.map(lambda p: ({"type": "object", "additionalProperties": p[0]}, {"x": p[1]})),
        inner.map(lambda p: ({"allOf": [p[0]]}, p[1])),
        st.tuples(inner, inner).map(lambda ps: ({"anyOf": [ps[0][0], ps[1][0]]}, ps[1][1])),
        st.tuples(inner, inner).map(lambda ps: ({"oneOf": [ps[1][0], ps[0][0]]}, ps[1][1])),
    )


PAIRS = st.recursive(LEAVES, _extend, max_leaves=8)


@settings(max_examples=examples(200), deadline=None)
@given(PAIRS)
def test_any_valid_value_survives_a_struct(pair: Pair) -> None:
    schema, value = pair
    root = {"$defs": {"it~/": schema}, "properties": {"it": {"$ref": "#/$defs/it~0~1"}}}
    assert exact(restore_integers(as_struct({"it": value}), root)) == exact({"it": value})


@settings(max_examples=examples(100), deadline=None)
@given(PAIRS, st.recursive(st.none() | st.booleans() | FRACTIONS | st.text(max_size=3), st.lists, max_leaves=5))
def test_a_value_that_the_schema_does_not_know_is_left_alone(pair: Pair, value: Any) -> None:
    assert exact(restore_integers(value, pair[0])) == exact(value)
