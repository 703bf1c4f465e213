"""The rules for a card beyond its shape, for both protocol versions (pure)."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from pytest_a2a_bench.a2a.bodies import as_list, as_object, as_text
from pytest_a2a_bench.conformance.card.document import Ledger, Path, objects, show, texts
from pytest_a2a_bench.conformance.card.urls import PlainHttp, UrlFacts, is_uri, judge_url
from pytest_a2a_bench.conformance.finding import Severity

CORE_BINDINGS = ("JSONRPC", "HTTP+JSON", "GRPC")

# Versions that the protocol has; a client speaks no other.
_PUBLISHED = ("1.0", "0.3", "0.2", "0.1")
# Members of 0.3 cards, and what 1.0 has in their place.
_LEFTOVERS = {
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
# The token of RFC 9110 section 5.6.2: names of headers and cookies.
_FIELD_NAME = re.compile(r"^[A-Za-z0-9!#$%&'*+.^_`|~\-]+$")
# A little more than RFC 6838 allows, as servers accept it.
_TOKEN = r"[A-Za-z0-9!#$&^_.+*\-]+"
MEDIA_TYPE = re.compile(rf"^{_TOKEN}/{_TOKEN}(?:\s*;\s*[A-Za-z0-9!#$&^_.+*\-]+=(?:\"[^\"]*\"|[^\s;\"]+))*$")
_MEDIA_TYPES = {"text": "text/plain", "json": "application/json"}
# Each of these can mean one binding only, once separators and case are left out.
_MISSPELT = {
    **dict.fromkeys(("JSONRPC", "JSONRPC2", "JSONRPC20"), "JSONRPC"),
    **dict.fromkeys(("HTTP", "HTTPS", "HTTPJSON", "REST"), "HTTP+JSON"),
    "GRPC": "GRPC",
}
_SCHEMES = {
    "JSONRPC": ("https", "http"),
    "HTTP+JSON": ("https", "http"),
    # gRPC has a name syntax of its own.
    "GRPC": ("https", "http", "grpcs", "grpc", "dns", "unix", "ipv4", "ipv6"),
}
# Paths of HTTP+JSON's methods in both versions: some agents give one of them in place of their base URL.
_METHOD_PATH = re.compile(r"(/message:(?:send|stream)|/tasks/[^/?#]*:(?:cancel|subscribe))/?(?:[?#].*)?$")

_SECRETS = {
    kind: re.compile(pattern)
    for kind, pattern in {
        "a private key": r"-----BEGIN [A-Z ]*PRIVATE KEY-----",
        "an AWS access key": r"\b(?:AKIA|ASIA)[0-9A-Z]{16}\b",
        "an OpenAI or Anthropic key": r"\bsk-[A-Za-z0-9_\-]{20,}",
        "a GitHub token": r"\bgh[pousr]_[A-Za-z0-9]{30,}\b|\bgithub_pat_[A-Za-z0-9_]{40,}",
        "a GitLab token": r"\bglpat-[A-Za-z0-9_\-]{20,}",
        "a Slack token": r"\bxox[abeoprs]-[A-Za-z0-9\-]{10,}",
        "a Google API key": r"\bAIza[0-9A-Za-z_\-]{35}\b",
        "a JSON web token": r"\beyJ[A-Za-z0-9_\-]{8,400}\.eyJ[A-Za-z0-9_\-]{8,2000}\.[A-Za-z0-9_\-]{8}",
        "a bearer token": r"\b[Bb]earer\s+(?=[A-Za-z0-9._\-]*\d)[A-Za-z0-9._\-]{20,}",
        "a password": r"(?i)\b(?:password|passwd|client_secret|api_key)\s*[=:]\s*(?=[^\s,;]*\d)[^\s,;]{6,}",
    }.items()
}
# Members of any other name may hold anything of an extension's.
_SECRET_MEMBERS = ("clientSecret", "client_secret", "password", "passwd")
_LONGEST = 20_000


class Interface(NamedTuple):
    """One interface of a card.

    :param path: of the object that declares it; the card itself for 0.3's main interface.
    :param name: the member that names the binding.
    """

    path: Path
    name: str
    url: str
    binding: str
    version: str = ""
    tenant: str = ""


def interfaces_of(card: Mapping[str, Any], version: str) -> Iterator[Interface]:
    """Yield the interfaces that a card declares in the members of one version."""
    if version == "1.0":
        for i, entry in objects(card.get("supportedInterfaces")):
            members = (as_text(entry.get(n)) for n in ("url", "protocolBinding", "protocolVersion", "tenant"))
            yield Interface(("supportedInterfaces", i), "protocolBinding", *members)
        return
    if as_text(card.get("url")):
        yield Interface((), "preferredTransport", card["url"], as_text(card.get("preferredTransport")) or "JSONRPC")
    for i, entry in objects(card.get("additionalInterfaces")):
        if as_text(entry.get("url")) and as_text(entry.get("transport")):
            yield Interface(("additionalInterfaces", i), "transport", entry["url"], entry["transport"])


def declares_0_3(card: Mapping[str, Any]) -> bool:
    """Return whether one of the card's 1.0 interfaces speaks 0.3, so that members of 0.3 have a reader."""
    return any(interface.version.startswith("0.") for interface in interfaces_of(card, "1.0"))


def core_name(binding: str) -> str:
    """Return the core binding that a name means; empty where it means none."""
    return binding if binding in CORE_BINDINGS else _MISSPELT.get(re.sub(r"[\s\-_/.+]", "", binding).upper(), "")


def find_secret(text: str) -> str:
    """Return the kind of credential that a text seems to hold; empty for none. The credential is never returned."""
    text = text[:_LONGEST]
    return next((kind for kind, pattern in _SECRETS.items() if pattern.search(text)), "")


class Rules:
    """The rules of one version.

    :param card: the card, as :func:`.schema.check_shape` reads it for that version.
    :param hybrid: whether the card is one for both versions.
    """

    def __init__(
        self, card: Mapping[str, Any], version: str, ledger: Ledger, plain: PlainHttp, *, hybrid: bool
    ) -> None:
        self.card, self.version, self.plain, self.hybrid = card, version, plain, hybrid
        self.add = ledger.add
        self.schemes = as_object(card.get("securitySchemes"))

    def check(self) -> None:
        """Record what the card breaks."""
        self._interfaces()
        if self.version == "1.0":
            self._leftovers()
        else:
            self._version_0_3()
        self._texts()
        self._skills()
        self._security_schemes()
        self._requirements()
        self._extensions()
        self._web_urls()
        self._secrets()
        # A card for both versions may have members of both.
        if self.version == "0.3" and not self.hybrid:
            self._newer()

    # -- interfaces --

    def _interfaces(self) -> None:
        every = list(interfaces_of(self.card, self.version))
        self._mixed_tls(every)
        seen: set[tuple[str, ...]] = set()
        transports: dict[str, str] = {}
        for interface in every:
            path, name, url, binding, version, _ = interface
            if url:
                self._interface_url((*path, "url"), url, binding)
            self._binding((*path, name), binding)
            if self.version == "1.0":
                if version:
                    self._version((*path, "protocolVersion"), version)
                if url and interface[2:] in seen:
                    self.add("CARD-033", path, f"{binding} {version} at {show(url)} is listed before", "list it once")
                seen.add(interface[2:])
            # One URL cannot speak two transports (0.3, section 5.6).
            elif (before := transports.setdefault(url, binding)) != binding:
                found = f"{show(url)} is declared as {before} and as {binding}"
                self.add("V03-CARD-004", (*path, "url"), found, "give every transport a URL of its own")
        if self.version == "0.3":
            self._main_interface()

    def _mixed_tls(self, interfaces: list[Interface]) -> None:
        """One interface without TLS beside others with it is a way around these, and no test bed."""
        every = [((*i.path, "url"), i.url, judge_url(i.url)) for i in interfaces]
        if any(facts.scheme in ("https", "grpcs") for _, _, facts in every):
            for path, url, facts in every:
                if facts.is_plain and not facts.problem and facts.reach != "loopback":
                    found = f"the URL {show(url)} has no TLS, and other interfaces have it"
                    self.add("url", path, found, "serve https, or leave it out", "error")

    def _interface_url(self, path: Path, url: str, binding: str) -> None:
        # A misspelt name is a finding of its own; the URL is judged for the binding that the name means.
        known = core_name(binding)
        facts = judge_url(url, _SCHEMES.get(known, ()), authority=known == "GRPC")
        # Other bindings may have addresses of their own kind, such as mqtt:agents/recipes, that name no host.
        is_own = bool(binding) and not known and facts.scheme not in ("", "http", "https")
        if is_own and not facts.host and is_uri(url):
            return
        shown = show(url)
        if facts.problem:
            wanted = "https://HOST/PATH" + (" or HOST:PORT" if known == "GRPC" else "")
            self.add("url", path, f"the URL {shown} {facts.problem}", f"write an absolute URL: {wanted}")
        elif facts.reach == "wildcard":
            found = f"the URL {shown} names a listening address that no client can call"
            self.add("url", path, found, "put the agent's public host name here", "error")
        elif facts.is_plain and not self.plain.allows(facts):
            severity: Severity = "error" if facts.reach == "public" else "warning"
            self.add("url", path, f"the URL {shown} has no TLS", "serve https", severity)
        elif method := _METHOD_PATH.search(url):
            found = f"the URL {shown} is the path of one method ({method.group(1)}), "
            found += "to which clients add paths of their own"
            # A JSON-RPC endpoint may have any path, but hardly this one.
            self.add("url", path, found, "name the URL without that path", "warning" if known == "JSONRPC" else "error")
        self._exposure(path, facts)

    def _exposure(self, path: Path, facts: UrlFacts) -> None:
        # Whatever else is wrong with the URL: a leaked credential must be revoked at once.
        if facts.secret:
            found = f"the URL {show(facts.url)} carries a credential ({facts.secret})"
            self.add("secret", path, found, "remove it, revoke it, and declare a security scheme", "error")
        # Without TLS it is a finding already, and often a test agent in a network of containers.
        elif facts.reach == "private" and facts.scheme in ("https", "grpcs") and not facts.problem:
            if not self.plain.is_known(facts):
                self.add("secret", path, f"the URL {show(facts.url)} names an internal host", "use the public name")

    def _binding(self, path: Path, binding: str) -> None:
        meant = core_name(binding)
        if binding in CORE_BINDINGS or not binding:
            return
        if meant:
            found = f"the name {show(binding)}, which no client looks for"
            self.add("binding", path, found, f"write {meant!r}", "error")
        elif self.version == "1.0" and not is_uri(binding):
            fix = f"use one of {', '.join(CORE_BINDINGS)}, or a URI of your own"
            self.add("binding", path, f"the name {show(binding)}", fix)

    def _version(self, path: Path, version: str) -> None:
        match = re.fullmatch(r"(\d+\.\d+)(\.\d+)?", version)
        if match is None:
            # An error whatever the rule's level: no client can choose it.
            self.add("CARD-010", path, f"{show(version)} is not a version", "write '1.0'", "error")
        elif match.group(2):
            self.add("CARD-010", path, f"{show(version)} has a patch number", f"write {match.group(1)!r}")
        elif version not in _PUBLISHED:
            self.add("CARD-032", path, f"{show(version)} is not published", "write '1.0'")

    # -- 0.3's main interface, and members of the other version --

    def _main_interface(self) -> None:
        card = self.card
        if card.get("url") and "preferredTransport" not in card:
            found = (
                "preferredTransport is missing; the text demands it (§5.6.1), the schema has the default JSONRPC (§5.5)"
            )
            # A note: the specification contradicts itself.
            self.add("V03-CARD-003", ("preferredTransport",), found, "write 'JSONRPC'", "note")
        others = [entry for _, entry in objects(card.get("additionalInterfaces"))]
        # A card that has 1.0's list, too, is complete without the main URL among these.
        if others and not self.hybrid and as_text(card.get("url")) and all(e.get("url") != card["url"] for e in others):
            preferred = as_text(card.get("preferredTransport")) or "JSONRPC"
            fix = f"add {{'url': ..., 'transport': '{preferred[:20]}'}} to additionalInterfaces"
            self.add("V03-CARD-005", ("additionalInterfaces",), "the main url is not among them", fix)

    def _version_0_3(self) -> None:
        version = as_text(self.card.get("protocolVersion"))
        if version and not re.fullmatch(r"0\.\d+(\.\d+)?", version):
            found = f"protocolVersion is {show(version)}, and the card has the members of 0.3"
            self.add("V03-CARD-011", ("protocolVersion",), found, "write '0.3.0', or move to supportedInterfaces")

    def _leftovers(self) -> None:
        if declares_0_3(self.card):
            return
        found: list[tuple[Path, str, str]] = [
            ((name,), "cards", f"remove it ({now} says it now), or declare a 0.3 interface in supportedInterfaces")
            for name, now in _LEFTOVERS.items()
            if name in self.card
        ]
        if "stateTransitionHistory" in as_object(self.card.get("capabilities")):
            found.append((("capabilities", "stateTransitionHistory"), "cards", "remove it"))
        for i, skill in objects(self.card.get("skills")):
            if "security" in skill:
                found.append((("skills", i, "security"), "skills", "write securityRequirements"))
        for path, whose, fix in found:
            # Clients of 1.0 do not read it: the agent seems to want no credentials.
            severity: Severity | None = "error" if path[-1] == "security" else None
            self.add("CARD-026", path, f"{path[-1]} is a member of 0.3 {whose}", fix, severity, expected=_NO_LEFTOVERS)

    def _newer(self) -> None:
        card, rule = self.card, "V03-CARD-012"
        if "supportedInterfaces" in card and not as_list(card["supportedInterfaces"]):
            self.add(rule, ("supportedInterfaces",), "supportedInterfaces without an entry", "remove it")
        if "securityRequirements" in card and "security" not in card:
            self.add(rule, ("securityRequirements",), "securityRequirements is a member of 1.0 cards", "write security")
        if (
            "extendedAgentCard" in as_object(card.get("capabilities"))
            and "supportsAuthenticatedExtendedCard" not in card
        ):
            found, fix = (
                "extendedAgentCard is a member of 1.0 capabilities",
                "write supportsAuthenticatedExtendedCard at the top",
            )
            self.add(rule, ("capabilities", "extendedAgentCard"), found, fix)
        for i, interface in objects(card.get("additionalInterfaces")):
            if "protocolBinding" in interface and "transport" not in interface:
                place: Path = ("additionalInterfaces", i, "protocolBinding")
                self.add(rule, place, "protocolBinding is a member of 1.0 interfaces", "write transport")

    # -- texts and skills --

    def _texts(self) -> None:
        for name in ("name", "description"):
            self._blank("text", (name,), self.card.get(name))
        for i, skill in objects(self.card.get("skills")):
            for name in ("id", "name", "description"):
                self._blank("skill text", ("skills", i, name), skill.get(name))
            for j, tag in enumerate(as_list(skill.get("tags"))):
                self._blank("skill text", ("skills", i, "tags", j), tag, is_tag=True)

    def _blank(self, rule: str, path: Path, text: Any, *, is_tag: bool = False) -> None:
        # 0.3's schema demands a text and does not forbid blanks.
        severity: Severity | None = None if self.version == "1.0" else "warning"
        # The schema finds other texts that are empty.
        if is_tag and text == "":
            self.add(rule, path, "the tag is empty", "remove it", severity)
        elif isinstance(text, str) and text and not text.strip():
            self.add(rule, path, f"the text {show(text)} is blank", "fill it in", severity)

    def _skills(self) -> None:
        for name in ("defaultInputModes", "defaultOutputModes"):
            self._modes((name,), self.card.get(name))
        seen: dict[str, int] = {}
        for i, skill in objects(self.card.get("skills")):
            for name in ("inputModes", "outputModes"):
                self._modes(("skills", i, name), skill.get(name))
            skill_id = as_text(skill.get("id"))
            if skill_id and skill_id in seen:
                found = f"the id {show(skill_id)}, which skill {seen[skill_id]} has already"
                self.add("skill id", ("skills", i, "id"), found, "give every skill an id of its own")
            seen.setdefault(skill_id, i)

    def _modes(self, path: Path, modes: Any) -> None:
        for i, mode in enumerate(as_list(modes)):
            if isinstance(mode, str) and not MEDIA_TYPE.match(mode):
                meant = _MEDIA_TYPES.get(mode.lower())
                fix = f"write {meant!r}" if meant else "write TYPE/SUBTYPE"
                self.add("mode", (*path, i), f"{show(mode)} is not a media type", fix)

    # -- security --

    def _security_schemes(self) -> None:
        for name, scheme in self.schemes.items():
            path: Path = ("securitySchemes", name)
            if self.version == "0.3":
                self._scheme(path, as_object(scheme), "in")
                continue
            for kind, members in as_object(scheme).items():
                if kind.endswith("SecurityScheme") and isinstance(members, Mapping):
                    self._scheme((*path, kind), members, "location")
        extended = as_object(self.card.get("capabilities")).get("extendedAgentCard")
        severity: Severity | None = None
        place: Path = ("capabilities", "extendedAgentCard")
        found = "extendedAgentCard is true"
        if self.version == "0.3":
            extended, severity = self.card.get("supportsAuthenticatedExtendedCard"), "warning"
            place, found = ("supportsAuthenticatedExtendedCard",), "it is true"
        if extended is True and not self.schemes:
            found = f"{found}, and securitySchemes declares no way to authenticate"
            self.add("extended card", place, found, "declare a scheme in securitySchemes", severity)

    def _scheme(self, path: Path, members: Mapping[str, Any], location_name: str) -> None:
        location, name = members.get(location_name), members.get("name")
        if location in ("header", "cookie") and isinstance(name, str) and name and not _FIELD_NAME.match(name):
            found, fix = f"{show(name)} cannot be the name of a {location}", "write one such as X-API-Key"
            self.add("scheme", (*path, "name"), found, fix, expected="a name as HTTP takes it")
        # 0.3's schema has the places; 1.0's descriptors have a plain string.
        if path[-1] == "apiKeySecurityScheme" and as_text(location) and location not in ("query", "header", "cookie"):
            places = "query, header or cookie"
            found, wanted = f"location is {show(location)}", f"location is {places}"
            self.add("scheme", (*path, "location"), found, f"use {places}", expected=wanted)
        self._flow_urls(path, members)
        for name, flow in as_object(members.get("flows")).items():
            if isinstance(flow, Mapping):
                self._flow_urls((*path, "flows", name), flow)
                # RFC 9700 advises against both.
                if self.version == "1.0" and name in ("implicit", "password"):
                    fix = "use authorizationCode with PKCE, clientCredentials or deviceCode"
                    self.add("CARD-025", (*path, "flows", name), f"the flow {name} is deprecated", fix)

    def _flow_urls(self, path: Path, members: Mapping[str, Any]) -> None:
        for name, url in members.items():
            if not isinstance(url, str) or not url or not name.endswith("Url"):
                continue
            facts = judge_url(url)
            if facts.problem:
                self.add("scheme", (*path, name), f"the URL {show(url)} {facts.problem}", "write https://...")
            elif facts.is_plain and not self.plain.allows(facts):
                self.add("scheme", (*path, name), f"the URL {show(url)} has no TLS", "use https", "warning")
            self._exposure((*path, name), facts)

    def _requirements(self) -> None:
        member = "securityRequirements" if self.version == "1.0" else "security"
        places: list[tuple[Path, Any]] = [((member,), self.card.get(member))]
        places += [(("skills", i, member), skill.get(member)) for i, skill in objects(self.card.get("skills"))]
        for path, alternatives in places:
            for i, alternative in enumerate(as_list(alternatives)):
                self._requirement((*path, i), as_object(alternative))

    def _requirement(self, path: Path, alternative: Mapping[str, Any]) -> None:
        named = alternative
        if self.version == "1.0":
            if "schemes" not in alternative:
                misplaced = [name for name in alternative if name in self.schemes]
                # 0.3's form: a client of 1.0 ignores the unknown member, and sends no credentials at all.
                if misplaced:
                    found = f"{show(misplaced[0])} stands outside of schemes, where it requires nothing"
                    fix = f'write {{"schemes": {{"{misplaced[0][:40]}": {{"list": []}}}}}}'
                    self.add("requirement", path, found, fix)
                return
            path, named = (*path, "schemes"), as_object(alternative["schemes"])
        for name, scopes in named.items():
            if name not in self.schemes:
                declared = ", ".join(map(show, list(self.schemes)[:8])) or "none"
                found = f"{show(name)} is not declared; securitySchemes has {declared}"
                self.add("requirement", (*path, name), found, "declare it in securitySchemes, or correct the name")
            scheme, place = as_object(self.schemes.get(name)), (*path, name)
            if self.version == "1.0":
                scheme, place = as_object(scheme.get("oauth2SecurityScheme")), (*place, "list")
                scopes = as_object(scopes).get("list")
            self._scopes(place, scopes, as_object(scheme.get("flows")))

    def _scopes(self, path: Path, scopes: Any, flows: Mapping[str, Any]) -> None:
        # Flows without scopes say nothing about which there are.
        known = {scope for flow in flows.values() for scope in as_object(as_object(flow).get("scopes"))}
        for i, scope in enumerate(as_list(scopes)):
            if known and isinstance(scope, str) and scope not in known:
                found = f"no flow of the scheme has the scope {show(scope)}; there are {', '.join(sorted(known)[:8])}"
                self.add("requirement", (*path, i), found, "declare it in the flow, or correct it", "warning")

    # -- extensions, other URLs, credentials --

    def _extensions(self) -> None:
        seen: set[str] = set()
        for i, extension in objects(as_object(self.card.get("capabilities")).get("extensions")):
            path: Path = ("capabilities", "extensions", i, "uri")
            uri = extension.get("uri", "")
            if not isinstance(uri, str):
                continue
            if not uri:
                self.add("extension", path, "an extension without a URI", "name its URI")
            elif not is_uri(uri):
                self.add("extension", path, f"{show(uri)} is not a URI", "write an absolute URI")
            elif uri in seen:
                self.add("extension", path, f"{show(uri)} is declared twice", "declare it once")
            elif self.version == "1.0" and not _VERSIONED.search(uri):
                self.add("CARD-024", path, f"{show(uri)} names no version", "end the URI in /v1 or the like")
            seen.add(uri)

    def _web_urls(self) -> None:
        """Judge the URLs that people follow."""
        places: list[tuple[Path, Any]] = [(("provider", "url"), as_object(self.card.get("provider")).get("url"))]
        places += [((name,), self.card.get(name)) for name in ("documentationUrl", "iconUrl")]
        for path, url in places:
            # An icon may be written into the card itself.
            if not isinstance(url, str) or not url or (path == ("iconUrl",) and url.startswith("data:image/")):
                continue
            facts = judge_url(url)
            if facts.problem:
                self.add("web url", path, f"the URL {show(url)} {facts.problem}", "write https://...")
            elif facts.secret:
                self._exposure(path, facts)

    def _secrets(self) -> None:
        # A signature is random text and looks like a key.
        for path, text in texts({k: v for k, v in self.card.items() if k != "signatures"}):
            # A member that is named for a secret is read as a text with that name in it.
            kind = find_secret(text) or (find_secret(f"password={text}") if path[-1] in _SECRET_MEMBERS else "")
            if kind:
                self.add("secret", path, f"a text that looks like {kind}", "remove and revoke it", "error")
