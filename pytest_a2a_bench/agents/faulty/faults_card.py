"""Faults of the agent card and of its signatures."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pytest_a2a_bench.agents.faulty.fault import Fault, Json, Packet, delivery_headers, switch


def _card(name: str, says: str, breaks: str, change: Callable[[Json], object], **options: Any) -> Fault:
    """Return a fault of the published card, which the change alters in place."""

    def hook(card: Json) -> Json:
        change(card)
        return card

    return Fault(name, says, (breaks,), card=hook, **options)


def _served(name: str, says: str, breaks: str, hook: Callable[[Packet], Packet]) -> Fault:
    """Return a fault of the response that carries the card."""
    return Fault(name, says, (breaks,), card_packet=hook)


def _skill(**members: Any) -> Callable[[Json], None]:
    return lambda card: card["skills"][0].update(members)


def _interface(**members: Any) -> Callable[[Json], None]:
    return lambda card: card["supportedInterfaces"][0].update(members)


def _snake(card: Json) -> None:
    card["default_input_modes"] = card.pop("defaultInputModes")


def _html(packet: Packet) -> Packet:
    page = b"<!doctype html><title>agent</title><div id=app></div>"
    return packet._replace(headers={**packet.headers, "content-type": "text/html"}, body=page)


def _implicit(card: Json) -> None:
    flow = {"authorizationUrl": "https://example.com/authorize", "scopes": {}}
    card["securitySchemes"]["login"] = {"oauth2SecurityScheme": {"flows": {"implicit": flow}}}


def _second_interface(**members: str) -> Callable[[Json], None]:
    return lambda card: card["supportedInterfaces"].append({**card["supportedInterfaces"][0], **members})


def _only_rpc(card: Json) -> None:
    card["supportedInterfaces"] = [i for i in card["supportedInterfaces"] if i["protocolBinding"] == "JSONRPC"]


def _name_twice(packet: Packet) -> Packet:
    return packet._replace(body=packet.body.replace(b'"name":', b'"name": "first", "name":', 1))


CARD_FAULTS = (
    _card(
        "card-odd-binding",
        "An interface's binding is a word that nobody knows.",
        "CARD-011",
        _second_interface(protocolBinding="WEBSOCKET", url="https://example.com/socket"),
    ),
    _card(
        "card-extension-version",
        "An extension's URI has no version.",
        "CARD-024",
        lambda card: card["capabilities"]["extensions"][0].update(uri="https://example.com/echo"),
    ),
    _card("card-implicit-flow", "A deprecated OAuth flow is offered.", "CARD-025", _implicit, variant="guarded"),
    _card(
        "card-extended-no-scheme",
        "An extended card is offered, and no security scheme to get it with.",
        "CARD-027",
        lambda card: card["capabilities"].update(extendedAgentCard=True),
    ),
    _card(
        "card-not-served",
        "The card declares a version that the interface does not speak.",
        "VER-009",
        _second_interface(protocolVersion="0.3"),
    ),
    _card(
        "card-hidden-binding",
        "HTTP+JSON is served at the address of JSON-RPC, and not declared.",
        "CARD-008",
        _only_rpc,
        switches=frozenset({"rest-at-root"}),
    ),
    _served(
        "card-wrong-date",
        "Last-Modified of the card is no date.",
        "CARD-016",
        delivery_headers(last_modified="yesterday"),
    ),
    _card("card-wrong-type", "The card's version is a number.", "CARD-029", lambda card: card.update(version=1)),
    _served("card-twice", "The card names a member twice.", "CARD-030", _name_twice),
    _card("card-icon", "The icon's URL is relative.", "CARD-031", lambda card: card.update(iconUrl="icon.png")),
    _card(
        "card-future-version",
        "An interface declares a version that does not exist.",
        "CARD-032",
        _second_interface(protocolVersion="2.7"),
    ),
    _card("card-double-interface", "An interface is declared twice.", "CARD-033", _second_interface()),
    _served(
        "card-missing",
        "The card is not at the well-known path.",
        "CARD-001",
        lambda packet: Packet(404, {"content-type": "text/plain"}, b"not found"),
    ),
    _served("card-html", "The well-known path answers with a web page.", "CARD-002", _html),
    _served(
        "card-array",
        "The card is wrapped in an array.",
        "CARD-002",
        lambda packet: packet._replace(body=b"[" + packet.body + b"]"),
    ),
    _card("card-no-name", "The card has no name.", "CARD-003", lambda card: card.pop("name")),
    _card("card-no-version", "The card has no version.", "CARD-003", lambda card: card.pop("version")),
    _card(
        "card-no-capabilities",
        "The card has no capabilities.",
        "CARD-003",
        lambda card: card.pop("capabilities"),
        variant="bare",
    ),
    _card("card-no-skills", "The card has an empty list of skills.", "CARD-004", lambda card: card.update(skills=[])),
    _card("card-no-tags", "A skill of the card has no tags.", "CARD-005", lambda card: card["skills"][0].pop("tags")),
    _card("card-empty-skill-id", "A skill's id is empty.", "CARD-005", _skill(id="")),
    _card(
        "card-no-protocol-version",
        "An interface does not say which protocol version it speaks.",
        "CARD-006",
        lambda card: card["supportedInterfaces"][0].pop("protocolVersion"),
    ),
    _card(
        "card-wrong-binding",
        "The JSON-RPC address is declared as HTTP+JSON.",
        "CARD-007",
        _interface(protocolBinding="HTTP+JSON"),
    ),
    _card("card-relative-url", "An interface's URL is relative.", "CARD-009", _interface(url="/")),
    _card("card-patch-version", "An interface gives a patch version.", "CARD-010", _interface(protocolVersion="1.0.1")),
    _card("card-snake-case", "A member of the card is in snake_case.", "CARD-012", _snake),
    _served(
        "card-no-cache-control",
        "The card comes without Cache-Control.",
        "CARD-013",
        delivery_headers(cache_control=None),
    ),
    _served("card-no-etag", "The card comes without an ETag.", "CARD-014", delivery_headers(etag=None)),
    switch("card-no-304", "A conditional request for the card is answered in full.", "CARD-015", by="no-304"),
    _card(
        "card-secret",
        "An interface's URL has a password in it.",
        "CARD-017",
        lambda card: card["supportedInterfaces"][0].update(
            url=card["supportedInterfaces"][0]["url"].replace("://", "://admin:hunter2@")
        ),
    ),
    _card(
        "card-two-schemes",
        "A security scheme is of two kinds.",
        "CARD-018",
        lambda card: card["securitySchemes"]["bearer"].update(
            apiKeySecurityScheme={"location": "header", "name": "X-Key"}
        ),
        variant="guarded",
    ),
    _card(
        "card-dangling-scheme",
        "A security requirement names a scheme that is not declared.",
        "CARD-019",
        lambda card: card["securityRequirements"].append({"schemes": {"nobody": {"list": []}}}),
        variant="guarded",
    ),
    _card(
        "card-double-skill",
        "Two skills have the same id.",
        "CARD-020",
        lambda card: card["skills"].append(dict(card["skills"][0])),
    ),
    _card(
        "card-modes",
        "An input mode is no media type.",
        "CARD-021",
        lambda card: card.update(defaultInputModes=["text"]),
    ),
    _card("card-provider", "The provider has no url.", "CARD-022", lambda card: card["provider"].pop("url")),
    _card(
        "card-extension-uri",
        "An extension has no URI.",
        "CARD-023",
        lambda card: card["capabilities"]["extensions"][0].pop("uri"),
    ),
    _card(
        "card-leftovers",
        "The card has members that only 0.3 knows.",
        "CARD-026",
        lambda card: card.update(preferredTransport="JSONRPC", url=card["supportedInterfaces"][0]["url"]),
    ),
    _card("card-null", "An unset member of the card is null.", "CARD-028", lambda card: card.update(iconUrl=None)),
)


# -- signatures --


def _sign(name: str, says: str, breaks: str, **hooks: Any) -> Fault:
    return Fault(name, says, (breaks,), "signed", **hooks)


def _header(**members: Any) -> dict[str, Any]:
    def change(header: Json) -> Json:
        return {k: v for k, v in {**header, **members}.items() if v is not None}

    return {"header": change}


SIGNATURE_FAULTS = (
    _sign(
        "sign-no-base64",
        "A signature is not base64url.",
        "SIGN-001",
        seal=lambda entry: {**entry, "signature": "+/+/=="},
    ),
    _sign(
        "sign-no-header",
        "A signature's protected header is no JSON.",
        "SIGN-001",
        seal=lambda entry: {**entry, "protected": "bm90aGluZw"},
    ),
    _sign("sign-no-kid", "A signature does not name its key.", "SIGN-002", **_header(kid=None)),
    _sign("sign-no-alg", "A signature does not name its algorithm.", "SIGN-002", **_header(alg=None)),
    _sign("sign-typ", "A signature's typ is JWT.", "SIGN-003", **_header(typ="JWT")),
    _sign(
        "sign-other-key",
        "The published key is another than the one that signed.",
        "SIGN-004",
        switches=frozenset({"other-key"}),
    ),
    _sign(
        "sign-stale",
        "The card has changed since it was signed.",
        "SIGN-004",
        signed=lambda card, plain: {**plain, "description": "What it was once."},
    ),
    _sign(
        "sign-signatures",
        "The empty list of signatures is signed too.",
        "SIGN-005",
        signed=lambda card, plain: {**plain, "signatures": []},
    ),
    _sign(
        "sign-defaults", "Default values that are not kept are signed too.", "SIGN-006", signed=lambda card, plain: card
    ),
    _sign(
        "sign-jku", "The keys are to be fetched without TLS.", "SIGN-007", **_header(jku="http://example.com/jwks.json")
    ),
    _sign("sign-none", "The algorithm is none.", "SIGN-008", **_header(alg="none")),
    _sign("sign-symmetric", "The algorithm is symmetric.", "SIGN-008", **_header(alg="HS256")),
)
