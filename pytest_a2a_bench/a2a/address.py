"""Where a gRPC channel goes (pure); cards give these addresses in many forms."""

from __future__ import annotations

import urllib.parse
from typing import NamedTuple

from pytest_a2a_bench.errors import ProtocolError

_RESOLVERS = ("dns", "ipv4", "ipv6")
_DEFAULT_PORT = 443


class Target(NamedTuple):
    """Where a channel goes: gRPC's own name for it, and whether it is encrypted."""

    address: str
    tls: bool


def read_target(url: str, endpoint: str) -> Target:
    """Read any of the forms in which cards give a gRPC address.

    ``https`` and ``grpcs`` mean TLS, ``http`` and ``grpc`` none. A bare ``host:port`` says nothing about it: TLS is
    used on port 443 and where the endpoint itself is ``https``.
    """
    scheme, separator, rest = url.partition("://")
    scheme = scheme.lower()
    if not separator or scheme in _RESOLVERS:
        address = url if separator else url.rstrip("/")
        return Target(address, address.endswith(":443") or endpoint.lower().startswith("https:"))
    if scheme not in ("http", "https", "grpc", "grpcs"):
        raise ProtocolError(f"the gRPC address {url!r} has an unknown scheme; fix the agent card")
    tls = scheme in ("https", "grpcs")
    parts = urllib.parse.urlsplit(f"//{rest}")
    host = f"[{parts.hostname}]" if ":" in (parts.hostname or "") else parts.hostname
    return Target(f"{host}:{parts.port or (443 if tls else 80)}", tls)


def is_bare(url: str) -> bool:
    """Tell whether an address is ``host:port`` or a name for gRPC's resolvers: no scheme says if it has TLS."""
    scheme, separator, _ = url.partition("://")
    return not separator or scheme.lower() in _RESOLVERS


def host_of(address: str) -> tuple[str, int]:
    """Return host and port of a bare address, such as ``host:port``, ``dns:///host:port`` or ``ipv6:[::1]:port``.

    :raises ValueError: if it does not name exactly one host, or names the server that shall resolve it: whoever
        chooses that one chooses the host.
    """
    scheme, colon, rest = address.partition(":")
    place = rest if colon and scheme.lower() in _RESOLVERS else address
    if place.startswith("//"):
        authority, _, place = place[2:].partition("/")
        if authority:
            raise ValueError(f"{address!r} names a name server of its own")
    place = place.strip("/")
    if not place or any(c in place for c in "@/\\?#, %"):
        raise ValueError(f"{address!r} does not name one host")
    parts = urllib.parse.urlsplit(f"//{place}")
    if not parts.hostname:
        raise ValueError(f"{address!r} names no host")
    return parts.hostname, parts.port or _DEFAULT_PORT
