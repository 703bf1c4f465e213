"""Credentials for agents by name: a model passes the name, and never sees the token (pure).

Each is bound to one origin, because a model reads untrusted text (cards, results) that may ask it to send a token
elsewhere.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from urllib.parse import urlsplit

from pytest_a2a_bench.errors import ConfigurationError
from pytest_a2a_bench.redact import KnownSecret

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,99}", re.ASCII)
_PORTS = {"http": 80, "https": 443}


@dataclass(frozen=True, slots=True)
class Credential:
    """The name of an environment variable, and the one origin that its value may be sent to."""

    name: str
    origin: str


def read_credentials(text: str) -> tuple[Credential, ...]:
    """Read ``NAME@ORIGIN``, with blanks or commas between several.

    :raises ValueError: if one is something else; it is not repeated, for it might be a token.
    """
    found = []
    for word in text.replace(",", " ").split():
        name, _, url = word.partition("@")
        origin = origin_of(url)
        if not _NAME.fullmatch(name) or not origin:
            raise ValueError(
                "expected NAME@ORIGIN, such as SHOP_TOKEN@https://shop.example.com, with an environment variable's NAME"
            )
        found.append(Credential(name, origin))
    return tuple(found)


def origin_of(url: str) -> str:
    """Return ``scheme://host:port`` of a URL; empty where it has none."""
    try:
        parts = urlsplit(url)
        host, port = parts.hostname, parts.port
    except ValueError:
        return ""
    if parts.scheme not in _PORTS or not host:
        return ""
    shown = f"[{host}]" if ":" in host else host
    return f"{parts.scheme}://{shown}:{port or _PORTS[parts.scheme]}"


def choose(name: str, endpoint: str, known: Sequence[Credential], environ: Mapping[str, str]) -> str | None:
    """Return the name of the variable to send to an endpoint; None for none.

    :param name: as a model passed it; empty for the only one of the endpoint's origin.
    :raises ConfigurationError: if it may not be sent there, or is not known. The message does not repeat the name.
    """
    mine = [one.name for one in known if one.origin == origin_of(endpoint)]
    if not name:
        return mine[0] if len(mine) == 1 and environ.get(mine[0]) else None
    if name not in {one.name for one in known}:
        raise ConfigurationError(
            "auth_token takes the name of a credential, never the credential itself (if one was passed, it has been "
            f"seen by a model: replace it); {_offer(known)}"
        )
    if name not in mine:
        bound = ", ".join(one.origin for one in known if one.name == name)
        raise ConfigurationError(
            f"the credential {name} may only be sent to {bound}, and {origin_of(endpoint) or 'this endpoint'} is not "
            f"that; the operator allows it with A2A_ADK_CREDENTIALS={name}@{origin_of(endpoint) or 'ORIGIN'}"
        )
    if not environ.get(name, "").strip():
        raise ConfigurationError(f"the environment variable {name} is not set; the operator sets it, and starts again")
    return name


def _offer(known: Sequence[Credential]) -> str:
    if not known:
        return "there are none; the operator adds one with A2A_ADK_CREDENTIALS=NAME@ORIGIN"
    return "there are " + ", ".join(f"{one.name} (for {one.origin})" for one in known)


def secrets_of(known: Sequence[Credential], environ: Mapping[str, str]) -> Iterator[KnownSecret]:
    """Yield the values, to be redacted in all output."""
    for one in known:
        if environ.get(one.name):
            yield KnownSecret(one.name, environ[one.name])
