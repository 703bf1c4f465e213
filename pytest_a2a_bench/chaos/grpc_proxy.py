"""The gRPC side: calls forwarded by name as bytes; connections go through a door of ours, where they can be broken.

Importing this module needs grpcio. A connection carries many calls, so a fault of the connection is one of all of them.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import json
from collections.abc import AsyncIterator
from typing import Any

import grpc
import grpc.aio
from a2a.compat.v0_3 import a2a_v0_3_pb2
from a2a.types import a2a_pb2
from google.protobuf import json_format
from google.protobuf.message import Message
from google.protobuf.message_factory import GetMessageClass
from google.rpc import error_details_pb2, status_pb2

from pytest_a2a_bench.a2a.card import GrpcTarget
from pytest_a2a_bench.a2a.network import Network
from pytest_a2a_bench.a2a.transport import open_channel
from pytest_a2a_bench.chaos.calls import Call, begins_in, kind_of, message_id_in
from pytest_a2a_bench.chaos.distort import Pieces, distorted, edit_ids
from pytest_a2a_bench.chaos.door import ClientLeft, Connection, Door
from pytest_a2a_bench.chaos.frames import StreamEnds
from pytest_a2a_bench.chaos.monkey import Fate, Monkey
from pytest_a2a_bench.chaos.spec import StatusFault

_CODES = {
    429: grpc.StatusCode.RESOURCE_EXHAUSTED,
    500: grpc.StatusCode.INTERNAL,
    502: grpc.StatusCode.UNAVAILABLE,
    503: grpc.StatusCode.UNAVAILABLE,
    504: grpc.StatusCode.DEADLINE_EXCEEDED,
}
_OPTIONS = [
    ("grpc.max_receive_message_length", -1),
    ("grpc.max_send_message_length", -1),
    ("grpc.so_reuseport", 0),
    ("grpc.enable_retries", 0),
    ("grpc.use_local_subchannel_pool", 1),
]
_ANSWER_FRAMES = 512
"""Bytes around a message: the frames of headers and trailers, which are slow too."""

_SERVICES = [module.DESCRIPTOR.services_by_name["A2AService"] for module in (a2a_pb2, a2a_v0_3_pb2)]
_METHODS = {f"/{service.full_name}/{method.name}": method for service in _SERVICES for method in service.methods}


class GrpcProxy:
    """Stands before one gRPC server.

    :param rewrite: what is done to the agent's cards on their way, as JSON.
    """

    def __init__(
        self, monkey: Monkey, target: GrpcTarget, network: Network, rewrite: Any, listen: tuple[str, int]
    ) -> None:
        self._monkey = monkey
        self._target = target
        self._network = network
        self._rewrite = rewrite
        self._connections: dict[int, _Client] = {}
        self.door = Door(*listen, self._relay)

    async def start(self) -> None:
        """Begin to forward calls; the door is opened by the monkey."""
        self._channel = open_channel(self._target, self._network, _OPTIONS)
        self._server = grpc.aio.server(options=_OPTIONS)
        self._server.add_generic_rpc_handlers((_Everything(self._call),))
        self._inner_port = self._server.add_insecure_port("127.0.0.1:0")
        await self._server.start()

    async def stop(self) -> None:
        """Stop forwarding."""
        await self._server.stop(grace=0)
        await self._channel.close()

    # -- bytes of connections --

    async def _relay(self, connection: Connection) -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", self._inner_port)
        port = writer.get_extra_info("sockname")[1]
        client = self._connections[port] = _Client(connection)
        up = asyncio.ensure_future(_pump_up(connection, writer))
        down = asyncio.ensure_future(client.pump_down(reader))
        try:
            await asyncio.wait({up, down}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            # Before anything is waited for: who is canceled here once may be canceled again.
            writer.close()
            for task in (up, down):
                task.cancel()
            del self._connections[port]
            await asyncio.gather(up, down, return_exceptions=True)

    # -- calls --

    async def _call(self, name: str, requests: AsyncIterator[bytes], context: Any) -> AsyncIterator[bytes]:
        sent = [request async for request in requests]
        client = self._connections.get(int(context.peer().rpartition(":")[2]))
        if client is None:  # it left meanwhile
            return
        fate = self._monkey.meet(_read_call(name, sent))
        client.calls += 1
        try:
            async for piece in self._answer(fate, client, name, sent, context):
                yield piece
        finally:
            client.calls -= 1
            fate.settle()

    async def _answer(
        self, fate: Fate, client: _Client, name: str, sent: list[bytes], context: Any
    ) -> AsyncIterator[bytes]:
        connection = client.connection
        if fate.is_restart:
            fate.note()
            self._monkey.restart()
            return
        if fate.fault == "reset":
            fate.note()
            connection.reset()
            return
        if fate.status and not fate.status.late:
            fate.note()
            await _abort(context, fate.status, self._monkey.spec.retry_after)
        call = self._channel.stream_stream(name)(
            _iterate(sent), metadata=_metadata(context.invocation_metadata()), timeout=context.time_remaining()
        )
        try:
            async for piece in self._given(fate, client, name, call, context):
                yield piece
            context.set_trailing_metadata(_metadata(await call.trailing_metadata()))
        except grpc.aio.AioRpcError as error:
            # The agent's own refusals are answers; what has no trailers never came from it.
            if not connection.ended:
                await context.abort(error.code(), error.details() or "", _metadata(error.trailing_metadata()))
        finally:
            call.cancel()

    async def _given(self, fate: Fate, client: _Client, name: str, call: Any, context: Any) -> AsyncIterator[bytes]:
        connection, spec = client.connection, self._monkey.spec
        if fate.fault == "after-delivery" or fate.status:
            # Waits for the end of the call, with an error too: the agent has worked then.
            with contextlib.suppress(grpc.aio.AioRpcError):
                async for _ in call:
                    pass
            fate.note()
            if fate.status:
                await _abort(context, fate.status, spec.retry_after)
            connection.reset()
            return
        if fate.fault == "hang-before":
            await fate.hang()
        await context.send_initial_metadata(_metadata(await call.initial_metadata()))
        stream = _METHODS[name].server_streaming if name in _METHODS else False
        pieces = distorted(
            fate.in_content,
            aiter(call),
            stream=stream,
            edit=functools.partial(_edit, fate.fault or "", name),
            note=fate.note,
            hang=self._monkey.hang,
        )
        async for piece in pieces:
            if fate.fault == "half-close":
                fate.note()
                connection.cut = len(piece) // 2
            elif fate.fault == "dribble":
                fate.note()
                connection.delay, connection.slow = spec.dribble_delay, connection.slow + len(piece) + _ANSWER_FRAMES
            yield self._rewritten(name, piece) if fate.call.kind == "card" else piece
        if fate.fault == "refuse":
            fate.note()
            self.door.refuse_for(spec.refuse_for)
            client.leave()

    def _rewritten(self, name: str, piece: bytes) -> bytes:
        return _through_json(name, piece, lambda card: json.loads(self._rewrite(json.dumps(card).encode())))


class _Client:
    """One client's connection, and how many of its calls are open."""

    def __init__(self, connection: Connection) -> None:
        self.connection = connection
        self.calls = 0
        self._is_leaving = False

    def leave(self) -> None:
        """End the connection with the call that ends next, unless others are open on it."""
        self._is_leaving = self.calls == 1

    async def pump_down(self, reader: asyncio.StreamReader) -> None:
        """Give the client what our server answers."""
        ends = StreamEnds()
        with contextlib.suppress(OSError, ClientLeft):
            while data := await reader.read(65536):
                ended = ends.feed(data)
                await self.connection.write(data)
                if ended and self._is_leaving:
                    await self.connection.end()
                if self.connection.ended:
                    return


async def _pump_up(connection: Connection, writer: asyncio.StreamWriter) -> None:
    with contextlib.suppress(OSError):
        while data := await connection.read():
            writer.write(data)
            await writer.drain()


class _Everything(grpc.GenericRpcHandler):  # type: ignore[misc]
    """Handles every method as bytes: on the wire, one answer is a stream of one."""

    def __init__(self, call: Any) -> None:
        self._call = call

    def service(self, details: Any) -> Any:
        return grpc.stream_stream_rpc_method_handler(functools.partial(self._call, details.method))


def _read_call(name: str, sent: list[bytes]) -> Call:
    method = name.rpartition("/")[2]
    kind = kind_of(method)
    known = _METHODS.get(name)
    if kind != "send" or known is None or not sent:
        return Call("grpc", method, kind)
    with contextlib.suppress(ValueError, json_format.Error):
        request = GetMessageClass(known.input_type).FromString(sent[0])
        params = json_format.MessageToDict(request)
        return Call("grpc", method, kind, message_id_in(params), begins=begins_in(params))
    return Call("grpc", method, kind)


def _edit(fault: str, name: str, piece: bytes) -> bytes:
    return _through_json(name, piece, lambda value: edit_ids(fault, value))


def _through_json(name: str, piece: bytes, change: Any) -> bytes:
    """Return a message changed in its JSON form; as it was where nothing changed or it cannot be read."""
    if name not in _METHODS:
        return piece
    try:
        message: Message = GetMessageClass(_METHODS[name].output_type).FromString(piece)
        before = json_format.MessageToDict(message)
        after = change(before)
        if after == before:
            return piece
        written: bytes = json_format.ParseDict(after, type(message)()).SerializeToString()
        return written
    except (ValueError, json_format.Error):
        return piece


def _metadata(pairs: Any) -> tuple[tuple[str, Any], ...]:
    """Return metadata without what gRPC itself writes."""
    return tuple((k, v) for k, v in pairs or () if not k.startswith(("grpc-accept", "grpc-encoding", ":")))


async def _abort(context: Any, fault: StatusFault, retry_after: int) -> None:
    code = _CODES[fault.status]
    text = f"{fault.name}: injected by a2a-bench chaos"
    trailers: tuple[tuple[str, Any], ...] = ()
    if fault.retry:
        info = error_details_pb2.RetryInfo()
        info.retry_delay.seconds = retry_after
        status = status_pb2.Status(code=code.value[0], message=text)
        status.details.add().Pack(info)
        trailers = (("grpc-status-details-bin", status.SerializeToString()), ("retry-after", str(retry_after)))
    await context.abort(code, text, trailers)


async def _iterate(sent: list[bytes]) -> Pieces:
    for request in sent:
        yield request
