"""Signing the faulty agent's card (variant ``signed``). Needs the extra ``signatures``."""

from __future__ import annotations

import base64
import json
from typing import Any

from pytest_a2a_bench.agents.faulty.fault import Fault, Json
from pytest_a2a_bench.errors import MissingExtraError

KEYS_PATH = "/.well-known/jwks.json"
KEY_ID = "faulty-1"


class Signer:
    """Has a key of its own, and signs cards with ES256.

    :param fault: may change the protected header, what is signed, and the signature.
    :raises MissingExtraError: if what signs is not installed.
    """

    def __init__(self, fault: Fault) -> None:
        try:
            import jwt
            from cryptography.hazmat.primitives.asymmetric import ec
        except ImportError as error:
            raise MissingExtraError("PyJWT", "signatures", detail="it signs the faulty agent's card") from error
        self._fault = fault
        self._algorithm = jwt.get_algorithm_by_name("ES256")
        self._key = ec.generate_private_key(ec.SECP256R1())
        public = ec.generate_private_key(ec.SECP256R1()) if "other-key" in fault.switches else self._key
        self.keys: Json = {"keys": [{**json.loads(self._algorithm.to_jwk(public.public_key())), "kid": KEY_ID}]}

    def sign(self, card: Json) -> Json:
        """Return the card with a signature."""
        header = self._fault.header({"alg": "ES256", "typ": "JOSE", "kid": KEY_ID})
        protected = _encode(json.dumps(header).encode())
        payload = _encode(canonical(self._fault.signed(card, without_defaults(card))))
        value = _encode(self._algorithm.sign(f"{protected}.{payload}".encode(), self._key))
        return {**card, "signatures": [self._fault.seal({"protected": protected, "signature": value})]}


def without_defaults(card: Json) -> Json:
    """Return what is signed of this agent's card: all of it but the one default value that it spells out."""
    copy: Json = json.loads(json.dumps(card))
    for extension in copy["capabilities"].get("extensions", ()):
        if extension.get("required") is False:
            del extension["required"]
    return copy


def canonical(value: Any) -> bytes:
    """Return the JCS form; enough for this card, which has neither fractions nor names beyond ASCII."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()


def _encode(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()
