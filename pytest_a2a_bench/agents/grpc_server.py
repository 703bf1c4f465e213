"""The gRPC binding of a built-in agent. Importing this module needs grpcio."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import grpc
import grpc.aio
from a2a.compat.v0_3 import a2a_v0_3_pb2_grpc
from a2a.compat.v0_3.grpc_handler import CompatGrpcHandler
from a2a.server.context import ServerCallContext
from a2a.server.request_handlers import DefaultRequestHandler, GrpcHandler
from a2a.server.request_handlers.grpc_handler import DefaultGrpcServerCallContextBuilder
from a2a.types import a2a_pb2_grpc

from pytest_a2a_bench.agents.gateway import bearer, check_version
from pytest_a2a_bench.errors import ConfigurationError

_MAX_MESSAGE_BYTES = 64 * 1024 * 1024


class GrpcServer:
    """A gRPC server whose port is known before it serves anything, because the agent card names it."""

    def __init__(self, host: str, port: int, token: str | None) -> None:
        self._server = grpc.aio.server(
            interceptors=[_RequireToken(token)] if token else [],
            options=[("grpc.so_reuseport", 0), ("grpc.max_receive_message_length", _MAX_MESSAGE_BYTES)],
        )
        address = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
        try:
            self.port: int = self._server.add_insecure_port(address)
        except RuntimeError as error:
            raise ConfigurationError(
                f"built-in agent: cannot listen for gRPC on {address}: {error}; choose another --grpc-port"
            ) from error

    async def start(self, handler: DefaultRequestHandler, protocols: Sequence[str]) -> None:
        """Serve the given protocol versions; 0.3 and 1.0 are two services on one port."""
        add_v10: Any = a2a_pb2_grpc.add_A2AServiceServicer_to_server
        add_v03: Any = a2a_v0_3_pb2_grpc.add_A2AServiceServicer_to_server
        if "1.0" in protocols:
            add_v10(GrpcHandler(handler, _StrictContextBuilder()), self._server)
        if "0.3" in protocols:
            add_v03(CompatGrpcHandler(handler), self._server)
        await self._server.start()

    async def stop(self, grace: float = 1) -> None:
        """Stop, giving open calls a moment."""
        await self._server.stop(grace=grace)


class _StrictContextBuilder(DefaultGrpcServerCallContextBuilder):
    def build(self, context: Any) -> ServerCallContext:
        check_version(str(dict(context.invocation_metadata() or ()).get("a2a-version", "")))
        return super().build(context)


class _RequireToken(grpc.aio.ServerInterceptor):  # type: ignore[misc]
    def __init__(self, token: str) -> None:
        self._find_caller = bearer(token)

        async def refuse(_: Any, context: Any) -> None:
            await context.abort(grpc.StatusCode.UNAUTHENTICATED, "a bearer token is required")

        self._refusal = grpc.unary_unary_rpc_method_handler(refuse)

    async def intercept_service(self, continuation: Callable[[Any], Awaitable[Any]], details: Any) -> Any:
        given = str(dict(details.invocation_metadata).get("authorization", ""))
        return self._refusal if self._find_caller(given) is None else await continuation(details)
