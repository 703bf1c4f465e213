"""Agent cards (pure): read 1.0, 0.3 and mixed ones, choose the interface to speak over, rewrite URLs for a proxy.

Judging a card is the conformance suite's work; here every readable card will do.
"""

from __future__ import annotations

import importlib.util
import json
import re
import urllib.parse
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple, TypeVar

from pytest_a2a_bench.a2a.bodies import as_object, as_objects, as_text, excerpt, parse_json
from pytest_a2a_bench.errors import CardError, ProtocolError
from pytest_a2a_bench.installation import install_command
from pytest_a2a_bench.text import one_line

# A2A 1.0 (§8.2) and later versions of 0.3 have the first; older servers still have theirs at the second.
CARD_PATH = "/.well-known/agent-card.json"
LEGACY_CARD_PATH = "/.well-known/agent.json"
CARD_CACHING = "public, max-age=300"
"""The Cache-Control with which our own agents serve their cards (A2A 1.0.1 section 8.6.1)."""

# No credentials, no such path, or no time: nothing of this depends on the version that is asked for.
_SAME_IN_EITHER_VERSION = (401, 403, 404, 405, 410, 429)

Answer = TypeVar("Answer")

_BINDINGS = {
    "JSONRPC": "jsonrpc",
    "JSON-RPC": "jsonrpc",
    "JSON_RPC": "jsonrpc",
    "HTTP+JSON": "rest",
    "HTTP_JSON": "rest",
    "HTTP/JSON": "rest",
    "REST": "rest",
    "GRPC": "grpc",
}
_RESOLVERS = ("dns", "ipv4", "ipv6")
_DEFAULT_GRPC_PORT = 443
_UNROUTABLE_HOSTS = ("0.0.0.0", "::", "*")


@dataclass(frozen=True, slots=True)
class Interface:
    """One way to reach the agent.

    :param transport: ``jsonrpc``, ``rest`` or ``grpc``; anything else as the card spells it.
    :param version: ``1.0`` or ``0.3``; anything else as the card spells it.
    """

    url: str
    transport: str
    version: str
    tenant: str = ""

    def __str__(self) -> str:
        return f"{self.transport} {self.version} at {self.url}"


@dataclass(frozen=True, slots=True)
class AgentCard:
    """An agent card, as far as driving the agent needs it.

    :param url: where the card was found.
    :param security: alternatives; each names the schemes that are needed together.
    :param notes: the corrections that were needed to read it.
    """

    raw: Mapping[str, Any]
    name: str = ""
    description: str = ""
    version: str = ""
    url: str = ""
    interfaces: tuple[Interface, ...] = ()
    streaming: bool = False
    push: bool = False
    security_schemes: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    security: tuple[tuple[str, ...], ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def title(self) -> str:
        """Name and version."""
        return " ".join(filter(None, (self.name, self.version)))


def card_urls(endpoint: str) -> tuple[str, ...]:
    """Return the URLs at which an endpoint's card may be, best first."""
    parts = urllib.parse.urlsplit(endpoint)
    if parts.path.endswith(".json") or "/.well-known/" in parts.path:
        return (endpoint,)
    path = parts.path.rstrip("/")
    found = [urllib.parse.urlunsplit(parts._replace(path=path + p, fragment="")) for p in (CARD_PATH, LEGACY_CARD_PATH)]
    if path:  # an RPC URL was given where the base URL was asked for
        found.append(urllib.parse.urlunsplit(parts._replace(path=CARD_PATH, query="", fragment="")))
    return tuple(found)


async def in_either_version(
    get: Callable[[Mapping[str, str]], Awaitable[Answer]],
    status: Callable[[Answer], int | None],
    protocol: str = "auto",
) -> Answer:
    """Ask for a card with ``A2A-Version: 1.0`` (§3.6.1), and as 0.3 does, without, where that is refused.

    A server may have a card for each version, and none for the one that is asked for (-32009, mostly HTTP 400): that is
    not an agent without a card.

    :param get: sends the request with these headers.
    :param status: gets an answer's HTTP status.
    :param protocol: the version that is wanted; with ``0.3`` the request without the header is the first.
    :returns: the first answer that is no refusal of the request; the first of all where each is one.
    """
    asked: tuple[Mapping[str, str], ...] = ({"A2A-Version": "1.0"}, {})
    first = await get(asked[protocol == "0.3"])
    if not 400 <= (status(first) or 0) < 500 or status(first) in _SAME_IN_EITHER_VERSION:
        return first
    second = await get(asked[protocol != "0.3"])
    return second if (status(second) or 400) < 400 else first


def narrow_to_endpoint(raw: Mapping[str, Any], endpoint: str, card_url: str) -> Mapping[str, Any]:
    """Return a card with only those interfaces that an endpoint means: all of them, unless it is another place's card.

    ``http://HOST/foo/bar`` may be the URL of an RPC interface whose card is at the server's root. It may also be an
    agent that is not there, on a server whose root is another one: that one was not meant. So of a card at the root
    only interfaces at the endpoint's path, or below it, are the endpoint's.

    :param card_url: where the card was found.
    :raises CardError: if the card is at the root and names no such interface; the message lists what it names.
    """
    path = urllib.parse.urlsplit(endpoint).path.rstrip("/")
    found_at = urllib.parse.urlsplit(card_url).path
    if card_urls(endpoint) == (endpoint,) or not path or found_at not in (CARD_PATH, LEGACY_CARD_PATH):
        return raw

    def is_meant(entry: Mapping[str, Any], binding: str) -> bool:
        return any(_is_below(i, path) for i in _interface(entry.get("url"), entry.get(binding), "", "", card_url, []))

    meant = dict(raw)
    for member, binding in (("supportedInterfaces", "protocolBinding"), ("additionalInterfaces", "transport")):
        if member in raw:
            meant[member] = [entry for entry in as_objects(raw[member]) if is_meant(entry, binding)]
    if not is_meant(raw, "preferredTransport"):
        meant.pop("url", None)
    if not any(_interfaces(meant, card_url, [])):
        named = one_line("; ".join(map(str, _interfaces(raw, card_url, []))), 500) or "none"
        root = urllib.parse.urlunsplit(urllib.parse.urlsplit(card_url)._replace(path="", query="", fragment=""))
        raise CardError(
            f"no agent card found for {endpoint}; the card at the server's root, {card_url}, is of another agent "
            f"({one_line(as_text(raw.get('name')), 60)!r}): its interfaces are {named}, and none of them is at "
            f"{path} or below; correct the path, or give {root} to test that agent"
        )
    return meant


def _is_below(interface: Interface, path: str) -> bool:
    """Return whether an interface is at a path, or below it; gRPC's addresses have none."""
    found = urllib.parse.urlsplit(interface.url).path.rstrip("/")
    return interface.transport != "grpc" and (found == path or found.startswith(f"{path}/"))


def load_card(body: bytes, url: str) -> AgentCard:
    """Read a card from an HTTP body; raises CardError if it is not a card; the message shows how the body begins."""
    try:
        raw = parse_json(body)
    except ProtocolError as error:
        raise CardError(
            f"agent card at {url}: not JSON ({error}); it begins with {excerpt(body)}; "
            "give the agent's base URL, or the URL of its card, as the endpoint"
        ) from error
    return parse_card(raw, url)


def parse_card(raw: Any, base_url: str) -> AgentCard:
    """Read a card from JSON.

    :param base_url: where it was found; relative URLs in it are resolved against this.
    :raises CardError: if it is not an object or has no interface.
    """
    if not isinstance(raw, Mapping):
        raise CardError(f"agent card at {base_url}: found {type(raw).__name__}, expected a JSON object")
    notes: list[str] = []
    interfaces = tuple(dict.fromkeys(_interfaces(raw, base_url, notes)))
    if not interfaces:
        raise CardError(
            f"agent card at {base_url}: neither supportedInterfaces (1.0) nor url (0.3) names an interface; "
            f"found the fields {one_line(', '.join(map(str, list(raw)[:20])), 500) or 'none'}"
            + "".join(f"; {n}" for n in notes)[:600]
        )
    capabilities = as_object(raw.get("capabilities"))
    return AgentCard(
        raw=raw,
        name=as_text(raw.get("name")),
        description=as_text(raw.get("description")),
        version=as_text(raw.get("version")),
        url=base_url,
        interfaces=interfaces,
        streaming=capabilities.get("streaming") is True,
        push=capabilities.get("pushNotifications") is True,
        security_schemes={str(k): _scheme(v) for k, v in as_object(raw.get("securitySchemes")).items()},
        security=_security(raw),
        notes=tuple(notes),
    )


def choose_interface(
    card: AgentCard, protocol: str = "auto", transport: str = "auto", *, grpc: bool | None = None, gone: str = ""
) -> Interface:
    """Choose the interface to speak over: the first of the card that fits (A2A 1.0.1 §8.3.2).

    :param grpc: whether grpcio is installed (None: looked up); without it gRPC is only chosen where it was asked for.
    :param gone: the URL of one that does not answer.
    :raises CardError: if the card offers nothing that fits; the message lists what it offers.
    """
    grpc = importlib.util.find_spec("grpc") is not None if grpc is None else grpc
    versions = ("1.0", "0.3") if protocol == "auto" else (protocol,)
    transports: tuple[str, ...] = ("jsonrpc", "rest", "grpc") if transport == "auto" else (transport,)
    if transport == "auto" and not grpc:
        transports = transports[:2]
    # What the user names overrides the card: a version or a transport that it does not offer is tried all the same.
    named = [replace(interface, version=protocol) for interface in card.interfaces if protocol != "auto"]
    named += [replace(interface, transport=transport) for interface in card.interfaces if transport != "auto"]
    for interface in (*card.interfaces, *named):
        if interface.version in versions and interface.transport in transports and interface.url != gone:
            return interface
    offered = "; ".join(map(str, card.interfaces))
    hint = "" if grpc else f" (grpcio is not installed; gRPC needs it: {install_command('grpc')})"
    raise CardError(
        f"agent card at {card.url}: no interface for --a2a-protocol={protocol} --a2a-transport={transport}; "
        f"the card offers: {offered}{hint}"
    )


def _interfaces(raw: Mapping[str, Any], base_url: str, notes: list[str]) -> Iterable[Interface]:
    top_version = raw.get("protocolVersion")
    for entry in as_objects(raw.get("supportedInterfaces")):
        binding = entry.get("protocolBinding") or entry.get("transport")
        version = _family(entry.get("protocolVersion") or top_version, default="1.0")
        yield from _interface(entry.get("url"), binding, version, entry.get("tenant"), base_url, notes)
    # What the 0.3 fields name is 0.3, even where a mixed card's top-level version says 1.0.
    version = _family(top_version, default="0.3")
    if version == "1.0" and raw.get("supportedInterfaces"):
        version = "0.3"
    yield from _interface(raw.get("url"), raw.get("preferredTransport"), version, None, base_url, notes)
    for entry in as_objects(raw.get("additionalInterfaces")):
        binding = entry.get("transport") or entry.get("protocolBinding")
        yield from _interface(entry.get("url"), binding, version, None, base_url, notes)


def _interface(
    url: Any, binding: Any, version: str, tenant: Any, base_url: str, notes: list[str]
) -> Iterable[Interface]:
    if not isinstance(url, str) or not url.strip():
        return
    transport = _BINDINGS.get(as_text(binding).strip().upper() or "JSONRPC", as_text(binding))
    try:
        absolute = url.strip() if transport == "grpc" else urllib.parse.urljoin(base_url, url.strip())
        callable_url = _routable(absolute, base_url)
    except ValueError as error:
        notes.append(f"the interface URL {url!r} cannot be read ({error}) and is passed over")
        return
    if callable_url != url.strip():
        notes.append(
            f"the interface URL {url!r} is not one to call (relative, or a listening address); read as {callable_url!r}"
        )
    yield Interface(callable_url, transport, version, as_text(tenant))


def _routable(url: str, base_url: str) -> str:
    """Replace a wildcard listening address, which many servers put on their card, by the endpoint's own host."""
    parts = urllib.parse.urlsplit(url if "://" in url else f"//{url}")
    host, port = parts.hostname, parts.port
    base = urllib.parse.urlsplit(base_url).hostname or ""
    if host not in _UNROUTABLE_HOSTS or not base:
        return url
    netloc = f"[{base}]" if ":" in base else base
    return urllib.parse.urlunsplit(parts._replace(netloc=f"{netloc}:{port}" if port else netloc)).removeprefix("//")


def _family(version: Any, default: str) -> str:
    text = as_text(version).strip().removeprefix("v")
    if not text:
        return default
    return {"0": "0.3", "1": "1.0"}.get(text.partition(".")[0], text)


def _scheme(raw: Any) -> dict[str, Any]:
    """Return a security scheme in 0.3's flat form: ``type``, ``in``, ``name``, ``scheme``.

    1.0 (§4.5.1) wraps each kind in a member of its own and calls ``in`` ``location``.
    """
    scheme = dict(as_object(raw))
    if "type" in scheme:
        return scheme
    members = {
        "apiKeySecurityScheme": "apiKey",
        "httpAuthSecurityScheme": "http",
        "oauth2SecurityScheme": "oauth2",
        "openIdConnectSecurityScheme": "openIdConnect",
        "mtlsSecurityScheme": "mutualTLS",
    }
    for member, kind in members.items():
        if isinstance(scheme.get(member), Mapping):
            inner = scheme[member]
            return {**inner, "type": kind, "in": inner.get("location", inner.get("in"))}
    return scheme


def _security(raw: Mapping[str, Any]) -> tuple[tuple[str, ...], ...]:
    entries = raw.get("securityRequirements") or raw.get("security")
    wrapped = [as_object(e.get("schemes")) if isinstance(e.get("schemes"), Mapping) else e for e in as_objects(entries)]
    return tuple(tuple(map(str, e)) for e in wrapped)


# --- addresses of gRPC interfaces, which cards give in many forms -----------------------------------------------------


class GrpcTarget(NamedTuple):
    """Where a channel goes: gRPC's own name for it, and whether it is encrypted."""

    address: str
    tls: bool

    @property
    def url(self) -> str:
        """The same as a URL of http, without the name of a resolver."""
        place = re.sub(r"^(?:dns|ipv4|ipv6):(?://[^/]*/)?", "", self.address)
        return f"{'https' if self.tls else 'http'}://{place.strip('/') or self.address}"


def read_target(url: str, endpoint: str) -> GrpcTarget:
    """Read any of the forms in which cards give a gRPC address.

    ``https`` and ``grpcs`` mean TLS, ``http`` and ``grpc`` none. A bare ``host:port`` says nothing about it: TLS is
    used on port 443 and where the endpoint itself is ``https``.
    """
    scheme, separator, rest = url.partition("://")
    scheme = scheme.lower()
    if not separator or scheme in _RESOLVERS:
        address = url if separator else url.rstrip("/")
        return GrpcTarget(address, address.endswith(":443") or endpoint.lower().startswith("https:"))
    if scheme not in ("http", "https", "grpc", "grpcs"):
        raise ProtocolError(f"the gRPC address {url!r} has an unknown scheme; fix the agent card")
    tls = scheme in ("https", "grpcs")
    parts = urllib.parse.urlsplit(f"//{rest}")
    host = f"[{parts.hostname}]" if ":" in (parts.hostname or "") else parts.hostname
    return GrpcTarget(f"{host}:{parts.port or (443 if tls else 80)}", tls)


def is_bare(url: str) -> bool:
    """Return whether an address is ``host:port`` or a name for gRPC's resolvers: no scheme says if it has TLS."""
    scheme, separator, _ = url.partition("://")
    return not separator or scheme.lower() in _RESOLVERS


def host_of(address: str) -> tuple[str, int]:
    """Return host and port of a bare address, such as ``host:port``, ``dns:///host:port`` or ``ipv6:[::1]:port``.

    :raises ValueError: if it does not name exactly one host, or names the server that shall resolve it: whoever
        chooses that one chooses the host.
    """
    scheme, colon, rest = address.partition(":")
    place = rest if colon and scheme.lower() in _RESOLVERS else address
    if place.startswith("//"):
        authority, _, place = place[2:].partition("/")
        if authority:
            raise ValueError(f"{address!r} names a name server of its own")
    place = place.strip("/")
    if not place or any(c in place for c in "@/\\?#, %"):
        raise ValueError(f"{address!r} does not name one host")
    parts = urllib.parse.urlsplit(f"//{place}")
    if not parts.hostname:
        raise ValueError(f"{address!r} names no host")
    return parts.hostname, parts.port or _DEFAULT_GRPC_PORT


# --- origins ---

Origin = tuple[str, str, int | None]

DEFAULT_PORTS = {"http": 80, "https": 443, "grpc": 80, "grpcs": 443}
_LOOPBACK = frozenset({"localhost", "127.0.0.1", "::1"})


def origin_of(url: str, endpoint: str = "") -> Origin:
    """Return scheme, host and port of a URL; the names of the loopback interface count as one host.

    gRPC's schemes count as http and https; so do its bare addresses, according to whether they are called with TLS.

    :param endpoint: the user's, which has a say in that.
    :raises ValueError: if it names no host, or none to rely on.
    """
    scheme, host, port = read_origin(url, endpoint)
    return scheme, "localhost" if host in _LOOPBACK else host, port


def is_at(url: str, endpoint: str) -> bool:
    """Return whether a URL has the origin of an endpoint; one that names no host has none."""
    try:
        return origin_of(url, endpoint) == origin_of(endpoint)
    except ValueError:
        return False


def read_origin(url: str, endpoint: str) -> Origin:
    """Return the same with the host as it is named."""
    if is_bare(url):
        host, number = host_of(url)
        return "https" if read_target(url, endpoint).tls else "http", host.lower().rstrip("."), number
    parts = urllib.parse.urlsplit(url)
    scheme = parts.scheme.lower()
    port = parts.port or DEFAULT_PORTS.get(scheme)
    scheme = {"grpc": "http", "grpcs": "https"}.get(scheme, scheme)
    return scheme, (parts.hostname or "").lower().rstrip("."), port


# --- an HTTP proxy before an agent: which requests fetch a card, and how its URLs are rewritten ---

Parts = urllib.parse.SplitResult

CARD_PATHS = (CARD_PATH, LEGACY_CARD_PATH, "/extendedAgentCard", "/v1/card")
CARD_METHODS = ("GetExtendedAgentCard", "agent/getAuthenticatedExtendedCard")

NOT_FORWARDED = frozenset(
    (b"connection", b"keep-alive", b"proxy-connection", b"te", b"trailer", b"transfer-encoding", b"upgrade")
)
"""Headers of one connection (RFC 9110 §7.6.1)."""

NOT_REQUESTED = NOT_FORWARDED | {b"host", b"content-length", b"accept-encoding", b"expect"}
"""Headers of a request that a proxy does not forward: its client writes its own, and content must not be compressed."""


def rewrite_card(body: bytes, base: str, is_agent: Callable[[Parts], bool], *, proxied_only: bool = False) -> bytes:
    """Return a card, or a JSON-RPC response with one, whose URLs of the agent have the proxy's base URL.

    A URL keeps its path and query. The agent's gRPC interfaces are left out, because HTTP cannot carry them, and so are
    signatures, which would not match. A body that is no card, or has no URL of the agent, is returned as it is.

    :param base: base URL of the proxy.
    :param is_agent: whether a URL, split into its parts, leads to the agent.
    :param proxied_only: leave out every interface that requests reach around the proxy, too.
    """
    try:
        value = json.loads(body)
    except (ValueError, RecursionError):
        return body
    card = value.get("result") if isinstance(value, dict) and "jsonrpc" in value else value
    if not isinstance(card, dict):
        return body
    base, entries, changed = base.rstrip("/"), [card], False
    for name in ("supportedInterfaces", "additionalInterfaces"):
        if isinstance(found := card.get(name), list):
            kept = [entry for entry in found if _is_kept(entry, is_agent, proxied_only)]
            # A card without any interface is no card; that its only one cannot be reached is for the client to see.
            card[name] = kept if kept or proxied_only else found
            changed = changed or len(card[name]) < len(found)
            entries += [entry for entry in card[name] if isinstance(entry, dict)]
    for entry in entries:
        url = entry.get("url")
        parts = _split(url)
        if parts and parts.scheme in ("http", "https") and is_agent(parts) and not _is_grpc(entry):
            # An agent that makes its card from AGENT_URL shows the proxy's URL already.
            if url != base and not str(url).startswith((f"{base}/", f"{base}?")):
                entry["url"] = base + urllib.parse.urlunsplit(parts._replace(scheme="", netloc=""))
                changed = True
    if not changed:
        return body
    card.pop("signatures", None)
    return json.dumps(value).encode()


def _is_kept(entry: Any, is_agent: Callable[[Parts], bool], proxied_only: bool) -> bool:
    parts = _split(entry.get("url")) if isinstance(entry, dict) else None
    if parts is None:
        return not proxied_only
    if _is_grpc(entry):
        return not proxied_only and not is_agent(parts)
    # A relative URL is at the card's own origin.
    return not proxied_only or is_agent(parts) or not parts.netloc


def _is_grpc(entry: dict[str, Any]) -> bool:
    names = ("protocolBinding", "transport", "preferredTransport")
    return any(str(entry.get(name, "")).upper() == "GRPC" for name in names)


def _split(url: Any) -> Parts | None:
    """Split a URL; a gRPC target such as ``127.0.0.1:1`` has none but a network location."""
    if not isinstance(url, str):
        return None
    try:
        return urllib.parse.urlsplit(url if "/" in url else f"//{url}")
    except ValueError:
        return None
