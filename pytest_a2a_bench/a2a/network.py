"""TLS and proxy settings of connections to agents, and the addresses that may be called.

Frozen values, read once from settings and environment; ``transport`` turns them into arguments of httpx and gRPC.
"""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import importlib.util
import ipaddress
import os
import re
import socket
import ssl
import tempfile
import urllib.parse
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pytest_a2a_bench.config.settings import Settings
from pytest_a2a_bench.config.values import is_url
from pytest_a2a_bench.errors import ConfigurationError, EndpointUnreachableError, raise_errors
from pytest_a2a_bench.redact import redact_url
from pytest_a2a_bench.text import refusing

SYSTEM = "system"
"""The value of ``--a2a-ca`` for the trust store of this machine."""

FROM_ENVIRONMENT, DIRECT = "env", "none"
"""Values of ``--a2a-proxy`` beside a URL."""

_PROXY_SCHEMES = ("http", "https", "socks5", "socks5h")
_MAX_PEM = 8 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class Network:
    """TLS and proxy settings of every connection to an agent.

    :param verify: whether certificates are checked.
    :param roots: certificates (PEM) that are trusted in addition to the usual ones.
    :param system: whether the usual ones are those of this machine's trust store.
    :param ca_file: a bundle that replaces the usual ones (``SSL_CERT_FILE``); ``ca_dir`` likewise a directory.
    :param chain: our certificate and its chain (PEM).
    :param key: its private key (PEM).
    :param passphrase: the passphrase of the key.
    :param proxies: (scheme of the request's URL or ``all``, the proxy's URL).
    :param no_proxy: hosts, domains and networks that are called without one, as ``NO_PROXY`` has them.
    :param guard: which addresses may be called; None for all, where the user chose the URL.
    """

    verify: bool = True
    roots: str = field(default="", repr=False)
    system: bool = False
    ca_file: str = ""
    ca_dir: str = ""
    chain: str = field(default="", repr=False)
    key: str = field(default="", repr=False)
    passphrase: str = field(default="", repr=False)
    proxies: tuple[tuple[str, str], ...] = field(default=(), repr=False)
    no_proxy: str = ""
    guard: Guard | None = None

    @property
    def secrets(self) -> tuple[str, ...]:
        """The strings to redact. The key is not among them: it never goes anywhere, nor into a message."""
        found = [self.passphrase]
        for _, url in self.proxies:
            user, _, password = urllib.parse.urlsplit(url).netloc.rpartition("@")[0].partition(":")
            found += [f"{user}:{password}", password, urllib.parse.unquote(password)] if password else [user]
        return tuple(dict.fromkeys(s for s in found if s))

    def without_certificate(self) -> Network:
        """Return the same without the client certificate, for hosts that the user did not name."""
        return dataclasses.replace(self, chain="", key="", passphrase="") if self.chain else self

    def proxy_for(self, url: str) -> str | None:
        """Return the proxy for a URL; None for a direct connection, as to this machine always."""
        if not self.proxies:
            return None
        parts = urllib.parse.urlsplit(url)
        host = (parts.hostname or "").rstrip(".").lower()
        if is_loopback(host) or any(_excepts(entry, host, parts.port) for entry in self.no_proxy.lower().split(",")):
            return None
        known = dict(self.proxies)
        return known.get(parts.scheme.lower()) or known.get("all")

    @classmethod
    def from_settings(cls, settings: Settings, environ: Mapping[str, str]) -> Network:
        """Read the files and variables that the settings name.

        :raises ConfigurationError: naming everything that is wrong, by option.
        """
        found: dict[str, Any] = {}
        steps = (_read_authorities, _read_certificate, _read_proxies)
        raise_errors(*(lambda step=step: found.update(step(settings, environ)) for step in steps))
        network = cls(verify=settings.verify_ssl, **found)
        if network.chain:
            load_certificate(ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT), network)
        return network


USUAL = Network()
"""No options, no environment: httpx's own authorities, and no proxy."""


def _read_authorities(settings: Settings, environ: Mapping[str, str]) -> dict[str, Any]:
    found: dict[str, Any] = {"system": settings.ca == SYSTEM}
    if settings.ca and settings.ca != SYSTEM:
        found["roots"] = text = _read_pem("--a2a-ca", settings.ca, "CERTIFICATE")
        try:
            ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT).load_verify_locations(cadata=text)
        except (ssl.SSLError, ValueError) as error:
            raise ConfigurationError(
                f"--a2a-ca {settings.ca}: a certificate in it cannot be read ({_reason(error)})"
            ) from error
    for variable, name, exists in (
        ("SSL_CERT_FILE", "ca_file", os.path.isfile),
        ("SSL_CERT_DIR", "ca_dir", os.path.isdir),
    ):
        path = environ.get(variable, "")
        # Several directories are separated as in PATH; OpenSSL ignores a missing one.
        if path and not any(map(exists, path.split(os.pathsep) if name == "ca_dir" else [path])):
            raise ConfigurationError(f"{variable}={path}: there is no such {name.removeprefix('ca_')}; unset it")
        found[name] = path
    return found


def _read_certificate(settings: Settings, environ: Mapping[str, str]) -> dict[str, Any]:
    if settings.client_cert is None:
        for option, value in (
            ("client-key", settings.client_key),
            ("client-key-env", settings.client_key_env),
            ("client-passphrase-env", settings.client_passphrase_env),
        ):
            if value is not None:
                raise ConfigurationError(f"{option} belongs to a certificate: add --a2a-client-cert FILE")
        return {}
    if settings.client_key and settings.client_key_env:
        raise ConfigurationError("client-key and client-key-env exclude each other; give one key")
    chain = _read_pem("--a2a-client-cert", settings.client_cert, "CERTIFICATE")
    if settings.client_key_env:
        option, source = "client-key-env", settings.client_key_env
        key = _join_pem(_blocks(read_variable(option, source, environ).replace("\\n", "\n"), "PRIVATE KEY"))
        if not key:
            raise ConfigurationError(f"{option}: the variable {source} holds no private key in PEM")
    else:
        option, source = "client-key", settings.client_key or settings.client_cert
        key = _read_pem(option, source, "PRIVATE KEY")
    passphrase = ""
    if settings.client_passphrase_env:
        passphrase = read_variable("client-passphrase-env", settings.client_passphrase_env, environ)
    elif "ENCRYPTED" in key:
        raise ConfigurationError(
            f"{option} {source}: the key is encrypted; put its passphrase into an environment variable and name "
            "that with client-passphrase-env"
        )
    return {"chain": chain, "key": key, "passphrase": passphrase}


def _read_proxies(settings: Settings, environ: Mapping[str, str]) -> dict[str, Any]:
    wanted = settings.proxy
    if wanted == DIRECT:
        return {}
    named = [("all", "--a2a-proxy", wanted)]
    if wanted == FROM_ENVIRONMENT:
        variables = ((scheme, *_variable(f"{scheme}_proxy", environ)) for scheme in ("http", "https", "all"))
        # In a CGI script HTTP_PROXY is a header "Proxy" that a client sent.
        ignored = "HTTP_PROXY" if "REQUEST_METHOD" in environ else None
        named = [(scheme, name, url) for scheme, name, url in variables if url and name != ignored]
    proxies = tuple((scheme, _check_proxy(source, url)) for scheme, source, url in named)
    return {"proxies": proxies, "no_proxy": _variable("no_proxy", environ)[1]}


def read_variable(option: str, name: str, environ: Mapping[str, str]) -> str:
    """Return the value of an environment variable that an option names.

    :raises ConfigurationError: if it is not set, or empty.
    """
    value = environ.get(name, "").strip()
    if not value:
        raise ConfigurationError(f"{option} names {name}, which is not set in the environment; export {name}=... first")
    return value


def _variable(name: str, environ: Mapping[str, str]) -> tuple[str, str]:
    """Return a variable that has two spellings, of which the small one wins (curl knows no other for HTTP)."""
    spelt = name if environ.get(name) else name.upper()
    return spelt, environ.get(spelt, "").strip()


def _check_proxy(source: str, url: str) -> str:
    url = url if "://" in url else f"http://{url}"
    shown = redact_url(url)
    if not is_url(url, _PROXY_SCHEMES):
        raise ConfigurationError(
            f"{source}={shown}: not the URL of a proxy ({', '.join(_PROXY_SCHEMES)}); correct it, or give "
            "--a2a-proxy none"
        )
    if url.lower().startswith("socks") and importlib.util.find_spec("socksio") is None:
        raise ConfigurationError(f"{source}={shown}: a SOCKS proxy needs: pip install 'httpx[socks]'")
    return url


def _excepts(entry: str, host: str, port: int | None) -> bool:
    """Return whether an entry of NO_PROXY (host, .domain, host:port, 10.0.0.0/8 or ``*``) matches a host."""
    entry = entry.strip()
    if entry in ("", "*"):
        return entry == "*"
    try:
        if "/" in entry:
            return ipaddress.ip_address(host) in ipaddress.ip_network(entry, strict=False)
        parts = urllib.parse.urlsplit(f"//[{entry}]" if entry.count(":") > 1 and "[" not in entry else f"//{entry}")
        name, only = (parts.hostname or "").removeprefix("*").strip("."), parts.port
    except ValueError:  # no network, or a host that is no address and so in none
        return False
    return only in (None, port) and bool(name) and (host == name or host.endswith(f".{name}"))


def is_loopback(host: str) -> bool:
    """Return whether a host, without brackets, is this machine, by its address or by a name that needs no DNS."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host.lower() == "localhost" or host.lower().endswith(".localhost")


def read_directory(path: str) -> list[str]:
    """Return the certificates (PEM) of all files in a directory; other files are ignored."""
    found = []
    with contextlib.suppress(OSError):
        for file in sorted(Path(path).iterdir()):
            with contextlib.suppress(OSError):
                found += _blocks(file.read_bytes()[:_MAX_PEM].decode("ascii", "replace"), "CERTIFICATE")
    return found


def _blocks(text: str, kind: str) -> list[str]:
    return re.findall(rf"-----BEGIN [A-Z0-9 ]*{kind}-----.*?-----END [A-Z0-9 ]*{kind}-----", text, re.DOTALL)


def _join_pem(blocks: list[str]) -> str:
    return "".join(f"{block}\n" for block in blocks)


def _read_pem(option: str, path: str, kind: str) -> str:
    name = "certificate" if kind == "CERTIFICATE" else "private key"
    with refusing(f"{option} {path}: cannot be read", "give a file of PEM"), Path(path).open("rb") as file:
        text = file.read(_MAX_PEM).decode("ascii", "replace")
    blocks = _blocks(text, kind)
    if not blocks:
        raise ConfigurationError(
            f"{option} {path}: there is no {name} in it; expected PEM (-----BEGIN ... {kind}-----)"
        )
    return _join_pem(blocks)


def load_certificate(context: ssl.SSLContext, network: Network) -> None:
    """Add our certificate to a TLS context.

    :raises ConfigurationError: if certificate, key and passphrase do not go together.
    """
    try:
        with _as_file(network.key + network.chain) as path:
            context.load_cert_chain(path, password=network.passphrase)
    except (ssl.SSLError, OSError, ValueError) as error:
        reason = _reason(error)
        if "MISMATCH" in reason:
            reason = "the key is that of another certificate"
        elif network.passphrase and "ENCRYPTED" in network.key:
            reason = f"the passphrase does not open the key, or the key is damaged: {reason}"
        raise ConfigurationError(f"--a2a-client-cert: certificate and key cannot be used ({reason})") from error


@contextlib.contextmanager
def _as_file(text: str) -> Iterator[str]:
    """Write a text to a file while the block runs: OpenSSL reads keys from files only.

    The file is in memory where there is such a thing, else it is readable for us alone.
    """
    with contextlib.ExitStack() as stack:
        if hasattr(os, "memfd_create") and os.path.isdir("/proc/self/fd"):
            descriptor = os.memfd_create("a2a-client-key")
            path = f"/proc/self/fd/{descriptor}"
        else:
            descriptor, path = tempfile.mkstemp(prefix="a2a-client-key-")
            stack.callback(os.unlink, path)
        file = stack.enter_context(open(descriptor, "w", encoding="ascii"))
        file.write(text)
        file.flush()
        yield path


def _reason(error: Exception) -> str:
    return str(getattr(error, "reason", None) or error).replace("_", " ") or type(error).__name__


# --- the addresses that may be called, where a caller chooses the URL (server-side request forgery) ---
# A name is resolved once, every address that it has must be allowed, and the connection goes to an address that was
# looked at: a name that means another host a moment later (DNS rebinding) gains nothing. Addresses that carry another
# one inside (IPv4 in IPv6, NAT64, 6to4) are judged by that, too.

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
    """The addresses that may be called: public ones, and the ranges that the operator allows beside them.

    :param allowed: further ranges, such as ``127.0.0.0/8`` or a container network's.
    """

    allowed: tuple[Range, ...] = ()

    @classmethod
    def of(cls, ranges: Iterable[str]) -> Guard:
        """Read ranges (``10.1.0.0/16``, ``::1``); raises ConfigurationError if one cannot be read."""
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
        """Like :meth:`vet_now`, without blocking the event loop."""
        return await asyncio.get_running_loop().run_in_executor(None, self.vet_now, host, port)

    def vet_now(self, host: str, port: int) -> str:
        """Resolve a host, and return an address of it that may be called.

        :raises ForbiddenAddress: if one of its addresses may not be.
        :raises EndpointUnreachableError: if it has none.
        """
        literal = _literal(host)
        try:
            entries = [] if literal else socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
        except (OSError, UnicodeError) as error:
            raise EndpointUnreachableError(f"{host} cannot be resolved ({error})") from error
        return self._choose(host, [literal] if literal else [str(entry[4][0]) for entry in entries])

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
