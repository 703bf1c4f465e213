"""Judge one agent card (pure): shape, meaning, signatures, and how it was served."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

from pytest_a2a_bench.conformance.card import v0_3, v1_0
from pytest_a2a_bench.conformance.card.document import as_object, as_text, is_too_deep
from pytest_a2a_bench.conformance.card.ledger import Ledger, show
from pytest_a2a_bench.conformance.card.schema import check_shape, normalise
from pytest_a2a_bench.conformance.card.served import CardHttp, check_served
from pytest_a2a_bench.conformance.card.signatures import ALGORITHMS, check_signatures
from pytest_a2a_bench.conformance.card.urls import PlainHttp
from pytest_a2a_bench.conformance.finding import Finding

Version = Literal["auto", "1.0", "0.3"]

_OLD_MEMBERS = ("url", "preferredTransport", "additionalInterfaces", "protocolVersion")


def check_card(
    raw: Any,
    *,
    version: Version = "auto",
    url: str | None = None,
    http: CardHttp | None = None,
    jwks: Any = None,
    algorithms: tuple[str, ...] = ALGORITHMS,
    allow_http: bool = False,
    duplicates: Sequence[str] = (),
) -> list[Finding]:
    """Judge an agent card; a correct one gives no finding.

    Whatever JSON it is, this ends in findings. Members that the protocol does not know are allowed.

    :param raw: the card as parsed JSON.
    :param version: the rules to apply; ``auto`` takes those of every version that the card speaks.
    :param url: where the card was found, by default what ``http`` says: a card from a private host may name interfaces
        without TLS on that host.
    :param http: how it was served, from :func:`~pytest_a2a_bench.conformance.card.fetch_card`.
    :param jwks: keys as a JWK set; with them the signatures are verified, without them only their form is judged.
    :param algorithms: the signature algorithms to accept.
    :param allow_http: accept interfaces without TLS on any host.
    :param duplicates: member names that an object of the document had twice.
    :raises MissingExtraError: if ``jwks`` is given and what verifies signatures is not installed.
    """
    ledger = Ledger()
    versions = card_versions(raw) if version == "auto" else (version,)
    if http is not None:
        check_served(http, versions[0], ledger)
    _check_duplicates([*duplicates, *(http.duplicates if http else ())], versions[0], ledger)
    rules = ("CARD-002", "CARD-029") if versions[0] == "1.0" else ("V03-CARD-021", "V03-CARD-010")
    if not isinstance(raw, Mapping):
        ledger.add(
            rules[0], (), f"the card is {show(raw)}", expected="the card is a JSON object", fix="write an object"
        )
    elif is_too_deep(raw):
        found = "the card is nested deeper than any card can need, and was not read further"
        ledger.add(rules[1], (), found, fix="flatten what is in extensions[].params")
    else:
        _check_versions(raw, versions, ledger, PlainHttp.of(url or (http.url if http else ""), everywhere=allow_http))
        check_signatures(raw, versions[0], ledger, jwks, algorithms)
    return ledger.findings()


def card_versions(raw: Any) -> tuple[str, ...]:
    """Return the versions whose rules a card has to keep, the newest first; both for a card that serves both."""
    card = as_object(raw)
    if "supportedInterfaces" in card or "supported_interfaces" in card:
        old = "url" in card and as_text(card.get("protocolVersion")).startswith("0.")
        return ("1.0", "0.3") if old and v1_0.declares_0_3(card) else ("1.0",)
    return ("0.3",) if any(name in card for name in _OLD_MEMBERS) else ("1.0",)


def _check_versions(raw: Mapping[str, Any], versions: tuple[str, ...], ledger: Ledger, plain: PlainHttp) -> None:
    for version in versions:
        normalised = normalise(raw, version)
        # What 1.0's rules have told of the members that both versions share is not told again.
        own = ledger if version == versions[0] else Ledger()
        check_shape(normalised, version, own)
        if version == "1.0":
            v1_0.check(normalised.card, own, plain)
        else:
            v0_3.check(normalised.card, own, plain, hybrid="1.0" in versions)
        if own is not ledger:
            ledger.merge(own)


def _check_duplicates(duplicates: Sequence[str], version: str, ledger: Ledger) -> None:
    if duplicates:
        names = ", ".join(map(show, dict.fromkeys(duplicates)))
        rule = "CARD-030" if version == "1.0" else "V03-CARD-020"
        ledger.add(rule, (), f"an object has more than one member {names}", fix="keep one of each")
