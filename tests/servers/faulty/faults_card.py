"""Faults of the agent card and of its signatures."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from faulty.fault import Fault, Json, Packet, card_fault, delivery_headers


def _served(hook: Callable[[Packet], Packet]) -> Fault:
    """Return a fault of the response that carries the card."""
    return Fault(card_packet=hook)


def _skill(**members: Any) -> Callable[[Json], None]:
    return lambda card: card["skills"][0].update(members)


def _interface(**members: Any) -> Callable[[Json], None]:
    return lambda card: card["supportedInterfaces"][0].update(members)


def _html(packet: Packet) -> Packet:
    page = b"<!doctype html><title>agent</title><div id=app></div>"
    return packet._replace(headers={**packet.headers, "content-type": "text/html"}, body=page)


def _implicit(card: Json) -> None:
    flow = {"authorizationUrl": "https://example.com/authorize", "scopes": {}}
    card["securitySchemes"]["login"] = {"oauth2SecurityScheme": {"flows": {"implicit": flow}}}


def _second_interface(**members: str) -> Callable[[Json], None]:
    return lambda card: card["supportedInterfaces"].append({**card["supportedInterfaces"][0], **members})


CARD_FAULTS: dict[str, Fault] = {
    "card-odd-binding": card_fault(_second_interface(protocolBinding="WEBSOCKET", url="https://example.com/socket")),
    "card-extension-version": card_fault(
        lambda card: card["capabilities"]["extensions"][0].update(uri="https://example.com/echo")
    ),
    "card-implicit-flow": card_fault(_implicit),
    "card-extended-no-scheme": card_fault(lambda card: card["capabilities"].update(extendedAgentCard=True)),
    "card-not-served": card_fault(_second_interface(protocolVersion="0.3")),
    "card-doubled-path": card_fault(
        lambda card: [i.update(url=f"{i['url'].rstrip('/')}/a2a/a2a") for i in card["supportedInterfaces"][:1]]
    ),
    "card-hidden-binding": card_fault(
        lambda card: card.update(
            supportedInterfaces=[i for i in card["supportedInterfaces"] if i["protocolBinding"] == "JSONRPC"]
        )
    ),
    "card-wrong-date": _served(delivery_headers(last_modified="yesterday")),
    "card-wrong-type": card_fault(lambda card: card.update(version=1)),
    "card-twice": _served(
        lambda packet: packet._replace(body=packet.body.replace(b'"name":', b'"name": "first", "name":', 1))
    ),
    "card-icon": card_fault(lambda card: card.update(iconUrl="icon.png")),
    "card-future-version": card_fault(_second_interface(protocolVersion="2.7")),
    "card-double-interface": card_fault(_second_interface()),
    "card-missing": _served(lambda packet: Packet(404, {"content-type": "text/plain"}, b"not found")),
    "card-html": _served(_html),
    "card-array": _served(lambda packet: packet._replace(body=b"[" + packet.body + b"]")),
    "card-no-name": card_fault(lambda card: card.pop("name")),
    "card-no-version": card_fault(lambda card: card.pop("version")),
    "card-no-capabilities": card_fault(lambda card: card.pop("capabilities")),
    "card-no-skills": card_fault(lambda card: card.update(skills=[])),
    "card-no-tags": card_fault(lambda card: card["skills"][0].pop("tags")),
    "card-empty-skill-id": card_fault(_skill(id="")),
    "card-no-protocol-version": card_fault(lambda card: card["supportedInterfaces"][0].pop("protocolVersion")),
    "card-wrong-binding": card_fault(_interface(protocolBinding="HTTP+JSON")),
    "card-relative-url": card_fault(_interface(url="/")),
    "card-patch-version": card_fault(_interface(protocolVersion="1.0.1")),
    "card-snake-case": card_fault(lambda card: card.update(default_input_modes=card.pop("defaultInputModes"))),
    "card-no-cache-control": _served(delivery_headers(cache_control=None)),
    "card-no-etag": _served(delivery_headers(etag=None)),
    "card-secret": card_fault(
        lambda card: card["supportedInterfaces"][0].update(
            url=card["supportedInterfaces"][0]["url"].replace("://", "://admin:hunter2@")
        )
    ),
    "card-two-schemes": card_fault(
        lambda card: card["securitySchemes"]["bearer"].update(
            apiKeySecurityScheme={"location": "header", "name": "X-Key"}
        )
    ),
    "card-dangling-scheme": card_fault(
        lambda card: card["securityRequirements"].append({"schemes": {"nobody": {"list": []}}})
    ),
    "card-double-skill": card_fault(lambda card: card["skills"].append(dict(card["skills"][0]))),
    "card-modes": card_fault(lambda card: card.update(defaultInputModes=["text"])),
    "card-provider": card_fault(lambda card: card["provider"].pop("url")),
    "card-extension-uri": card_fault(lambda card: card["capabilities"]["extensions"][0].pop("uri")),
    "card-leftovers": card_fault(
        lambda card: card.update(preferredTransport="JSONRPC", url=card["supportedInterfaces"][0]["url"])
    ),
    "card-null": card_fault(lambda card: card.update(iconUrl=None)),
}


# -- signatures --


def _header(**members: Any) -> dict[str, Any]:
    def change(header: Json) -> Json:
        return {k: v for k, v in {**header, **members}.items() if v is not None}

    return {"header": change}


SIGNATURE_FAULTS: dict[str, Fault] = {
    "sign-no-base64": Fault(seal=lambda entry: {**entry, "signature": "+/+/=="}),
    "sign-no-header": Fault(seal=lambda entry: {**entry, "protected": "bm90aGluZw"}),
    "sign-no-kid": Fault(**_header(kid=None)),
    "sign-no-alg": Fault(**_header(alg=None)),
    "sign-typ": Fault(**_header(typ="JWT")),
    "sign-stale": Fault(signed=lambda card, plain: {**plain, "description": "What it was once."}),
    "sign-signatures": Fault(signed=lambda card, plain: {**plain, "signatures": []}),
    "sign-defaults": Fault(signed=lambda card, plain: card),
    "sign-jku": Fault(**_header(jku="http://example.com/jwks.json")),
    "sign-none": Fault(**_header(alg="none")),
    "sign-symmetric": Fault(**_header(alg="HS256")),
}
