"""The faulty agent's card, and its signature (variant ``signed``, which needs the extra ``signatures``)."""

import base64
import json
from typing import Any

from faulty.fault import Fault, Json

EXTENSION = "https://example.com/a2a/extensions/echo/v1"
# Two, so that what is visible across them can be seen.
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
    # Marked by its presence: a stranger must not see it.
    secret = {
        "id": "more",
        "name": "More",
        "description": "Known to callers with credentials only.",
        "tags": ["conformance"],
    }
    return {**card, "skills": [*card["skills"], secret]}


# -- the signature --


KEYS_PATH = "/.well-known/jwks.json"
KEY_ID = "faulty-1"


class Signer:
    """Has a key of its own, and signs cards with ES256.

    :param fault: may change what is signed.
    """

    def __init__(self, fault: Fault) -> None:
        # An extra: only the signed variant needs it.
        import jwt
        from cryptography.hazmat.primitives.asymmetric import ec

        self._fault = fault
        self._algorithm = jwt.get_algorithm_by_name("ES256")
        self._key = ec.generate_private_key(ec.SECP256R1())
        public = json.loads(self._algorithm.to_jwk(self._key.public_key()))
        self.keys: Json = {"keys": [{**public, "kid": KEY_ID}]}

    def sign(self, card: Json) -> Json:
        """Return the card with a signature."""
        protected = _encode(json.dumps({"alg": "ES256", "typ": "JOSE", "kid": KEY_ID}).encode())
        payload = _encode(canonical(self._fault.signed(without_defaults(card))))
        value = _encode(self._algorithm.sign(f"{protected}.{payload}".encode(), self._key))
        return {**card, "signatures": [{"protected": protected, "signature": value}]}


def without_defaults(card: Json) -> Json:
    """Return what is signed of this agent's card: all of it but the one default value that it spells out."""
    copy: Json = json.loads(json.dumps(card))
    # required: false is a default, which the canonical form leaves out (section 8.4.1).
    for extension in copy["capabilities"].get("extensions", ()):
        if extension.get("required") is False:
            del extension["required"]
    return copy


def canonical(value: Any) -> bytes:
    # Keys are sorted by code points, which is JCS for plain names.
    """Return the JCS form; enough for this card, which has neither fractions nor names beyond ASCII."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()


def _encode(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()
