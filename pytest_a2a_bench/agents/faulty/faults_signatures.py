"""Faults of the card's signatures."""

from __future__ import annotations

from typing import Any

from pytest_a2a_bench.agents.faulty.fault import Fault, Json


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
