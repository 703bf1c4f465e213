import asyncio
import datetime
import itertools
import json
import socket
import ssl
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from a2a.types import a2a_pb2
from connections import Connect
from hypothesis import given
from hypothesis import strategies as st
from one_test import in_one_test
from raw_agent import HELLO, Request, event, raw_agent, response, rpc, stream_head
from raw_grpc import insecure_card, raw_grpc

from pytest_a2a_bench.a2a.bodies import ServerSentEvent, SSEParser
from pytest_a2a_bench.a2a.config import ClientConfig
from pytest_a2a_bench.a2a.requests import (
    Pace,
    Requests,
    RetryPolicy,
    is_repeatable,
    is_uncertain,
    parse_retry_after,
    uncertain,
)
from pytest_a2a_bench.a2a.session import AgentSession
from pytest_a2a_bench.config.values import read_pace
from pytest_a2a_bench.errors import (
    AgentOutcomeError,
    AuthenticationError,
    CardError,
    EndpointUnreachableError,
    ProtocolError,
    StreamStalledError,
    TransportError,
    TurnTimeoutError,
)
from pytest_a2a_bench.model.messages import Bounds

NOW = datetime.datetime(2026, 11, 21, 12, 0, 0, tzinfo=datetime.UTC)


@in_one_test(
    ("header", "seconds"),
    [
        ("0", 0),
        (" 120 ", 120),
        ("Sat, 21 Nov 2026 12:00:30 GMT", 30),
        ("Sat, 21 Nov 2026 11:00:00 GMT", 0),
        ("Sat, 21 Nov 2026 12:00:30", 30),
        ("-5", None),
        ("1.5", None),
        ("soon", None),
        ("", None),
        (None, None),
        ("9" * 50, None),
        ("\u0663", None),
    ],
)
def test_retry_after(header: str | None, seconds: float | None) -> None:
    assert parse_retry_after(header, NOW) == seconds


def test_waiting_for_our_own_pace_takes_no_time_from_a_turn() -> None:
    async def turn() -> bool:
        pace = Pace(5)
        pace.book()
        requests = Requests(ClientConfig("http://agent.test"), pace)
        async with asyncio.timeout(0.01) as requests.limit:
            await requests.leave()
        return requests.limit.expired()

    assert not asyncio.run(turn())


def test_delays_grow_and_are_capped_unless_the_server_asks_for_more() -> None:
    policy = RetryPolicy(base=1, maximum=5)
    assert [policy.delay(n, None, lambda: 1.0) for n in (1, 2, 3, 4, 9999)] == [1, 2, 4, 5, 5]
    assert policy.delay(2, None, lambda: 0.0) == 1
    assert policy.delay(1, 3.0, lambda: 1.0) == 3
    assert policy.delay(1, 3600.0, lambda: 1.0) == 3600


@in_one_test(
    ("error", "left", "repeated", "unknown"),
    [
        (TransportError("busy", status_code=429), True, True, False),
        (TransportError("gateway", status_code=502), True, False, True),
        (TransportError("gateway", status_code=503, retry_after=0), True, False, True),
        (TransportError("gateway", status_code=503, retry_after=0), False, True, False),
        (TransportError("gateway", status_code=504), False, True, False),
        (TransportError("reset"), True, False, True),
        (TransportError("reset"), False, True, False),
        (EndpointUnreachableError("refused"), True, True, False),
        # An answer of the agent's own.
        (TransportError("crashed", status_code=500), True, False, False),
        (TransportError("crashed", status_code=501), False, False, False),
        (TurnTimeoutError("slow"), True, False, False),
        (StreamStalledError("silent"), True, False, False),
        (ProtocolError("garbage"), True, False, False),
        (AuthenticationError("who?"), False, False, False),
        (ValueError("x"), True, False, False),
    ],
)
def test_only_what_was_not_taken_is_repeated(error: Exception, left: bool, repeated: bool, unknown: bool) -> None:
    assert is_repeatable(error, left=left) is repeated
    assert is_uncertain(error, left=left) is unknown


def test_an_uncertain_delivery_keeps_what_is_known_of_it() -> None:
    error = uncertain(TransportError("POST x: HTTP 503", status_code=503, retry_after=7), answered=False)
    assert (error.reason, error.status_code, error.retry_after) == ("HTTP 503", 503, 7)
    assert uncertain(TransportError("gone"), answered=True).reason == "answer broken off"
    assert uncertain(TransportError("gone"), answered=False).reason == "reset after delivery"


@in_one_test(
    ("cause", "repeated"),
    [
        (ConnectionRefusedError(), True),
        (socket.gaierror(socket.EAI_AGAIN, "try again"), True),
        (socket.gaierror(socket.EAI_NONAME, "unknown"), False),
        (ssl.SSLCertVerificationError("self-signed"), False),
    ],
)
def test_unreachable_endpoints_are_repeated_unless_it_is_hopeless(cause: Exception, repeated: bool) -> None:
    wrapped = OSError("all attempts failed")
    wrapped.__cause__ = cause
    error = EndpointUnreachableError("x")
    error.__cause__ = wrapped
    assert is_repeatable(error, left=True) is repeated


class Clock:
    now = 100.0

    def __call__(self) -> float:
        return self.now


@given(st.floats(0.1, 1000), st.integers(1, 50))
def test_messages_leave_at_the_rate_in_the_order_of_asking(rate: float, count: int) -> None:
    pace, free = Pace(rate, clock=Clock()), Pace(clock=Clock())
    waits = [pace.book()() for _ in range(count)]
    assert waits == pytest.approx([n / rate for n in range(count)])
    assert [free.book()() for _ in range(count)] == [0.0] * count


def test_a_busy_agent_holds_back_those_that_wait_and_those_that_come() -> None:
    clock = Clock()
    pace = Pace(10, clock=clock)
    waiting = [pace.book() for _ in range(3)]
    pace.refused(7.0)
    assert [w() for w in waiting] == pytest.approx([7.0, 7.1, 7.2])
    assert pace.book()() == pytest.approx(7.3)
    # What left before the first refusal was heard of is refused too, and means nothing more, whenever that is heard.
    gap = pace._gap
    clock.now += 1
    pace.refused(2.0, under_way=1.5)
    assert pace._gap == gap
    assert waiting[0]() == pytest.approx(6.0)
    clock.now += 7
    pace.refused(0.0, under_way=7.5)
    assert pace._gap == gap


def test_refused_again_it_goes_slower_and_answered_it_recovers() -> None:
    clock = Clock()
    pace = Pace(clock=clock)
    gaps = []
    for _ in range(8):
        pace.refused(20.0)
        clock.now += 100
        pace.book()
        gaps.append(pace.book()())
        clock.now += 100
    assert gaps[:3] == [0.125, 0.25, 0.5]
    assert gaps[-1] == 5.0
    for _ in range(200):
        pace.accepted()
    clock.now += 100
    assert [pace.book()() for _ in range(10)] == [0.0] * 10


@given(st.floats(0.0, 3.0), st.integers(1, 40), st.sampled_from([None, 10.0]))
def test_nobody_goes_slower_than_one_message_in_that_time(asked: float, times: int, rate: float | None) -> None:
    clock = Clock()
    pace = Pace(rate, clock=clock)
    for _ in range(times):
        pace.refused(asked)
        clock.now += 10
    pace.book()
    assert pace.book()() <= max(asked, 1 / rate if rate else 0.0) + 1e-9


def test_no_agent_holds_everybody_back_for_longer_than_a_turn_may_take() -> None:
    pace = Pace(patience=60.0, clock=Clock())
    pace.refused(86_400.0)
    assert pace.book()() == 60.0


def test_rates_are_read_by_second_or_minute() -> None:
    assert [read_pace(text) for text in ("5", "5/s", " 0.5 / s", "90/min")] == [5.0, 5.0, 0.5, 1.5]
    for text in ("", "0", "-1/s", "5/day", "nan", "inf/s", "fast"):
        with pytest.raises(ValueError, match="such as 5/s"):
            read_pace(text)


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


def test_names_comments_and_empty_events() -> None:
    stream = b"\xef\xbb\xbfevent: error\ndata:{}\n\n: comment\n\nevent: nothing\n\ndata\ndata: x\n\n"
    assert feed(stream, []) == [ServerSentEvent("{}", "error"), ServerSentEvent("\nx")]
    # The last event counts without its blank line, too.
    assert [e.data for e in feed(b"data: 1\n\ndata: 2", [])] == ["1", "2"]


@in_one_test(
    ("stream", "complaint"),
    [
        (b"data: " + b"x" * 200, "larger than 100 bytes"),
        (b"data: xxxxxxxxx\n" * 20, "larger than 100 bytes"),
        (b"data: \xff\n\n", "not UTF-8"),
    ],
)
def test_unreadable_events(stream: bytes, complaint: str) -> None:
    with pytest.raises(ProtocolError, match=complaint):
        feed(stream, [], limit=100)


# Answers beyond ``reply-limits``: the agent's doing, with a finding that names the limit.


def message(parts: list[Any]) -> dict[str, Any]:
    return {"message": {"messageId": "m", "role": "ROLE_AGENT", "parts": parts, "contextId": "c"}}


def refused(session: AgentSession, limit: str) -> str:
    """Check that the answer ends the conversation as the agent's doing, and return what is said."""
    with pytest.raises(AgentOutcomeError) as caught:
        session.send(HELLO)
    found = session.findings[-1]
    assert (caught.value.state, found.rule, found.message) == ("failed", f"limit-{limit}", str(caught.value))
    assert len(found.message) < 500
    return found.message


@pytest.mark.parametrize("depth", [60, 1_000, 100_000])
def test_nested_too_deeply(connect: Connect, depth: int) -> None:
    def answer(request: Request) -> bytes:
        nested = "[" * depth + "]" * depth
        body = json.dumps(message([{"data": 0}])).replace('"data": 0', f'"data": {nested}')
        return response(f'{{"jsonrpc": "2.0", "id": {json.dumps(request.json["id"])}, "result": {body}}}')

    with raw_agent(answer) as agent:
        bounds = Bounds(depth=32)
        said = refused(connect(agent.url, bounds=bounds).session(), "depth")
        assert "nested too deeply (--a2a-set reply-limits=depth=32)" in said
        if depth == 60:
            assert connect(agent.url).session().send(HELLO).parts[0].kind == "data"


def test_too_much_to_read(connect: Connect) -> None:
    with raw_agent(lambda request: rpc(message([{"text": "hi"}] * 1_000), request)) as agent:
        assert "--a2a-set reply-limits=cpu=1e-06" in refused(
            connect(agent.url, bounds=Bounds(cpu=1e-6)).session(), "cpu"
        )
        assert len(connect(agent.url).session().send(HELLO).parts) == 1_000


def test_too_much_to_read_in_a_stream(connect: Connect) -> None:
    def stream(request: Request) -> Iterator[bytes]:
        yield stream_head()
        while True:
            update = {"taskId": "t", "contextId": "c", "artifact": {"artifactId": "a", "parts": [{"data": 1}]}}
            yield event({"artifactUpdate": {**update, "append": True}}, request)

    with raw_agent(stream) as agent:
        session = connect(agent.url, streaming="on", bounds=Bounds(cpu=0.05), timeout=60.0).session()
        assert "took more than 0.05 s of CPU time" in refused(session, "cpu")


def test_answers_of_one_conversation_together(connect: Connect) -> None:
    with raw_agent(lambda request: rpc(message([{"text": "x" * 10_000}]), request)) as agent:
        session = connect(agent.url, bounds=Bounds(total=25_000)).session()
        session.send(HELLO)
        session.send(HELLO)
        assert "larger than 25000 bytes together (--a2a-set reply-limits=total=25000)" in refused(session, "total")
        connect(agent.url, bounds=Bounds(total=25_000)).session().send(HELLO)


def test_a_card_is_no_reply(connect: Connect) -> None:
    with raw_agent(lambda request: rpc(message([]), request)) as agent:
        with pytest.raises(ProtocolError, match="larger than 50 bytes"):
            connect(agent.url, bounds=Bounds(bytes=50)).card()
        agent.card["extra"] = "SLOT"
        card = json.dumps(agent.card).replace('"SLOT"', "[" * 100_000)
        agent.card.clear()
        agent.handler = lambda _: response(card)
        with pytest.raises(CardError, match="nested too deeply"):
            connect(agent.url).card()


# --- gRPC ---


def field(number: int, payload: bytes) -> bytes:
    """Write a field of bytes as protobuf does."""
    size, length = b"", len(payload)
    while length > 127:
        size, length = size + bytes([length & 127 | 128]), length >> 7
    return bytes([number << 3 | 2]) + size + bytes([length]) + payload


def number_of(kind: Any, name: str) -> int:
    return int(kind.DESCRIPTOR.fields_by_name[name].number)


def grpc_answer(depth: int) -> bytes:
    value = b"\x08\x00"  # null_value
    for _ in range(depth):
        value = field(6, field(1, value))  # list_value, values
    part = field(number_of(a2a_pb2.Part, "data"), value)
    said = field(number_of(a2a_pb2.Message, "parts"), part)
    return field(number_of(a2a_pb2.SendMessageResponse, "message"), said)


@contextmanager
def grpc_agent(answer: bytes) -> Iterator[str]:
    with raw_grpc(lambda *_: answer) as address, raw_agent(lambda _: None, insecure_card(address)) as agent:
        yield agent.url


def test_grpc_large_answer(connect: Connect) -> None:
    said = a2a_pb2.Message(message_id="m", role=a2a_pb2.ROLE_AGENT, parts=[a2a_pb2.Part(text="x" * 2_000)])
    with grpc_agent(a2a_pb2.SendMessageResponse(message=said).SerializeToString()) as url:
        assert connect(url).session().send(HELLO).text == "x" * 2_000
        assert "larger than max" in refused(connect(url, bounds=Bounds(bytes=1_000)).session(), "bytes")
        assert "together" in refused(connect(url, bounds=Bounds(total=1_000)).session(), "total")


def test_grpc_nested_too_deeply_or_unreadable(connect: Connect) -> None:
    for depth in (30, 2_000):
        with grpc_agent(grpc_answer(depth)) as url:
            refused(connect(url, bounds=Bounds(depth=8)).session(), "depth")
    with grpc_agent(b"\xff\xff") as url, pytest.raises(ProtocolError, match=r"cannot be read: DecodeError"):
        connect(url).session().send(HELLO)
