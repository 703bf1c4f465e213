from __future__ import annotations

import datetime
import socket
import ssl

import pytest

from pytest_a2a_bench.a2a.requests import RetryPolicy, is_retryable, parse_retry_after
from pytest_a2a_bench.errors import (
    AuthenticationError,
    EndpointUnreachableError,
    ProtocolError,
    TransportError,
    TurnTimeoutError,
)

NOW = datetime.datetime(2026, 11, 21, 12, 0, 0, tzinfo=datetime.UTC)


@pytest.mark.parametrize(
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


def test_delays_grow_and_are_capped_unless_the_server_asks_for_more() -> None:
    policy = RetryPolicy(base=1, maximum=5)
    assert [policy.delay(n, None, lambda: 1.0) for n in (1, 2, 3, 4, 9999)] == [1, 2, 4, 5, 5]
    assert policy.delay(2, None, lambda: 0.0) == 1
    assert policy.delay(1, 3.0, lambda: 1.0) == 3
    assert policy.delay(1, 3600.0, lambda: 1.0) == 3600


@pytest.mark.parametrize("status", [429, 502, 503, 504])
def test_passing_trouble_of_servers_is_repeated(status: int) -> None:
    assert is_retryable(TransportError("x", status_code=status), answered=True)


@pytest.mark.parametrize(
    "error",
    [
        TransportError("x", status_code=500),
        TransportError("x", status_code=501),
        TurnTimeoutError("x"),
        ProtocolError("x"),
        AuthenticationError("x"),
        ValueError("x"),
    ],
)
def test_other_trouble_is_not(error: Exception) -> None:
    assert not is_retryable(error, answered=False)


def test_lost_connections_are_repeated_only_before_an_answer() -> None:
    assert is_retryable(TransportError("reset"), answered=False)
    assert not is_retryable(TransportError("reset"), answered=True)


@pytest.mark.parametrize(
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
    assert is_retryable(error, answered=False) is repeated
