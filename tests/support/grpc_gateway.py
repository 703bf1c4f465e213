"""A proxy of gRPC for tests, transparent or with one planted fault."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any

import grpc.aio
from in_thread import served_in_thread

_STREAMS = ("SendStreamingMessage", "SubscribeToTask")


@dataclass(frozen=True)
class GrpcFault:
    """What a proxy of gRPC does wrong.

    :param rule: the requirement that it breaks.
    :param refuses: methods that are refused as unknown ones.
    :param events: changes the messages of a stream.
    :param code: changes the code of an error.
    :param keeps_details: whether trailing metadata is handed on.
    :param waits: whether only a long wait in vain shows it.
    """

    name: str
    rule: str
    refuses: tuple[str, ...] = ()
    events: Callable[[AsyncIterator[bytes]], AsyncIterator[bytes]] = lambda events: events
    code: Callable[[Any], Any] = lambda code: code
    keeps_details: bool = True
    waits: bool = False


async def _at_once(events: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    for event in [event async for event in events]:
        yield event


async def _without_second(events: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    number = 0
    async for event in events:
        number += 1
        if number != 2:
            yield event


async def _only_first(events: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    async for event in events:
        yield event
        return


GRPC_FAULTS = (
    GrpcFault("streams refused", "GW-017", refuses=_STREAMS, waits=True),
    GrpcFault("an operation refused", "GW-005", refuses=("GetTask",)),
    GrpcFault("events at once", "GW-018", events=_at_once, waits=True),
    GrpcFault("an event lost", "GW-019", events=_without_second),
    GrpcFault("stream ended early", "GW-020", events=_only_first, waits=True),
    GrpcFault("status changed", "GW-012", code=lambda code: grpc.StatusCode.UNKNOWN),
    GrpcFault("details lost", "GW-013", keeps_details=False),
)


class _Handler(grpc.GenericRpcHandler):  # type: ignore[misc]
    def __init__(self, channel: grpc.aio.Channel, fault: GrpcFault) -> None:
        self.channel, self.fault = channel, fault

    def service(self, details: Any) -> Any:
        path, fault = details.method, self.fault
        if path.rpartition("/")[2] in fault.refuses:
            return None
        kept = (pair for pair in details.invocation_metadata if not pair[0].startswith(("grpc-", "user-agent")))
        metadata = tuple(kept)

        async def fail(context: Any, error: grpc.aio.AioRpcError) -> None:
            trailing = tuple(error.trailing_metadata() or ()) if fault.keeps_details else ()
            await context.abort(fault.code(error.code()), error.details(), trailing)

        async def unary(content: bytes, context: Any) -> bytes:
            try:
                return bytes(await self.channel.unary_unary(path)(content, metadata=metadata))
            except grpc.aio.AioRpcError as error:
                await fail(context, error)
                raise

        async def stream(content: bytes, context: Any) -> AsyncIterator[bytes]:
            try:
                call = self.channel.unary_stream(path)(content, metadata=metadata)
                async for event in fault.events(aiter(call)):
                    yield event
            except grpc.aio.AioRpcError as error:
                await fail(context, error)

        if path.rpartition("/")[2] in _STREAMS:
            return grpc.unary_stream_rpc_method_handler(stream)
        return grpc.unary_unary_rpc_method_handler(unary)


def grpc_gateway(target: str, fault: GrpcFault) -> AbstractContextManager[str]:
    """Serve a proxy before ``HOST:PORT`` in a thread with its own event loop; gives its own ``HOST:PORT``."""

    @contextlib.asynccontextmanager
    async def serving() -> AsyncIterator[str]:
        async with grpc.aio.insecure_channel(target) as channel:
            server = grpc.aio.server()
            server.add_generic_rpc_handlers((_Handler(channel, fault),))
            port = server.add_insecure_port("127.0.0.1:0")
            await server.start()
            yield f"127.0.0.1:{port}"
            await server.stop(0.2)

    return served_in_thread(serving)
