"""A raw gRPC server, which does with every call what a test tells it to."""

import concurrent.futures
import contextlib
from collections.abc import Callable, Iterator
from typing import Any

import grpc


def insecure_card(address: str) -> dict[str, Any]:
    """Return the card of an agent that speaks gRPC without TLS, and nothing else."""
    interface = {"url": address, "protocolBinding": "GRPC", "protocolVersion": "1.0"}
    return {"name": "over gRPC", "supportedInterfaces": [interface]}


@contextlib.contextmanager
def raw_grpc(answer: Callable[[bytes, Any], bytes], credentials: grpc.ServerCredentials | None = None) -> Iterator[str]:
    """Serve gRPC; gives ``HOST:PORT``.

    :param answer: gets a call's request and its context, and returns the reply as bytes.
    :param credentials: of TLS; None is without.
    """

    class Service(grpc.GenericRpcHandler):  # type: ignore[misc]  # grpcio comes without types
        def service(self, _: grpc.HandlerCallDetails) -> Any:
            return grpc.unary_unary_rpc_method_handler(answer)

    server = grpc.server(concurrent.futures.ThreadPoolExecutor(2), handlers=[Service()])
    where = "127.0.0.1:0"
    port = server.add_secure_port(where, credentials) if credentials else server.add_insecure_port(where)
    server.start()
    try:
        yield f"127.0.0.1:{port}"
    finally:
        server.stop(0).wait()
