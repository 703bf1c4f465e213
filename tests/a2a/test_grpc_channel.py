"""gRPC's channels: what certainly never left, and that a new one is taken after trouble."""

import contextlib
import socket
import threading
from collections.abc import Iterator
from typing import Any

import grpc
import pytest
from fault_proxy import fault_proxy
from google.rpc import error_details_pb2, status_pb2
from raw_agent import nowhere
from raw_grpc import insecure_card, raw_grpc
from scripted import scripted_agent

from pytest_a2a_bench.a2a.card import GrpcTarget, parse_card
from pytest_a2a_bench.a2a.client import AgentConnection
from pytest_a2a_bench.a2a.config import ClientConfig
from pytest_a2a_bench.a2a.grpc_wire import asked_to_wait, explain_grpc
from pytest_a2a_bench.a2a.network import USUAL
from pytest_a2a_bench.errors import (
    DeliveryUncertain,
    EndpointUnreachableError,
    InfrastructureError,
    TransportError,
    TurnTimeoutError,
)
from pytest_a2a_bench.model import Part


@contextlib.contextmanager
def connected(address: str, **options: Any) -> Iterator[AgentConnection]:
    card = parse_card(insecure_card(address), f"http://{address}/")
    values = {"timeout": 30.0, "max_retries": 0, "backoff_base": 0.01, "poll_interval": 0.01, **options}
    with AgentConnection(ClientConfig(f"http://{address}", **values), card) as connection:
        yield connection


@contextlib.contextmanager
def refusing(code: str, text: str, details: bytes | None = None) -> Iterator[tuple[str, list[int]]]:
    """Serve gRPC that refuses every call with a code; gives its address and the numbers of calls."""
    calls: list[int] = []

    def answer(_: bytes, context: grpc.ServicerContext) -> bytes:
        calls.append(len(calls) + 1)
        if details is not None:
            context.set_trailing_metadata((("grpc-status-details-bin", details),))
        context.abort(grpc.StatusCode[code], text)
        return b""

    with raw_grpc(answer) as address:
        yield address, calls


HELLO = [Part.of_text("echo hello")]


def test_refused_connections_are_tried_again() -> None:
    with connected(nowhere(), max_retries=2) as connection:
        session = connection.session()
        with pytest.raises(EndpointUnreachableError, match=r"failed to connect.*names this address") as caught:
            session.send(HELLO)
    assert not isinstance(caught.value, DeliveryUncertain)
    assert [m.attempt for m in session.metrics] == [1, 2, 3]
    assert session.tainted is None


def test_a_server_that_does_not_shake_hands_is_unreachable() -> None:
    # It accepts connections and says nothing: gRPC's handshake never ends.
    with socket.create_server(("127.0.0.1", 0)) as listener:
        with connected(f"127.0.0.1:{listener.getsockname()[1]}", connect_timeout=0.3) as connection:
            with pytest.raises(EndpointUnreachableError, match=r"no connection within 0\.3 s"):
                connection.session().send(HELLO)


def test_a_connection_that_is_closed_at_once_may_want_tls() -> None:
    closed = "failed to connect to all addresses; last error: UNAVAILABLE: ipv4:127.0.0.1:7533: Socket closed"
    said = explain_grpc(closed, GrpcTarget("dns:127.0.0.1:7533", tls=False), USUAL)
    assert said.endswith("if it speaks TLS, its address is https://127.0.0.1:7533")


def asks_to_wait(seconds: int, nanos: int = 0) -> bytes:
    """Return what gRPC has for ``Retry-After``, after a detail of another kind."""
    status = status_pb2.Status(code=8, message="slowly")
    status.details.add().Pack(error_details_pb2.ErrorInfo(reason="BUSY"))
    info = error_details_pb2.RetryInfo()
    info.retry_delay.seconds, info.retry_delay.nanos = seconds, nanos
    status.details.add().Pack(info)
    return bytes(status.SerializeToString())


@pytest.mark.parametrize(
    ("code", "text", "details"),
    [
        # What an agent says in its details does not prove that nothing was delivered.
        ("UNAVAILABLE", "overloaded", None),
        ("UNAVAILABLE", "failed to connect to all addresses; last error: ...", None),
        ("UNAVAILABLE", "DNS resolution failed for x", None),
        # A deadline that is not ours is a gateway's.
        ("DEADLINE_EXCEEDED", "late", None),
        # The time to wait goes along where the conversation is held again.
        ("UNAVAILABLE", "slowly", asks_to_wait(7)),
        ("DEADLINE_EXCEEDED", "slowly", asks_to_wait(7)),
    ],
)
def test_a_refusal_after_a_possible_delivery_is_uncertain(code: str, text: str, details: bytes | None) -> None:
    with refusing(code, text, details) as (address, calls):
        with connected(address, timeout=600.0, max_retries=3) as connection:
            with pytest.raises(DeliveryUncertain, match=code) as caught:
                connection.session().send(HELLO)
        assert calls == [1]
    reasons = {"UNAVAILABLE": "reset after delivery", "DEADLINE_EXCEEDED": "gRPC DEADLINE_EXCEEDED"}
    assert (caught.value.reason, caught.value.retry_after) == (reasons[code], 7.0 if details else None)


@pytest.mark.parametrize(
    ("details", "seconds"),
    [
        (None, None),
        (b"", None),
        (b"\xff\xff", None),
        (status_pb2.Status(code=8).SerializeToString(), None),
        (asks_to_wait(3)[:-3], None),
        # More than any backoff of this connection, and less than its turn lasts.
        (asks_to_wait(0, 250_000_000), 0.25),
    ],
    ids=["none", "empty", "not-protobuf", "no-details", "cut-off", "seconds"],
)
def test_too_many_requests_are_repeated_after_the_asked_time(details: bytes | None, seconds: float | None) -> None:
    with refusing("RESOURCE_EXHAUSTED", "slowly", details) as (address, calls):
        with connected(address, max_retries=2, backoff_max=0.001) as connection:
            with pytest.raises(TransportError, match="RESOURCE_EXHAUSTED") as caught:
                connection.session().send(HELLO)
        assert calls == [1, 2, 3]
    assert not isinstance(caught.value, DeliveryUncertain)
    assert caught.value.retry_after == seconds


def test_a_retry_info_beyond_the_turn_fails_at_once_and_says_so() -> None:
    with refusing("RESOURCE_EXHAUSTED", "slowly", asks_to_wait(120)) as (address, calls):
        with connected(address, max_retries=3) as connection:
            with pytest.raises(TransportError, match=r"the agent asked to wait 120 s .*--a2a-timeout") as caught:
                connection.session().send(HELLO)
        assert calls == [1]
    assert (caught.value.status_code, caught.value.retry_after) == (429, 120.0)


def test_a_wait_below_zero_is_none_at_all() -> None:
    assert asked_to_wait([("x", "y"), ("grpc-status-details-bin", asks_to_wait(-5))]) == 0.0


def test_others_go_on_when_a_channel_is_given_up() -> None:
    """One conversation's turn times out; what another one has under way on the same channel is answered."""
    with scripted_agent() as agent, connected(f"127.0.0.1:{agent.grpc_port}") as connection:
        assert connection.session().send(HELLO).text == "hello"
        said: list[str] = []
        other = connection.session()
        slow = threading.Thread(target=lambda: said.append(other.send([Part.of_text("slow 1.5 done")]).text))
        slow.start()
        while not any("slow" in str(m) for m in agent.executor.received):
            assert slow.is_alive()
        with pytest.raises(TurnTimeoutError):
            connection.session().send([Part.of_text("slow 60 late")], timeout=0.3)
        assert connection.session().send(HELLO).text == "hello"
        slow.join(60)
    assert said == ["done"]


@pytest.mark.parametrize("faulty", [1, 2])
def test_a_new_connection_after_a_timeout(faulty: int) -> None:
    with scripted_agent() as agent:
        proxied = fault_proxy(agent.grpc_port, lambda n: "hang" if n == faulty else None)
        with proxied as proxy, connected(f"127.0.0.1:{proxy.port}") as connection:
            outcomes = []
            for number in range(6):
                try:
                    seconds = 1.0 if number == faulty - 1 else 30.0
                    outcomes.append(connection.session().send(HELLO, timeout=seconds).text)
                except InfrastructureError as error:
                    outcomes.append(type(error).__name__)
            assert outcomes == ["TurnTimeoutError" if n == faulty - 1 else "hello" for n in range(6)]
            assert proxy.connections == 2
