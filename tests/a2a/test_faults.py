"""Trouble on the wire: which error it is, what is repeated, and what never leaves for another host."""

import asyncio
import contextlib
import gzip
import threading
import time
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import httpcore
import httpx
import pytest
import respx
from connections import Connect, Serve
from one_test import in_one_test
from raw_agent import (
    DONE,
    HELLO,
    MESSAGE,
    Request,
    event,
    fine,
    nowhere,
    response,
    rpc,
    say,
    scripted,
    stream_head,
    task,
)

from pytest_a2a_bench.a2a import loop, requests
from pytest_a2a_bench.a2a.card import parse_card
from pytest_a2a_bench.a2a.client import AgentConnection
from pytest_a2a_bench.a2a.config import ClientConfig, Credentials
from pytest_a2a_bench.a2a.http import HttpEdge
from pytest_a2a_bench.errors import (
    AgentOutcomeError,
    AuthenticationError,
    CardError,
    DeliveryUncertain,
    EndpointUnreachableError,
    ProtocolError,
    ReplyLimitError,
    TransportError,
    TurnTimeoutError,
)
from pytest_a2a_bench.model import Part
from pytest_a2a_bench.model.messages import Bounds

SECRET = "s3cret-token"


# --- repeating ---


@pytest.fixture
def waits(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The seconds between the tries of a request, which pass at once."""
    asked: list[float] = []

    async def sleep(seconds: float) -> None:
        asked.append(seconds)

    async def turn(pace: requests.Pace) -> None:
        """Wait for no other conversation: that is the pace's own test's."""

    monkeypatch.setattr(requests, "asyncio", SimpleNamespace(**vars(asyncio) | {"sleep": sleep}))
    monkeypatch.setattr(requests.Pace, "turn", turn)
    return asked


def test_429_is_repeated_with_the_same_message_id(serve: Serve, connect: Connect, waits: list[float]) -> None:
    busy = response("busy", "429 Too Many Requests", "text/plain", Retry_After="1")
    agent = serve(scripted(lambda _: busy, fine))
    # It is more than any wait of our own.
    connection = connect(agent.url, max_retries=2, backoff_max=0.1)
    session = connection.session()
    assert session.send(HELLO).text == "fine"
    assert waits == [1.0]
    slower = connection.pace._gap
    say(connection)
    assert 0 < connection.pace._gap < slower
    first, second, _ = agent.messages
    assert first.json["params"]["message"]["messageId"] == second.json["params"]["message"]["messageId"]
    assert first.connection != second.connection
    assert [(m.status_code, m.attempt) for m in session.metrics] == [(429, 1), (200, 2)]
    assert session.metrics[0].error is not None
    assert session.metrics[0].request_id == session.metrics[1].request_id


def broken_stream(request: Request) -> Iterator[bytes]:
    """Begin a task in a stream, and close the connection before the chunks end."""
    yield stream_head().replace(b"Connection: close", b"Transfer-Encoding: chunked")
    data = event({"task": task("WORKING")}, request)
    yield f"{len(data):x}\r\n".encode() + data + b"\r\n"


def ended_stream(state: str) -> Callable[[Request], list[bytes]]:
    """Name a task and its state in a stream, and end it without an answer."""
    said = {"statusUpdate": {"taskId": "t1", "contextId": "c1", "status": {"state": f"TASK_STATE_{state}"}}}
    return lambda request: [stream_head(), event(said, request)]


CUT = b'{"jsonrpc": "2.0", "id": "1", "result": {"message": {"parts": [{"text": "fi'
UNKNOWN = response({"error": {"code": -32001, "message": "no such task"}})
CHUNKED = stream_head().replace(b"Connection: close", b"Transfer-Encoding: chunked")
SHORT = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\ncontent-length: 500\r\n\r\n{"


@in_one_test(
    ("streaming", "answers", "complaint", "reason"),
    [
        (
            "off",
            [lambda _: response("down for repair", "502 Bad Gateway", "text/plain", Retry_After="0")],
            "down for repair.*may have worked on the message",
            "HTTP 502",
        ),
        ("off", [lambda _: None], "before any answer", "reset after delivery"),
        ("off", [lambda _: iter([SHORT])], "in the middle of the answer", "answer broken off"),
        ("off", [lambda _: iter([stream_head("application/json"), CUT])], "the answer broke off", "answer broken off"),
        ("on", [lambda _: iter([stream_head(), b"data: ", CUT])], "the answer broke off", "answer broken off"),
        ("on", [lambda _: iter([stream_head(), b": hello\n\n"])], "ended without a message and", "answer broken off"),
        ("on", [lambda _: iter([CHUNKED, b"4\r\n: x\n\r\n"])], "in the middle of the answer", "answer broken off"),
        ("on", [ended_stream("WORKING"), lambda _: UNKNOWN], "no such task", "task lost"),
        ("on", [broken_stream, lambda _: UNKNOWN], "no such task; the agent took the message as task t1", "task lost"),
        # An answer that was announced and cannot be fetched is no silence of the agent's.
        ("on", [ended_stream("COMPLETED"), lambda _: None], "took the message as task t1", "task lost"),
    ],
)
def test_an_answer_that_does_not_arrive_leaves_the_delivery_uncertain(
    serve: Serve, connect: Connect, streaming: str, answers: list[Any], complaint: str, reason: str
) -> None:
    agent = serve(scripted(*answers))
    session = connect(agent.url, max_retries=1, streaming=streaming).session()
    with pytest.raises(DeliveryUncertain, match=complaint) as caught:
        session.send(HELLO)
    assert caught.value.reason == reason
    assert session.tainted is caught.value
    # Nothing is said in this conversation any more.
    with pytest.raises(DeliveryUncertain):
        session.send(HELLO)
    assert [m.json["method"] for m in agent.messages].count("GetTask") == len(agent.messages) - 1


async def _edge_of(connection: AgentConnection) -> HttpEdge:
    return connection._edge_here()


def test_a_body_that_did_not_leave_is_sent_again() -> None:
    """httpcore is told to fail while it writes: no server can be made to break at that very moment."""

    class Broken(httpcore.AsyncMockStream):
        async def write(self, buffer: bytes, timeout: float | None = None) -> None:
            written.append(buffer)
            if b"POST" not in buffer and len(answers) == 1:
                raise httpcore.WriteError("broken pipe")

    class Backend(httpcore.AsyncMockBackend):
        async def connect_tcp(self, *args: Any, **options: Any) -> httpcore.AsyncNetworkStream:
            return Broken([answers.pop(0)])

    refusal = response("starting", "503 Service Unavailable", "text/plain", Retry_After="0")
    written: list[bytes] = []
    answers = [refusal, response({"jsonrpc": "2.0", "id": 1, "result": REPLY_0_3})]
    card = parse_card({"name": "x", "url": "http://agent.test/rpc"}, "http://agent.test/")
    config = ClientConfig("http://agent.test", max_retries=1, backoff_base=0.0)
    with AgentConnection(config, card) as connection:
        connection._enter_loop = lambda: None  # type: ignore[method-assign]
        edge = loop.run(_edge_of(connection))
        pools = edge._transport._route(httpx.URL("http://agent.test")).pools
        pools._add()._pool._network_backend = Backend([])
        pools._free.extend(pools._all)
        session = connection.session()
        assert session.send(HELLO).text == "fine"
    assert [(m.status_code, m.attempt) for m in session.metrics] == [(503, 1), (200, 2)]
    assert sum(b"POST" in w for w in written) == 2


def test_a_web_page_that_is_too_large_is_no_answer_of_the_agents(serve: Serve, connect: Connect) -> None:
    agent = serve(lambda _: response("<html>" + "x" * 5000, kind="text/html; charset=utf-8"))
    with pytest.raises(ProtocolError, match="text/html, expected an A2A answer") as caught:
        say(connect(agent.url, bounds=Bounds(bytes=1000)))
    assert not isinstance(caught.value, ReplyLimitError)


# --- an interface that moves ---


@pytest.mark.parametrize("gone", ["404", "refused"])
def test_an_interface_that_moved_is_found_by_the_card(serve: Serve, connect: Connect, gone: str) -> None:
    agent = serve(lambda r: fine(r) if r.path == "/new" else response("gone", "404 Not Found", "text/plain"))
    interface = agent.card["supportedInterfaces"][0]
    new = {**interface, "url": f"{agent.url}/new"}
    if gone == "refused":
        interface["url"] = f"http://{nowhere()}/rpc"
    old = interface["url"]
    connection = connect(agent.url)
    connection.card()
    agent.card["supportedInterfaces"] = [new]
    session = connection.session()
    assert session.send(HELLO).text == "fine"
    assert [f.message for f in session.findings] == [
        f"the interface is no longer at {old}; the agent card names {agent.url}/new now"
    ]
    assert session.send([Part.of_text("again")]).text == "fine"
    other = connection.session()
    assert other.send(HELLO).text == "fine"
    assert other.findings == []
    assert [r.path for r in agent.messages].count("/rpc") == (gone == "404")


def test_where_the_first_interface_does_not_answer_the_next_is_used(serve: Serve, connect: Connect) -> None:
    agent, gone = serve(fine), f"http://{nowhere()}/rpc"
    interface = agent.card["supportedInterfaces"][0]
    agent.card["supportedInterfaces"] = [{**interface, "url": gone}, interface]
    connection = connect(agent.url)
    card = connection.wait_until_ready(0)
    assert say(connection).text == "fine"
    assert card.notes == ()
    assert connection.card().notes == (
        f"the interface is no longer at {gone}; the agent card names {interface['url']} now",
    )


def test_an_interface_that_is_gone_and_has_not_moved_is_an_error(serve: Serve, connect: Connect) -> None:
    agent = serve(lambda _: response("gone", "404 Not Found", "text/plain"))
    with pytest.raises(ProtocolError, match=rf"HTTP 404 .*; the agent card of {agent.url} names this address"):
        say(connect(agent.url))
    assert len(agent.messages) == 1
    assert len(agent.requests) == 3  # the card, the message, and the card once more


def test_nothing_listens(connect: Connect) -> None:
    with pytest.raises(EndpointUnreachableError, match="is the agent running"):
        connect(f"http://{nowhere()}").card()
    # With repetitions, the time for a card would be over before the last of them.
    with pytest.raises(EndpointUnreachableError, match="cannot connect"):
        connect("http://agent.invalid", max_retries=5, backoff_base=5).card()


# --- time ---


@pytest.mark.parametrize(
    ("media", "piece", "options", "expected"),
    [
        ("application/json", b" ", {}, r"longer than 1 s, waiting for the reply"),
        ("text/event-stream", b": still here\n\n", {"streaming": "on"}, r"longer than 1 s"),
    ],
)
def test_a_body_without_end_is_left_at_the_turn_limit(
    serve: Serve, connect: Connect, media: str, piece: bytes, options: dict[str, str], expected: str
) -> None:
    def drip(_: Request) -> Iterator[bytes]:
        yield stream_head(media)
        while True:  # until nobody reads it any more
            time.sleep(0.03)
            yield piece

    with pytest.raises(TurnTimeoutError, match=expected):
        say(connect(serve(drip).url, timeout=1.0, **options))


# --- size and shape ---


@pytest.mark.parametrize(
    ("head", "piece", "streaming"),
    [
        (b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 104857600\r\n\r\n", b'"', "off"),
        (stream_head() + b"data: ", b"x", "on"),
        (b"", b"", "off"),
    ],
    ids=["body", "event", "bomb"],
)
def test_what_is_huge_is_dropped(serve: Serve, connect: Connect, head: bytes, piece: bytes, streaming: str) -> None:
    def huge(_: Request) -> Iterator[bytes]:
        yield head or response(gzip.compress(b" " * 20_000_000), Content_Encoding="gzip")
        for _number in range(1600):
            yield piece * 65536
            sent.append(65536)

    sent: list[int] = []
    agent = serve(huge)
    with pytest.raises(AgentOutcomeError, match="larger than 1000000 bytes"):
        say(connect(agent.url, streaming=streaming, bounds=Bounds(bytes=1_000_000)))
    assert not piece or sum(sent) < 50_000_000  # what the sockets' buffers took


@in_one_test(
    ("answer", "error", "complaint", "code"),
    [
        *(
            (response(body), ProtocolError, complaint, None)
            for body, complaint in (
                (b"<html>Welcome</html>", "malformed JSON"),
                (b'{"jsonrpc": "2.0", "result": ', "malformed JSON"),
                (b"", "an empty body"),
                (b'{"result": "\xff\xfe"}', "not UTF-8"),
                (b'{"result": NaN}', "NaN is not a JSON value"),
                (b"[]", "expected a JSON-RPC response"),
                (b'{"jsonrpc": "2.0", "id": 1, "result": null}', "found null"),
                (b'{"jsonrpc": "2.0", "id": 1, "result": {}}', "an empty object"),
                (b'{"jsonrpc": "2.0", "id": 1, "result": {"answer": 42}}', "'answer'"),
                (b'{"jsonrpc": "2.0", "id": 1, "error": "oops"}', "oops"),
            )
        ),
        (response({"error": {"code": -32603, "message": "oops"}}), ProtocolError, "error -32603: oops", -32603),
        (
            response({"error": {"code": -32005, "message": "no text"}}, "400 Bad Request"),
            ProtocolError,
            "no text",
            -32005,
        ),
        (response("Traceback ...", "500 Internal Server Error", "text/plain"), TransportError, "HTTP 500", None),
    ],
)
def test_an_error_of_the_agents_own_is_not_repeated(
    serve: Serve, connect: Connect, answer: bytes, error: type[Exception], complaint: str, code: int | None
) -> None:
    agent = serve(lambda _: answer)
    with pytest.raises(error, match=complaint) as caught:
        say(connect(agent.url, max_retries=3))
    assert getattr(caught.value, "code", None) == code
    assert len(agent.messages) == 1


def test_a_task_that_was_not_asked_for_is_no_answer(serve: Serve, connect: Connect) -> None:
    begun, other = {"task": task("WORKING")}, {**DONE, "id": "t2"}
    agent = serve(scripted(lambda request: rpc(begun, request), lambda request: rpc(other, request)))
    with pytest.raises(ProtocolError, match="asked for task t1, and the agent answered with task t2"):
        say(connect(agent.url))


def test_wrong_content_type_and_id_are_put_up_with_and_noted(serve: Serve, connect: Connect) -> None:
    agent = serve(lambda _: response({"jsonrpc": "2.0", "id": "other", "result": MESSAGE}, kind="text/plain"))
    session = connect(agent.url).session()
    assert session.send(HELLO).text == "fine"
    assert [f.rule for f in session.findings] == ["wire", "wire"]
    assert any("text/plain" in f.message for f in session.findings)


def test_stream_where_json_was_asked_and_the_other_way_round(serve: Serve, connect: Connect) -> None:
    streaming = serve(lambda request: [stream_head(), event(MESSAGE, request)])
    assert say(connect(streaming.url)).text == "fine"
    blocking = serve(fine)
    assert say(connect(blocking.url, streaming="on")).text == "fine"


# --- tasks that are not finished ---


def begun(state: str) -> Callable[[Request], bytes]:
    return lambda request: rpc({"task": task(state)}, request)


@in_one_test(
    ("streaming", "answers"),
    [
        ("off", [begun("SUBMITTED"), lambda request: rpc(task("WORKING"), request)]),
        ("off", [begun("WORKING"), lambda _: None]),
        ("off", [begun("WORKING"), lambda _: [stream_head("application/json"), CUT]]),
        ("on", [broken_stream]),
        ("on", [ended_stream("WORKING")]),
        ("on", [ended_stream("COMPLETED")]),
    ],
)
def test_a_task_is_asked_for_until_it_ends(serve: Serve, connect: Connect, streaming: str, answers: list[Any]) -> None:
    agent = serve(scripted(*answers, lambda request: rpc(DONE, request)))
    session = connect(agent.url, max_retries=1, streaming=streaming).session()
    reply = session.send(HELLO)
    assert reply.text == "fine"
    asked = [(m.json["method"], m.json["params"]) for m in agent.messages[1:]]
    assert asked == [("GetTask", {"id": "t1"})] * len(answers)
    broke_off = any("broke off" in note for note in reply.notes)
    assert broke_off == (session.metrics[0].error is not None) == (answers == [broken_stream])


def test_task_that_never_ends_times_out_naming_it(serve: Serve, connect: Connect) -> None:
    working = task("WORKING")
    agent = serve(scripted(lambda r: rpc({"task": working}, r), lambda r: rpc(working, r)))
    with pytest.raises(
        TurnTimeoutError,
        match=r"task t1 to end \(the answer came back with it working, and GetTask still says working\)",
    ):
        say(connect(agent.url, timeout=2.0))


def test_stream_that_stays_open_after_the_answer_is_left(serve: Serve, connect: Connect) -> None:
    def open_end(request: Request) -> Iterator[bytes]:
        yield stream_head()
        yield event({"task": DONE}, request)
        read.wait(60)
        ended.append(read.is_set())

    read, ended = threading.Event(), list[bool]()
    assert say(connect(serve(open_end).url, streaming="on")).text == "fine"
    assert not ended  # the answer was there while the stream was still open
    read.set()


@in_one_test(
    ("can", "refuses", "methods"),
    [
        (True, "", ["SendStreamingMessage", "SendStreamingMessage"]),
        (False, "", ["SendMessage", "SendMessage"]),
        (True, "SendStreamingMessage", ["SendStreamingMessage", "SendMessage", "SendMessage"]),
    ],
)
def test_auto_streams_by_the_card(serve: Serve, connect: Connect, can: bool, refuses: str, methods: list[str]) -> None:
    def answer(request: Request) -> Any:
        if request.json["method"] == refuses:
            return response({"error": {"code": -32004, "message": "not that"}})
        is_streamed = request.json["method"] == "SendStreamingMessage"
        return [stream_head(), event(MESSAGE, request)] if is_streamed else fine(request)

    agent = serve(answer)
    agent.card["capabilities"] = {"streaming": can}
    connection = connect(agent.url)
    assert [say(connection).text, say(connection).text] == ["fine", "fine"]
    assert [r.json["method"] for r in agent.messages] == methods


# --- where credentials go ---


REPLY_0_3 = {"kind": "message", "role": "agent", "parts": [{"kind": "text", "text": "fine"}]}


@pytest.mark.parametrize("transport", ["jsonrpc", "rest"])
def test_token_is_withheld_from_another_origin(serve: Serve, connect: Connect, transport: str) -> None:
    stranger = serve(lambda _: response("who are you?", "401 Unauthorized", "text/plain"))
    binding = {"jsonrpc": "JSONRPC", "rest": "HTTP+JSON"}[transport]
    interface = {"url": f"{stranger.url}/rpc", "protocolBinding": binding, "protocolVersion": "1.0"}
    agent = serve(fine, {"name": "raw", "supportedInterfaces": [interface]})
    with pytest.raises(AuthenticationError, match=r"withheld.*A2A_ALLOWED_ORIGINS=http://127\.0\.0\.1:\d+") as caught:
        say(connect(agent.url, auth=Credentials(SECRET, "A2A_AUTH_TOKEN")))
    assert SECRET not in str([(r.headers, r.path, r.body) for r in stranger.requests])
    assert SECRET not in str(caught.value)
    with pytest.raises(AuthenticationError, match="MY_TOKEN was sent and refused"):
        say(connect(agent.url, auth=Credentials(SECRET, "MY_TOKEN"), allowed_origins=(stranger.url,)))
    assert stranger.messages[-1].headers["authorization"] == f"Bearer {SECRET}"


@in_one_test(
    ("status", "location", "complaint"),
    [
        *((f"{code} Found", "STRANGER/rpc", "redirects to another origin") for code in (301, 302, 307)),
        ("307 Temporary Redirect", "/rpc", "redirects"),
    ],
)
def test_redirects_not_followed(serve: Serve, connect: Connect, status: str, location: str, complaint: str) -> None:
    stranger = serve(fine)
    agent = serve(lambda _: response("", status, Location=location.replace("STRANGER", stranger.url)))
    with pytest.raises(ProtocolError, match=complaint):
        say(connect(agent.url, auth=Credentials(SECRET)))
    assert stranger.requests == []


def test_redirect_within_the_origin_keeps_body_and_token(serve: Serve, connect: Connect) -> None:
    def handler(request: Request) -> bytes:
        return response("", "307 Temporary Redirect", Location="/rpc/") if request.path == "/rpc" else fine(request)

    agent = serve(handler)
    assert say(connect(agent.url, auth=Credentials(SECRET))).text == "fine"
    assert agent.messages[-1].headers["authorization"] == f"Bearer {SECRET}"


def test_guarded_card_is_fetched_with_the_token_only_when_asked(serve: Serve, connect: Connect) -> None:
    def guarded(request: Request) -> bytes:
        if request.method == "GET" and request.headers.get("authorization") != f"Bearer {SECRET}":
            return response("", "401 Unauthorized")
        return response({"name": "guarded", "url": "/rpc"}) if request.method == "GET" else rpc(REPLY_0_3, request)

    agent = serve(guarded, {})
    with pytest.raises(AuthenticationError, match=r"no credentials are configured.*A2A_AUTH_TOKEN"):
        connect(agent.url).card()
    assert connect(agent.url, auth=Credentials(SECRET)).card().name == "guarded"


# --- cards ---


def test_card_at_the_legacy_path(serve: Serve, connect: Connect) -> None:
    def legacy(request: Request) -> bytes:
        found = request.path == "/base/.well-known/agent.json"
        return response({"name": "old", "url": "/rpc"}) if found else response("nothing", "404 Not Found")

    agent = serve(legacy, {})
    card = connect(f"{agent.url}/base/").card()
    assert (card.name, card.interfaces[0].url) == ("old", f"{agent.url}/rpc")


@in_one_test(
    ("answer", "told"),
    [
        (response("nothing", "404 Not Found"), r"agent-card\.json: HTTP 404.*agent\.json: HTTP 404"),
        (response("<html>login</html>", kind="text/html"), "<html>login"),
    ],
)
def test_what_is_no_card_is_told(serve: Serve, connect: Connect, answer: bytes, told: str) -> None:
    with pytest.raises(CardError, match=told):
        connect(serve(lambda _: answer, {}).url).card()


# --- faults that no server can be made to show ---


@contextlib.contextmanager
def answering() -> Iterator[respx.Route]:
    """Answer for http://agent.test: with its card, and with what the route of its interface is told."""
    card = {"name": "x", "url": "http://agent.test/rpc"}
    with respx.mock:
        respx.get("http://agent.test/.well-known/agent-card.json").respond(json=card)
        yield respx.post("http://agent.test/rpc")


def test_a_connection_that_is_not_made_in_time_is_tried_again(connect: Connect) -> None:
    with answering() as route:
        route.mock(side_effect=httpx.ConnectTimeout("slow"))
        with pytest.raises(EndpointUnreachableError):
            say(connect("http://agent.test", max_retries=2))
        assert route.call_count == 3


@pytest.mark.parametrize(
    ("asked", "expected"),
    [("Fri, 31 Dec 2100 23:59:59 GMT", r"asked to wait \d{9,} s .*has 10 s left"), ("120", "asked to wait 120 s")],
)
def test_a_retry_after_beyond_the_turn_fails(connect: Connect, asked: str, expected: str, waits: list[float]) -> None:
    with answering() as route:
        route.respond(429, headers={"Retry-After": asked})
        with pytest.raises(TransportError, match=f"HTTP 429.*{expected}.*--a2a-timeout") as caught:
            say(connect("http://agent.test", max_retries=2))
    assert waits == []
    assert route.call_count == 1
    assert caught.value.status_code == 429
    assert caught.value.retry_after is not None
    assert caught.value.retry_after >= 120


def test_conversations_share_the_card_and_no_cookies(serve: Serve, connect: Connect) -> None:
    agent = serve(lambda r: response({"jsonrpc": "2.0", "id": r.json["id"], "result": MESSAGE}, Set_Cookie="who=me"))
    connection = connect(agent.url)
    say(connection)
    say(connection)
    assert "cookie" not in agent.messages[1].headers
    assert sum(r.method == "GET" for r in agent.requests) == 1


def test_connection_outlives_the_loop_that_it_began_on(serve: Serve, connect: Connect) -> None:
    connection = connect(serve(fine).url)
    assert say(connection).text == "fine"
    loop.shutdown()
    assert say(connection).text == "fine"
