"""The address of a server, its listening socket, and the URL under which others reach it."""

from __future__ import annotations

import socket
import urllib.parse
from dataclasses import dataclass

from pytest_a2a_bench.errors import ConfigurationError
from pytest_a2a_bench.text import refusing


def listen(host: str, port: int, option: str = "--port") -> socket.socket:
    """Return a socket that listens on an address, with ``TCP_NODELAY`` for the connections that it accepts.

    :param host: an address, IPv6 with or without brackets, or a name.
    :param port: 0 for any free one.
    :param option: the option that the port was given by, for the message.
    :raises ConfigurationError: if the address cannot be listened on.
    """
    address = host.strip("[]")
    with refusing(f"cannot listen on {host}:{port}", f"choose another {option}, or 0 for any free one"):
        listener = socket.create_server((address, port), family=family(address), backlog=1024)
    # asyncio switches Nagle's algorithm off only for sockets that it made itself, and with it every response on a
    # connection that is kept alive waits 40 ms for the client's delayed acknowledgement. Accepted sockets inherit it.
    listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return listener


def local_url(host: str, port: int) -> str:
    """Return ``http://HOST:PORT`` as this machine reaches a server, whose host may be a wildcard."""
    address = "127.0.0.1" if host in ("0.0.0.0", "::", "") else host.strip("[]")
    return f"http://{f'[{address}]' if ':' in address else address}:{port}"


@dataclass(frozen=True, slots=True)
class BindAddress:
    """The address that a server of ours binds to, and the URL under which agents reach it.

    :param port: 0 for any free one.
    :param url: the base URL for agents; empty where that is the address itself.
    """

    host: str
    port: int
    url: str = ""

    def url_at(self, port: int) -> str:
        """Return the base URL for agents, once the port is known."""
        return self.url or f"http://{authority(self.host)}:{port}"


LOOPBACK = BindAddress("127.0.0.1", 0)
"""Any free port, for agents on this machine."""


def read_bind_address(
    bind: str | None, url: str | None, what: str = "the webhook", *, any_port: bool = False
) -> BindAddress | None:
    """Return the address of a server that the user configured; None where neither option is given.

    :param bind: ``HOST:PORT`` to listen on.
    :param url: how agents reach that; by default ``http://HOST:PORT``.
    :param what: the server, for messages.
    :param any_port: whether port 0 is allowed, where no URL names another.
    :raises ConfigurationError: if the two do not name an address.
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
        # Listening everywhere is fine, but 0.0.0.0 cannot be called.
        if host in ("0.0.0.0", "::"):
            raise ConfigurationError(f"{what} listens on {bind}, which is no address to call; give its URL too")
        return BindAddress(host, int(number), f"http://{authority(host)}:{number}" if int(number) else "")
    parts = urllib.parse.urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname or parts.query or parts.fragment:
        raise ConfigurationError(f"{what}'s URL is {url!r}; give an http(s) URL without a query")
    return BindAddress(host, int(number), url.rstrip("/"))


def family(host: str) -> socket.AddressFamily:
    """Return the family of an address."""
    return socket.AF_INET6 if ":" in host else socket.AF_INET


def authority(host: str) -> str:
    """Return an address as URLs have it."""
    return f"[{host}]" if ":" in host else host
