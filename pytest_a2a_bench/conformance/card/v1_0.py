"""What a 1.0 card has to say beyond its shape (pure)."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from pytest_a2a_bench.conformance.card import shared
from pytest_a2a_bench.conformance.card.document import Ledger, Path, as_object, as_text, objects, show
from pytest_a2a_bench.conformance.card.urls import PlainHttp
from pytest_a2a_bench.conformance.finding import Severity

IDS = shared.RuleIds(
    url="CARD-009",
    binding="CARD-011",
    modes="CARD-021",
    skill_ids="CARD-020",
    extensions="CARD-023",
    web_urls="CARD-031",
    secrets="CARD-017",
    schemes="CARD-018",
)
# A version that nobody has published is one that no client speaks.
PUBLISHED = ("1.0", "0.3", "0.2", "0.1")
# What 1.0 says instead, for the advice.
LEFTOVERS = {
    "url": "supportedInterfaces[].url",
    "preferredTransport": "the order of supportedInterfaces",
    "additionalInterfaces": "supportedInterfaces",
    "protocolVersion": "supportedInterfaces[].protocolVersion",
    "security": "securityRequirements",
    "supportsAuthenticatedExtendedCard": "capabilities.extendedAgentCard",
    "supportsExtendedAgentCard": "capabilities.extendedAgentCard",
}
_NO_LEFTOVERS = "no member of 0.3, unless supportedInterfaces declares a 0.3 interface"
# A number between separators: /v1, :2.0, 2024-01.
_VERSIONED = re.compile(r"(?:^|[/:@#?=_.\-])v?\d+(?:[._\-]\d+)*(?:$|[/?#&;_.\-])", re.IGNORECASE)


def check(card: Mapping[str, Any], ledger: Ledger, plain: PlainHttp) -> None:
    """Write down what breaks a rule of 1.0."""
    _check_interfaces(card, ledger, plain)
    _check_leftovers(card, ledger)
    shared.check_blanks(ledger, ("CARD-003", "CARD-005"), card, None)
    shared.check_skills(ledger, IDS, card)
    _check_schemes(card, ledger, plain)
    _check_requirements(card, ledger)
    for path, uri in shared.check_extensions(ledger, IDS, card):
        if not _VERSIONED.search(uri):
            ledger.add("CARD-024", path, f"{show(uri)} names no version", fix="end the URI in /v1 or the like")
    shared.check_web_urls(ledger, IDS, card)
    shared.check_secrets(ledger, IDS, card)


def declares_0_3(card: Mapping[str, Any]) -> bool:
    """Tell whether one of the card's interfaces speaks 0.3, so that 0.3's members have a reader."""
    return any(as_text(i.get("protocolVersion")).startswith("0.") for _, i in objects(card.get("supportedInterfaces")))


def _check_interfaces(card: Mapping[str, Any], ledger: Ledger, plain: PlainHttp) -> None:
    seen: set[tuple[str, str, str, str]] = set()
    every = objects(card.get("supportedInterfaces"))
    shared.check_mixed_tls(
        ledger, IDS, ((("supportedInterfaces", i, "url"), as_text(entry.get("url"))) for i, entry in every)
    )
    for i, interface in objects(card.get("supportedInterfaces")):
        path: Path = ("supportedInterfaces", i)
        names = ("url", "protocolBinding", "protocolVersion", "tenant")
        url, binding, version, tenant = (as_text(interface.get(n)) for n in names)
        if url:
            shared.check_interface_url(ledger, IDS, (*path, "url"), url, binding, plain)
        shared.check_binding(ledger, IDS, (*path, "protocolBinding"), binding, uri=True)
        if version:
            _check_version(ledger, (*path, "protocolVersion"), version)
        key = (url, binding, version, tenant)
        if url and key in seen:
            ledger.add("CARD-033", path, f"{binding} {version} at {show(url)} is listed before", fix="list it once")
        seen.add(key)


def _check_version(ledger: Ledger, path: Path, version: str) -> None:
    match = re.fullmatch(r"(\d+\.\d+)(\.\d+)?", version)
    if match is None:
        # An error whatever the rule's level, because no client can choose it.
        ledger.add("CARD-010", path, f"{show(version)} is not a version", fix="write '1.0'", severity="error")
    elif match.group(2):
        ledger.add("CARD-010", path, f"{show(version)} has a patch number", fix=f"write {match.group(1)!r}")
    elif version not in PUBLISHED:
        ledger.add("CARD-032", path, f"{show(version)} is not published", fix="write '1.0'")


def _check_leftovers(card: Mapping[str, Any], ledger: Ledger) -> None:
    if declares_0_3(card):
        return
    found: list[tuple[Path, str, str]] = [
        ((name,), "cards", f"remove it ({now} says it now), or declare a 0.3 interface in supportedInterfaces")
        for name, now in LEFTOVERS.items()
        if name in card
    ]
    if "stateTransitionHistory" in as_object(card.get("capabilities")):
        found.append((("capabilities", "stateTransitionHistory"), "cards", "remove it"))
    for i, skill in objects(card.get("skills")):
        if "security" in skill:
            found.append((("skills", i, "security"), "skills", "write securityRequirements"))
    for path, whose, fix in found:
        told = f"{path[-1]} is a member of 0.3 {whose}"
        # Clients of 1.0 do not read it, and take an agent that wants credentials for one that wants none.
        severity: Severity | None = "error" if path[-1] == "security" else None
        ledger.add("CARD-026", path, told, expected=_NO_LEFTOVERS, fix=fix, severity=severity)


def _check_schemes(card: Mapping[str, Any], ledger: Ledger, plain: PlainHttp) -> None:
    schemes = as_object(card.get("securitySchemes"))
    for name, scheme in schemes.items():
        for kind, members in as_object(scheme).items():
            if kind.endswith("SecurityScheme") and isinstance(members, Mapping):
                _check_scheme(("securitySchemes", name, kind), members, ledger, plain)
    extended = as_object(card.get("capabilities")).get("extendedAgentCard") is True
    if extended and not schemes:
        found = "extendedAgentCard is true, and securitySchemes declares no way to authenticate"
        fix = "declare a scheme in securitySchemes"
        ledger.add("CARD-027", ("capabilities", "extendedAgentCard"), found, fix=fix)


def _check_scheme(path: Path, members: Mapping[str, Any], ledger: Ledger, plain: PlainHttp) -> None:
    location = members.get("location")
    shared.check_key_name(ledger, IDS, (*path, "name"), location, members.get("name"))
    if path[-1] == "apiKeySecurityScheme" and isinstance(location, str) and location:
        # The enum is not in the descriptors: the field is a plain string.
        if location not in ("query", "header", "cookie"):
            places = "query, header or cookie"
            found = f"location is {show(location)}"
            ledger.add("CARD-018", (*path, "location"), found, expected=f"location is {places}", fix=f"use {places}")
    shared.check_flow_urls(ledger, IDS, path, members, plain)
    for name, flow in as_object(members.get("flows")).items():
        if not isinstance(flow, Mapping):
            continue
        shared.check_flow_urls(ledger, IDS, (*path, "flows", name), flow, plain)
        # RFC 9700 advises against both.
        if name in ("implicit", "password"):
            fix = "use authorizationCode with PKCE, clientCredentials or deviceCode"
            ledger.add("CARD-025", (*path, "flows", name), f"the flow {name} is deprecated", fix=fix)


def _check_requirements(card: Mapping[str, Any], ledger: Ledger) -> None:
    schemes = as_object(card.get("securitySchemes"))
    for path, requirement in shared.requirements_in(card, "securityRequirements"):
        _check_requirement(path, requirement, schemes, ledger)


def _check_requirement(path: Path, requirement: Mapping[str, Any], schemes: Mapping[str, Any], ledger: Ledger) -> None:
    if "schemes" not in requirement:
        misplaced = [name for name in requirement if name in schemes]
        if misplaced:  # 0.3's form: a 1.0 client ignores the unknown member and would send no credentials at all
            found = f"{show(misplaced[0])} stands outside of schemes, where it requires nothing"
            fix = f'write {{"schemes": {{"{misplaced[0][:40]}": {{"list": []}}}}}}'
            ledger.add("CARD-019", path, found, fix=fix)
        return
    named = as_object(requirement["schemes"])
    shared.check_references(ledger, "CARD-019", (*path, "schemes"), named, schemes)
    for name, scopes in named.items():
        place: Path = (*path, "schemes", name, "list")
        flows = as_object(as_object(schemes.get(name)).get("oauth2SecurityScheme")).get("flows")
        shared.check_scopes(ledger, "CARD-019", place, as_object(scopes).get("list"), flows)
