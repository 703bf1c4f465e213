from __future__ import annotations

import enum
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_a2a_bench.indented import dump_indented


class Colour(enum.IntEnum):
    RED = 1


class Name(str):
    pass


leaves = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text()
    | st.sampled_from([Colour.RED, Name("x\u2028\x00\ud800"), '\x7f\\"/\n', -0.0, 1e300, 10**400])
)
names = st.text(max_size=4) | st.integers() | st.none() | st.booleans() | st.floats()
values = st.recursive(
    leaves, lambda inner: st.lists(inner) | st.tuples(inner, inner) | st.dictionaries(names, inner), max_leaves=20
)


@given(values, st.integers(0, 3))
def test_it_writes_what_the_standard_library_does(value: Any, indent: int) -> None:
    assert dump_indented(value, indent) == json.dumps(value, indent=indent, ensure_ascii=False)


def test_what_is_no_json_is_refused_in_the_same_words() -> None:
    around: list[Any] = []
    around.append(around)
    for value in ({"a": {1}}, {("a",): 1}, around):
        with pytest.raises((TypeError, ValueError, RecursionError)) as ours:
            dump_indented(value, 1)
        with pytest.raises((TypeError, ValueError, RecursionError)) as theirs:
            json.dumps(value, indent=1)
        assert str(ours.value) == str(theirs.value)
