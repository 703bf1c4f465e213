import json
import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from one_test import in_one_test

from pytest_a2a_bench.a2a.bodies import excerpt, parse_json
from pytest_a2a_bench.a2a.codec import (
    Form,
    InMessage,
    InTask,
    OutMessage,
    StatusUpdate,
    read_event,
    read_part,
    read_state,
    read_task,
    write_part,
    write_send,
)
from pytest_a2a_bench.errors import ProtocolError
from pytest_a2a_bench.model import Part

FORMS: tuple[Form, ...] = ("1.0", "0.3", "0.3-proto")
MESSAGE = OutMessage("m1", (Part.of_text("hi"),), "c1", "t1", {"k": 1})


def test_writing_in_each_form() -> None:
    assert write_send(MESSAGE, "1.0", "acme") == {
        "message": {
            "messageId": "m1",
            "role": "ROLE_USER",
            "parts": [{"text": "hi"}],
            "contextId": "c1",
            "taskId": "t1",
            "metadata": {"k": 1},
        },
        "configuration": {"acceptedOutputModes": ["text/plain", "application/json"]},
        "tenant": "acme",
    }
    assert write_send(OutMessage("m1", (Part.of_text("hi"),)), "0.3", "acme") == {
        "message": {"kind": "message", "messageId": "m1", "role": "user", "parts": [{"kind": "text", "text": "hi"}]},
        "configuration": {"acceptedOutputModes": ["text/plain", "application/json"], "blocking": True},
    }
    message = write_send(OutMessage("m1", (Part.of_text("hi"), Part.of_data({"a": 1}))), "0.3-proto")["message"]
    assert message == {
        "messageId": "m1",
        "role": "ROLE_USER",
        "content": [{"text": "hi"}, {"data": {"data": {"a": 1}}}],
    }


parts = st.one_of(
    st.builds(Part.of_text, st.text()),
    st.builds(Part.of_data, st.dictionaries(st.text(), st.one_of(st.integers(), st.text(), st.none()))),
    st.builds(lambda u, n: Part("url", url=u, filename=n, media_type="a/b"), st.text(min_size=1), st.text(min_size=1)),
    st.builds(lambda r: Part("raw", raw=r, metadata={"m": 1}), st.text(min_size=1)),
)


@given(parts, st.sampled_from(FORMS))
def test_any_part_comes_back_equal(part: Part, form: Form) -> None:
    assert read_part(json.loads(json.dumps(write_part(part, form))), form) == part


@given(st.one_of(st.integers(), st.text(), st.booleans(), st.lists(st.integers())))
def test_data_that_is_no_object(value: Any) -> None:
    assert read_part(write_part(Part.of_data(value), "1.0"), "1.0") == Part.of_data(value)
    for form in FORMS[1:]:
        assert read_part(write_part(Part.of_data(value), form), form) == Part.of_data({"value": value})


@in_one_test("form", FORMS)
@in_one_test(
    "raw",
    [
        {"message": {"role": "ROLE_AGENT", "parts": [{"text": "hi"}], "contextId": "c"}},
        {"task": None, "message": {"role": 2, "parts": [{"text": "hi", "data": None, "url": None}], "contextId": "c"}},
        {"msg": {"role": "agent", "content": [{"text": "hi"}], "context_id": "c"}},
        {
            "kind": "message",
            "role": "agent",
            "parts": [{"kind": "text", "text": "hi", "metadata": None}],
            "contextId": "c",
        },
        {
            "role": "agent",
            "parts": [{"type": "text", "text": "hi"}],
            "contextId": "c",
            "taskId": None,
            "metadata": None,
        },
        {"role": "agent", "parts": "hi", "contextId": "c"},
    ],
)
def test_message_shapes(raw: Any, form: Form) -> None:
    assert read_event(raw, form) == InMessage("agent", (Part.of_text("hi"),), "c")


@in_one_test(
    "raw",
    [
        {"task": {"id": "t", "contextId": "c", "status": {"state": "TASK_STATE_SUBMITTED"}}},
        {"id": "t", "context_id": "c", "kind": "task", "status": {"state": "submitted", "timestamp": "2026"}},
        {"id": "t", "contextId": "c", "status": {"state": 1, "message": None}, "artifacts": None, "history": None},
        {"id": "t", "contextId": "c", "status": "submitted", "artifacts": [None], "metadata": None},
    ],
)
def test_task_shapes(raw: Any) -> None:
    assert read_task(raw, "1.0") == InTask("t", "c", "submitted")


def test_update_shapes() -> None:
    status = {"taskId": "t", "contextId": "c", "status": {"state": "working"}, "final": False}
    for raw in ({"statusUpdate": status}, {"kind": "status-update", **status}, status):
        assert read_event(raw, "0.3") == StatusUpdate("t", "c", "working")
    artifact = {"taskId": "t", "artifact": {"artifactId": "a", "parts": [{"text": "x"}]}, "append": True}
    for raw in ({"artifactUpdate": artifact}, {"kind": "artifact-update", **artifact}, artifact):
        event = read_event(raw, "1.0")
        assert event.append  # type: ignore[union-attr]
        assert event.artifact.parts == (Part.of_text("x"),)  # type: ignore[union-attr]


def test_data_of_the_proto_form_is_unwrapped_only_there() -> None:
    nested = {"data": {"data": {"a": 1}}}
    assert read_part(nested, "0.3-proto") == Part.of_data({"a": 1})
    assert read_part(nested, "1.0") == Part.of_data({"data": {"a": 1}})
    assert read_part({"kind": "data", **nested}, "0.3-proto") == Part.of_data({"data": {"a": 1}})


@in_one_test("raw", [None, 3, "text", [], {}, {"answer": 42}, {"kind": "novel"}, {"task": 3}])
def test_invalid_events_are_protocol_errors(raw: Any) -> None:
    with pytest.raises(ProtocolError):
        read_event(raw, "1.0")


def test_a_message_is_not_a_task() -> None:
    with pytest.raises(ProtocolError, match="expected a task"):
        read_task({"message": {"parts": []}}, "1.0")


@in_one_test(
    ("raw", "state"),
    [
        ("TASK_STATE_INPUT_REQUIRED", "input-required"),
        ("TASK_STATE_CANCELLED", "canceled"),
        ("input_required", "input-required"),
        ("Completed", "completed"),
        (3, "completed"),
        ("unknown", None),
        ("TASK_STATE_UNSPECIFIED", None),
        (0, None),
        (99, None),
        (True, None),
        (None, None),
    ],
)
def test_states(raw: Any, state: str | None) -> None:
    assert read_state(raw) == state


@in_one_test("body", [b"NaN", b"[Infinity]", b"-Infinity", b"[" * 200_000, b"\xff", b""])
def test_unsafe_json_is_refused(body: bytes) -> None:
    with pytest.raises(ProtocolError):
        parse_json(body)


def test_what_python_cannot_hold_is_read_as_near_as_it_can_be() -> None:
    assert parse_json(b"[-1, 12, -" + b"1" * 5_000 + b"]") == [-1, 12, -math.inf]
    assert parse_json(rb'{"\ud83d": ["\ud83d", "\ud83d\ude00"]}') == {"\ufffd": ["\ufffd", "\U0001f600"]}


def test_excerpt_is_bounded_and_printable() -> None:
    assert excerpt(b"a\x1b[31m\xff" + b"x" * 999, 10) == "'a\\x1b[31m\ufffdxxx'..."
