"""Check the signatures of a card: form, keys, and the bytes that were signed (RFC 7515, RFC 8785)."""

from __future__ import annotations

import base64
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from pytest_a2a_bench.a2a.bodies import as_list, as_object, as_text, parse_json
from pytest_a2a_bench.conformance.card.document import Ledger, Path, objects, show
from pytest_a2a_bench.conformance.card.schema import Members, item_of, load_table, members_of
from pytest_a2a_bench.conformance.card.urls import judge_url
from pytest_a2a_bench.errors import MissingExtraError, ProtocolError

ALGORITHMS = (
    *("ES256", "ES384", "ES512", "ES256K"),
    *("RS256", "RS384", "RS512", "PS256", "PS384", "PS512"),
    *("EdDSA", "Ed25519", "Ed448"),
)
"""The algorithms that are accepted by default. Symmetric ones are not: a key that verifies could also sign."""

_BASE64URL = re.compile(r"^[A-Za-z0-9_-]+$")
# Each signature is tried with six forms of the card.
_MOST = 16


@dataclass(frozen=True, slots=True)
class Signature:
    """One signature whose parts can be decoded."""

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
    """Check the form of the signatures, and with keys verify them.

    :param jwks: a JWK set (or one JWK) as JSON; None to check the form only.
    :param algorithms: the values of ``alg`` to accept.
    :raises MissingExtraError: if there are keys, and the extra ``signatures`` is not installed.
    """
    readable = [s for s in _signatures(card, ledger) if _check_header(s, version, ledger, algorithms)]
    if jwks is not None and card.get("signatures"):
        _verify(card, readable, version, ledger, jwks)


def _signatures(card: Mapping[str, Any], ledger: Ledger) -> Iterator[Signature]:
    # Malformed signatures are findings; the others are verified all the same.
    for i, entry in list(objects(card.get("signatures")))[:_MOST]:
        path: Path = ("signatures", i)
        protected, signature = as_text(entry.get("protected")), as_text(entry.get("signature"))
        broken = [n for n, v in (("protected", protected), ("signature", signature)) if v and _decode(v) is None]
        for name in broken:
            found = f"{show(entry[name])} is not base64url"
            ledger.add("signature", (*path, name), found, fix="encode it as base64url without padding")
        if broken or not protected or not signature:
            continue
        header = _json_object(_decode(protected) or b"")
        if header is None:
            fix = "encode the header's JSON object"
            ledger.add("signature", (*path, "protected"), "protected does not decode to a JSON object", fix=fix)
        else:
            yield Signature(path, protected, signature, header)


def _check_header(signature: Signature, version: str, ledger: Ledger, algorithms: tuple[str, ...]) -> bool:
    """Check a protected header, and return whether the signature can be verified."""
    header, path = signature.header, (*signature.path, "protected")
    alg = header.get("alg")
    if version == "1.0":
        _check_parameters(header, path, ledger)
    elif not alg:
        ledger.add("V03-SIGN-002", path, "the header has no alg", fix="name the algorithm")
    if not isinstance(alg, str) or not alg:
        return False
    if alg not in algorithms:
        allowed = ", ".join(algorithms)
        found = f"alg is {show(alg)}" + (", which proves nothing" if alg.lower() == "none" else "")
        ledger.add("algorithm", path, found, expected=f"alg is one of {allowed}", fix="sign with ES256 or the like")
    return alg in algorithms


def _check_parameters(header: Mapping[str, Any], path: Path, ledger: Ledger) -> None:
    missing = [name for name in ("alg", "kid") if not as_text(header.get(name))]
    if missing:
        ledger.add("SIGN-002", path, f"the header has no {' and no '.join(missing)}", fix="add it and sign again")
    # Section 8.4.2 demands this value.
    if header.get("typ") != "JOSE":
        found = f"typ is {show(header['typ'])}" if "typ" in header else "the header has no typ"
        ledger.add("SIGN-003", path, found, fix="set typ to 'JOSE' and sign again")
    jku = header.get("jku")
    # Keys that come without TLS prove nothing.
    if jku is not None and (not isinstance(jku, str) or judge_url(jku, ("https",)).problem):
        ledger.add("SIGN-007", path, f"jku is {show(jku)}", fix="serve the keys over https")


def _verify(card: Mapping[str, Any], signatures: list[Signature], version: str, ledger: Ledger, jwks: Any) -> None:
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
            # One good signature is enough: the keys of others may not be in the set.
            return
        reasons.append(f"{signature.path[-1]}: {reason or 'it does not match the card'}")
    why = "; ".join(reasons) or "none of them can be read, or has an accepted alg"
    fix = "sign the card again, or give the keys that belong to it"
    ledger.add("verification", ("signatures",), f"no signature verifies ({why})", fix=fix)


def _find_key(signature: Signature, jwks: Any) -> tuple[Any, str]:
    """Return the key of a signature, or why there is none."""
    jwt = _jwt()
    keys = [k for _, k in objects(as_object(jwks).get("keys"))] or ([jwks] if as_object(jwks).get("kty") else [])
    named = [k for k in keys if k.get("kid") == signature.kid] if signature.kid else keys
    # The only key of a set needs no id.
    if not named and len(keys) == 1 and "kid" not in keys[0]:
        named = keys
    alg = str(signature.header.get("alg"))
    fitting = [
        # A symmetric key that verifies could also sign.
        k
        for k in named
        if k.get("alg") in (None, alg) and k.get("use") in (None, "sig") and k.get("kty") != "oct"
    ]
    if not fitting:
        have = ", ".join(show(k.get("kid")) for k in keys[:8]) or "no key at all"
        return None, f"no key for kid {show(signature.kid)} and alg {show(alg)}; the key set has {have}"
    try:
        # PyJWT has one name for all of Edwards' curves; the key says which.
        return jwt.PyJWK(dict(fitting[0]), algorithm="EdDSA" if alg.startswith("Ed") else alg), ""
    except (jwt.PyJWTError, ValueError, TypeError, KeyError) as error:
        return None, f"the key {show(signature.kid)} cannot be used: {str(error)[:120]}"


def _matching(signature: Signature, key: Any, forms: list[Payload]) -> Payload | None:
    value = _decode(signature.signature) or b""
    for form in forms:
        signed = f"{signature.protected}.{_encode(form.data)}".encode()
        try:
            # crit names extensions that must be understood (RFC 7515 section 4.1.11), and none is here.
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


# -- what is signed --


class Payload(NamedTuple):
    """One reading of the signed content.

    :param rule: the rule that this reading breaks; empty for the readings that the specification allows.
    """

    data: bytes
    rule: str
    how: str


def payloads(card: Mapping[str, Any]) -> Iterator[Payload]:
    """Yield the canonical form of a card, and then the forms that signers are known to use instead."""
    # Signatures cannot be over themselves.
    plain = {k: v for k, v in card.items() if k != "signatures"}
    seen: set[bytes] = set()
    forms: tuple[tuple[Callable[[], Any], str, str], ...] = (
        (lambda: _prune(plain, unknown=True), "", "the canonical form"),
        # Readers on protobuf never see unknown members, so that their signers cannot have signed any.
        (lambda: _prune(plain, unknown=False), "", "the canonical form without unknown members"),
        (lambda: plain, "SIGN-006", "the card with its optional default values left in"),
        (lambda: _without_empty(plain), "SIGN-006", "the card without any empty member, required ones included"),
        (
            lambda: _without_empty(_prune(plain, unknown=False)),
            "SIGN-006",
            "the card without any empty or unknown member, required ones included",
        ),
        (lambda: {**_prune(plain, unknown=True), "signatures": []}, "SIGN-005", "the card with empty signatures"),
    )
    # The specified form comes first: the others are found only where it does not fit.
    for make, rule, how in forms:
        data = canonicalise(make())
        # Forms are often equal, and each costs a verification.
        if data is not None and data not in seen:
            seen.add(data)
            yield Payload(data, rule, how)


def canonicalise(value: Any) -> bytes | None:
    """Return the JCS form; None for values that have none (integers beyond 2**53, half surrogates).

    :raises MissingExtraError: if ``rfc8785`` is not installed.
    """
    try:
        import rfc8785
    except ImportError as error:
        raise MissingExtraError(
            "rfc8785", "signatures", detail="it writes the form of a card that is signed"
        ) from error
    try:
        return rfc8785.dumps(value)
    except (rfc8785.CanonicalizationError, ValueError, RecursionError):
        return None


def _prune(value: Any, kind: str = "AgentCard", *, unknown: bool) -> Any:
    """Drop members that have their default value, unless they are REQUIRED or "optional" in the protobuf sense."""
    kind = kind.removesuffix("?")
    if isinstance(value, list):
        return [_prune(v, item_of(kind), unknown=unknown) for v in value]
    members = members_of(kind, value, "1.0") if isinstance(value, dict) else Members()
    if members == Members():
        return value
    result = {}
    for name, inner in value.items():
        known = members.types.get(name, "")
        if known:
            if inner is not None and (name in members.required or not _is_default(inner, known)):
                result[name] = _prune(inner, known, unknown=unknown)
        elif members.rest or unknown:
            result[name] = _prune(inner, members.rest, unknown=unknown)
    return result


def _is_default(value: Any, kind: str) -> bool:
    """Return whether a field without presence has its default value; messages always have presence."""
    if kind.endswith("?") or kind in load_table("1.0"):
        return False
    return (value in ("", False) and isinstance(value, (str, bool))) or (kind[0] in "[{" and value in ([], {}))


def _without_empty(value: Any) -> Any:
    if isinstance(value, dict):
        pairs = ((k, _without_empty(v)) for k, v in value.items())
        return {k: v for k, v in pairs if not _is_empty(v)}
    if isinstance(value, list):
        return [v for v in map(_without_empty, value) if not _is_empty(v)]
    return value


def _is_empty(value: Any) -> bool:
    return value is None or (isinstance(value, (str, list, dict)) and not value)
