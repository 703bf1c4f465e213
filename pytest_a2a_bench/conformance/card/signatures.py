"""Signatures of a card: JWS (RFC 7515) with a detached payload, judged and verified (pure)."""

from __future__ import annotations

import base64
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from pytest_a2a_bench.a2a.bodies import parse_json
from pytest_a2a_bench.conformance.card.canonical import Payload, payloads
from pytest_a2a_bench.conformance.card.document import as_list, as_object, as_text, objects
from pytest_a2a_bench.conformance.card.ledger import Ledger, Path, show
from pytest_a2a_bench.conformance.card.urls import judge_url
from pytest_a2a_bench.errors import MissingExtraError, ProtocolError

ALGORITHMS = (
    *("ES256", "ES384", "ES512", "ES256K"),
    *("RS256", "RS384", "RS512", "PS256", "PS384", "PS512"),
    *("EdDSA", "Ed25519", "Ed448"),
)
"""The algorithms that are accepted by default: with the symmetric ones, whoever can verify could also sign."""

_BASE64URL = re.compile(r"^[A-Za-z0-9_-]+$")
_MOST = 16


@dataclass(frozen=True, slots=True)
class Signature:
    """One signature whose parts could be read."""

    path: Path
    protected: str
    signature: str
    header: Mapping[str, Any]

    @property
    def kid(self) -> str:
        """The id of the key, empty where it has none."""
        return as_text(self.header.get("kid"))


def check_signatures(
    card: Mapping[str, Any],
    version: str,
    ledger: Ledger,
    jwks: Any = None,
    algorithms: tuple[str, ...] = ALGORITHMS,
) -> None:
    """Judge the signatures; with keys, verify them too.

    :param jwks: a JWK set (or one JWK) as JSON; None to look at the form only.
    :param algorithms: the values of ``alg`` to accept.
    :raises MissingExtraError: if there are keys, and what verifies with them is not installed.
    """
    readable = [s for s in _signatures(card, version, ledger) if _check_header(s, version, ledger, algorithms)]
    if jwks is not None and card.get("signatures"):
        _verify(card, readable, version, ledger, jwks)


def _signatures(card: Mapping[str, Any], version: str, ledger: Ledger) -> Iterator[Signature]:
    rule = "SIGN-001" if version == "1.0" else "V03-SIGN-001"
    for i, entry in list(objects(card.get("signatures")))[:_MOST]:
        path: Path = ("signatures", i)
        protected, signature = as_text(entry.get("protected")), as_text(entry.get("signature"))
        broken = [n for n, v in (("protected", protected), ("signature", signature)) if v and _decode(v) is None]
        for name in broken:
            found = f"{show(entry[name])} is not base64url"
            ledger.add(rule, (*path, name), found, fix="encode it as base64url without padding")
        if broken or not protected or not signature:
            continue
        header = _json_object(_decode(protected) or b"")
        if header is None:
            fix = "encode the header's JSON object"
            ledger.add(rule, (*path, "protected"), "protected does not decode to a JSON object", fix=fix)
        else:
            yield Signature(path, protected, signature, header)


def _check_header(signature: Signature, version: str, ledger: Ledger, algorithms: tuple[str, ...]) -> bool:
    """Judge a protected header, and tell whether it is worth verifying."""
    header, path = signature.header, (*signature.path, "protected")
    alg = header.get("alg")
    if version == "1.0":
        _check_parameters(header, path, ledger)
    elif not alg:
        ledger.add("V03-SIGN-002", path, "the header has no alg", fix="name the algorithm")
    if not isinstance(alg, str) or not alg:
        return False
    if alg not in algorithms:
        rule = "SIGN-008" if version == "1.0" else "V03-SIGN-002"
        allowed = ", ".join(algorithms)
        found = f"alg is {show(alg)}" + (", which proves nothing" if alg.lower() == "none" else "")
        ledger.add(rule, path, found, expected=f"alg is one of {allowed}", fix="sign with ES256 or the like")
    return alg in algorithms


def _check_parameters(header: Mapping[str, Any], path: Path, ledger: Ledger) -> None:
    missing = [name for name in ("alg", "kid") if not as_text(header.get(name))]
    if missing:
        ledger.add("SIGN-002", path, f"the header has no {' and no '.join(missing)}", fix="add it and sign again")
    if header.get("typ") != "JOSE":
        found = f"typ is {show(header['typ'])}" if "typ" in header else "the header has no typ"
        ledger.add("SIGN-003", path, found, fix="set typ to 'JOSE' and sign again")
    jku = header.get("jku")
    if jku is not None and (not isinstance(jku, str) or judge_url(jku, ("https",)).problem):
        ledger.add("SIGN-007", path, f"jku is {show(jku)}", fix="serve the keys over https")


def _verify(card: Mapping[str, Any], signatures: list[Signature], version: str, ledger: Ledger, jwks: Any) -> None:
    rule = "SIGN-004" if version == "1.0" else "V03-SIGN-003"
    forms = list(payloads(card))
    reasons: list[str] = []
    for signature in signatures:
        key, reason = _find_key(signature, jwks)
        form = _matching(signature, key, forms) if key is not None else None
        if form is not None:
            if form.rule and version == "1.0":
                found = f"the signature of key {show(signature.kid)} is one over {form.how}"
                fix = "sign the canonical form: REQUIRED members kept, other default values dropped"
                ledger.add(form.rule, signature.path, found, fix=fix)
            return
        reasons.append(f"{signature.path[-1]}: {reason or 'it does not match the card'}")
    why = "; ".join(reasons) or "none of them can be read, or has an accepted alg"
    fix = "sign the card again, or give the keys that belong to it"
    ledger.add(rule, ("signatures",), f"no signature verifies ({why})", fix=fix)


def _find_key(signature: Signature, jwks: Any) -> tuple[Any, str]:
    """Return the key of a signature, or why there is none."""
    jwt = _jwt()
    keys = [k for _, k in objects(as_object(jwks).get("keys"))] or ([jwks] if as_object(jwks).get("kty") else [])
    named = [k for k in keys if k.get("kid") == signature.kid] if signature.kid else keys
    if not named and len(keys) == 1 and "kid" not in keys[0]:
        named = keys
    alg = str(signature.header.get("alg"))
    fitting = [
        k for k in named if k.get("alg") in (None, alg) and k.get("use") in (None, "sig") and k.get("kty") != "oct"
    ]
    if not fitting:
        have = ", ".join(show(k.get("kid")) for k in keys[:8]) or "no key at all"
        return None, f"no key for kid {show(signature.kid)} and alg {show(alg)}; the key set has {have}"
    try:
        return jwt.PyJWK(dict(fitting[0]), algorithm="EdDSA" if alg.startswith("Ed") else alg), ""
    except (jwt.PyJWTError, ValueError, TypeError, KeyError) as error:
        return None, f"the key {show(signature.kid)} cannot be used: {str(error)[:120]}"


def _matching(signature: Signature, key: Any, forms: list[Payload]) -> Payload | None:
    value = _decode(signature.signature) or b""
    for form in forms:
        signed = f"{signature.protected}.{_encode(form.data)}".encode()
        try:
            if not as_list(signature.header.get("crit")) and key.Algorithm.verify(signed, key.key, value):
                return form
        except (ValueError, TypeError, AttributeError):
            return None
    return None


def _jwt() -> Any:
    try:
        import cryptography  # noqa: F401  PyJWT has the asymmetric algorithms only with it
        import jwt
    except ImportError as error:
        raise MissingExtraError("PyJWT", "signatures", detail="it verifies the card's signatures") from error
    return jwt


def _json_object(data: bytes) -> Mapping[str, Any] | None:
    try:
        value = parse_json(data)
    except ProtocolError:
        return None
    return value if isinstance(value, dict) else None


def _decode(text: str) -> bytes | None:
    if not _BASE64URL.match(text):
        return None
    try:
        return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))
    except ValueError:
        return None


def _encode(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()
