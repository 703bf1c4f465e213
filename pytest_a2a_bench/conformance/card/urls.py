"""Judge the URLs of a card without a request (pure)."""

from __future__ import annotations

import ipaddress
import re
import urllib.parse
from dataclasses import dataclass

# Reserved or customary names that no public resolver knows.
_PRIVATE_SUFFIXES = (".local", ".internal", ".lan", ".svc", ".localdomain", ".home.arpa", ".test")
_SECRET_QUERY = re.compile(
    # Short names such as key are also used for values that are no secrets, so they need a long value.
    r"(?:^|&)(?:(api[_-]?key|access[_-]?token|token|secret|password|passwd|sig)=[^&]|(key|auth|jwt)=[^&]{12})",
    re.IGNORECASE,
)
_LABEL = r"\w(?:[\w\-]*\w)?"
_HOST = re.compile(rf"^{_LABEL}(?:\.{_LABEL})*\.?$")
_AUTHORITY = re.compile(r"^[A-Za-z0-9.\-]+:\d{1,5}$|^\[[0-9A-Fa-f:.]+\]:\d{1,5}$")


@dataclass(frozen=True, slots=True)
class UrlFacts:
    """One URL, judged.

    :param problem: why it cannot be called; empty where it can.
    :param reach: ``loopback``, ``private``, ``wildcard`` (a listening address) or ``public``.
    :param secret: the part of it that looks like a credential; empty for none.
    """

    url: str
    scheme: str = ""
    host: str = ""
    problem: str = ""
    reach: str = "public"
    secret: str = ""

    @property
    def is_plain(self) -> bool:
        """Whether it goes over the network without TLS."""
        return self.scheme in ("http", "ws", "grpc")


@dataclass(frozen=True, slots=True)
class PlainHttp:
    """Where URLs need no TLS, besides loopback hosts.

    :param host: a private host that served the card without TLS, such as in a network of containers.
    :param served: the host that served the card.
    """

    everywhere: bool = False
    host: str = ""
    served: str = ""

    @classmethod
    def of(cls, card_url: str, *, everywhere: bool) -> PlainHttp:
        """Return the kinds of addresses that a card which was served at this URL may name."""
        facts = judge_url(card_url)
        is_private = facts.reach == "private" and not facts.problem
        return cls(everywhere, facts.host if is_private and facts.is_plain else "", facts.host)

    def is_known(self, facts: UrlFacts) -> bool:
        """Return whether a URL has the host that served the card, so that it reveals nothing."""
        return bool(self.served) and facts.host == self.served

    def allows(self, facts: UrlFacts) -> bool:
        """Return whether a URL needs no TLS."""
        return self.everywhere or facts.reach == "loopback" or bool(self.host and facts.host == self.host)


def judge_url(url: str, schemes: tuple[str, ...] = ("https", "http"), *, authority: bool = False) -> UrlFacts:
    """Judge a URL.

    :param schemes: the schemes to accept; empty for any.
    :param authority: whether to accept ``host:port`` without a scheme (gRPC).
    """
    # gRPC's usual form has no scheme, and urlsplit would read the host as one.
    if authority and _AUTHORITY.match(url):
        name, _, digits = url.rpartition(":")
        host = name.strip("[]")
        return UrlFacts(url, "", host, _host_problem(host) or _port_problem(int(digits)), _reach(host))
    if any(c <= " " or c == "\x7f" for c in url):
        return UrlFacts(url, problem="holds a space or a control character")
    try:
        parts = urllib.parse.urlsplit(url)
        host, port = parts.hostname or "", parts.port
    except ValueError as error:
        return UrlFacts(url, problem=f"cannot be read ({str(error)[:80]})")
    scheme = parts.scheme.lower()
    secret = _secret(parts)
    if not scheme or (not host and not (authority and scheme in ("dns", "unix", "ipv4", "ipv6"))):
        return UrlFacts(url, scheme, problem="is not absolute", secret=secret)
    if schemes and scheme not in schemes and not (authority and not host):
        return UrlFacts(url, scheme, host, f"has the scheme {scheme!r}", _reach(host), secret)
    # http://https://host: two schemes, one of them taken for the host.
    if host in ("http", "https") and parts.path.startswith("//"):
        return UrlFacts(url, scheme, host, "has two schemes", secret=secret)
    problem = (_host_problem(host) if host else "") or _port_problem(port)
    return UrlFacts(url, scheme, host, problem, _reach(host), secret)


def _host_problem(host: str) -> str:
    if ":" in host or _HOST.match(host):
        return ""
    return f"has the host {host[:80]!r}, which is no host name: a placeholder that was not filled in?"


def _port_problem(port: int | None) -> str:
    return "" if port is None or 0 < port < 65536 else f"has the port {port}; there are 1 to 65535"


def is_uri(text: str) -> bool:
    """Return whether a text is an absolute URI of any scheme."""
    return re.match(r"^[A-Za-z][A-Za-z0-9+.\-]*:[^\s<>\"{}|\\^`]+$", text) is not None


def _secret(parts: urllib.parse.SplitResult) -> str:
    if parts.username or parts.password:
        return "user:password@"
    match = _SECRET_QUERY.search(parts.query)
    return f"the query parameter {match.group(1) or match.group(2)}" if match else ""


def _reach(host: str) -> str:
    name = host.lower().rstrip(".")
    try:
        # A scope (fe80::1%eth0) is no part of the address.
        address = ipaddress.ip_address(name.partition("%")[0])
    except ValueError:
        # RFC 6761: everything below localhost is this machine.
        if name == "localhost" or name.endswith(".localhost"):
            return "loopback"
        # A name without a dot is known on one network only, such as a container's.
        return "private" if "." not in name or name.endswith(_PRIVATE_SUFFIXES) else "public"
    if address.is_loopback:
        return "loopback"
    if address.is_unspecified:
        return "wildcard"
    return "private" if address.is_private or address.is_link_local else "public"
