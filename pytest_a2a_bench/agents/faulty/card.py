"""The card of the faulty agent, in each of its variants (pure)."""

from __future__ import annotations

from pytest_a2a_bench.agents.faulty.fault import Json

EXTENSION = "https://example.com/a2a/extensions/echo/v1"
TENANTS = ("acme", "globex")


def build_card(variant: str, urls: dict[str, str]) -> Json:
    """Return the public card.

    :param urls: the URL of each binding that is served.
    """
    bare = variant == "bare"
    card: Json = {
        "name": "pytest-a2a-bench faulty",
        "description": "A correct A2A 1.0 agent, or one with a single fault that it was told to have.",
        "version": "1.0.0",
        "supportedInterfaces": [
            interface for binding, url in urls.items() for interface in _interfaces(variant, binding, url)
        ],
        "provider": {"organization": "pytest-a2a-bench", "url": "https://example.com"},
        "capabilities": {
            "streaming": not bare,
            "pushNotifications": not bare,
            "extendedAgentCard": variant == "guarded",
        },
        "defaultInputModes": ["text/plain", "application/json", "application/octet-stream", "image/png"],
        "defaultOutputModes": ["text/plain", "application/json", "image/png"],
        "skills": [
            {
                "id": "scenarios",
                "name": "Scenarios",
                "description": "Does what the first word of a message says: slow, input, auth, reject, file ...",
                "tags": ["conformance", "test"],
                "examples": ["slow please", "hello"],
            }
        ],
    }
    if not bare:
        extension = {"uri": EXTENSION, "description": "Says that it was asked for.", "required": variant == "strict"}
        card["capabilities"]["extensions"] = [extension]
    if variant == "guarded":
        card["securitySchemes"] = {"bearer": {"httpAuthSecurityScheme": {"scheme": "Bearer"}}}
        card["securityRequirements"] = [{"schemes": {"bearer": {"list": []}}}]
    return card


def _interfaces(variant: str, binding: str, url: str) -> list[Json]:
    interface: Json = {"url": url, "protocolBinding": binding, "protocolVersion": "1.0"}
    return [{**interface, "tenant": tenant} for tenant in TENANTS] if variant == "tenant" else [interface]


def extend_card(card: Json) -> Json:
    """Return the extended card, which has a skill more."""
    secret = {
        "id": "more",
        "name": "More",
        "description": "Known to callers with credentials only.",
        "tags": ["conformance"],
    }
    return {**card, "skills": [*card["skills"], secret]}
