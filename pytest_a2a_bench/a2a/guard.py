"""Restrict the addresses that may be called where a caller chooses the URL (server-side request forgery).

A name is resolved once, every address that it has must be allowed, and the connection goes to an address that was
looked at: a name that means another host a moment later (DNS rebinding) gains nothing. Addresses that carry another one
inside (IPv4 in IPv6, NAT64, 6to4) are judged by that, too.
"""

from __future__ import annotations

import asyncio
import ipaddress
import socket
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from pytest_a2a_bench.errors import ConfigurationError, EndpointUnreachableError

Address = ipaddress.IPv4Address | ipaddress.IPv6Address
Range = ipaddress.IPv4Network | ipaddress.IPv6Network

_NAT64 = ipaddress.IPv6Network("64:ff9b::/96")

_INNER: tuple[Range, ...] = (
    ipaddress.IPv6Network("fec0::/10"),  # site-local, from before fc00::/7 (RFC 3879)
    # A translator of one's own puts the IPv4 address where its prefix says, which cannot be seen here (RFC 8215).
    ipaddress.IPv6Network("64:ff9b:1::/48"),
    ipaddress.IPv6Network("::ffff:0:0:0/96"),  # IPv4 behind a stateless translator (RFC 2765)
    ipaddress.IPv4Network("168.63.129.16/32"),  # Azure's own services for each machine, at a public address
)
"""Ranges that are not another network's, though :mod:`ipaddress` or registries call them global."""


class ForbiddenAddress(EndpointUnreachableError):
    """A URL leads to an address that may not be called from here."""


@dataclass(frozen=True, slots=True)
class Guard:
    """What may be called: public addresses, and the ranges that the operator allows beside them.

    :param allowed: further ranges, such as ``127.0.0.0/8`` or a container network's.
    """

    allowed: tuple[Range, ...] = ()

    @classmethod
    def of(cls, ranges: Iterable[str]) -> Guard:
        """Read ranges (``10.1.0.0/16``, ``::1``).

        :raises ConfigurationError: if one cannot be read.
        """
        found = []
        for text in ranges:
            try:
                found.append(ipaddress.ip_network(text.strip()))
            except ValueError as error:
                raise ConfigurationError(f"{text!r} is no range of addresses, such as 10.1.0.0/16 ({error})") from error
        return cls(tuple(found))

    def allows(self, address: Address) -> bool:
        """Return whether an address may be called."""
        if any(address.version == one.version and address in one for one in self.allowed):
            return True
        inner = list(_carried(address))
        if inner:
            return all(self.allows(one) for one in inner)
        if any(address.version == one.version and address in one for one in _INNER):
            return False
        return address.is_global and not address.is_multicast

    async def vet(self, host: str, port: int) -> str:
        """Resolve a host, and return an address of it that may be called.

        :raises ForbiddenAddress: if one of its addresses may not be.
        :raises EndpointUnreachableError: if it has none.
        """
        literal = _literal(host)
        if literal is not None:
            return self._choose(host, [literal])
        loop = asyncio.get_running_loop()
        try:
            found = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM)
        except (OSError, UnicodeError) as error:
            raise _unknown(host, error) from error
        return self._choose(host, [str(entry[4][0]) for entry in found])

    def vet_now(self, host: str, port: int) -> str:
        """Do what :meth:`vet` does where nothing can be awaited."""
        literal = _literal(host)
        try:
            found = [literal] if literal else [str(e[4][0]) for e in socket.getaddrinfo(host, port)]
        except (OSError, UnicodeError) as error:
            raise _unknown(host, error) from error
        return self._choose(host, found)

    def _choose(self, host: str, found: list[str]) -> str:
        addresses = [ipaddress.ip_address(text.partition("%")[0]) for text in found]
        for address in addresses:
            if not self.allows(address):
                where = host if str(address) == host else f"{host} ({address})"
                raise ForbiddenAddress(
                    f"{where} is not a public address, and may not be called from here; if it is meant to be, the "
                    f"operator allows it with --allow-cidr {address}"
                )
        if not addresses:
            raise EndpointUnreachableError(f"{host} has no address")
        return str(addresses[0])


def _literal(host: str) -> str | None:
    """Return the address that a host is, in the one spelling; None for a name.

    ``0x7f000001``, ``2130706433`` and ``127.1`` are spellings of 127.0.0.1 to the C library, and so to a server's peer.
    """
    bare = host.strip("[]")
    try:
        return str(ipaddress.ip_address(bare))
    except ValueError:
        pass
    if not bare[:1].isdigit():
        return None
    try:
        return socket.inet_ntoa(socket.inet_aton(bare))
    except (OSError, UnicodeError):
        return None


def _carried(address: Address) -> Iterator[Address]:
    """Yield the IPv4 addresses that packets to an IPv6 address end at."""
    if not isinstance(address, ipaddress.IPv6Address):
        return
    if address.ipv4_mapped is not None:
        yield address.ipv4_mapped
    if address.sixtofour is not None:
        yield address.sixtofour
    if address.teredo is not None:
        yield from address.teredo
    if address in _NAT64 or (int(address) >> 32 == 0 and int(address) > 1):
        yield ipaddress.IPv4Address(int(address) & 0xFFFFFFFF)


def _unknown(host: str, error: Exception) -> EndpointUnreachableError:
    return EndpointUnreachableError(f"{host} cannot be resolved ({error})")
