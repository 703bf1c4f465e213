"""Faults of who may ask what and how: versions, credentials, the extended card, extensions and tenants."""

from __future__ import annotations

from faulty.fault import (
    Fault,
    FaultyCall,
    Json,
    Packet,
    answering,
    dropped,
    error_as,
    headers,
    only,
)
from faulty.problems import failure


def _refuse_patch(call: FaultyCall, params: Json) -> Json:
    if call.version.count(".") > 1:
        raise failure("VersionNotSupported", f"version {call.version} is not supported")
    return params


def _no_challenge(call: FaultyCall, packet: Packet) -> Packet:
    return headers(www_authenticate=None)(call, packet) if packet.status == 401 else packet


ACCESS_FAULTS: dict[str, Fault] = {
    "no-patch": Fault(request=_refuse_patch),
    "no-challenge": Fault(packet=_no_challenge),
    "auth-status": Fault(error=error_as("Unauthenticated", http=400, grpc="INVALID_ARGUMENT")),
    "extended-open": Fault(error=answering("UnsupportedOperation", "GetExtendedAgentCard", lambda p: {"name": "x"})),
    "extended-code": Fault(
        error=error_as(
            "ExtendedAgentCardNotConfigured", code=-32603, http=500, grpc="INTERNAL", kind="Internal", details=()
        )
    ),
    "extended-thin": Fault(reply=only("GetExtendedAgentCard", lambda card: dropped(card, "skills", "version"))),
    "extended-no-caching": Fault(
        packet=lambda c, p: headers(cache_control=None, etag=None)(c, p) if c.operation == "GetExtendedAgentCard" else p
    ),
    "extended-secret": Fault(
        reply=only(
            "GetExtendedAgentCard",
            lambda card: card.update(description="Uses the key sk-live-51H8aBcDeFgHiJkLmNoPqRsTuVwXyZ0123456789."),
        )
    ),
}
