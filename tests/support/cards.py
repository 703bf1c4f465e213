"""Good agent cards of both versions, and how to break them."""

import base64
import functools
import json
import operator
from collections.abc import Callable
from typing import Any, cast

Card = dict[str, Any]
Break = Callable[[Card], None]


def minimal_1_0() -> Card:
    """The least that a 1.0 card can say."""
    return {
        "name": "Router",
        "description": "Plans routes.",
        "version": "1.2.0",
        "supportedInterfaces": [
            {"url": "https://router.example.com/rpc", "protocolBinding": "JSONRPC", "protocolVersion": "1.0"}
        ],
        "capabilities": {},
        "defaultInputModes": ["text/plain"],
        "defaultOutputModes": ["text/plain"],
        "skills": [{"id": "route", "name": "Route", "description": "From here to there.", "tags": ["maps"]}],
    }


def full_1_0() -> Card:
    """Every member of 1.0, and members that nobody knows."""
    return {
        **minimal_1_0(),
        "supportedInterfaces": [
            {"url": "https://router.example.com/rpc", "protocolBinding": "JSONRPC", "protocolVersion": "1.0"},
            {"url": "https://router.example.com/rpc", "protocolBinding": "HTTP+JSON", "protocolVersion": "1.0"},
            {"url": "grpc.example.com:443", "protocolBinding": "GRPC", "protocolVersion": "1.0", "tenant": "a"},
            {"url": "grpc.example.com:443", "protocolBinding": "GRPC", "protocolVersion": "1.0", "tenant": "b"},
            {"url": "http://127.0.0.1:8080/", "protocolBinding": "JSONRPC", "protocolVersion": "1.0"},
            {
                "url": "wss://router.example.com/socket",
                "protocolBinding": "https://example.com/bindings/websocket/v1",
                "protocolVersion": "1.0",
                "x-weight": 3,
            },
        ],
        "provider": {"organization": "Example Geo", "url": "https://geo.example.com"},
        "documentationUrl": "https://docs.example.com/router?page=token",
        "iconUrl": "data:image/png;base64,AAAA",
        "capabilities": {
            "streaming": True,
            "pushNotifications": False,
            "extendedAgentCard": True,
            "extensions": [
                {"uri": "https://example.com/ext/traffic/v1", "description": "Jams", "params": {"nothing": None}},
                {"uri": "urn:example:citations:2.1", "required": True},
            ],
        },
        "securitySchemes": {
            "key": {"apiKeySecurityScheme": {"location": "header", "name": "X-Key", "description": "Ask us"}},
            "bearer": {"httpAuthSecurityScheme": {"scheme": "Bearer", "bearerFormat": "JWT"}},
            "mtls": {"mtlsSecurityScheme": {}},
            "oidc": {"openIdConnectSecurityScheme": {"openIdConnectUrl": "https://id.example.com/.well-known/x"}},
            "code": {
                "oauth2SecurityScheme": {
                    "flows": {
                        "authorizationCode": {
                            "authorizationUrl": "https://id.example.com/authorize",
                            "tokenUrl": "https://id.example.com/token",
                            "refreshUrl": "https://id.example.com/refresh",
                            "scopes": {"read": "Read routes"},
                            "pkceRequired": True,
                        }
                    },
                    "oauth2MetadataUrl": "https://id.example.com/.well-known/oauth-authorization-server",
                }
            },
            "device": {
                "oauth2SecurityScheme": {
                    "flows": {
                        "deviceCode": {
                            "deviceAuthorizationUrl": "https://id.example.com/device",
                            "tokenUrl": "https://id.example.com/token",
                            "scopes": {},
                        }
                    }
                }
            },
        },
        "securityRequirements": [{"schemes": {"code": {"list": ["read"]}, "key": {"list": []}}}, {"schemes": {}}],
        "skills": [
            {
                "id": "route",
                "name": "Route",
                "description": "From here to there. Password resets are not our business.",
                "tags": ["maps"],
                "examples": ["Berlin to Rome"],
                "inputModes": ["text/plain; charset=utf-8", "image/*"],
                "outputModes": ["application/vnd.geo+json"],
                "securityRequirements": [{"schemes": {"bearer": {}}}],
            },
            {"id": "map", "name": "Map", "description": "Draws a map.", "tags": ["maps"]},
        ],
        "signatures": [{"protected": encode(GOOD_HEADER), "signature": "c2lnbmF0dXJl", "header": {"note": "x"}}],
        "x-internal-note": {"deep": [None, 1, {"snake_case": True}]},
    }


def minimal_0_3() -> Card:
    """The least that a 0.3 card can say."""
    return {
        "protocolVersion": "0.3.0",
        "name": "Router",
        "description": "Plans routes.",
        "version": "1.2.0",
        "url": "https://router.example.com/rpc",
        "preferredTransport": "JSONRPC",
        "capabilities": {},
        "defaultInputModes": ["text/plain"],
        "defaultOutputModes": ["text/plain"],
        "skills": [],
    }


def full_0_3() -> Card:
    """Every member of 0.3, and members that nobody knows."""
    return {
        **minimal_0_3(),
        "additionalInterfaces": [
            {"url": "https://router.example.com/rpc", "transport": "JSONRPC"},
            {"url": "https://router.example.com/rest", "transport": "HTTP+JSON"},
            {"url": "grpc.example.com:443", "transport": "GRPC"},
            {"url": "wss://router.example.com/socket", "transport": "WEBSOCKET"},
        ],
        "provider": {"organization": "Example Geo", "url": "https://geo.example.com"},
        "documentationUrl": "https://docs.example.com/router",
        "iconUrl": "https://geo.example.com/icon.png",
        "capabilities": {
            "streaming": True,
            "pushNotifications": True,
            "stateTransitionHistory": False,
            "extensions": [{"uri": "https://example.com/ext/traffic", "params": {}, "required": False}],
        },
        "securitySchemes": {
            "key": {"type": "apiKey", "in": "header", "name": "X-Key"},
            "bearer": {"type": "http", "scheme": "bearer"},
            "mtls": {"type": "mutualTLS"},
            "oidc": {"type": "openIdConnect", "openIdConnectUrl": "https://id.example.com/.well-known/x"},
            "oauth": {
                "type": "oauth2",
                "flows": {
                    "clientCredentials": {"tokenUrl": "https://id.example.com/token", "scopes": {"read": "Read"}},
                    "implicit": {"authorizationUrl": "https://id.example.com/authorize", "scopes": {}},
                },
            },
        },
        "security": [{"oauth": ["read"], "key": []}, {}],
        "supportsAuthenticatedExtendedCard": True,
        "skills": [
            {
                "id": "route",
                "name": "Route",
                "description": "",
                "tags": [],
                "examples": ["Berlin to Rome"],
                "inputModes": ["text/plain"],
                "outputModes": ["application/json"],
                "security": [{"bearer": []}],
            }
        ],
        "signatures": [{"protected": encode({"alg": "ES256"}), "signature": "c2lnbmF0dXJl"}],
        "x-internal-note": None,
    }


def hybrid() -> Card:
    """A card that both versions can read, as a server with both would publish it."""
    card = minimal_1_0()
    url = card["supportedInterfaces"][0]["url"]
    return {
        **card,
        "supportedInterfaces": [
            *card["supportedInterfaces"],
            {"url": url, "protocolBinding": "JSONRPC", "protocolVersion": "0.3"},
            {"url": "https://router.example.com/rest", "protocolBinding": "HTTP+JSON", "protocolVersion": "0.3"},
        ],
        "securitySchemes": {
            "key": {
                "apiKeySecurityScheme": {"location": "header", "name": "X-Key"},
                "type": "apiKey",
                "in": "header",
                "name": "X-Key",
            }
        },
        "securityRequirements": [{"schemes": {"key": {}}}],
        "security": [{"key": []}],
        "protocolVersion": "0.3",
        "url": url,
        "preferredTransport": "JSONRPC",
        "additionalInterfaces": [{"url": "https://router.example.com/rest", "transport": "HTTP+JSON"}],
        "supportsAuthenticatedExtendedCard": True,
        "capabilities": {"extendedAgentCard": True},
    }


GOOD_HEADER = {"alg": "ES256", "typ": "JOSE", "kid": "key-1"}


def encode(header: Any) -> str:
    """Return JSON as base64url without padding."""
    return base64.urlsafe_b64encode(json.dumps(header).encode()).rstrip(b"=").decode()


def _holder(card: Card, path: tuple[str | int, ...]) -> Any:
    return functools.reduce(lambda at, step: at[step], path[:-1], cast("Any", card))


def put(*path: str | int, value: Any) -> Break:
    """Return a change that sets one member."""
    return lambda card: operator.setitem(_holder(card, path), path[-1], value)


def drop(*path: str | int) -> Break:
    """Return a change that removes one member."""
    return lambda card: operator.delitem(_holder(card, path), path[-1])


def rename(old: str, new: str) -> Break:
    """Return a change that renames a member of the card."""
    return lambda card: operator.setitem(card, new, card.pop(old))


def also(*changes: Break) -> Break:
    """Return several changes as one."""

    def change(card: Card) -> None:
        for one in changes:
            one(card)

    return change
