"""Signatures made here and by a2a-sdk, verified; and every way in which they must not verify."""

import base64
import builtins
import functools
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jwt
import pytest
import rfc8785
from cards import GOOD_HEADER, Card, encode, full_1_0, hybrid, minimal_0_3, minimal_1_0
from commands import command
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from one_test import in_one_test

from pytest_a2a_bench.conformance.card import check_card
from pytest_a2a_bench.conformance.card.signatures import payloads
from pytest_a2a_bench.errors import MissingExtraError

ALGORITHMS = ("ES256", "ES384", "RS256", "PS256", "EdDSA")


@functools.cache
def key_of(alg: str) -> Any:
    """Make a key when it is wanted: those of RSA take longer than all else that this file does."""
    if alg == "EdDSA":
        return ed25519.Ed25519PrivateKey.generate()
    curves = {"ES256": ec.SECP256R1(), "ES384": ec.SECP384R1()}
    return ec.generate_private_key(curves[alg]) if alg in curves else rsa.generate_private_key(65537, 2048)


def public(alg: str, kid: str = "key-1", **changes: Any) -> dict[str, Any]:
    algorithm = jwt.get_algorithm_by_name(alg)
    jwk = json.loads(algorithm.to_jwk(key_of(alg).public_key()))
    return {**jwk, "kid": kid, **changes}


def sign(payload: bytes, header: dict[str, Any], key: Any, alg: str) -> dict[str, str]:
    protected = encode(header)
    signed = f"{protected}.{_base64url(payload)}".encode()
    return {"protected": protected, "signature": _base64url(jwt.get_algorithm_by_name(alg).sign(signed, key))}


def _base64url(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def canonical(card: Card) -> bytes:
    return next(iter(payloads(card))).data


def signed(make: Callable[[], Card] = minimal_1_0, alg: str = "ES256", **header: Any) -> Card:
    card = make()
    card.pop("signatures", None)
    return {**card, "signatures": [sign(canonical(card), {**GOOD_HEADER, "alg": alg, **header}, key_of(alg), alg)]}


def rules(card: Card, *keys: dict[str, Any], **options: Any) -> list[str]:
    return [f.rule for f in check_card(card, jwks={"keys": list(keys)}, **options)]


def by(payload: bytes, header: dict[str, Any] = GOOD_HEADER, alg: str = "ES256", key: Any = None, **card: Any) -> Card:
    """Return the minimal card, with members of one's own, under a signature of some bytes."""
    made = {**minimal_1_0(), **card}
    return {**made, "signatures": [sign(payload, header, key_of("ES256") if key is None else key, alg)]}


def with_examples() -> Card:
    card = minimal_1_0()
    card["skills"][0]["examples"] = []
    return card


Verified = tuple[Card, list[dict[str, Any]], list[str]]


def verified() -> dict[str, Verified]:
    """Return what is signed, the keys to verify it with, and the rules that it breaks then."""
    ours = [public("ES256")]
    secret = json.dumps(ours[0]).encode()
    stranger = json.loads(jwt.algorithms.ECAlgorithm.to_jwk(ec.generate_private_key(ec.SECP256R1()).public_key()))
    old = signed(alg="ES384", kid="old")["signatures"]
    unknown = signed(full_1_0)
    unknown["capabilities"]["extensions"][0]["params"] = {"n": 2**60}
    return {
        **{f"a good one by {alg}": (signed(alg=alg), [public(alg)], []) for alg in ALGORITHMS},
        "every member": (signed(full_1_0), ours, []),
        "a card of both versions": (signed(hybrid), ours, []),
        "another key of the same name": (signed(), [{**stranger, "kid": "key-1"}], ["SIGN-004"]),
        "a key for another algorithm": (signed(), [public("RS256")], ["SIGN-004"]),
        "a key for another use": (signed(), [public("ES256", use="enc")], ["SIGN-004"]),
        "a key that names another algorithm": (signed(), [{**public("ES256"), "alg": "ES384"}], ["SIGN-004"]),
        "a good one among others": ({**signed(), "signatures": old + signed()["signatures"]}, ours, []),
        # The public key, used as an HMAC secret: the classic confusion of algorithms.
        "a secret of ours that signs for them": (
            by(canonical(minimal_1_0()), {**GOOD_HEADER, "alg": "HS256"}, "HS256", secret),
            [public("ES256"), {"kty": "oct", "k": _base64url(secret), "kid": "key-1"}],
            ["SIGN-008", "SIGN-004"],
        ),
        "no algorithm": (
            {**minimal_1_0(), "signatures": [{"protected": encode({**GOOD_HEADER, "alg": "none"}), "signature": "YQ"}]},
            ours,
            ["SIGN-008", "SIGN-004"],
        ),
        "a critical header that we do not know": (signed(crit=["b64"], b64=False), ours, ["SIGN-004"]),
        "over default values": (by(rfc8785.dumps(with_examples()), **with_examples()), ours, ["SIGN-006"]),
        "over its own member": (by(rfc8785.dumps({**minimal_1_0(), "signatures": []})), ours, ["SIGN-005"]),
        # The form without unknown members has a canonical one.
        "an unknown member without a canonical form": ({**signed(), "x": 2**60}, ours, []),
        "a known one without it": (unknown, ours, ["SIGN-004"]),
    }


@in_one_test(("case", "given"), lambda: verified().items())
def test_signatures_verify_or_do_not(case: str, given: Verified) -> None:
    card, keys, broken = given
    assert rules(card, *keys) == broken, case


def test_the_canonical_form_is_that_of_the_specification() -> None:
    card = {
        "skills": [],
        "name": "Example Agent",
        "description": "",
        "capabilities": {"streaming": False, "pushNotifications": False, "extensions": []},
        "signatures": [{"protected": "x", "signature": "y"}],
    }
    capabilities = '"capabilities":{"pushNotifications":false,"streaming":false}'
    rest = '"description":"","name":"Example Agent","skills":[]'
    assert canonical(card) == f"{{{capabilities},{rest}}}".encode()


def test_a_signature_of_a2a_sdk_verifies() -> None:
    from a2a.server.request_handlers.response_helpers import agent_card_to_dict
    from a2a.types import AgentCard
    from a2a.utils.signing import create_agent_card_signer
    from google.protobuf.json_format import MessageToDict, ParseDict

    header: Any = {**GOOD_HEADER, "jku": None}
    key: Any = key_of("ES256")
    for capabilities, message in (({"streaming": False}, []), ({}, ["SIGN-006"])):  # it drops empty REQUIRED members
        card = ParseDict({**minimal_1_0(), "name": "Zoë 📡", "capabilities": capabilities}, AgentCard())
        create_agent_card_signer(key, header)(card)
        for served in (MessageToDict(card), agent_card_to_dict(card)):
            assert rules({"capabilities": {}, **served}, public("ES256")) == message


def test_a_changed_card_does_not_verify() -> None:
    card = signed()
    card["description"] += " And more."
    (finding,) = check_card(card, jwks={"keys": [public("ES256")]})
    assert (finding.rule, finding.severity, finding.pointer) == ("SIGN-004", "error", "/signatures")
    assert "0: it does not match the card" in finding.found


def test_a_key_that_is_not_in_the_set_is_named() -> None:
    (finding,) = check_card(signed(), jwks={"keys": [public("ES256", "other")]})
    assert 'no key for kid "key-1" and alg "ES256"; the key set has "other"' in finding.found
    # A key set may be one key, and the list of algorithms can be narrowed.
    assert check_card(signed(), jwks=public("ES256")) == []
    assert rules(signed(), public("ES256"), algorithms=("RS256",)) == ["SIGN-008", "SIGN-004"]


def test_the_command_narrows_the_algorithms(tmp_path: Path) -> None:
    card, keys = tmp_path / "card.json", tmp_path / "keys.json"
    card.write_text(json.dumps(signed()))
    keys.write_text(json.dumps(public("ES256")))
    for algorithm, code in (("ES256", 0), ("RS256", 1)):
        command("check", "--card", card, "--set", f"card-jwks={keys}", "--algorithms", algorithm, code=code)


def test_a_signature_without_required_empty_members_is_reported_apart() -> None:
    card = minimal_1_0()
    card["securitySchemes"] = {"m": {"mtlsSecurityScheme": {}}}
    card["securityRequirements"] = [{"schemes": {"m": {}}}]
    payload = canonical(
        {k: v for k, v in card.items() if k not in ("securitySchemes", "securityRequirements", "capabilities")}
    )
    card["signatures"] = [sign(payload, GOOD_HEADER, key_of("ES256"), "ES256")]
    (finding,) = check_card(card, jwks={"keys": [public("ES256")]})
    assert finding.rule == "SIGN-006"
    assert "without any empty member" in finding.found


def test_0_3_names_no_canonical_form_so_that_any_will_do() -> None:
    card = minimal_0_3()
    payload = rfc8785.dumps(card)
    card["signatures"] = [sign(payload, {"alg": "ES256"}, key_of("ES256"), "ES256")]
    assert rules(card, public("ES256")) == []
    card["name"] += "!"
    (finding,) = check_card(card, jwks={"keys": [public("ES256")]})
    assert (finding.rule, finding.severity) == ("V03-SIGN-003", "warning")


@in_one_test(
    "jwks",
    [{}, [], 7, {"keys": 3}, {"keys": [None, {}, {"kty": "EC"}]}, {"keys": [{"kty": "EC", "kid": "key-1", "x": "?"}]}],
)
def test_a_broken_key_set_verifies_nothing(jwks: Any) -> None:
    assert [f.rule for f in check_card(signed(), jwks=jwks)] == ["SIGN-004"]


def test_the_extra_is_asked_for_only_with_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    real = builtins.__import__

    def without(name: str, *rest: Any, **more: Any) -> Any:
        if name in ("rfc8785", "jwt"):
            raise ImportError(name)
        return real(name, *rest, **more)

    card = signed()
    monkeypatch.setattr(builtins, "__import__", without)
    assert check_card(card) == []
    with pytest.raises(MissingExtraError, match=r"\[signatures\]"):
        check_card(card, jwks={"keys": []})
