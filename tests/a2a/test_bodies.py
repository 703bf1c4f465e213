from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_a2a_bench.a2a.bodies import ServerSentEvent, SSEParser
from pytest_a2a_bench.errors import ProtocolError

line = st.text(st.characters(exclude_characters="\r\n", exclude_categories=["Cs"]), max_size=12)
data = st.lists(line, min_size=1, max_size=3).map("\n".join)


def feed(stream: bytes, cuts: list[int], limit: int = 10_000) -> list[ServerSentEvent]:
    parser = SSEParser(limit)
    edges = [0, *sorted({c % (len(stream) + 1) for c in cuts}), len(stream)]
    events = [e for a, b in itertools.pairwise(edges) for e in parser.feed(stream[a:b])]
    return events + parser.close()


@given(st.lists(data, max_size=5), st.sampled_from(["\n", "\r\n", "\r"]), st.lists(st.integers(0), max_size=20))
def test_events_survive_any_cutting_and_line_ending(payloads: list[str], ending: str, cuts: list[int]) -> None:
    blocks = [[": note", "id: 7", *(f"data: {part}" for part in payload.split("\n")), ""] for payload in payloads]
    stream = "".join(f"{text}{ending}" for block in blocks for text in block).encode()
    assert [e.data for e in feed(stream, cuts)] == payloads


@given(st.binary(max_size=200), st.lists(st.integers(0), max_size=20))
def test_any_bytes_in_any_pieces_read_the_same(stream: bytes, cuts: list[int]) -> None:
    def outcome(where: list[int]) -> object:
        try:
            return feed(stream, where)
        except ProtocolError:
            return "unreadable"

    assert outcome(cuts) == outcome([])


def test_names_comments_and_empty_events() -> None:
    stream = b"\xef\xbb\xbfevent: error\ndata:{}\n\n: comment\n\nevent: nothing\n\ndata\ndata: x\n\n"
    assert feed(stream, []) == [ServerSentEvent("{}", "error"), ServerSentEvent("\nx")]


def test_last_event_without_its_blank_line_counts() -> None:
    assert [e.data for e in feed(b"data: 1\n\ndata: 2", [])] == ["1", "2"]


@pytest.mark.parametrize("stream", [b"data: " + b"x" * 200, b"data: xxxxxxxxx\n" * 20])
def test_too_large_events(stream: bytes) -> None:
    with pytest.raises(ProtocolError, match="larger than 100 bytes"):
        feed(stream, [], limit=100)


def test_invalid_utf8() -> None:
    with pytest.raises(ProtocolError, match="not UTF-8"):
        feed(b"data: \xff\n\n", [])
