"""Opening a connection to an interface, whatever its binding."""

from __future__ import annotations

from pytest_a2a_bench.a2a.auth import AuthParts
from pytest_a2a_bench.a2a.network import USUAL, Network
from pytest_a2a_bench.conformance.wire.base import Wire
from pytest_a2a_bench.conformance.wire.exchange import Limits, Redactor
from pytest_a2a_bench.conformance.wire.http import HttpWire
from pytest_a2a_bench.errors import MissingExtraError


def open_wire(
    binding: str,
    version: str,
    url: str,
    *,
    endpoint: str,
    tenant: str = "",
    auth: AuthParts | None = None,
    network: Network = USUAL,
    limits: Limits | None = None,
    redactor: Redactor | None = None,
) -> Wire:
    """Open a connection to one interface.

    :param endpoint: what the user gave; an address without a scheme is read in its light.
    :param network: how; without our certificate where the interface must not see it.
    :raises MissingExtraError: for gRPC, where it is not installed.
    :raises ProtocolError: if the address is none.
    """
    if binding == "GRPC":
        # An extra: whoever judges HTTP alone needs no grpcio.
        try:
            from pytest_a2a_bench.conformance.wire.grpc import GrpcWire
        except ImportError as error:
            raise MissingExtraError("grpcio", "grpc", str(error)) from error
        return GrpcWire(
            url,
            version,
            endpoint=endpoint,
            tenant=tenant,
            auth=auth,
            network=network,
            limits=limits,
            redactor=redactor,
        )
    return HttpWire(url, binding, version, tenant=tenant, auth=auth, network=network, limits=limits, redactor=redactor)
