"""The listening socket of a server, and the URL at which this machine reaches it."""

from __future__ import annotations

import os
import socket

from pytest_a2a_bench.errors import ConfigurationError


def listen(host: str, port: int, option: str = "--port") -> socket.socket:
    """Return a socket that listens on an address, with ``TCP_NODELAY`` for the connections that it accepts.

    :param host: an address, IPv6 with or without brackets, or a name.
    :param port: 0 for any free one.
    :param option: the option that the port was given by, for the message.
    :raises ConfigurationError: if the address cannot be listened on.
    """
    address = host.strip("[]")
    try:
        listener = socket.create_server(
            (address, port), family=socket.AF_INET6 if ":" in address else socket.AF_INET, backlog=1024
        )
    except OSError as error:
        reason = os.strerror(error.errno) if error.errno and error.errno > 0 else str(error)
        raise ConfigurationError(
            f"cannot listen on {host}:{port}: {reason}; choose another {option}, or 0 for any free one"
        ) from error
    # asyncio switches Nagle's algorithm off only for sockets that it made itself, and with it every response on a
    # connection that is kept alive waits 40 ms for the client's delayed acknowledgement. Accepted sockets inherit it.
    listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return listener


def local_url(host: str, port: int) -> str:
    """Return ``http://HOST:PORT`` as this machine reaches a server, whose host may be a wildcard."""
    address = "127.0.0.1" if host in ("0.0.0.0", "::", "") else host.strip("[]")
    return f"http://{f'[{address}]' if ':' in address else address}:{port}"
