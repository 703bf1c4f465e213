"""Faults of the card as it is served, and of who may ask what and how: versions, credentials, the extended card.

What is wrong inside a card is told by the vectors (``conformance/data``), which need no server.
"""

from __future__ import annotations

from faulty.fault import (
    Fault,
    FaultyCall,
    Json,
    Packet,
    answering,
    card_fault,
    delivery_headers,
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
    "card-not-served": card_fault(
        lambda card: card["supportedInterfaces"].append({**card["supportedInterfaces"][0], "protocolVersion": "0.3"})
    ),
    "card-doubled-path": card_fault(
        lambda card: [i.update(url=f"{i['url'].rstrip('/')}/a2a/a2a") for i in card["supportedInterfaces"][:1]]
    ),
    "card-hidden-binding": card_fault(
        lambda card: card.update(
            supportedInterfaces=[i for i in card["supportedInterfaces"] if i["protocolBinding"] == "JSONRPC"]
        )
    ),
    "card-wrong-binding": card_fault(lambda card: card["supportedInterfaces"][0].update(protocolBinding="HTTP+JSON")),
    "card-no-name": card_fault(lambda card: card.pop("name")),
    "card-missing": Fault(card_packet=lambda packet: Packet(404, {"content-type": "text/plain"}, b"not found")),
    "card-array": Fault(card_packet=lambda packet: packet._replace(body=b"[" + packet.body + b"]")),
    "card-no-cache-control": Fault(card_packet=delivery_headers(cache_control=None)),
    "card-no-etag": Fault(card_packet=delivery_headers(etag=None)),
    "sign-stale": Fault(signed=lambda card: {**card, "description": "What it was once."}),
    "old-card-wrong-transport": card_fault(
        lambda card: card["additionalInterfaces"][1].update(url=f"{card['url'].rstrip('/')}/nowhere")
    ),
    "no-patch": Fault(request=_refuse_patch),
    "no-challenge": Fault(packet=_no_challenge),
    "auth-status": error_as("Unauthenticated", http=400, grpc="INVALID_ARGUMENT"),
    "extended-open": answering("UnsupportedOperation", "GetExtendedAgentCard", lambda p: {"name": "x"}),
    "extended-code": error_as(
        "ExtendedAgentCardNotConfigured", code=-32603, http=500, grpc="INTERNAL", kind="Internal", details=()
    ),
    "extended-thin": only("GetExtendedAgentCard", lambda card: dropped(card, "skills", "version")),
    "extended-no-caching": Fault(
        packet=lambda c, p: headers(cache_control=None, etag=None)(c, p) if c.operation == "GetExtendedAgentCard" else p
    ),
    "extended-secret": only(
        "GetExtendedAgentCard",
        lambda card: card.update(description="Uses the key sk-live-51H8aBcDeFgHiJkLmNoPqRsTuVwXyZ0123456789."),
    ),
}
