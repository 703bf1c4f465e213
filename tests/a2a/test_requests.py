from __future__ import annotations

import asyncio
import datetime
import socket
import ssl

import pytest
from one_test import in_one_test

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
from pytest_a2a_bench.errors import (
    AuthenticationError,
    EndpointUnreachableError,
    ProtocolError,
    StreamStalledError,
    TransportError,
    TurnTimeoutError,
)

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


def test_what_our_own_pace_holds_back_takes_nothing_from_a_turn() -> None:
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
def test_only_what_certainly_was_not_taken_is_repeated(
    error: Exception, left: bool, repeated: bool, unknown: bool
) -> None:
    assert is_repeatable(error, left=left) is repeated
    assert is_uncertain(error, left=left) is unknown


def test_an_uncertain_delivery_keeps_what_is_known_of_it() -> None:
    error = uncertain(TransportError("POST x: HTTP 503", status_code=503, retry_after=7), answered=False)
    assert (error.reason, error.status_code, error.retry_after) == ("HTTP 503", 503, 7)
    assert uncertain(TransportError("gone"), answered=True).reason == "answer broken off"
    assert uncertain(TransportError("gone"), answered=False).reason == "reset after delivery"


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
    assert is_repeatable(error, left=True) is repeated
