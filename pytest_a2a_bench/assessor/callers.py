"""Authenticate callers by bearer tokens from a file or the environment; a token whose line is removed is revoked."""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import logging
import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from pytest_a2a_bench.errors import ConfigurationError
from pytest_a2a_bench.redact import KNOWN, KnownSecret

log = logging.getLogger(__name__)

SHORTEST = 16
"""Least characters of a token."""

_NAME = re.compile(r"[A-Za-z0-9_.@-]{1,64}")


@dataclass(frozen=True, slots=True)
class Caller:
    """A caller and its token."""

    name: str
    token: str

    def __repr__(self) -> str:
        return f"<caller {self.name}>"


def read_tokens(text: str, source: str) -> tuple[Caller, ...]:
    """Read ``NAME=TOKEN`` or ``TOKEN``, one on each line or with commas between them; ``#`` begins a comment line.

    :param source: where it was read, for messages.
    :raises ConfigurationError: naming what is wrong, but never a token.
    """
    found: list[Caller] = []
    wrong: list[str] = []
    for number, entry in enumerate(_entries(text), 1):
        name, separator, token = entry.partition("=")
        if not separator or not _NAME.fullmatch(name) or not token:
            # A token may end with the padding of base64.
            name, token = f"caller-{hashlib.sha256(entry.encode()).hexdigest()[:8]}", entry
        if len(token) < SHORTEST or not token.isascii() or any(c <= " " for c in token):
            wrong.append(f"entry {number} is no token of {SHORTEST} or more visible characters")
        elif any(caller.token == token for caller in found):
            wrong.append(f"entry {number} has a token that another one has")
        else:
            found.append(Caller(name, token))
    if wrong or not found:
        raise ConfigurationError(f"{source}: {'; '.join(wrong) or 'there is no token in it'}")
    return tuple(found)


def _entries(text: str) -> Iterator[str]:
    for line in text.splitlines():
        if not line.lstrip().startswith("#"):
            yield from (entry.strip() for entry in line.split(",") if entry.strip())


class Callers:
    """The callers of now.

    :param path: file of tokens; it is read again when it changes.
    :param fixed: callers from the environment.
    """

    def __init__(self, path: Path | None = None, fixed: tuple[Caller, ...] = ()) -> None:
        self._path = path
        self._fixed = fixed
        self._read: tuple[Caller, ...] = ()
        self._stamp: tuple[int, int, int] | None = None
        KNOWN.remember(KnownSecret(f"the token of {caller.name}", caller.token) for caller in fixed)
        if path is not None:
            self._refresh(path, is_first=True)

    @classmethod
    def of(cls, path: Path | None, variable: str | None, environ: Mapping[str, str] = os.environ) -> Callers | None:
        """Read what the options name; None where they name nothing.

        :raises ConfigurationError: if there is no token where there should be one.
        """
        if path is None and variable is None:
            return None
        fixed: tuple[Caller, ...] = ()
        if variable is not None:
            text = environ.get(variable, "")
            if not text.strip():
                raise ConfigurationError(f"--auth-env names {variable}, which is not set; export {variable}=... first")
            fixed = read_tokens(text, f"--auth-env {variable}")
        return cls(path, fixed)

    def who(self, authorization: str) -> str | None:
        """Return the caller's name, or None for an unknown token.

        Every token is compared, each in constant time, so that the time of the answer tells nothing about them.

        :param authorization: the header's value: ``Bearer TOKEN``, or HTTP basic with the token as password, which is
            what browsers can send.
        """
        given = _token_in(authorization).encode("utf-8", "surrogatepass")
        known = None
        for caller in self._now():
            if hmac.compare_digest(given, caller.token.encode()):
                known = caller.name
        return known

    def _now(self) -> tuple[Caller, ...]:
        if self._path is not None:
            self._refresh(self._path)
        return (*self._fixed, *self._read)

    def _refresh(self, path: Path, *, is_first: bool = False) -> None:
        try:
            status = path.stat()
            stamp = (status.st_mtime_ns, status.st_size, status.st_ino)
            if stamp == self._stamp:
                return
            read = read_tokens(path.read_text(encoding="utf-8"), f"--auth-file {path}")
        except (OSError, UnicodeError, ConfigurationError) as error:
            if is_first and isinstance(error, ConfigurationError):
                raise
            if is_first:
                raise ConfigurationError(f"--auth-file {path}: cannot be read ({error})") from error
            if self._read:
                log.error("no token of %s counts any more: it cannot be read", path)
            # A damaged or empty file lets no caller in.
            self._read, self._stamp = (), None
            return
        # Revoked ones stay remembered as secrets: they may still be used elsewhere.
        KNOWN.remember(KnownSecret(f"the token of {caller.name}", caller.token) for caller in read)
        self._read, self._stamp = read, stamp


def _token_in(authorization: str) -> str:
    scheme, _, rest = authorization.partition(" ")
    if scheme.lower() == "bearer":
        return rest.strip()
    if scheme.lower() == "basic":
        try:
            return base64.b64decode(rest.strip(), validate=True).decode().partition(":")[2]
        except (binascii.Error, UnicodeError):
            return ""
    return ""
