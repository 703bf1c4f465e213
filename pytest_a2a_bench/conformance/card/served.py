"""How a card was served: its address, status and headers, judged (pure)."""

from __future__ import annotations

import email.utils
import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from pytest_a2a_bench.conformance.card.ledger import Ledger, show
from pytest_a2a_bench.conformance.finding import Exchange


@dataclass(frozen=True, slots=True)
class CardHttp:
    """What came of asking a server for its card.

    :param url: the address that answered, or the one that was asked first.
    :param headers: of the answer, with lower-case names.
    :param is_legacy: found at 0.2's path only.
    :param conditional_status: status of a second request with ``If-None-Match``; None where none was made.
    :param problem: why there is no card; empty where there is one.
    """

    url: str
    status: int | None = None
    headers: Mapping[str, str] = field(default_factory=dict)
    is_legacy: bool = False
    conditional_status: int | None = None
    duplicates: tuple[str, ...] = ()
    problem: str = ""
    exchange: Exchange | None = None


def check_served(http: CardHttp, version: str, ledger: Ledger) -> None:
    """Judge how the card was served; caching is asked for by 1.0 only."""
    _check_place(http, version, ledger)
    if http.problem:
        return
    _check_content_type(http, version, ledger)
    if version == "1.0":
        _check_caching(http, ledger)


def _check_place(http: CardHttp, version: str, ledger: Ledger) -> None:
    evidence = (http.exchange,) if http.exchange else ()
    place, content = ("CARD-001", "CARD-002") if version == "1.0" else ("V03-CARD-001", "V03-CARD-021")
    if http.is_legacy:
        found = "the card is served at /.well-known/agent.json only, the path of 0.2"
        ledger.add(place, (), found, fix="serve it at /.well-known/agent-card.json too", exchanges=evidence)
    if http.problem:
        is_content = http.status == 200
        fix = "answer with the card's JSON object" if is_content else "serve the card at /.well-known/agent-card.json"
        ledger.add(content if is_content else place, (), http.problem, fix=fix, exchanges=evidence)


def _check_content_type(http: CardHttp, version: str, ledger: Ledger) -> None:
    kind = http.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != "application/json" and not re.fullmatch(r"application/[a-z0-9.+\-]+\+json", kind):
        rule = "CARD-002" if version == "1.0" else "V03-CARD-021"
        found = f"the content type is {show(kind)}" if kind else "the answer names no content type"
        evidence = (http.exchange,) if http.exchange else ()
        ledger.add(rule, (), found, fix="send Content-Type: application/json", severity="warning", exchanges=evidence)


def _check_caching(http: CardHttp, ledger: Ledger) -> None:
    control = http.headers.get("cache-control", "")
    if not re.search(r"\bmax-age\s*=\s*\"?\d+", control, re.IGNORECASE):
        found = f"Cache-Control is {show(control)}" if control else "the answer has no Cache-Control"
        ledger.add("CARD-013", (), found, fix="send Cache-Control: public, max-age=3600 or the like")
    etag = http.headers.get("etag", "")
    if not etag:
        ledger.add("CARD-014", (), "the answer has no ETag", fix="send an ETag made from the card's version or content")
    elif not re.fullmatch(r'(?:W/)?"[\x21\x23-\x7e\x80-\xff]*"', etag):
        ledger.add("CARD-014", (), f"the ETag is {show(etag)}", expected="a quoted text", fix="put it in quotes")
    elif http.conditional_status not in (None, 304):
        found = f"a request with If-None-Match: {show(etag)} got {http.conditional_status}"
        ledger.add("CARD-015", (), found, expected="status 304", fix="answer 304 while the card is the same")
    modified = http.headers.get("last-modified")
    if modified is not None and email.utils.parsedate(modified) is None:
        found = f"Last-Modified is {show(modified)}, which is no HTTP date"
        ledger.add("CARD-016", (), found, fix="write an HTTP date, or leave it out")
