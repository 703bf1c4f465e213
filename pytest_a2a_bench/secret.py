"""What this process knows that nobody else may read, and a type for it that shows nothing.

Code that reads a secret registers it in :data:`KNOWN`; code that writes a file or shows a text lets it hide them.
Messages to and from agents stay as they are: only output is changed.
"""

from __future__ import annotations

import hmac
import json
import logging
import re
import threading
import traceback
import urllib.parse
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, NamedTuple, TextIO

from pytest_a2a_bench.redact import HIDDEN, MINIMUM, hide_secrets, is_plain, redact_url


class Secret:
    """A text that shows itself to nobody but those who ask by :meth:`reveal`."""

    __slots__ = ("_value",)

    def __init__(self, value: str) -> None:
        self._value = value

    def reveal(self) -> str:
        """Return the text."""
        return self._value

    def __repr__(self) -> str:
        return f"Secret({HIDDEN!r})"

    def __str__(self) -> str:
        return HIDDEN

    def __format__(self, specification: str) -> str:
        return HIDDEN

    def __bool__(self) -> bool:
        return bool(self._value)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Secret):
            return NotImplemented
        return hmac.compare_digest(_octets(self._value), _octets(other._value))

    def __hash__(self) -> int:
        return hash((Secret, self._value))

    def __copy__(self) -> Secret:
        return self

    def __deepcopy__(self, memo: object) -> Secret:
        return self

    def __reduce__(self) -> str:
        raise TypeError("a Secret is not pickled by accident; send the value of reveal() where it is needed")


class SecretValues(dict[str, str]):
    """What authentication adds to a request: names that may be shown, and values that may not."""

    def __repr__(self) -> str:
        return repr(dict.fromkeys(self, HIDDEN))

    __str__ = __repr__


class SecretUrl(str):
    """A URL whose ``repr`` has neither user info nor query, where services take keys; otherwise it is a string."""

    __slots__ = ()

    def __repr__(self) -> str:
        if "://" not in self:  # builtin:NAME?OPTION=VALUE
            return str.__repr__(self)
        shown = redact_url(self, query=False)
        return repr(f"{shown}?..." if "?" in self else shown)


class KnownSecret(NamedTuple):
    """A secret and what it is called, e.g. the environment variable that holds it."""

    kind: str
    text: str


class KnownSecrets:
    """The secrets of a process, for as long as they are in use. Safe to use from many threads.

    Those of which :func:`is_telling` says no are not kept.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._counts: Counter[KnownSecret] = Counter()
        self._secrets: tuple[KnownSecret, ...] = ()
        self._texts: tuple[str, ...] = ()

    def remember(self, secrets: Iterable[KnownSecret]) -> Callable[[], None]:
        """Hide some secrets from now on, and return what ends that."""
        kept = [KnownSecret(s.kind, line) for s in secrets for line in s.text.split("\n") if is_telling(line.strip())]
        self._change(kept, 1)
        left = [kept]

        def forget() -> None:
            while left:
                self._change(left.pop(), -1)

        return forget

    def _change(self, secrets: Iterable[KnownSecret], by: int) -> None:
        with self._lock:
            for secret in secrets:
                self._counts[secret] += by
            self._counts = +self._counts
            # The longest first, so that of USER:PASSWORD not only the password is hidden.
            self._secrets = tuple(sorted(self._counts, key=lambda s: -len(s.text)))
            self._texts = tuple(dict.fromkeys(s.text for s in self._secrets))
            _watch_log(bool(self._texts))

    def hide(self, text: str) -> str:
        """Return a text without the secrets; a text without them is returned as it is."""
        return hide_secrets(text, self._texts, least=MINIMUM) if self._texts and text else text

    def hide_in(self, value: Any) -> Any:
        """Return a value of JSON without the secrets, in strings and names. Numbers stay, and so does its form."""
        if not self._texts:
            return value
        if isinstance(value, str):
            return self.hide(value)
        if isinstance(value, Mapping):
            return {self.hide(k) if isinstance(k, str) else k: self.hide_in(v) for k, v in value.items()}
        if isinstance(value, list | tuple):
            return [self.hide_in(v) for v in value]
        return value

    def kinds_in(self, *texts: str, told: Iterable[str] = ()) -> tuple[str, ...]:
        """Return what the secrets are called that occur in texts.

        :param told: the text that its author was sent: secrets that stand in it are not counted.
        """
        found = [s for s in self._secrets if any(_holds(text, s.text) for text in texts if text)]
        return tuple(dict.fromkeys(s.kind for s in found if not any(_holds(text, s.text) for text in told if text)))


def _holds(text: str, secret: str) -> bool:
    return hide_secrets(text, (secret,), least=MINIMUM) != text


KNOWN = KnownSecrets()
"""Everything that leaves this process is asked of this."""


_LONGEST_WORD = 20


def is_telling(text: str) -> bool:
    """Return whether a secret can be told from other text, so that hiding it everywhere leaves the rest readable.

    It is not if it has fewer than 8 characters, only digits (numbers of results have as many), or is a word of
    lower-case letters as the names in our files are: a token ``test`` would be hidden in every node id.
    """
    return len(text) >= MINIMUM and not (len(text) <= _LONGEST_WORD and is_plain(text))


def dump_json(value: object, *, indent: int | None = 1) -> str:
    """Return a value as JSON without the known secrets. Every file of JSON is made by this."""
    return json.dumps(KNOWN.hide_in(value), indent=indent, ensure_ascii=False)


# --- where secrets are ------------------------------------------------------------------------------------------------

_NAME = re.compile(
    r"(?:^|_)(?:API_?KEY|TOKEN|SECRET|(?:SECRET|ACCESS|CONSUMER|PRIVATE|SECRET_ACCESS)_KEY|PASSWORD|PASSWD|BEARER_TOKEN\w*)$",
    re.IGNORECASE,
)
_PARAMETER = re.compile(r"key|token|secret|sig|pass|auth|credential|code", re.IGNORECASE)
_MIXED = re.compile(r"(?=.*[A-Za-z])(?=.*\d).{16,}")
_USER_INFO = re.compile(r"://([^/?#\s@]+)@")


def in_environment(environ: Mapping[str, str], *names: str) -> Iterator[KnownSecret]:
    """Find secrets in an environment, each called by its variable.

    They are the values of variables whose names say so (``*_API_KEY``, ``*_TOKEN``, ``*_SECRET``, ``*_PASSWORD`` and
    such), user info of URLs in any variable (proxies, databases), and OpenTelemetry's headers.

    :param names: further variables that hold one.
    """
    for name, value in environ.items():
        value = value.strip()
        if name in names or _NAME.search(name):
            yield KnownSecret(name, value)
            yield from _password_of(name, value)
        elif name.startswith("OTEL_") and name.endswith("_HEADERS"):
            for pair in value.split(","):
                header = urllib.parse.unquote(pair.partition("=")[2]).strip()
                yield KnownSecret(name, header.rpartition(" ")[2])
        else:
            for found in _USER_INFO.finditer(value):
                yield from _user_info(name, found[1])


def in_url(kind: str, url: str | None) -> Iterator[KnownSecret]:
    """Find secrets in a URL: its user info, and values of its query that are named like keys or look like ones.

    :param kind: what the URL is called, e.g. ``the endpoint``.
    """
    if not url or "://" not in url or not ("@" in url or "?" in url):  # asked of every turn's endpoint
        return
    for found in _USER_INFO.finditer(url):
        yield from _user_info(kind, found[1])
    for pair in url.partition("?")[2].partition("#")[0].split("&"):
        name, _, value = pair.partition("=")
        if not value:
            name, value = "", name
        if _PARAMETER.search(name) or _MIXED.fullmatch(value):
            for text in dict.fromkeys((value, urllib.parse.unquote(value), urllib.parse.unquote_plus(value))):
                yield KnownSecret(f"{kind}'s query", text)


def _user_info(kind: str, text: str) -> Iterator[KnownSecret]:
    for spelling in dict.fromkeys((text, urllib.parse.unquote(text))):
        yield KnownSecret(kind, spelling)
        yield from _password_of(kind, spelling)


def _password_of(kind: str, text: str) -> Iterator[KnownSecret]:
    password = text.partition(":")[2]
    if password:
        yield KnownSecret(kind, password)


# --- where text leaves ------------------------------------------------------------------------------------------------


class HidingStream:
    """A stream that writes everything without the known secrets; in all else it is the stream it was made of."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def write(self, text: str) -> int:
        """Write a text; a secret that comes in several pieces is not found."""
        self._stream.write(KNOWN.hide(text))
        return len(text)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


class _HidingFactory:
    """Makes records of which no handler, formatter or later reader sees a secret, whichever logger they are of.

    :param make: what makes records otherwise. A library may have put its own factory around one of ours: then this is
        around that one, and each hides what it is given.
    """

    def __init__(self, make: Callable[..., logging.LogRecord]) -> None:
        self.make = make

    def __call__(self, *given: Any, **named: Any) -> logging.LogRecord:
        record = self.make(*given, **named)
        try:
            message = record.getMessage()
        except Exception:  # the arguments do not fit; the handler of the record says so, and shows them
            record.args = tuple(KNOWN.hide(str(a)) for a in args) if isinstance(args := record.args, tuple) else ()
            return record
        hidden = KNOWN.hide(message)
        if hidden != message:
            record.msg, record.args = hidden, ()
        if record.exc_info and record.exc_info[1] is not None:
            trace = "".join(traceback.format_exception(record.exc_info[1])).rstrip("\n")
            hidden = KNOWN.hide(trace)
            if hidden != trace:
                record.exc_info, record.exc_text = None, hidden
        return record


def _watch_log(wanted: bool) -> None:
    current = logging.getLogRecordFactory()
    if wanted and not isinstance(current, _HidingFactory):
        logging.setLogRecordFactory(_HidingFactory(current))
    elif not wanted and isinstance(current, _HidingFactory):
        logging.setLogRecordFactory(current.make)


def _octets(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")
