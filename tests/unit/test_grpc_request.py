"""What is sent over gRPC without protobuf's own reader of JSON is what that would have made of it."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from pytest_a2a_bench.a2a.codec import OutMessage, write_send
from pytest_a2a_bench.a2a.grpc_wire import _as_declared
from pytest_a2a_bench.model import Part

texts = st.text(max_size=20)
parts = st.builds(
    Part, st.just("text"), text=texts, media_type=st.none() | texts, filename=st.none() | texts, metadata=st.none()
)
messages = st.builds(
    OutMessage,
    message_id=texts,
    parts=st.lists(parts, max_size=3).map(tuple),
    context_id=st.none() | texts,
    task_id=st.none() | texts,
    metadata=st.just({}),
)


@given(messages, texts)
def test_a_message_of_texts_is_what_its_json_says(message: OutMessage, tenant: str) -> None:
    from a2a.types import a2a_pb2
    from google.protobuf import json_format

    fields = write_send(message, "1.0", tenant)
    read: a2a_pb2.SendMessageRequest = json_format.ParseDict(fields, a2a_pb2.SendMessageRequest())
    assert a2a_pb2.SendMessageRequest(**_as_declared(fields)) == read
    assert len(read.message.parts) == len(message.parts)
