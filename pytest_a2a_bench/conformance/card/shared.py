"""Card rules that both protocol versions have, under each version's own ids (pure)."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from pytest_a2a_bench.conformance.card.document import Ledger, Path, as_list, as_object, as_text, objects, show, texts
from pytest_a2a_bench.conformance.card.urls import PlainHttp, UrlFacts, is_uri, judge_url
from pytest_a2a_bench.conformance.finding import Severity

CORE_BINDINGS = ("JSONRPC", "HTTP+JSON", "GRPC")

# The token of RFC 9110 section 5.6.2, which names of headers and cookies are.
_FIELD_NAME = re.compile(r"^[A-Za-z0-9!#$%&'*+.^_`|~\-]+$")
# A little more than RFC 6838 allows: what servers accept is not worth a finding.
_TOKEN = r"[A-Za-z0-9!#$&^_.+*\-]+"
MEDIA_TYPE = re.compile(rf"^{_TOKEN}/{_TOKEN}(?:\s*;\s*[A-Za-z0-9!#$&^_.+*\-]+=(?:\"[^\"]*\"|[^\s;\"]+))*$")
# Each of these can mean one binding and no other.
_MISSPELT = {
    "JSON-RPC": "JSONRPC",
    "JSON_RPC": "JSONRPC",
    "JSONRPC2": "JSONRPC",
    "JSON-RPC-2.0": "JSONRPC",
    "JSONRPC2.0": "JSONRPC",
    "HTTP": "HTTP+JSON",
    "HTTPS": "HTTP+JSON",
    "HTTP/JSON": "HTTP+JSON",
    "HTTP_JSON": "HTTP+JSON",
    "HTTPJSON": "HTTP+JSON",
    "HTTP-JSON": "HTTP+JSON",
    "REST": "HTTP+JSON",
}
_SCHEMES = {
    "JSONRPC": ("https", "http"),
    "HTTP+JSON": ("https", "http"),
    # gRPC's own name syntax, beside what browsers know.
    "GRPC": ("https", "http", "grpcs", "grpc", "dns", "unix", "ipv4", "ipv6"),
}


@dataclass(frozen=True, slots=True)
class RuleIds:
    """The ids of the shared rules in one version's catalogue."""

    url: str
    binding: str
    modes: str
    skill_ids: str
    extensions: str
    web_urls: str
    secrets: str
    schemes: str


# Paths of HTTP+JSON's methods, of both versions: agents that put one of them into their card have no base URL there.
_METHOD_PATH = re.compile(r"(/message:(?:send|stream)|/tasks/[^/?#]*:(?:cancel|subscribe))/?(?:[?#].*)?$")


def core_name(binding: str) -> str:
    """Return the core binding that a misspelt name must mean; empty where it means none, or is right."""
    name = binding.strip().upper()
    return "" if binding in CORE_BINDINGS else name if name in CORE_BINDINGS else _MISSPELT.get(name, "")


def check_mixed_tls(ledger: Ledger, ids: RuleIds, urls: Iterable[tuple[Path, str]]) -> None:
    """Judge interfaces together: one without TLS beside others with it is no test bed any more, but a way around."""
    every = [(path, url, judge_url(url)) for path, url in urls]
    if not any(facts.scheme in ("https", "grpcs") for _, _, facts in every):
        return
    for path, url, facts in every:
        if facts.is_plain and not facts.problem and facts.reach != "loopback":
            found = f"the URL {show(url)} has no TLS, and other interfaces have it"
            ledger.add(ids.url, path, found, fix="serve https, or leave it out", severity="error")


def check_interface_url(ledger: Ledger, ids: RuleIds, path: Path, url: str, binding: str, plain: PlainHttp) -> None:
    """Judge the URL of an interface."""
    # A misspelt name is told elsewhere; the URL is judged as what it must mean.
    known = binding if binding in CORE_BINDINGS else core_name(binding)
    facts = judge_url(url, _SCHEMES.get(known, ()), authority=known == "GRPC")
    # A binding of somebody's own has addresses of its own kind, such as mqtt:agents/recipes, which name no host.
    is_own = bool(binding) and known not in CORE_BINDINGS and facts.scheme not in ("", "http", "https")
    if is_own and not facts.host and is_uri(url):
        return
    shown = show(url)
    if facts.problem:
        wanted = "https://HOST/PATH" + (" or HOST:PORT" if known == "GRPC" else "")
        ledger.add(ids.url, path, f"the URL {shown} {facts.problem}", fix=f"write an absolute URL: {wanted}")
    # 0.0.0.0 is where a server listens, and copying it into the card is a frequent slip.
    elif facts.reach == "wildcard":
        found = f"the URL {shown} names a listening address that no client can call"
        ledger.add(ids.url, path, found, fix="put the agent's public host name here", severity="error")
    elif facts.is_plain and not plain.allows(facts):
        severity: Severity = "error" if facts.reach == "public" else "warning"
        ledger.add(ids.url, path, f"the URL {shown} has no TLS", fix="serve https", severity=severity)
    elif method := _METHOD_PATH.search(url):
        found = (
            f"the URL {shown} is the path of one method ({method.group(1)}), to which clients add paths of their own"
        )
        # A JSON-RPC endpoint may have any path, and nobody chooses this one.
        fix, severity = "name the URL without that path", "warning" if known == "JSONRPC" else "error"
        ledger.add(ids.url, path, found, fix=fix, severity=severity)
    _check_exposure(ledger, ids, path, facts, plain)


def _check_exposure(ledger: Ledger, ids: RuleIds, path: Path, facts: UrlFacts, plain: PlainHttp) -> None:
    # Told whatever else is wrong with the URL: a leaked credential must be revoked at once.
    if facts.secret:
        found = f"the URL {show(facts.url)} carries a credential ({facts.secret})"
        fix = "remove it, revoke it, and declare a security scheme"
        # An error whatever the rule's level: whoever reads the card has the credential.
        ledger.add(ids.secrets, path, found, fix=fix, severity="error")
    elif facts.problem or plain.is_known(facts):
        return
    # A plain one has been told already, and a test agent in a container network is often http.
    elif facts.reach == "private" and facts.scheme in ("https", "grpcs"):
        ledger.add(ids.secrets, path, f"the URL {show(facts.url)} names an internal host", fix="use the public name")


def check_binding(ledger: Ledger, ids: RuleIds, path: Path, binding: str, *, uri: bool) -> None:
    """Judge the name of a binding.

    :param uri: whether a name of one's own has to be a URI.
    """
    meant = core_name(binding)
    if meant:
        found = f"the name {show(binding)}, which no client looks for"
        ledger.add(ids.binding, path, found, fix=f"write {meant!r}", severity="error")
    elif uri and binding and binding not in CORE_BINDINGS and not is_uri(binding):
        found = f"the name {show(binding)}"
        ledger.add(ids.binding, path, found, fix=f"use one of {', '.join(CORE_BINDINGS)}, or a URI of your own")


def check_blanks(ledger: Ledger, rules: tuple[str, str], card: Mapping[str, Any], severity: Severity | None) -> None:
    """Look for required texts that hold nothing but blanks.

    :param rules: about the card's own members, and about those of a skill.
    """
    for name in ("name", "description"):
        _check_blank(ledger, rules[0], (name,), card.get(name), severity)
    for i, skill in objects(card.get("skills")):
        for name in ("id", "name", "description"):
            _check_blank(ledger, rules[1], ("skills", i, name), skill.get(name), severity)
        for j, tag in enumerate(as_list(skill.get("tags"))):
            # minItems counts tags, and cannot see that one is empty.
            if tag == "":
                ledger.add(rules[1], ("skills", i, "tags", j), "the tag is empty", fix="remove it", severity=severity)
            _check_blank(ledger, rules[1], ("skills", i, "tags", j), tag, severity)


def _check_blank(ledger: Ledger, rule: str, path: Path, text: Any, severity: Severity | None) -> None:
    if isinstance(text, str) and text and not text.strip():
        ledger.add(rule, path, f"the text {show(text)} is blank", fix="fill it in", severity=severity)


def check_key_name(ledger: Ledger, ids: RuleIds, path: Path, location: Any, name: Any) -> None:
    """Judge the name of the header or cookie that carries an API key."""
    if location in ("header", "cookie") and isinstance(name, str) and name and not _FIELD_NAME.match(name):
        found = f"{show(name)} cannot be the name of a {location}"
        ledger.add(ids.schemes, path, found, expected="a name as HTTP takes it", fix="write one such as X-API-Key")


def check_scopes(ledger: Ledger, rule: str, path: Path, scopes: Any, flows: Any) -> None:
    """Check that scopes which a requirement names are declared by a flow, where flows declare any."""
    # Schemes without flows name no scopes, so that any would be undeclared.
    known = {scope for flow in as_object(flows).values() for scope in as_object(as_object(flow).get("scopes"))}
    for i, scope in enumerate(as_list(scopes)):
        if known and isinstance(scope, str) and scope not in known:
            found = f"no flow of the scheme has the scope {show(scope)}; there are {', '.join(sorted(known)[:8])}"
            ledger.add(rule, (*path, i), found, fix="declare it in the flow, or correct it", severity="warning")


def check_skills(ledger: Ledger, ids: RuleIds, card: Mapping[str, Any]) -> None:
    """Judge the modes of the card and its skills, and the skills' ids."""
    for name in ("defaultInputModes", "defaultOutputModes"):
        _check_modes(ledger, ids, (name,), card.get(name))
    seen: dict[str, int] = {}
    for i, skill in objects(card.get("skills")):
        for name in ("inputModes", "outputModes"):
            _check_modes(ledger, ids, ("skills", i, name), skill.get(name))
        skill_id = as_text(skill.get("id"))
        if skill_id and skill_id in seen:
            found = f"the id {show(skill_id)}, which skill {seen[skill_id]} has already"
            ledger.add(ids.skill_ids, ("skills", i, "id"), found, fix="give every skill an id of its own")
        seen.setdefault(skill_id, i)


def _check_modes(ledger: Ledger, ids: RuleIds, path: Path, modes: Any) -> None:
    for i, mode in enumerate(as_list(modes)):
        if isinstance(mode, str) and not MEDIA_TYPE.match(mode):
            # The two short forms that cards often have.
            fix = {"text": "write 'text/plain'", "json": "write 'application/json'"}.get(
                mode.lower(), "write TYPE/SUBTYPE"
            )
            ledger.add(ids.modes, (*path, i), f"{show(mode)} is not a media type", fix=fix)


def check_extensions(ledger: Ledger, ids: RuleIds, card: Mapping[str, Any]) -> Iterator[tuple[Path, str]]:
    """Judge the URIs of the declared extensions, and yield the good ones with their places."""
    seen: set[str] = set()
    for i, extension in objects(as_object(card.get("capabilities")).get("extensions")):
        path: Path = ("capabilities", "extensions", i, "uri")
        uri = extension.get("uri", "")
        if not isinstance(uri, str):
            continue
        if not uri:
            ledger.add(ids.extensions, path, "an extension without a URI", fix="name its URI")
        elif not is_uri(uri):
            ledger.add(ids.extensions, path, f"{show(uri)} is not a URI", fix="write an absolute URI")
        elif uri in seen:
            ledger.add(ids.extensions, path, f"{show(uri)} is declared twice", fix="declare it once")
        else:
            yield path, uri
        seen.add(uri)


def check_web_urls(ledger: Ledger, ids: RuleIds, card: Mapping[str, Any]) -> None:
    """Judge the URLs that people follow."""
    provider = as_object(card.get("provider"))
    places: list[tuple[Path, Any]] = [(("provider", "url"), provider.get("url"))]
    places += [((name,), card.get(name)) for name in ("documentationUrl", "iconUrl")]
    for path, url in places:
        # An icon may be written into the card itself.
        if not isinstance(url, str) or not url or (path == ("iconUrl",) and url.startswith("data:image/")):
            continue
        facts = judge_url(url)
        if facts.problem:
            ledger.add(ids.web_urls, path, f"the URL {show(url)} {facts.problem}", fix="write https://...")
        elif facts.secret:
            _check_exposure(ledger, ids, path, facts, PlainHttp())


def check_flow_urls(ledger: Ledger, ids: RuleIds, path: Path, members: Mapping[str, Any], plain: PlainHttp) -> None:
    """Judge the URLs of a security scheme or of one of its OAuth flows."""
    # Every member that ends so is a URL, in each kind of flow.
    for name, url in members.items():
        if not isinstance(url, str) or not url or not name.endswith("Url"):
            continue
        facts = judge_url(url)
        if facts.problem:
            ledger.add(ids.schemes, (*path, name), f"the URL {show(url)} {facts.problem}", fix="write https://...")
        elif facts.is_plain and not plain.allows(facts):
            ledger.add(
                ids.schemes, (*path, name), f"the URL {show(url)} has no TLS", fix="use https", severity="warning"
            )
        _check_exposure(ledger, ids, (*path, name), facts, plain)


def check_secrets(ledger: Ledger, ids: RuleIds, card: Mapping[str, Any]) -> None:
    """Look for credentials in every text but the signatures."""
    # A signature is random text and looks like a key.
    for path, text in texts({k: v for k, v in card.items() if k != "signatures"}):
        # A member that is named for a secret is judged as a text that says so: no such name stands before its value.
        kind = find_secret(text) or (find_secret(f"password={text}") if path[-1] in _SECRET_MEMBERS else "")
        if kind:
            fix = "remove it from the card and revoke it"
            ledger.add(ids.secrets, path, f"what looks like {kind}", fix=fix, severity="error")


def requirements_in(card: Mapping[str, Any], member: str) -> Iterator[tuple[Path, Mapping[str, Any]]]:
    """Yield every security requirement of the card, then of its skills, with its place.

    :param member: the name under which the version keeps them.
    """
    places: list[tuple[Path, Any]] = [((member,), card.get(member))]
    places += [(("skills", i, member), skill.get(member)) for i, skill in objects(card.get("skills"))]
    for path, requirements in places:
        for i, requirement in enumerate(as_list(requirements)):
            yield (*path, i), as_object(requirement)


def check_references(
    ledger: Ledger, rule: str, path: Path, names: Mapping[str, Any], schemes: Mapping[str, Any]
) -> None:
    """Check that the schemes which a requirement names are declared."""
    for name in names:
        if name not in schemes:
            declared = ", ".join(map(show, list(schemes)[:8])) or "none"
            found = f"{show(name)} is not declared; securitySchemes has {declared}"
            ledger.add(rule, (*path, name), found, fix="declare it in securitySchemes, or correct the name")


# -- credentials and internals that have no place in a public document --


_SHAPES = {
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
}
# Narrow: what has another name may be anything of an extension's.
_SECRET_MEMBERS = ("clientSecret", "client_secret", "password", "passwd")
_PATTERNS = {kind: re.compile(pattern) for kind, pattern in _SHAPES.items()}
_LONGEST = 20_000


def find_secret(text: str) -> str:
    """Say what kind of credential a text seems to hold; empty for none. The credential itself is never told."""
    text = text[:_LONGEST]
    return next((kind for kind, pattern in _PATTERNS.items() if pattern.search(text)), "")
