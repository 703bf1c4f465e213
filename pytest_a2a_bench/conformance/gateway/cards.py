"""Compare the card that a gateway serves with the agent's own: addresses, text, signatures, and how it is served."""

from __future__ import annotations

import contextlib
import urllib.parse
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from pytest_a2a_bench.a2a.card import Interface, narrow_to_endpoint, origin_of, parse_card
from pytest_a2a_bench.conformance.card.judge import CardHttp
from pytest_a2a_bench.conformance.gateway.compare import Difference, Sides, differences, flat
from pytest_a2a_bench.errors import CardError
from pytest_a2a_bench.redact import redact_url
from pytest_a2a_bench.text import one_line

_NAME = "the card"
# Compared by themselves, or the gateway's own to add: what it wants of clients.
_APART = ("url", "supportedInterfaces", "additionalInterfaces", "signatures")
_ADDABLE = ("securitySchemes", "securityRequirements", "security")
_SERVED = ("cache-control", "vary", "access-control-allow-origin")


def moved(url: str, source: str, target: str) -> str:
    """Return a URL below one endpoint as it is below another."""
    path, base, top = (urllib.parse.urlsplit(u).path for u in (url, source, target))
    base, top = (p.partition("/.well-known/")[0].rstrip("/") for p in (base, top))
    if path == base or path.startswith(f"{base}/"):
        path = path[len(base) :]
    parts = urllib.parse.urlsplit(target)
    return urllib.parse.urlunsplit((parts.scheme, parts.netloc, top + path, urllib.parse.urlsplit(url).query, ""))


def is_at(url: str, endpoint: str) -> bool:
    """Return whether a URL has the origin of an endpoint."""
    try:
        return origin_of(url, endpoint) == origin_of(endpoint)
    except ValueError:
        return False


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

    :param direct: the agent's own card, as it was served twice.
    :param answers: address of an interface -> what is wrong with it; empty where it answers as an agent does.
    """
    pairs = zip((*direct, through), (*[sides.direct] * len(direct), sides.gateway), strict=True)
    (card, http), *again, (other, got) = [(_narrowed(raw, endpoint, http), http) for (raw, http), endpoint in pairs]
    if http.problem or not isinstance(card, Mapping):
        return
    exchanges = tuple(e for e in (http.exchange, got.exchange) if e is not None)
    if got.problem or not isinstance(other, Mapping):
        found = f"{got.problem or 'the gateway serves no card'}; the agent serves one at {redact_url(http.url)}"
        yield Difference("GW-002", _NAME, found, status=got.status, exchanges=exchanges)
        return
    for one in (
        *_served([http, *(h for _, h in again)], got),
        *_addresses(card, other, sides, answers),
        *_text([c for c in (card, *(c for c, _ in again)) if isinstance(c, Mapping)], other, sides),
        *_signatures(card, other),
    ):
        yield one._replace(exchanges=exchanges)


def _narrowed(raw: Any, endpoint: str, http: CardHttp) -> Any:
    """Return a card with the interfaces that an endpoint means; None for another agent's."""
    with contextlib.suppress(CardError):
        return narrow_to_endpoint(raw, endpoint, http.url) if isinstance(raw, Mapping) else raw
    return None


def _served(direct: Sequence[CardHttp], got: CardHttp) -> Iterator[Difference]:
    want = direct[0]
    if got.is_legacy and not want.is_legacy:
        found = "the gateway serves the card at the path of 0.2 only, /.well-known/agent.json"
        yield Difference("GW-002", f"{_NAME}: path", found, "the card at /.well-known/agent-card.json")
    for name in ("content-type", *_SERVED):
        value, other = want.headers.get(name), got.headers.get(name)
        if value is not None and other != value and all(http.headers.get(name) == value for http in direct):
            wanted = f"{name}: {one_line(value, 80)}"
            found = f"header {name} is {one_line(str(other or 'missing'), 80)} through the gateway; without it {wanted}"
            yield Difference("GW-002", f"{_NAME}: {name}", found, wanted)
    if want.headers.get("etag") and not got.headers.get("etag"):
        yield Difference("GW-002", f"{_NAME}: etag", "the ETag is lost through the gateway", "an ETag")
    elif want.conditional_status == 304 and got.conditional_status not in (None, 304):
        found = f"If-None-Match gets {got.conditional_status} through the gateway, and 304 without it"
        yield Difference("GW-002", f"{_NAME}: etag", found, "status 304")
    if want.other is not None and got.other is None:
        found = (
            "clients without A2A-Version get the agent's card for 0.3, and through the gateway the same as all others"
        )
        yield Difference("GW-002", f"{_NAME}: versions", found, "the card for each version")


def _addresses(card: Any, other: Any, sides: Sides, answers: Mapping[str, str]) -> Iterator[Difference]:
    own, given = interfaces(card, sides.direct), interfaces(other, sides.gateway)
    for key, interface in own.items():
        if key not in given:
            found = f"the interface {interface} of the agent is not in the gateway's card"
            yield Difference("GW-003", f"{_NAME}: {key}", found, "the same interfaces")
    for key, interface in given.items():
        problem = _address_problem(interface.url, own.get(key), sides, answers)
        if problem:
            found = f"the {interface.transport} address in the gateway's card is {redact_url(interface.url)}: {problem}"
            yield Difference("GW-001", f"{_NAME}: {key}", found, f"an address below {redact_url(sides.gateway)}")


def _address_problem(url: str, own: Interface | None, sides: Sides, answers: Mapping[str, str]) -> str:
    if is_at(url, sides.gateway):
        reason = answers.get(url, "")
        return f"{_twice(url)}it does not answer as the agent does ({reason})" if reason else ""
    parts, gate = urllib.parse.urlsplit(url), urllib.parse.urlsplit(sides.gateway)
    if is_at(url, sides.direct) or (own is not None and own.url == url):
        return "the agent's own address, so that clients go around the gateway, or nowhere"
    if parts.hostname == gate.hostname and parts.scheme != gate.scheme:
        return f"scheme {parts.scheme}, where the gateway is reached by {gate.scheme}"
    if parts.hostname == gate.hostname:
        return f"port {parts.port or 'by default'}, where the gateway is reached at {gate.port or 'the default one'}"
    return "neither the gateway's address nor the agent's"


def _twice(url: str) -> str:
    """Name the part of a path that is there twice in a row, at most of one prefix and another."""
    path = urllib.parse.urlsplit(url).path
    words = path.strip("/").split("/")
    if "//" in path:
        return "its path has an empty segment, "
    for size in range(len(words) // 2, 0, -1):
        for start in range(len(words) - 2 * size + 1):
            if words[start : start + size] == words[start + size : start + 2 * size]:
                return f"its path has /{'/'.join(words[start : start + size])} twice, "
    return ""


def _text(cards: Sequence[Mapping[str, Any]], other: Mapping[str, Any], sides: Sides) -> Iterator[Difference]:
    def rest(card: Mapping[str, Any]) -> dict[str, Any]:
        # Links into the server itself may be rewritten, as addresses are.
        changed = (sides.direct, sides.gateway)
        kept = {key: value for key, value in card.items() if key not in _APART}
        return {
            k: "ADDRESS" if isinstance(v, str) and any(is_at(v, s) for s in changed if "://" in v) else v
            for k, v in flat(kept)
        }

    for pointer, want, got in differences([rest(card) for card in cards], rest(other)):
        added = want == "nothing"
        if added and pointer.split("/")[1] in _ADDABLE:
            continue
        shown = f"{one_line(str(got), 80)!r} through the gateway, {one_line(str(want), 80)!r} without it"
        yield Difference(
            "GW-003",
            f"{_NAME}: {pointer}",
            f"{pointer} is {shown}",
            severity="warning" if added else "error",
            pointer=pointer,
        )


def _signatures(card: Mapping[str, Any], other: Mapping[str, Any]) -> Iterator[Difference]:
    signed, given = card.get("signatures"), other.get("signatures")
    if not signed:
        return
    name = f"{_NAME}: signatures"
    if not given:
        yield Difference(
            "GW-004", name, "the agent's card is signed, and the gateway's is not", "a signature", "warning"
        )
        return
    same = {k: v for k, v in card.items() if k != "signatures"} == {k: v for k, v in other.items() if k != "signatures"}
    if given == signed and not same:
        found = "the gateway rewrites the card and keeps the agent's signature, which cannot be valid for the new text"
        yield Difference(
            "GW-004", name, found, "a signature over the card as it is served, or none", pointer="/signatures"
        )
    elif given != signed and same:
        yield Difference("GW-004", name, "the gateway changes the signature and not the card", "the agent's signature")
