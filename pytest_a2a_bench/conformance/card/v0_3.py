"""What a 0.3 card has to say beyond its shape (pure)."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from pytest_a2a_bench.conformance.card import shared
from pytest_a2a_bench.conformance.card.document import Ledger, Path, as_list, as_object, as_text, objects, show
from pytest_a2a_bench.conformance.card.urls import PlainHttp

IDS = shared.RuleIds(
    url="V03-CARD-013",
    binding="V03-CARD-019",
    modes="V03-CARD-015",
    skill_ids="V03-CARD-014",
    extensions="V03-CARD-016",
    web_urls="V03-CARD-018",
    secrets="V03-CARD-017",
    schemes="V03-CARD-006",
)
_NEWER = {"securityRequirements": "security"}


def check(card: Mapping[str, Any], ledger: Ledger, plain: PlainHttp, *, hybrid: bool) -> None:
    """Write down what breaks a rule of 0.3.

    :param hybrid: whether the card is one of 1.0 too, whose members then have their reader.
    """
    _check_transports(card, ledger, plain, hybrid)
    _check_version(card, ledger)
    # A warning only: 0.3's schema asks for a text and does not forbid blanks.
    shared.check_blanks(ledger, ("V03-CARD-002", "V03-CARD-002"), card, "warning")
    shared.check_skills(ledger, IDS, card)
    _check_schemes(card, ledger, plain)
    _check_security(card, ledger)
    for _ in shared.check_extensions(ledger, IDS, card):
        # Only walked through: 0.3 has no rule about versions in URIs.
        pass
    shared.check_web_urls(ledger, IDS, card)
    shared.check_secrets(ledger, IDS, card)
    # On a card for both, members of 1.0 have their reader.
    if not hybrid:
        _check_newer(card, ledger)


def _check_version(card: Mapping[str, Any], ledger: Ledger) -> None:
    version = as_text(card.get("protocolVersion"))
    if version and not re.fullmatch(r"0\.\d+(\.\d+)?", version):
        found = f"protocolVersion is {show(version)}, and the card has the members of 0.3"
        ledger.add("V03-CARD-011", ("protocolVersion",), found, fix="write '0.3.0', or move to supportedInterfaces")


def _check_transports(card: Mapping[str, Any], ledger: Ledger, plain: PlainHttp, hybrid: bool) -> None:
    preferred = as_text(card.get("preferredTransport"))
    if card.get("url") and "preferredTransport" not in card:
        found = "preferredTransport is missing; the text demands it (§5.6.1), the schema has the default JSONRPC (§5.5)"
        # The specification contradicts itself, so that neither is wrong.
        ledger.add("V03-CARD-003", ("preferredTransport",), found, fix="write 'JSONRPC'", severity="note")
    transports: dict[str, str] = {}
    shared.check_mixed_tls(ledger, IDS, (((*path, "url"), url) for path, url, _ in _interfaces(card)))
    for path, url, transport in _interfaces(card):
        name = "preferredTransport" if path == () else "transport"
        shared.check_interface_url(ledger, IDS, (*path, "url"), url, transport, plain)
        shared.check_binding(ledger, IDS, (*path, name), transport, uri=False)
        before = transports.setdefault(url, transport)
        # One URL cannot speak two transports: section 5.6.
        if before != transport:
            found = f"{show(url)} is declared as {before} and as {transport}"
            fix = "give every transport a URL of its own"
            ledger.add("V03-CARD-004", (*path, "url"), found, fix=fix)
    _check_main_url(card, preferred or "JSONRPC", ledger, hybrid)


def _interfaces(card: Mapping[str, Any]) -> Iterator[tuple[Path, str, str]]:
    if as_text(card.get("url")):
        yield (), as_text(card.get("url")), as_text(card.get("preferredTransport")) or "JSONRPC"
    for i, interface in objects(card.get("additionalInterfaces")):
        if as_text(interface.get("url")) and as_text(interface.get("transport")):
            yield ("additionalInterfaces", i), interface["url"], interface["transport"]


def _check_main_url(card: Mapping[str, Any], preferred: str, ledger: Ledger, hybrid: bool) -> None:
    """Look for the main URL among the additional ones; a card that has 1.0's list too is complete without it."""
    entries = [i for _, i in objects(card.get("additionalInterfaces"))]
    if hybrid or not entries or not as_text(card.get("url")):
        return
    if not any(e.get("url") == card["url"] for e in entries):
        fix = f"add {{'url': ..., 'transport': '{preferred[:20]}'}} to additionalInterfaces"
        ledger.add("V03-CARD-005", ("additionalInterfaces",), "the main url is not among them", fix=fix)


def _check_schemes(card: Mapping[str, Any], ledger: Ledger, plain: PlainHttp) -> None:
    schemes = as_object(card.get("securitySchemes"))
    for name, scheme in schemes.items():
        path: Path = ("securitySchemes", name)
        members = as_object(scheme)
        shared.check_key_name(ledger, IDS, (*path, "name"), members.get("in"), members.get("name"))
        shared.check_flow_urls(ledger, IDS, path, members, plain)
        for kind, flow in as_object(as_object(scheme).get("flows")).items():
            shared.check_flow_urls(ledger, IDS, (*path, "flows", kind), as_object(flow), plain)
    if card.get("supportsAuthenticatedExtendedCard") is True and not schemes:
        found = "it is true, and securitySchemes declares no way to authenticate"
        fix = "declare a scheme in securitySchemes"
        ledger.add("V03-CARD-008", ("supportsAuthenticatedExtendedCard",), found, fix=fix, severity="warning")


def _check_security(card: Mapping[str, Any], ledger: Ledger) -> None:
    schemes = as_object(card.get("securitySchemes"))
    for path, alternative in shared.requirements_in(card, "security"):
        shared.check_references(ledger, "V03-CARD-007", path, alternative, schemes)
        for name, scopes in alternative.items():
            flows = as_object(schemes.get(name)).get("flows")
            shared.check_scopes(ledger, "V03-CARD-007", (*path, name), scopes, flows)


def _check_newer(card: Mapping[str, Any], ledger: Ledger) -> None:
    if "supportedInterfaces" in card and not as_list(card["supportedInterfaces"]):
        ledger.add("V03-CARD-012", ("supportedInterfaces",), "supportedInterfaces without an entry", fix="remove it")
    for name, old in _NEWER.items():
        if name in card and old not in card:
            ledger.add("V03-CARD-012", (name,), f"{name} is a member of 1.0 cards", fix=f"write {old}")
    if "extendedAgentCard" in as_object(card.get("capabilities")) and "supportsAuthenticatedExtendedCard" not in card:
        path: Path = ("capabilities", "extendedAgentCard")
        fix = "write supportsAuthenticatedExtendedCard at the top"
        ledger.add("V03-CARD-012", path, "extendedAgentCard is a member of 1.0 capabilities", fix=fix)
    for i, interface in objects(card.get("additionalInterfaces")):
        if "protocolBinding" in interface and "transport" not in interface:
            place: Path = ("additionalInterfaces", i, "protocolBinding")
            ledger.add("V03-CARD-012", place, "protocolBinding is a member of 1.0 interfaces", fix="write transport")
