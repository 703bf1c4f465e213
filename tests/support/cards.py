"""Good agent cards of both versions."""

import base64
import json
from typing import Any

Card = dict[str, Any]


AT, ID = "https://router.example.com", "https://id.example.com"


def interface(binding: str, url: str = f"{AT}/rpc", version: str = "1.0", **more: Any) -> Card:
    return {"url": url, "protocolBinding": binding, "protocolVersion": version, **more}


def minimal_1_0() -> Card:
    """The least that a 1.0 card can say."""
    return {
        "name": "Router",
        "description": "Plans routes.",
        "version": "1.2.0",
        "supportedInterfaces": [interface("JSONRPC")],
        "capabilities": {},
        "defaultInputModes": ["text/plain"],
        "defaultOutputModes": ["text/plain"],
        "skills": [{"id": "route", "name": "Route", "description": "From here to there.", "tags": ["maps"]}],
    }


def full_1_0() -> Card:
    """Every member of 1.0, and members that nobody knows."""
    code = {"authorizationUrl": f"{ID}/authorize", "tokenUrl": f"{ID}/token", "refreshUrl": f"{ID}/refresh"}
    device = {"deviceAuthorizationUrl": f"{ID}/device", "tokenUrl": f"{ID}/token", "scopes": {}}
    return {
        **minimal_1_0(),
        "supportedInterfaces": [
            interface("JSONRPC"),
            interface("HTTP+JSON"),
            interface("GRPC", "grpc.example.com:443", tenant="a"),
            interface("GRPC", "grpc.example.com:443", tenant="b"),
            interface("JSONRPC", "http://127.0.0.1:8080/"),
            interface("https://example.com/bindings/websocket/v1", "wss://router.example.com/socket") | {"x-weight": 3},
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
            "oidc": {"openIdConnectSecurityScheme": {"openIdConnectUrl": f"{ID}/.well-known/x"}},
            "code": {
                "oauth2SecurityScheme": {
                    "flows": {"authorizationCode": {**code, "scopes": {"read": "Read routes"}, "pkceRequired": True}},
                    "oauth2MetadataUrl": f"{ID}/.well-known/oauth-authorization-server",
                }
            },
            "device": {"oauth2SecurityScheme": {"flows": {"deviceCode": device}}},
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
    card = {**minimal_1_0(), "url": f"{AT}/rpc", "preferredTransport": "JSONRPC", "skills": []}
    del card["supportedInterfaces"]
    return {"protocolVersion": "0.3.0", **card}


def full_0_3() -> Card:
    """Every member of 0.3, and members that nobody knows."""
    return {
        **minimal_0_3(),
        "additionalInterfaces": [
            {"url": f"{AT}/rpc", "transport": "JSONRPC"},
            {"url": f"{AT}/rest", "transport": "HTTP+JSON"},
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
            "oidc": {"type": "openIdConnect", "openIdConnectUrl": f"{ID}/.well-known/x"},
            "oauth": {
                "type": "oauth2",
                "flows": {
                    "clientCredentials": {"tokenUrl": f"{ID}/token", "scopes": {"read": "Read"}},
                    "implicit": {"authorizationUrl": f"{ID}/authorize", "scopes": {}},
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
    key = {"location": "header", "name": "X-Key"}
    return {
        **minimal_1_0(),
        "supportedInterfaces": [
            interface("JSONRPC"),
            interface("JSONRPC", version="0.3"),
            interface("HTTP+JSON", f"{AT}/rest", "0.3"),
        ],
        "securitySchemes": {"key": {"apiKeySecurityScheme": key, "type": "apiKey", "in": "header", "name": "X-Key"}},
        "securityRequirements": [{"schemes": {"key": {}}}],
        "security": [{"key": []}],
        "protocolVersion": "0.3",
        "url": f"{AT}/rpc",
        "preferredTransport": "JSONRPC",
        "additionalInterfaces": [{"url": f"{AT}/rest", "transport": "HTTP+JSON"}],
        "supportsAuthenticatedExtendedCard": True,
        "capabilities": {"extendedAgentCard": True},
    }


GOOD_HEADER = {"alg": "ES256", "typ": "JOSE", "kid": "key-1"}


def encode(header: Any) -> str:
    """Return JSON as base64url without padding."""
    return base64.urlsafe_b64encode(json.dumps(header).encode()).rstrip(b"=").decode()
