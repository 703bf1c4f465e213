from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

import pytest
from examples import examples
from hypothesis import given, settings
from hypothesis import strategies as st

from pytest_a2a_bench.a2a.card import parse_card
from pytest_a2a_bench.chaos.calls import Call, read_http_call
from pytest_a2a_bench.chaos.distort import distorted, edit_event, edit_json, sse_events
from pytest_a2a_bench.chaos.doorplate import Doorplate, find_places
from pytest_a2a_bench.chaos.frames import StreamEnds

MESSAGE = {"message": {"messageId": "m-1"}}


def rpc(method: str) -> bytes:
    return json.dumps({"jsonrpc": "2.0", "id": 1, "method": method, "params": MESSAGE}).encode()


@pytest.mark.parametrize(
    ("method", "target", "body", "expected"),
    [
        ("POST", "/", rpc("SendMessage"), Call("jsonrpc", "SendMessage", "send", "m-1", begins=True)),
        ("POST", "/x", rpc("message/stream"), Call("jsonrpc", "message/stream", "send", "m-1", begins=True)),
        ("POST", "/", rpc("tasks/get"), Call("jsonrpc", "tasks/get", "task", "m-1")),
        ("POST", "/", rpc("tasks/cancel"), Call("jsonrpc", "tasks/cancel", "other", "m-1")),
        (
            "POST",
            "/rest/message:send",
            json.dumps(MESSAGE).encode(),
            Call("rest", "POST /rest/message:send", "send", "m-1", begins=True),
        ),
        ("POST", "/v1/message:stream?x=1", b"nonsense", Call("rest", "POST /v1/message:stream", "send", begins=True)),
        ("GET", "/v1/tasks/t-1?historyLength=1", b"", Call("rest", "GET /v1/tasks/t-1", "task")),
        ("POST", "/tasks/t-1:cancel", b"{}", Call("http", "POST /tasks/t-1:cancel", "other")),
        ("GET", "/a/.well-known/agent-card.json", b"", Call("http", "GET /a/.well-known/agent-card.json", "card")),
        ("POST", "/", b"[" * 100_000, Call("http", "POST /", "other")),
    ],
)
def test_a_request_is_read(method: str, target: str, body: bytes, expected: Call) -> None:
    assert read_http_call(method, target, body) == expected


async def given_in(pieces: list[bytes]) -> AsyncIterator[bytes]:
    for piece in pieces:
        yield piece


@given(st.lists(st.sampled_from([b"data: a\n\n", b"data: bb\r\n\r\n", b": ping\n\n"])), st.integers(1, 7))
@settings(max_examples=examples(100))
def test_events_are_split_where_they_end_however_they_come(events: list[bytes], size: int) -> None:
    whole = b"".join(events)

    async def split() -> list[bytes]:
        chunks = [whole[at : at + size] for at in range(0, len(whole), size)]
        return [event async for event in sse_events(given_in(chunks))]

    assert asyncio.run(split()) == events


def through(fault: str | None, pieces: list[bytes], *, stream: bool = True) -> tuple[list[bytes], int]:
    """Return what comes out, and how often the fault was noted."""
    notes: list[None] = []

    async def hang() -> None:
        pass

    async def collect() -> list[bytes]:
        made = distorted(
            fault,
            given_in(pieces),
            stream=stream,
            edit=lambda piece: edit_event(fault or "", piece),
            note=lambda: notes.append(None),
            hang=hang,
        )
        return [piece async for piece in made]

    return asyncio.run(collect()), len(notes)


@pytest.mark.parametrize(
    ("fault", "expected", "noted"),
    [
        (None, [b"11", b"22", b"33"], False),
        ("duplicate", [b"11", b"11", b"22", b"22", b"33", b"33"], True),
        ("reorder", [b"22", b"11", b"33"], True),
        ("truncate", [b"11", b"22", b"3"], True),
        ("hang-after", [b"11", b"22", b"33"], True),
        ("wrong-id", [b"11", b"22", b"33"], False),
    ],
)
def test_a_stream_is_distorted(fault: str | None, expected: list[bytes], noted: bool) -> None:
    found, notes = through(fault, [b"11", b"22", b"33"])

    assert found == expected
    assert bool(notes) is noted


def test_what_does_not_fit_is_not_said_to_have_happened() -> None:
    assert through("reorder", [b"1"]) == ([b"1"], 0)
    assert through("duplicate", [b"1"], stream=False) == ([b"1"], 0)
    assert through("truncate", []) == ([], 0)


STATUS = {"message": {"taskId": "t", "parts": [{"taskId": "x"}]}}
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

    assert json.loads(edit_json(fault, text.encode())) == json.loads(expected)
    assert edit_event(fault, f"id: 1\ndata: {text}\n\n".encode()).startswith(b"id: 1\ndata: {")
    assert edit_json(fault, b'"plain"') == b'"plain"'


def test_a_card_gets_our_addresses_in_every_form() -> None:
    raw = {
        "name": "n",
        "url": "https://agent.example/a2a",
        "additionalInterfaces": [{"url": "agent.example:50051", "transport": "GRPC"}],
        "supportedInterfaces": [
            {"url": "/rel", "protocolBinding": "JSONRPC", "protocolVersion": "1.0"},
            {"url": "https://other.example:8443/r?k=1", "protocolBinding": "HTTP+JSON", "protocolVersion": "1.0"},
            {"url": "https://agent.example:50051", "protocolBinding": "GRPC", "protocolVersion": "1.0"},
        ],
        "signatures": [{"signature": "s"}],
    }
    card = parse_card(raw, "https://agent.example/.well-known/agent-card.json")
    places = find_places(card)
    ours = {origin: f"http://127.0.0.1:{number}" for number, origin in enumerate(places.origins, 1)}
    plate = Doorplate(card.url, ours, {t.address: "127.0.0.1:9" for t in places.targets})
    written = json.loads(plate.rewrite(json.dumps(raw).encode()))

    assert places.origins == ("https://agent.example", "https://other.example:8443")
    assert written == {
        "name": "n",
        "url": "http://127.0.0.1:1/a2a",
        "additionalInterfaces": [{"url": "127.0.0.1:9", "transport": "GRPC"}],
        "supportedInterfaces": [
            {"url": "http://127.0.0.1:1/rel", "protocolBinding": "JSONRPC", "protocolVersion": "1.0"},
            {"url": "http://127.0.0.1:2/r?k=1", "protocolBinding": "HTTP+JSON", "protocolVersion": "1.0"},
            {"url": "http://127.0.0.1:9", "protocolBinding": "GRPC", "protocolVersion": "1.0"},
        ],
    }
    assert json.loads(plate.rewrite(json.dumps({"jsonrpc": "2.0", "result": raw}).encode()))["result"] == written
    assert plate.rewrite(b"<html>") == b"<html>"


def frame(kind: int, flags: int, payload: bytes) -> bytes:
    return len(payload).to_bytes(3) + bytes([kind, flags]) + (1).to_bytes(4) + payload


@given(st.lists(st.tuples(st.integers(0, 9), st.integers(0, 255), st.binary(max_size=20))), st.integers(1, 11))
@settings(max_examples=examples(100))
def test_ends_of_streams_are_seen_however_the_bytes_come(frames: list[tuple[int, int, bytes]], size: int) -> None:
    data = b"".join(frame(*f) for f in frames)
    ends = StreamEnds()

    assert sum(ends.feed(data[at : at + size]) for at in range(0, len(data), size)) == sum(
        kind in (0, 1) and flags & 1 for kind, flags, _ in frames
    )
