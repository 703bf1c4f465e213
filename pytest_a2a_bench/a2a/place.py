"""Where something of ours listens that agents call, and what they call it: read, and nothing opened."""

from __future__ import annotations

import socket
import urllib.parse
from dataclasses import dataclass

from pytest_a2a_bench.errors import ConfigurationError

_EVERYWHERE = ("0.0.0.0", "::")


@dataclass(frozen=True, slots=True)
class Place:
    """Where something listens, and what agents call it.

    :param port: 0 for any free one.
    :param url: the address under which agents reach it, to put a path after; empty where that is where it listens.
    """

    host: str
    port: int
    url: str = ""

    def url_at(self, port: int) -> str:
        """Return the address under which agents reach it, once its port is known."""
        return self.url or f"http://{authority(self.host)}:{port}"


LOOPBACK = Place("127.0.0.1", 0)
"""Any free port, for agents on this machine."""


def read_place(bind: str | None, url: str | None, what: str = "the webhook", *, any_port: bool = False) -> Place | None:
    """Return where the user wants something to listen; None where nothing is said.

    :param bind: ``HOST:PORT`` to listen on.
    :param url: how agents reach that; by default ``http://HOST:PORT``.
    :param what: what listens, for messages.
    :param any_port: whether port 0 will do, where no URL names another.
    :raises ConfigurationError: if the two do not name a place.
    """
    if not bind:
        if url:
            raise ConfigurationError(f"{what}'s URL is {url}, and nothing says where it listens; give HOST:PORT")
        return None
    host, _, number = bind.rpartition(":")
    # IPv6 in brackets, as in a URL.
    host = host.removeprefix("[").removesuffix("]")
    least = 0 if any_port and not url else 1
    if not host or not number.isdecimal() or not least <= int(number) < 65536:
        raise ConfigurationError(f"{what} is to listen on {bind!r}; give HOST:PORT, such as 0.0.0.0:8099")
    if not url:
        # Listening everywhere is fine, but nobody can call 0.0.0.0.
        if host in _EVERYWHERE:
            raise ConfigurationError(f"{what} listens on {bind}, which is no address to call; give its URL too")
        return Place(host, int(number), f"http://{authority(host)}:{number}" if int(number) else "")
    parts = urllib.parse.urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname or parts.query or parts.fragment:
        raise ConfigurationError(f"{what}'s URL is {url!r}; give an http(s) URL without a query")
    return Place(host, int(number), url.rstrip("/"))


def family(host: str) -> socket.AddressFamily:
    """Return the family of an address."""
    return socket.AF_INET6 if ":" in host else socket.AF_INET


def authority(host: str) -> str:
    """Return an address as URLs have it."""
    return f"[{host}]" if ":" in host else host
