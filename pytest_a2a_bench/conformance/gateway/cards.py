"""Compare the card that a gateway serves with the agent's own: addresses, text, signatures, and how it is served."""

from __future__ import annotations

import contextlib
import re
import urllib.parse
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from pytest_a2a_bench.a2a.card import Interface, is_at, narrow_to_endpoint, parse_card
from pytest_a2a_bench.conformance.card.judge import CardHttp
from pytest_a2a_bench.conformance.finding import Severity
from pytest_a2a_bench.conformance.gateway.compare import NOTHING, Difference, Sides, changed, differences, flat
from pytest_a2a_bench.errors import CardError
from pytest_a2a_bench.redact import redact_url

_NAME = "the card"
# Compared by themselves.
_APART = ("url", "supportedInterfaces", "additionalInterfaces", "signatures")
SECURITY = ("securitySchemes", "securityRequirements", "security")
_SERVED = ("content-type", "cache-control", "vary", "access-control-allow-origin")


def moved(url: str, source: str, target: str) -> str:
    """Return a URL below one endpoint as it is below another."""
    path, base, top = (urllib.parse.urlsplit(u).path for u in (url, source, target))
    base, top = (p.partition("/.well-known/")[0].rstrip("/") for p in (base, top))
    if path == base or path.startswith(f"{base}/"):
        path = path[len(base) :]
    parts = urllib.parse.urlsplit(target)
    return urllib.parse.urlunsplit((parts.scheme, parts.netloc, top + path, urllib.parse.urlsplit(url).query, ""))


def interfaces(card: Any, endpoint: str) -> dict[tuple[str, str, str], Interface]:
    """Return (transport, version, tenant) -> the first such interface of a card; empty where it names none."""
    try:
        found = parse_card(card, endpoint).interfaces
    except CardError:
        return {}
    return {(i.transport, i.version, i.tenant): i for i in reversed(found)}


def compare_cards(
    direct: Sequence[tuple[Any, CardHttp]], through: tuple[Any, CardHttp], sides: Sides, answers: Mapping[str, str]
) -> Iterator[Difference]:
    """Compare cards.

    :param direct: the agent's own card, as it was served each time.
    :param answers: address of an interface -> what is wrong with it; empty where it answers as an agent does.
    """
    own = [(_narrowed(raw, sides.direct, http), http) for raw, http in direct]
    (card, http), (other, got) = own[0], (_narrowed(through[0], sides.gateway, through[1]), through[1])
    exchanges = tuple(e for e in (http.exchange, got.exchange) if e is not None)
    if got.problem or not isinstance(other, Mapping):
        found = f"{got.problem or 'the gateway serves no card'}; the agent serves one at {redact_url(http.url)}"
        yield Difference("GW-002", _NAME, found, status=got.status, exchanges=exchanges)
        return
    facts = [_facts(each, served, sides) for each, served in own if isinstance(each, Mapping)]
    for key, want, value in differences(facts, _facts(other, got, sides)):
        # What it wants of its clients is the gateway's own to add, and so are caching and interfaces.
        if want is not NOTHING or (key.startswith("/") and key.split("/")[1] not in SECURITY):
            rule = "GW-003" if key.startswith(("/", "the interface")) else "GW-002"
            found = changed(key, want, value)
            pointer = key if key.startswith("/") else ""
            severity: Severity = "warning" if want is NOTHING else "error"
            yield Difference(rule, f"{_NAME}: {key}", found, str(want), severity, pointer, exchanges=exchanges)
    for each in (*_addresses(card, other, sides, answers), *_signatures(card, other)):
        yield each._replace(exchanges=exchanges)


def _narrowed(raw: Any, endpoint: str, http: CardHttp) -> Any:
    """Return a card with the interfaces that an endpoint means; None for another agent's."""
    with contextlib.suppress(CardError):
        return narrow_to_endpoint(raw, endpoint, http.url) if isinstance(raw, Mapping) else raw
    return None


def _facts(card: Mapping[str, Any], http: CardHttp, sides: Sides) -> dict[str, Any]:
    """Return facts about the serving of a card and its members, without addresses and signatures, by their names."""
    facts: dict[str, Any] = {f"header {name}": http.headers[name] for name in _SERVED if name in http.headers}
    facts |= {"served at the path of 0.2 only": http.is_legacy, "served with an ETag": "etag" in http.headers}
    facts |= {"another card without A2A-Version": http.other is not None}
    if "etag" in http.headers:
        facts["the answer to If-None-Match"] = http.conditional_status
    for key in interfaces(card, http.url):
        facts[f"the interface {' '.join(key).strip()}"] = "there"
    for pointer, value in flat({key: value for key, value in card.items() if key not in _APART}):
        # Links into the server itself may be rewritten, as addresses are.
        is_link = isinstance(value, str) and "://" in value and any(is_at(value, side) for side in sides[:2])
        facts[pointer] = "ADDRESS" if is_link else value
    return facts


def _addresses(card: Any, other: Any, sides: Sides, answers: Mapping[str, str]) -> Iterator[Difference]:
    own, seen = interfaces(card, sides.direct), set[str]()
    for key, interface in interfaces(other, sides.gateway).items():
        problem = _address_problem(interface, own.get(key), sides, answers)
        found = f"the {interface.transport} address in the gateway's card is {redact_url(interface.url)}: {problem}"
        if problem and found not in seen:
            seen.add(found)
            yield Difference("GW-001", f"{_NAME}: {key}", found, f"an address below {redact_url(sides.gateway)}")


def _address_problem(interface: Interface, own: Interface | None, sides: Sides, answers: Mapping[str, str]) -> str:
    url = interface.url
    is_own = own is not None and own.url == url
    # gRPC has a port of its own, as it has on most agents.
    if is_at(url, sides.gateway) or (interface.transport == "grpc" and not is_own and url in answers):
        reason = answers.get(url, "")
        return f"{_twice(url)}it does not answer as the agent does ({reason})" if reason else ""
    parts, gate = urllib.parse.urlsplit(url), urllib.parse.urlsplit(sides.gateway)
    if is_own or is_at(url, sides.direct):
        return "the agent's own address, so that clients bypass the gateway, or reach no server"
    if parts.hostname == gate.hostname and parts.scheme != gate.scheme:
        return f"scheme {parts.scheme}, where the gateway is reached by {gate.scheme}"
    if parts.hostname == gate.hostname:
        return f"port {parts.port or 'by default'}, where the gateway is reached at {gate.port or 'the default one'}"
    return "neither the gateway's address nor the agent's"


def _twice(url: str) -> str:
    """Name the part of a path that is there twice in a row."""
    path = urllib.parse.urlsplit(url).path
    found = re.search(r"(/[^/].*?)\1(?=/|$)", path)
    return "its path has an empty segment, " if "//" in path else f"its path has {found[1]} twice, " if found else ""


def _signatures(card: Mapping[str, Any], other: Mapping[str, Any]) -> Iterator[Difference]:
    signed, given = card.get("signatures"), other.get("signatures")
    is_same = {**card, "signatures": 0} == {**other, "signatures": 0}
    name, expected = f"{_NAME}: signatures", "a signature over the card as it is served"
    if signed and not given:
        found = "the agent's card is signed, and the gateway's is not"
        yield Difference("GW-004", name, found, expected, "warning")
    elif signed and (given == signed) != is_same:
        found = "the gateway rewrites the card and keeps the agent's signature, which cannot be valid for the new text"
        found = "the gateway changes the signature and not the card" if is_same else found
        yield Difference("GW-004", name, found, expected, pointer="/signatures")
