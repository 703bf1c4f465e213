"""A protobuf message as JSON is the same by our way and by protobuf's own."""

from __future__ import annotations

from typing import Any

import pytest
from examples import examples
from hypothesis import given, settings
from hypothesis import strategies as st

pytest.importorskip("grpc")
from a2a.compat.v0_3 import a2a_v0_3_pb2
from a2a.types import a2a_pb2
from google.protobuf import json_format, struct_pb2, timestamp_pb2
from google.protobuf.descriptor import FieldDescriptor

from pytest_a2a_bench.a2a.proto_json import as_json

KINDS = [
    getattr(module, name)
    for module in (a2a_pb2, a2a_v0_3_pb2)
    for name, descriptor in module.DESCRIPTOR.message_types_by_name.items()
    if descriptor.fields
]
SCALARS: dict[int, st.SearchStrategy[Any]] = {
    FieldDescriptor.TYPE_STRING: st.text(max_size=5),
    FieldDescriptor.TYPE_BYTES: st.binary(max_size=5),
    FieldDescriptor.TYPE_BOOL: st.booleans(),
    FieldDescriptor.TYPE_ENUM: st.integers(0, 20),  # with numbers that the declaration does not know
    FieldDescriptor.TYPE_INT32: st.integers(-(2**31), 2**31 - 1),
    FieldDescriptor.TYPE_INT64: st.integers(-(2**63), 2**63 - 1),
}
TREES = st.recursive(st.none() | st.booleans() | st.integers(-9, 9) | st.text(max_size=3), st.lists, max_leaves=4)


def fill(draw: st.DrawFn, message: Any, depth: int = 0) -> None:
    """Set some of a message's fields."""
    if isinstance(message, struct_pb2.Struct):
        message.update(draw(st.dictionaries(st.text(max_size=3), TREES, max_size=2)))
    elif isinstance(message, struct_pb2.Value):
        json_format.ParseDict(draw(TREES), message)
    elif isinstance(message, timestamp_pb2.Timestamp):
        message.FromNanoseconds(draw(st.integers(0, 2**61)))
    else:
        for field in message.DESCRIPTOR.fields:
            if draw(st.booleans()):
                set_field(draw, message, field, depth)


def set_field(draw: st.DrawFn, message: Any, field: FieldDescriptor, depth: int) -> None:
    value = getattr(message, field.name)
    if field.type != FieldDescriptor.TYPE_MESSAGE:
        if field.is_repeated:
            value.extend(draw(st.lists(SCALARS[field.type], max_size=2)))
        else:
            setattr(message, field.name, draw(SCALARS[field.type]))
    elif depth > 3:
        return
    elif field.message_type.GetOptions().map_entry:
        entry = value["key"]  # a message that comes into being here, or the default of a scalar
        if field.message_type.fields_by_name["value"].type == FieldDescriptor.TYPE_MESSAGE:
            fill(draw, entry, depth + 1)
    elif field.is_repeated:
        for _ in range(draw(st.integers(0, 2))):
            fill(draw, value.add(), depth + 1)
    else:
        value.SetInParent()
        fill(draw, value, depth + 1)


@st.composite
def filled(draw: st.DrawFn, kind: Any) -> Any:
    message = kind()
    fill(draw, message)
    return message


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.DESCRIPTOR.full_name)
@settings(max_examples=examples(100))
@given(data=st.data())
def test_it_is_what_protobuf_writes(kind: Any, data: st.DataObject) -> None:
    message = data.draw(filled(kind))
    try:
        expected = json_format.MessageToDict(message)
    except json_format.SerializeToJsonError as error:
        with pytest.raises(json_format.SerializeToJsonError, match=str(error)[:20]):
            as_json(message)
        return
    assert as_json(message) == expected


def test_most_answers_need_no_other_writer(monkeypatch: pytest.MonkeyPatch) -> None:
    task = {"id": "t", "contextId": "c", "status": {"state": "TASK_STATE_COMPLETED"}, "artifacts": []}
    told = {"messageId": "m", "role": "ROLE_AGENT", "parts": [{"text": "a"}, {"text": "b"}]}
    answers = [{"task": {**task, "history": [told]}}, {"message": told}]
    messages = [json_format.ParseDict(answer, a2a_pb2.SendMessageResponse()) for answer in answers]
    monkeypatch.setattr(json_format, "MessageToDict", None)
    task.pop("artifacts")
    assert [as_json(message) for message in messages] == [{"task": {**task, "history": [told]}}, {"message": told}]
