"""Answers beyond ``reply-limits``: the agent's doing, with a finding that names the limit."""

from __future__ import annotations

import concurrent.futures
import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import grpc
import pytest
from a2a.types import a2a_pb2
from raw_agent import Request, event, raw_agent, response, rpc, stream_head

from pytest_a2a_bench.a2a.client import AgentConnection
from pytest_a2a_bench.a2a.session import AgentSession
from pytest_a2a_bench.errors import AgentOutcomeError, CardError, ProtocolError
from pytest_a2a_bench.model import Part
from pytest_a2a_bench.model.messages import Bounds

Connect = Callable[..., AgentConnection]


def message(parts: list[Any]) -> dict[str, Any]:
    return {"message": {"messageId": "m", "role": "ROLE_AGENT", "parts": parts, "contextId": "c"}}


def ask(session: AgentSession) -> Any:
    return session.send([Part.of_text("hello")])


def refused(session: AgentSession, limit: str) -> str:
    """Check that the answer ends the conversation as the agent's doing, and return what is said."""
    with pytest.raises(AgentOutcomeError) as caught:
        ask(session)
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
            assert ask(connect(agent.url).session()).parts[0].kind == "data"


def test_too_much_to_read(connect: Connect) -> None:
    with raw_agent(lambda request: rpc(message([{"text": "hi"}] * 1_000), request)) as agent:
        assert "--a2a-set reply-limits=cpu=1e-06" in refused(
            connect(agent.url, bounds=Bounds(cpu=1e-6)).session(), "cpu"
        )
        assert len(ask(connect(agent.url).session()).parts) == 1_000


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
        ask(session)
        ask(session)
        assert "larger than 25000 bytes together (--a2a-set reply-limits=total=25000)" in refused(session, "total")
        ask(connect(agent.url, bounds=Bounds(total=25_000)).session())


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
    class Service(grpc.GenericRpcHandler):  # type: ignore[misc]  # grpcio comes without types
        def service(self, _: grpc.HandlerCallDetails) -> Any:
            return grpc.unary_unary_rpc_method_handler(lambda *_: answer)

    server = grpc.server(concurrent.futures.ThreadPoolExecutor(2), handlers=[Service()])
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    interface = {"url": f"127.0.0.1:{port}", "protocolBinding": "GRPC", "protocolVersion": "1.0"}
    with raw_agent(lambda _: None, {"name": "g", "supportedInterfaces": [interface]}) as agent:
        yield agent.url
    server.stop(None).wait()


def test_grpc_large_answer(connect: Connect) -> None:
    said = a2a_pb2.Message(message_id="m", role=a2a_pb2.ROLE_AGENT, parts=[a2a_pb2.Part(text="x" * 2_000)])
    with grpc_agent(a2a_pb2.SendMessageResponse(message=said).SerializeToString()) as url:
        assert ask(connect(url).session()).text == "x" * 2_000
        assert "larger than max" in refused(connect(url, bounds=Bounds(bytes=1_000)).session(), "bytes")
        assert "together" in refused(connect(url, bounds=Bounds(total=1_000)).session(), "total")


def test_grpc_answer_that_is_no_protobuf(connect: Connect) -> None:
    with grpc_agent(b"\xff\xff") as url, pytest.raises(ProtocolError, match=r"cannot be read: DecodeError"):
        ask(connect(url).session())


@pytest.mark.parametrize("depth", [30, 2_000])
def test_grpc_nested_too_deeply(connect: Connect, depth: int) -> None:
    with grpc_agent(grpc_answer(depth)) as url:
        refused(connect(url, bounds=Bounds(depth=8)).session(), "depth")
