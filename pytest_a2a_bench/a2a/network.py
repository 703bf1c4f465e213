"""How requests travel to the agent: what is trusted, what shows who we are, and through which proxy.

A frozen value, read once from settings and environment. ``transport`` makes of it what httpx and gRPC take, and is the
only place that does.
"""

from __future__ import annotations

import contextlib
import dataclasses
import importlib.util
import ipaddress
import os
import re
import ssl
import tempfile
import urllib.parse
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pytest_a2a_bench.a2a.guard import Guard
from pytest_a2a_bench.errors import ConfigurationError, raise_errors
from pytest_a2a_bench.redact import redact_url

if TYPE_CHECKING:
    from pytest_a2a_bench.settings import Settings

SYSTEM = "system"
"""What ``--a2a-ca`` takes for the trust store of this machine."""

ALLOWED_ORIGINS_ENV = "A2A_ALLOWED_ORIGINS"
"""Environment variable: origins, separated by commas, to which credentials may also go."""

FROM_ENVIRONMENT, DIRECT = "env", "none"
"""What ``--a2a-proxy`` takes beside a URL."""

_PROXY_SCHEMES = ("http", "https", "socks5", "socks5h")
_MAX_PEM = 8 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class Network:
    """What every connection to an agent is made with.

    :param verify: whether certificates are checked.
    :param roots: certificates (PEM) that are trusted beside the usual ones.
    :param system: whether the usual ones are those of this machine's trust store.
    :param ca_file: a bundle that replaces the usual ones (``SSL_CERT_FILE``); ``ca_dir`` likewise a directory.
    :param chain: our certificate and what it is signed by (PEM).
    :param key: its private key (PEM).
    :param passphrase: what the key is encrypted with.
    :param proxies: (scheme of the URL that is called or ``all``, the proxy's URL).
    :param no_proxy: hosts, domains and networks that are called without one, as ``NO_PROXY`` has them.
    :param guard: which addresses may be called; None for all, where the user chose the URL.
    """

    verify: bool = True
    roots: str = dataclasses.field(default="", repr=False)
    system: bool = False
    ca_file: str = ""
    ca_dir: str = ""
    chain: str = dataclasses.field(default="", repr=False)
    key: str = dataclasses.field(default="", repr=False)
    passphrase: str = dataclasses.field(default="", repr=False)
    proxies: tuple[tuple[str, str], ...] = dataclasses.field(default=(), repr=False)
    no_proxy: str = ""
    guard: Guard | None = None

    @property
    def secrets(self) -> tuple[str, ...]:
        """What must not leave this package. The key is not among them: it never goes anywhere, nor into a message."""
        found = [self.passphrase]
        for _, url in self.proxies:
            user, _, password = urllib.parse.urlsplit(url).netloc.rpartition("@")[0].partition(":")
            found += [f"{user}:{password}", password, urllib.parse.unquote(password)] if password else [user]
        return tuple(dict.fromkeys(s for s in found if s))

    def without_certificate(self) -> Network:
        """Return the same without what shows who we are, for hosts that the user did not name."""
        return dataclasses.replace(self, chain="", key="", passphrase="") if self.chain else self

    # -- proxies --

    def proxy_for(self, url: str) -> str | None:
        """Return the URL of the proxy that a URL is called through; None for a direct connection.

        This machine is never called through one.
        """
        if not self.proxies:
            return None
        parts = urllib.parse.urlsplit(url)
        host = (parts.hostname or "").rstrip(".")
        if is_loopback(host) or self._is_excepted(host, parts.port):
            return None
        known = dict(self.proxies)
        return known.get(parts.scheme.lower()) or known.get("all")

    def _is_excepted(self, host: str, port: int | None) -> bool:
        return any(_excepts(entry.strip().lower(), host.lower(), port) for entry in self.no_proxy.split(","))

    @classmethod
    def from_settings(cls, settings: Settings, environ: Mapping[str, str]) -> Network:
        """Read what settings and environment name.

        :raises ConfigurationError: naming everything that is wrong, by option.
        """
        found = _Reading(settings, environ)
        raise_errors(found.authorities, found.certificate, found.proxy)
        network = cls(verify=settings.verify_ssl, **found.values)
        if network.chain:
            load_certificate(ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT), network)
        return network


USUAL = Network()
"""No options, no environment: httpx's own authorities, and no proxy."""


class _Reading:
    """What the settings name, read step by step, so that each step can say what is wrong with its own."""

    def __init__(self, settings: Settings, environ: Mapping[str, str]) -> None:
        self._settings, self._environ = settings, environ
        self.values: dict[str, Any] = {}

    def authorities(self) -> None:
        named = self._settings.ca
        self.values["system"] = named == SYSTEM
        if named and named != SYSTEM:
            self.values["roots"] = _read_roots(named)
        for variable, name, exists in (
            ("SSL_CERT_FILE", "ca_file", os.path.isfile),
            ("SSL_CERT_DIR", "ca_dir", os.path.isdir),
        ):
            path = self._environ.get(variable, "")
            # Several directories are separated as in PATH; one that is missing is nothing to OpenSSL.
            if path and not any(map(exists, path.split(os.pathsep) if name == "ca_dir" else [path])):
                raise ConfigurationError(f"{variable}={path}: there is no such {name.removeprefix('ca_')}; unset it")
            self.values[name] = path

    def certificate(self) -> None:
        settings = self._settings
        if settings.client_cert is None:
            for option, value in (
                ("--a2a-client-key", settings.client_key),
                ("--a2a-client-key-env", settings.client_key_env),
                ("--a2a-client-passphrase-env", settings.client_passphrase_env),
            ):
                if value is not None:
                    raise ConfigurationError(f"{option} belongs to a certificate: add --a2a-client-cert FILE")
            return
        if settings.client_key and settings.client_key_env:
            raise ConfigurationError("--a2a-client-key and --a2a-client-key-env exclude each other; give one key")
        chain = _read_pem("--a2a-client-cert", settings.client_cert, "CERTIFICATE")
        if settings.client_key_env:
            option, source = "--a2a-client-key-env", settings.client_key_env
            key = read_variable(option, source, self._environ).replace("\\n", "\n")
            key = "".join(f"{block}\n" for block in _blocks(key, "PRIVATE KEY"))
            if not key:
                raise ConfigurationError(f"{option}: the variable {source} holds no private key in PEM")
        else:
            option, source = "--a2a-client-key", settings.client_key or settings.client_cert
            key = _read_pem(option, source, "PRIVATE KEY")
        self.values |= {"chain": chain, "key": key}
        if settings.client_passphrase_env:
            name = settings.client_passphrase_env
            self.values["passphrase"] = read_variable("--a2a-client-passphrase-env", name, self._environ)
        elif "ENCRYPTED" in key:
            raise ConfigurationError(
                f"{option} {source}: the key is encrypted; put its passphrase into an environment variable and name "
                "that with --a2a-client-passphrase-env"
            )

    def proxy(self) -> None:
        wanted = self._settings.proxy
        if wanted == DIRECT:
            return
        named = [("all", "--a2a-proxy", wanted)] if wanted != FROM_ENVIRONMENT else _named_in(self._environ)
        proxies = tuple((scheme, _check_proxy(source, url)) for scheme, source, url in named)
        self.values |= {"proxies": proxies, "no_proxy": _variable("no_proxy", self._environ)[1]}


def read_variable(option: str, name: str, environ: Mapping[str, str]) -> str:
    """Return what an environment variable holds that an option names.

    :raises ConfigurationError: if it is not set, or empty.
    """
    value = environ.get(name, "").strip()
    if not value:
        raise ConfigurationError(f"{option} names {name}, which is not set in the environment; export {name}=... first")
    return value


# -- proxies --


def _named_in(environ: Mapping[str, str]) -> list[tuple[str, str, str]]:
    found = []
    for scheme in ("http", "https", "all"):
        name, url = _variable(f"{scheme}_proxy", environ)
        # In a CGI script HTTP_PROXY is what a client sent as the header "Proxy".
        if url and not (name == "HTTP_PROXY" and "REQUEST_METHOD" in environ):
            found.append((scheme, name, url))
    return found


def _variable(name: str, environ: Mapping[str, str]) -> tuple[str, str]:
    """Return a variable that has two spellings, of which the small one wins (curl knows no other for HTTP)."""
    spelt = name if environ.get(name) else name.upper()
    return spelt, environ.get(spelt, "").strip()


def _check_proxy(source: str, url: str) -> str:
    url = url if "://" in url else f"http://{url}"
    shown = redact_url(url)
    try:
        parts = urllib.parse.urlsplit(url)
        is_good = parts.scheme.lower() in _PROXY_SCHEMES and bool(parts.hostname) and (parts.port or 1) > 0
    except ValueError:
        is_good = False
    if not is_good:
        raise ConfigurationError(
            f"{source}={shown}: not the URL of a proxy ({', '.join(_PROXY_SCHEMES)}); correct it, or give "
            "--a2a-proxy none"
        )
    if parts.scheme.lower().startswith("socks") and importlib.util.find_spec("socksio") is None:
        raise ConfigurationError(f"{source}={shown}: a SOCKS proxy needs: pip install 'httpx[socks]'")
    return url


def _excepts(entry: str, host: str, port: int | None) -> bool:
    """Tell whether an entry of NO_PROXY (host, .domain, host:port, 10.0.0.0/8 or ``*``) is for a host."""
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
    """Tell whether a host, without brackets, is this machine by its address or by a name that no DNS is asked for."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host.lower() == "localhost" or host.lower().endswith(".localhost")


# -- certificates --


def _read_roots(path: str) -> str:
    text = _read_pem("--a2a-ca", path, "CERTIFICATE")
    try:
        ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT).load_verify_locations(cadata=text)
    except (ssl.SSLError, ValueError) as error:
        raise ConfigurationError(f"--a2a-ca {path}: a certificate in it cannot be read ({_told(error)})") from error
    return text


def read_directory(path: str) -> list[str]:
    """Return the certificates (PEM) of all files in a directory; what is none is passed over."""
    found = []
    with contextlib.suppress(OSError):
        for file in sorted(Path(path).iterdir()):
            with contextlib.suppress(OSError):
                found += _blocks(file.read_bytes()[:_MAX_PEM].decode("ascii", "replace"), "CERTIFICATE")
    return found


def _blocks(text: str, kind: str) -> list[str]:
    return re.findall(rf"-----BEGIN [A-Z0-9 ]*{kind}-----.*?-----END [A-Z0-9 ]*{kind}-----", text, re.DOTALL)


def _read_pem(option: str, path: str, kind: str) -> str:
    what = "certificate" if kind == "CERTIFICATE" else "private key"
    try:
        with Path(path).open("rb") as file:
            text = file.read(_MAX_PEM).decode("ascii", "replace")
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise ConfigurationError(f"{option} {path}: cannot be read ({reason}); give a file of PEM") from error
    blocks = _blocks(text, kind)
    if not blocks:
        raise ConfigurationError(
            f"{option} {path}: there is no {what} in it; expected PEM (-----BEGIN ... {kind}-----)"
        )
    return "".join(f"{block}\n" for block in blocks)


def load_certificate(context: ssl.SSLContext, network: Network) -> None:
    """Let connections show our certificate.

    :raises ConfigurationError: if certificate, key and passphrase do not go together.
    """
    try:
        with _as_file(network.key + network.chain) as path:
            context.load_cert_chain(path, password=network.passphrase)
    except (ssl.SSLError, OSError, ValueError) as error:
        told = _told(error)
        if "MISMATCH" in told:
            told = "the key is that of another certificate"
        elif network.passphrase and "ENCRYPTED" in network.key:
            told = f"the passphrase does not open the key, or the key is damaged: {told}"
        raise ConfigurationError(f"--a2a-client-cert: certificate and key cannot be used ({told})") from error


@contextlib.contextmanager
def _as_file(text: str) -> Iterator[str]:
    """Give a text a name for as long as it takes to read it: OpenSSL reads keys from files only.

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


def _told(error: Exception) -> str:
    return str(getattr(error, "reason", None) or error).replace("_", " ") or type(error).__name__
