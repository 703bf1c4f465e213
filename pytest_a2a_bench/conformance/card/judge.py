"""Judge one agent card (pure): how it was served, its shape, meaning and signatures."""

from __future__ import annotations

import email.utils
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from pytest_a2a_bench.a2a.bodies import as_object, as_text
from pytest_a2a_bench.conformance.card.document import MAX_DEPTH, Ledger, show
from pytest_a2a_bench.conformance.card.rules import Rules, declares_0_3
from pytest_a2a_bench.conformance.card.schema import check_shape
from pytest_a2a_bench.conformance.card.signatures import ALGORITHMS, check_signatures
from pytest_a2a_bench.conformance.card.urls import PlainHttp
from pytest_a2a_bench.conformance.finding import Exchange, Finding
from pytest_a2a_bench.model.messages import is_deeper

# -- how it was served --


@dataclass(frozen=True, slots=True)
class CardHttp:
    """How a server answered the request for its card.

    :param url: the address that answered, or the one that was asked first.
    :param headers: of the answer, with lower-case names.
    :param is_legacy: found at 0.2's path only.
    :param conditional_status: status of a second request with ``If-None-Match``; None where none was made.
    :param problem: why there is no card; empty where there is one.
    :param other: the card that is served without ``A2A-Version``, where the answer varies by it.
    """

    url: str
    status: int | None = None
    headers: Mapping[str, str] = field(default_factory=dict)
    is_legacy: bool = False
    conditional_status: int | None = None
    duplicates: tuple[str, ...] = ()
    problem: str = ""
    exchange: Exchange | None = None
    other: Mapping[str, Any] | None = None


def check_served(http: CardHttp, version: str, ledger: Ledger) -> None:
    """Judge how the card was served; 1.0 alone has rules about caching."""
    evidence = (http.exchange,) if http.exchange else ()
    if http.is_legacy:
        found = "the card is served at /.well-known/agent.json only, the path of 0.2"
        ledger.add("place", (), found, fix="serve it at /.well-known/agent-card.json too", exchanges=evidence)
    if http.problem:
        # A 200 with something else is the wrong content, anything else the wrong place.
        rule, fix = "place", "serve the card at /.well-known/agent-card.json"
        if http.status == 200:
            rule, fix = "content", "answer with the card's JSON object"
            if http.exchange is None:  # A file answers nobody.
                fix = "write the card's JSON object into the file"
        ledger.add(rule, (), http.problem, fix=fix, exchanges=evidence)
        return
    kind = http.headers.get("content-type", "").partition(";")[0].strip().lower()
    # Any JSON type will do: some servers send one for a profile of their own.
    if kind != "application/json" and not re.fullmatch(r"application/[a-z0-9.+\-]+\+json", kind):
        found, fix = f"the content type is {show(kind)}", "send Content-Type: application/json"
        found = found if kind else "the answer names no content type"
        ledger.add("content", (), found, fix=fix, severity="warning", exchanges=evidence)
    if version == "1.0":
        _check_caching(http, ledger)


def _check_caching(http: CardHttp, ledger: Ledger) -> None:
    control = http.headers.get("cache-control", "")
    # Quotes are allowed around the number (RFC 9111 section 5.2).
    if not re.search(r"\bmax-age\s*=\s*\"?\d+", control, re.IGNORECASE):
        found = f"Cache-Control is {show(control)}" if control else "the answer has no Cache-Control"
        ledger.add("CARD-013", (), found, fix="send Cache-Control: public, max-age=3600 or the like")
    etag = http.headers.get("etag", "")
    if not etag:
        ledger.add("CARD-014", (), "the answer has no ETag", fix="send an ETag made from the card's version or content")
    # The grammar of an entity tag (RFC 9110 section 8.8.3).
    elif not re.fullmatch(r'(?:W/)?"[\x21\x23-\x7e\x80-\xff]*"', etag):
        ledger.add("CARD-014", (), f"the ETag is {show(etag)}", expected="a quoted text", fix="put it in quotes")
    # None: there was no second request to judge.
    elif http.conditional_status not in (None, 304):
        found = f"a request with If-None-Match: {show(etag)} got {http.conditional_status}"
        ledger.add("CARD-015", (), found, expected="status 304", fix="answer 304 while the card is the same")
    modified = http.headers.get("last-modified")
    if modified is not None and email.utils.parsedate(modified) is None:
        found = f"Last-Modified is {show(modified)}, which is no HTTP date"
        ledger.add("CARD-016", (), found, fix="write an HTTP date, or leave it out")


# -- the whole card --


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

    Any JSON gives findings and no exception. Members that the protocol does not know are allowed.

    :param version: the rules to apply; ``auto`` takes those of every version that the card speaks.
    :param url: where the card was found, by default what ``http`` says: a card from a private host may name interfaces
        without TLS on that host.
    :param http: how it was served, from :func:`~pytest_a2a_bench.conformance.card.fetch.fetch_card`.
    :param jwks: keys as a JWK set; with them the signatures are verified, without them only their form is judged.
    :param allow_http: accept interfaces without TLS on any host.
    :param duplicates: member names that an object of the document had twice.
    :raises MissingExtraError: if ``jwks`` is given and the extra ``signatures`` is not installed.
    """
    versions = card_versions(raw) if version == "auto" else (version,)
    ledger = Ledger(versions[0])
    if http is not None:
        check_served(http, versions[0], ledger)
        if http.problem:
            return ledger.findings()
    if names := ", ".join(map(show, dict.fromkeys([*duplicates, *(http.duplicates if http else ())]))):
        ledger.add("duplicate", (), f"an object has more than one member {names}", fix="keep one of each")
    if not isinstance(raw, Mapping):
        found, expected = f"the card is {show(raw)}", "the card is a JSON object"
        ledger.add("content", (), found, expected=expected, fix="write an object")
    # Everything below recurses through the card.
    elif is_deeper(raw, MAX_DEPTH):
        found = "the card is nested deeper than any card can need, and was not read further"
        ledger.add("type", (), found, fix="flatten the content of extensions[].params")
    else:
        _check_versions(raw, versions, ledger, PlainHttp.of(url or (http.url if http else ""), everywhere=allow_http))
        # Signatures are over the card as it was served, with its nulls and spellings.
        check_signatures(raw, versions[0], ledger, jwks, algorithms)
    findings = ledger.findings()
    if http is not None and http.other is not None:
        known = {(f.rule, f.pointer, f.found) for f in findings}
        others = check_card(http.other, url=url or http.url, jwks=jwks, algorithms=algorithms, allow_http=allow_http)
        # A request without the header is one of 0.3 (section 3.6.2).
        new = (f for f in others if (f.rule, f.pointer, f.found) not in known)
        findings += [replace(f, found=f"without A2A-Version: {f.found}") for f in new]
    return findings


def card_versions(raw: Any) -> tuple[str, ...]:
    """Return the versions whose rules a card has to keep, the newest first; both for a card that serves both."""
    card = as_object(raw)
    # A list with this name is 1.0's, however it is spelled; the spelling is judged later.
    if "supportedInterfaces" in card or "supported_interfaces" in card:
        # A card for both has the members of both, and says in its list that it serves 0.3.
        old = "url" in card and as_text(card.get("protocolVersion")).startswith("0.")
        return ("1.0", "0.3") if old and declares_0_3(card) else ("1.0",)
    # What looks like neither is judged as 1.0, which is what a new card should be.
    return ("0.3",) if any(name in card for name in _OLD_MEMBERS) else ("1.0",)


def _check_versions(raw: Mapping[str, Any], versions: tuple[str, ...], ledger: Ledger, plain: PlainHttp) -> None:
    for version in versions:
        # Findings about members that both versions have are reported once.
        own = ledger if version == versions[0] else Ledger(version)
        card = check_shape(raw, version, own)
        Rules(card, version, own, plain, hybrid=len(versions) > 1).check()
        if own is not ledger:
            ledger.merge(own)
