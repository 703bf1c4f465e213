from __future__ import annotations

from typing import Any

import pytest
from one_test import in_one_test

from pytest_a2a_bench.conformance.acts.assertions import (
    mismatches,
    named_mismatches,
    sentence,
    stream_mismatches,
    view,
)
from pytest_a2a_bench.conformance.acts.document import CollectionMatch, ExpectStream, NamedAssertion
from pytest_a2a_bench.conformance.acts.values import MISSING, Scope, Unresolved, Until, at, every_at

TASK = {"task": {"id": "t", "status": {"state": "TASK_STATE_WORKING"}, "artifacts": [{"parts": [{"text": "a"}, {}]}]}}


def wrong(assertion: Any, value: Any) -> list[str]:
    return [sentence(one) for one in mismatches(assertion, value)]


@in_one_test(
    ("assertion", "value"),
    [
        ({"task": {"id": {"type": "string"}, "message": {"absent": True}}}, TASK),
        ({"task": {"artifacts": [{"parts": [{"text": "a"}]}]}}, TASK),
        ({"task": {"artifacts": {"type": "array", "count": 1, "items": {"parts": {"count_gte": 2}}}}}, TASK),
        # Members that are called as operators are.
        ({"type": {"type": "string"}, "title": {"exists": True}}, {"type": "about:blank", "title": "x"}),
        ({"any_of": [{"error": {"exists": True}}, {"title": {"type": "string"}}]}, {"title": "x"}),
        ({"one_of": ["a", {"b": 1}]}, {"b": 1}),
        ({"not": {"contains": "x"}, "starts_with": "a", "ends_with": "c", "matches": "^a.c$"}, "abc"),
        ({"gte": 1, "lte": 1, "gt": 0, "lt": 2, "type": "number"}, 1),
        ({"contains": "a"}, ["a"]),
        ({"a": None}, {"a": None}),
        ({"a": {}, "b": {}}, {"a": {}, "b": 1}),
        ({"a": {"any_of": [{"absent": True}, {"type": "null"}]}}, {}),
    ],
)
def test_it_holds(assertion: Any, value: Any) -> None:
    assert wrong(assertion, value) == []


@in_one_test(
    ("assertion", "value", "expected"),
    [
        ({"task": {"status": {"state": "X"}}}, TASK, ["task.status.state is 'TASK_STATE_WORKING'"]),
        ({"task": {"name": {"exists": True}}}, TASK, ["task.name is missing"]),
        ({"a": {"b": {"c": 1}}}, {"a": 2}, ["a.b.c is missing"]),
        ({"a": 1}, {"a": True}, ["a is True"]),
        ({"type": "number"}, True, ["the answer is True"]),
        ([1, 2], [1], ["[1] is missing"]),
        ({"a": [{"id": 1, "b": {"c": 2}}, {"absent": True}]}, {"a": []}, ["a[0] is missing"]),
        ({"items": [{"id": 1}]}, {}, ["the answer is {}"]),
        ({"count": 1}, {"count": 1}, ["the answer is {'count': 1}"]),
        ({"all_of": [{"type": "string"}, "b"]}, "a", ["the answer is 'a'"]),
        ({"gte": 2}, "3", ["the answer is '3'"]),
        ({"a": None}, {}, ["a is missing"]),
        ({"task": {}}, {"message": {}}, ["task is missing"]),
        ({"a": {"b": {}}}, {"a": {}}, ["a.b is missing"]),
    ],
)
def test_it_does_not_hold(assertion: Any, value: Any, expected: list[str]) -> None:
    assert wrong(assertion, value) == expected


@pytest.mark.parametrize(
    ("kind", "path", "match", "holds"),
    [
        ("any", "task.artifacts[*].parts[*]", {"text": "a"}, True),
        ("any", "task.artifacts[*].parts[*]", {"text": "b"}, False),
        ("all", "task.artifacts[*].parts[*]", {"text": "a"}, False),
        ("all", "task.nothing[*]", {"text": "a"}, False),
        ("none", "task.artifacts[*].parts[*]", {"text": "b"}, True),
        ("none", "task.artifacts[0].parts[0]", {"text": "a"}, False),
    ],
)
def test_collections(kind: str, path: str, match: Any, holds: bool) -> None:
    collection: dict[str, Any] = {kind: CollectionMatch(path=path, match=match)}
    assertion = NamedAssertion(source="s", **collection)
    assert (named_mismatches(assertion, TASK) == []) is holds


def test_paths() -> None:
    assert at(TASK, "task.artifacts[0].parts[0].text") == "a"
    assert at(TASK, "task.artifacts[1]") is MISSING
    assert every_at(TASK, "task.artifacts[*].parts[*].text") == ["a"]
    with pytest.raises(ValueError, match="is no path"):
        at(TASK, "task..id")


@pytest.mark.parametrize(
    ("text", "holds"),
    [
        ("task.status.state == TASK_STATE_WORKING", True),
        ("task.status.state in [A, 'TASK_STATE_WORKING']", True),
        ("task.status.state != TASK_STATE_WORKING", False),
        ("task.name == x", False),
        ("task.name != x", True),
    ],
)
def test_conditions(text: str, holds: bool) -> None:
    assert Until(text).holds(TASK) is holds


def test_references() -> None:
    environment = {"TOKEN": "secret"}
    scope = Scope({"base": "{{own}}/x", "loop": "{{loop}}"}, {"own": "http://a"}, environment.get)
    scope.add("get", "response", TASK)
    scope.add("get", "count", 3)
    filled = scope.fill({"a": "{{get.count}}", "b": ["{{base}} {{env.TOKEN}}"], "c": "{{get.response.task.id}}"})
    assert filled == {"a": 3, "b": ["http://a/x secret"], "c": "t"}
    assert scope.fill("{{$uuid}}") != scope.fill("{{$uuid}}")
    assert scope.source("get.response.task.artifacts[0]") == TASK["task"]["artifacts"][0]  # type: ignore[index]
    for text, expected in (("{{nobody}}", "nothing gives {{nobody}}"), ("{{get.other}}", "has captured no other")):
        with pytest.raises(Unresolved, match=expected):
            scope.fill(text)
    with pytest.raises(Unresolved):
        scope.fill("{{loop}}")


def status(state: str) -> Any:
    return view({"statusUpdate": {"taskId": "t", "status": {"state": f"TASK_STATE_{state}"}}})


def test_events_of_a_stream() -> None:
    events = [view({"task": {"id": "t"}}), status("WORKING"), status("COMPLETED")]
    right = ExpectStream(
        min_count=3,
        max_count=3,
        ordering="monotonic_state",
        events=[{"task": {"id": "t"}}, {"match": "any_position", "status": {"state": "TASK_STATE_COMPLETED"}}],
        final_event={"one_of": [{"task": {}}, {"status_update": {"taskId": "t"}}]},
    )
    assert stream_mismatches(right, events) == []
    strict = ExpectStream(min_count=4, each_event={"status": {"exists": True}}, events=[{"index": 5, "task": {}}])
    assert [sentence(one) for one in stream_mismatches(strict, events)] == [
        "the stream is 3 events",
        "event 5 is not there",
        "event 0.status is missing",
    ]
    message = ExpectStream(final_event={"message": {"exists": True}})
    assert stream_mismatches(message, events)
    assert stream_mismatches(message, [])
    assert not stream_mismatches(message, [view({"message": {"role": "x"}})])


@pytest.mark.parametrize(
    ("states", "ordered"),
    [
        (["SUBMITTED", "WORKING", "WORKING", "COMPLETED"], True),
        (["WORKING", "INPUT_REQUIRED", "WORKING", "COMPLETED"], True),
        (["COMPLETED", "WORKING"], False),
        (["WORKING", "SUBMITTED"], False),
    ],
)
def test_states_go_forward(states: list[str], ordered: bool) -> None:
    expect = ExpectStream(ordering="monotonic_state")
    assert (stream_mismatches(expect, [status(state) for state in states]) == []) is ordered
