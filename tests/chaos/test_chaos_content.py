import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

import pytest
from examples import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from one_test import in_one_test

from pytest_a2a_bench.chaos import FAULTS, Call, change_ids, distort, parse_faults, read_call, split_events
from pytest_a2a_bench.errors import ConfigurationError

MESSAGE = {"message": {"messageId": "m-1"}}


def rpc(method: str) -> bytes:
    return json.dumps({"jsonrpc": "2.0", "id": 1, "method": method, "params": MESSAGE}).encode()


@in_one_test(
    ("method", "target", "body", "expected"),
    [
        ("POST", "/", rpc("SendMessage"), Call("SendMessage", "send", "m-1", begins=True)),
        ("POST", "/x", rpc("message/stream"), Call("message/stream", "send", "m-1", begins=True)),
        ("POST", "/", rpc("tasks/get"), Call("tasks/get", "task", "m-1")),
        ("POST", "/", rpc("tasks/cancel"), Call("tasks/cancel", "other", "m-1")),
        (
            "POST",
            "/rest/message:send",
            json.dumps(MESSAGE).encode(),
            Call("POST /rest/message:send", "send", "m-1", begins=True),
        ),
        ("POST", "/v1/message:stream?x=1", b"nonsense", Call("POST /v1/message:stream", "send", begins=True)),
        ("GET", "/v1/tasks/t-1?historyLength=1", b"", Call("GET /v1/tasks/t-1", "task")),
        ("POST", "/tasks/t-1:cancel", b"{}", Call("POST /tasks/t-1:cancel", "other")),
        ("GET", "/a/.well-known/agent-card.json", b"", Call("GET /a/.well-known/agent-card.json", "card")),
        ("POST", "/", b"[" * 100_000, Call("POST /", "other")),
    ],
)
def test_a_request_is_read(method: str, target: str, body: bytes, expected: Call) -> None:
    assert read_call(method, target, body) == expected


async def given_in(pieces: list[bytes]) -> AsyncIterator[bytes]:
    for piece in pieces:
        yield piece


@given(st.lists(st.sampled_from([b"data: a\n\n", b"data: bb\r\n\r\n", b": ping\n\n"])), st.integers(1, 7))
@settings(max_examples=examples(100))
def test_events_are_split_where_they_end_however_they_come(events: list[bytes], size: int) -> None:
    whole = b"".join(events)

    async def split() -> list[bytes]:
        chunks = [whole[at : at + size] for at in range(0, len(whole), size)]
        return [event async for event in split_events(given_in(chunks))]

    assert asyncio.run(split()) == events


STREAM = [b"11", b"22", b"33"]


@in_one_test(
    ("fault", "pieces", "is_stream", "expected"),
    [
        ("", STREAM, True, STREAM),
        ("duplicate", STREAM, True, [b"11", b"11", b"22", b"22", b"33", b"33"]),
        ("reorder", STREAM, True, [b"22", b"11", b"33"]),
        ("truncate", STREAM, True, [b"11", b"22", b"3"]),
        ("wrong-id", STREAM, True, STREAM),
        # What does not fit changes nothing.
        ("reorder", [b"1"], True, [b"1"]),
        ("duplicate", [b"1"], False, [b"1"]),
        ("truncate", [], True, []),
    ],
)
def test_an_answer_is_distorted(fault: str, pieces: list[bytes], is_stream: bool, expected: list[bytes]) -> None:
    assert distort(fault, pieces, is_stream=is_stream) == expected


@pytest.mark.parametrize(
    ("texts", "complaint"),
    [
        (["rest=0.1"], "there is no fault 'rest'; did you mean 'reset'"),
        (["reset=2"], "--fault reset=2: give a probability from 0 to 1"),
        (["reset"], "--fault reset=: give a probability"),
        (["reset=nan"], "give a probability"),
        (["reset=0.6", "503=0.6"], "the probabilities sum to 1.2; a request meets one fault at most"),
    ],
)
def test_wrong_faults_are_reported(texts: list[str], complaint: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        parse_faults(texts)
    assert complaint in str(caught.value)


def test_ten_tenths_are_one() -> None:
    names = list(FAULTS)[:10]
    assert parse_faults([f"{name}=0.1" for name in names]) == dict.fromkeys(names, 0.1)


TASK: dict[str, Any] = {
    "jsonrpc": "2.0",
    "id": 5,
    "result": {
        "task": {"id": "t", "contextId": "c", "status": {"message": {"taskId": "t", "parts": [{"taskId": "x"}]}}}
    },
}


@pytest.mark.parametrize(
    ("fault", "changed"),
    [
        ("wrong-id", [("id", "chaos-5")]),
        ("wrong-context", [("contextId", "chaos-c")]),
        ("wrong-task", [("id", "chaos-t"), ("taskId", "chaos-t")]),
    ],
)
def test_ids_are_changed_and_nothing_else(fault: str, changed: list[tuple[str, str]]) -> None:
    text = json.dumps(TASK)
    expected = text
    for name, value in changed:
        old = '"id": 5' if value == "chaos-5" else f'"{name}": "{value.removeprefix("chaos-")}"'
        expected = expected.replace(old, f'"{name}": "{value}"')

    assert json.loads(change_ids(fault, text.encode())) == json.loads(expected)
    event = change_ids(fault, f"id: 1\ndata: {text}\n\n".encode())
    assert json.loads(event.removeprefix(b"data: ")) == json.loads(expected)
    assert change_ids(fault, b'"plain"') == b'"plain"'
