from __future__ import annotations

import dataclasses
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from one_test import in_one_test

from pytest_a2a_bench.config.settings import Settings
from pytest_a2a_bench.config.values import Shard, shard_of
from pytest_a2a_bench.results import manifest
from pytest_a2a_bench.results.manifest import WITHOUT_EFFECT, fingerprint


@in_one_test("text", ["", "2", "auto", "0/3", "4/3", "1/0", "a/b", "-1/3", "1/3/5", "²/3"])
def test_an_invalid_part_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"I/N|counts from 1"):
        shard_of(text)


NAMES = st.lists(st.text("abcdef/#0123", min_size=1, max_size=6), unique=True, max_size=40)


@given(NAMES, st.integers(1, 7), st.data())
def test_parts_are_disjoint_complete_and_the_same_everywhere(names: list[str], total: int, data: st.DataObject) -> None:
    shuffled = data.draw(st.permutations(names))
    parts = [manifest.members(names, Shard(i + 1, total)) for i in range(total)]
    assert sum(map(len, parts)) == len(names)
    assert set().union(*parts) == set(names)
    assert max(map(len, parts)) - min(map(len, parts)) <= 1
    assert parts == [manifest.members(shuffled, Shard(i + 1, total)) for i in range(total)]


def test_a_fingerprint_changes_with_everything_that_matters_and_nothing_else() -> None:
    base = Settings(endpoint="http://a.example/x")
    reference = fingerprint(base, "agent 1", "data 1")
    other: dict[type, Any] = {str: "other", int: 77, float: 77.5, bool: None, dict: {"x": 1}, tuple: ("x",)}
    for field in dataclasses.fields(Settings):
        value = getattr(base, field.name)
        changed = not value if isinstance(value, bool) else other.get(type(value), "other")
        if field.name == "user":
            changed = "llm"
        different: dict[str, Any] = {field.name: changed}
        differs = fingerprint(dataclasses.replace(base, **different), "agent 1", "data 1") != reference
        # The endpoint and the kind of user count, in another form.
        assert differs == (field.name not in WITHOUT_EFFECT or field.name in ("endpoint", "user")), field.name
    assert fingerprint(base, "agent 2", "data 1") != reference
    assert fingerprint(base, "agent 1", "data 2") != reference
    assert fingerprint(base, "agent 1", "data 1", {"metadata": {"tenant": "b"}}) != reference
    assert fingerprint(base, "agent 1", "data 1", package="2") != reference
    assert {f.name for f in dataclasses.fields(Settings)} >= WITHOUT_EFFECT


def test_credentials_in_the_endpoint_make_no_difference_but_its_query_may_choose_the_agent() -> None:
    def of(endpoint: str) -> str:
        return fingerprint(Settings(endpoint=endpoint), "", "")

    assert of("http://me:secret@a.example/x") == of("http://a.example/x/")
    assert of("http://a.example/x?model=1") != of("http://a.example/x?model=2")
