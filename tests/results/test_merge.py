"""Parts of a run: what is in each, what makes them one question, and what the manifest of joined parts says."""

import dataclasses
import json
from pathlib import Path
from typing import Any

import pytest
from commands import run
from finished_runs import write_run
from hypothesis import given
from hypothesis import strategies as st
from made_trials import made_trial
from one_test import in_one_test

from pytest_a2a_bench.config.settings import Settings
from pytest_a2a_bench.config.values import Shard, shard_of
from pytest_a2a_bench.results import manifest
from pytest_a2a_bench.results.manifest import WITHOUT_EFFECT, WITHOUT_EFFECT_BY_DEFAULT, fingerprint, question
from pytest_a2a_bench.results.merge import MergeError, merge

KEYS = ("crmarena/mini/1#0", "crmarena/mini/2#0", "crmarena/mini/3#0")
CATEGORIES = {"crmarena/mini/1": "handle_time", "crmarena/mini/2": "handle_time", "crmarena/mini/3": "knowledge_qa"}


def test_the_whole_knows_what_the_tasks_of_every_part_are_about_and_a_damaged_one_counts(tmp_path: Path) -> None:
    parts = []
    for number, keys in enumerate((KEYS[:1], KEYS[1:])):
        trials = [made_trial(key, category=CATEGORIES[key.partition("#")[0]]) for key in keys]
        part = write_run(tmp_path / f"part{number}", trials, run_id=f"run{number}")
        # Each knows what its own tasks are about.
        own = {task: CATEGORIES[task] for task in (key.partition("#")[0] for key in keys)}
        dataclasses.replace(manifest.load(part), whole=KEYS, categories=own).write(part)
        parts.append(part)
    merged = tmp_path / "whole"
    merge(parts, merged)
    assert manifest.load(merged).categories == CATEGORIES
    (damaged,) = (path for path in (merged / "trials").iterdir() if json.loads(path.read_text())["key"] == KEYS[1])
    damaged.write_text("{")
    _, out, _ = run("gate", merged, "--min-pass", "crmarena/mini/handle_time=0.9")
    assert "1 of 2 trials succeeded" in out


@pytest.mark.slow
@pytest.mark.parametrize(
    ("first", "second", "refused"),
    [
        ("https://a.example/agent", "https://b.example/agent", True),
        ("https://a.example/agent", "https://a.example/agent/", False),
        # Each machine has an agent of its own there.
        ("http://127.0.0.1:9000", "http://localhost:9001", False),
        ("http://127.0.0.1:9000", "https://a.example/agent", True),
        ("builtin:oracle", "builtin:echo", True),
    ],
)
def test_parts_of_different_endpoints_are_not_one_run(tmp_path: Path, first: str, second: str, refused: bool) -> None:
    parts = []
    for number, (keys, endpoint) in enumerate(((KEYS[:1], first), (KEYS[1:], second))):
        part = write_run(tmp_path / f"part{number}", [made_trial(key) for key in keys], run_id=f"run{number}")
        dataclasses.replace(manifest.load(part), whole=KEYS, endpoint=endpoint).write(part)
        parts.append(part)
    if refused:
        with pytest.raises(MergeError, match=f"endpoint differs: '{first}' in .*, '{second}' in "):
            merge(parts, tmp_path / "whole")
    else:
        merge(parts, tmp_path / "whole")


def test_every_reason_against_joining_is_given(tmp_path: Path) -> None:
    one = write_run(tmp_path / "one", [made_trial(KEYS[0])], absent=KEYS[1:2])
    two = write_run(tmp_path / "two", [made_trial(KEYS[0])])
    for part in (one, two):
        dataclasses.replace(manifest.load(part), whole=KEYS).write(part)
    with pytest.raises(MergeError) as refused:
        merge([one, two], tmp_path / "whole")
    assert str(refused.value).removeprefix("not merged: ").split("; ") == [
        f"1 trial is in several directories, {one} and {two}: {KEYS[0]}",
        f"1 trial is in none of the directories (shards given: the whole, the whole): {KEYS[2]}",
        f"{one} has no result of its run for 1 trial: {KEYS[1]}",
    ]


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
    names = {field.name for field in dataclasses.fields(Settings)}
    assert names >= WITHOUT_EFFECT
    # Results from before there was an option stay good where it has its default.
    old = names - WITHOUT_EFFECT - WITHOUT_EFFECT_BY_DEFAULT
    assert question(base, "", "").keys() == {*old, "user_kind", "user_llm", "where", "agent", "package"}


def test_credentials_in_the_endpoint_make_no_difference_but_its_query_may_choose_the_agent() -> None:
    def of(endpoint: str) -> str:
        return fingerprint(Settings(endpoint=endpoint), "", "")

    assert of("http://me:secret@a.example/x") == of("http://a.example/x/")
    assert of("http://a.example/x?model=1") != of("http://a.example/x?model=2")
