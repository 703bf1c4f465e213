"""The channels under a gRPC interface: one at a time, a new one after trouble, and what is known of a request's way.

gRPC mends a channel that it knows to be broken. It does not know that of a connection that a firewall forgot, and would
send one request after another into it; so whatever ends in a timeout or UNAVAILABLE was the last on its channel.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from typing import Any

import grpc
import grpc.aio

from pytest_a2a_bench.a2a.config import ClientConfig
from pytest_a2a_bench.a2a.requests import RequestRecord
from pytest_a2a_bench.errors import EndpointUnreachableError

OpenChannel = Callable[[list[tuple[str, Any]]], grpc.aio.Channel]

_PING_MS = 330_000
"""Unless told otherwise, servers answer pings that come more often than every 5 minutes with GOAWAY
(``too_many_pings``), and take every one amiss while no call is under way: so there are none then, and few else."""

_PING_TIMEOUT_MS = 20_000
"""How long a ping may go unanswered, and on Linux also how long anything that was sent may go unacknowledged
(``TCP_USER_TIMEOUT``): this ends a call on a dead connection long before the next ping would."""

_NEVER_CONNECTED = ("failed to connect to all addresses", "DNS resolution failed")
"""How gRPC's own UNAVAILABLE begins where there was no connection to send anything over."""


@dataclass(slots=True)
class Call:
    """What one request is made with.

    :param stub: of a2a-sdk's generated code.
    :param users: requests that are under way on this channel.
    """

    channel: grpc.aio.Channel
    stub: Any
    users: int = 0


class Channels:
    """The channel in use, and those that only finish what was begun on them; lives on one event loop.

    :param open_channel: opens one, with options.
    :param make_stub: makes the stub of a channel.
    :raises ConfigurationError: if gRPC cannot do what the network asks for.
    """

    def __init__(self, open_channel: OpenChannel, config: ClientConfig, make_stub: Callable[[Any], Any]) -> None:
        self._open_channel = open_channel
        self._config = config
        self._make_stub = make_stub
        self._current = self._open()
        self._old: list[Call] = []
        self._closed = False

    @contextlib.asynccontextmanager
    async def call(self, record: RequestRecord) -> AsyncIterator[Call]:
        """Lend the channel for one request, and note whether it can have left.

        :raises EndpointUnreachableError: if there is no connection within the configured time.
        """
        call = self._current
        call.users += 1
        try:
            connected = await self._connect(call.channel, record)
            record.left = True
            try:
                yield call
            except grpc.aio.AioRpcError as error:
                record.left = connected or not _never_left(error, call.channel)
                if error.code() in (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.DEADLINE_EXCEEDED):
                    self._replace(call)
                raise
        # A turn whose time is up, and a stream that stalled, end their request by cancelling it.
        except (asyncio.CancelledError, EndpointUnreachableError):
            self._replace(call)
            raise
        finally:
            call.users -= 1
            await self._close_unused()

    async def close(self) -> None:
        """Close all channels, and what is under way on them."""
        self._closed = True
        for call in (self._current, *self._old):
            await call.channel.close()
        self._old.clear()

    async def _connect(self, channel: grpc.aio.Channel, record: RequestRecord) -> bool:
        """Wait until the channel is connected, or has failed to; tell which.

        Only after this a request that is sent can be told from one that never was.
        """
        over = (grpc.ChannelConnectivity.READY, grpc.ChannelConnectivity.TRANSIENT_FAILURE)
        record.left = False
        if channel.get_state(try_to_connect=True) is grpc.ChannelConnectivity.READY:  # nearly always
            return True
        try:
            async with asyncio.timeout(self._config.connect_timeout):
                while (state := channel.get_state(try_to_connect=True)) not in over:
                    await channel.wait_for_state_change(state)
        except TimeoutError as error:
            raise EndpointUnreachableError(
                f"{record.method} {record.endpoint}: no connection within {self._config.connect_timeout:g} s; "
                f"the agent card of {self._config.endpoint} names this address"
            ) from error
        return state is grpc.ChannelConnectivity.READY

    def _replace(self, call: Call) -> None:
        """Let whatever comes next begin on a new channel; what others have under way on the old one goes on."""
        if call is self._current and not self._closed:
            self._old.append(call)
            self._current = self._open()

    async def _close_unused(self) -> None:
        unused = [call for call in self._old if not call.users]
        self._old = [call for call in self._old if call.users]
        for call in unused:
            await call.channel.close()

    def _open(self) -> Call:
        channel = self._open_channel(_options(self._config))
        return Call(channel, self._make_stub(channel))


def _never_left(error: grpc.aio.AioRpcError, channel: grpc.aio.Channel) -> bool:
    """Tell whether a request cannot have been sent: gRPC says so, and is still without a connection."""
    return (
        error.code() is grpc.StatusCode.UNAVAILABLE
        and (error.details() or "").startswith(_NEVER_CONNECTED)
        and channel.get_state() is not grpc.ChannelConnectivity.READY
    )


def _options(config: ClientConfig) -> list[tuple[str, Any]]:
    return [
        ("grpc.max_receive_message_length", min(config.bounds.bytes, 2**31 - 1)),
        # Retries are the session's, where they are counted and recorded.
        ("grpc.enable_retries", 0),
        # Channels to one target share their connections otherwise, and a new one would get the dead one's.
        ("grpc.use_local_subchannel_pool", 1),
        ("grpc.keepalive_time_ms", _PING_MS),
        ("grpc.keepalive_timeout_ms", _PING_TIMEOUT_MS),
        ("grpc.keepalive_permit_without_calls", 0),
    ]
