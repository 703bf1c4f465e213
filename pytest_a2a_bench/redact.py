"""The secrets of this process, and functions that hide them in everything that is written or shown.

Code that reads a secret registers it in :data:`KNOWN`; code that writes a file or shows a text lets it hide them.
Everything that hides one does it by :func:`hide_secrets`: in errors, in the HTTP client's log, in transcripts, and in
the evidence of a conformance check. Messages to and from agents stay as they are: only output is changed.
"""

from __future__ import annotations

import base64
import functools
import hmac
import html
import itertools
import json
import logging
import re
import threading
import traceback
import urllib.parse
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, TextIO

from pytest_a2a_bench.errors import A2ABenchError

HIDDEN = "***"
MINIMUM = 8
"""A secret with fewer characters is only hidden where it stands alone: it is part of too many words."""

_HEAD = 4
_FRAGMENT = 8
_CUT = re.compile(r"\Z|['\"]?\.\.\.")


def hide_secrets(text: str, secrets: Iterable[str], *, least: int = _HEAD) -> str:
    """Replace secrets by ``***``, in every spelling that a request or a report gives them.

    These are: as they are, escaped for a URL, JSON, Python or HTML, and as base64, alone or in a longer text as in
    HTTP's basic credentials. Long beginnings of them are replaced, too, and short ones where the text was cut off: a
    shortened text may end within one.

    :param least: how many characters of a beginning are hidden where the text was cut off. Where that is not 4,
        beginnings that are words or numbers are left; ask for less where each word of a text counts.
    """
    plain: str | None = None
    for secret in secrets:
        for form in _forms(secret):
            if plain is None:
                plain = _unescaped(text)
            if form.may_be_in(text, plain):
                text = form.hide(text, least)
    return text


class _Form:
    """One spelling of a secret, to be found however each of its characters is escaped.

    :param choices: for each character those that may stand for it; backslashes in a row count as one.
    :param tail: choices for the character after it, if it is part of the secret, too.
    """

    def __init__(self, choices: Sequence[str], tail: str = "", *, is_short: bool) -> None:
        patterns = [_choice(c) for c in choices]
        self._characters = [[*map(_compiled, p)] for p in patterns]
        self._tail = [*map(_compiled, _choice(tail))] if tail else []
        self._is_short = is_short
        head = "".join(f"(?:{'|'.join(p)})" for p in patterns[:_HEAD])
        self._head = re.compile(("(?<![A-Za-z0-9])" if is_short else "") + head)
        self._telling = max(_FRAGMENT, len(choices) // 2)
        # What does not follow from the text alone (a choice, a character of several octets) is looked for each time.
        clear = "".join(itertools.takewhile(lambda c: len(c) == 1 and c.isascii() and c.isprintable(), choices))
        self._heads = {clear[:_HEAD], _unescaped(clear)[:_HEAD], _unescaped(clear[:_HEAD])}
        self._raw_head = clear[:_HEAD]

    def may_be_in(self, text: str, plain: str) -> bool:
        """Return quickly whether a look is worthwhile: this is asked about every form and nearly every answer is no.

        :param plain: the text without escapes.
        """
        return self._raw_head in text or any(head in plain for head in self._heads)

    def hide(self, text: str, least: int) -> str:
        """Return the text with ``***`` wherever this spelling, or a telling part of it, stands."""
        kept: list[str] = []
        start = 0
        found = self._head.search(text)
        while found is not None:
            end = self._end(text, found, least)
            if end is None:  # the secret may begin within what looked like its beginning
                found = self._head.search(text, found.start() + 1)
                continue
            kept += [text[start : found.start()], HIDDEN]
            start = end
            found = self._head.search(text, start)
        return "".join([*kept, text[start:]])

    def _end(self, text: str, found: re.Match[str], least: int) -> int | None:
        """Return where a secret ends whose head was found, or None if it is none."""
        # More than one, because "%25" may be a percent sign, or three characters of the secret.
        ends, count = {found.start()}, 0
        for character in self._characters:
            following = _ends(character, text, ends)
            if not following:
                break
            ends, count = following, count + 1
        end = max(ends)
        if count == len(self._characters):
            if self._is_short and text[end : end + 1].isalnum():
                return None
            return max(_ends(self._tail, text, ends), default=end)
        telling = count >= self._telling or (count >= least and _CUT.match(text, end))
        if self._is_short or not telling or (least > _HEAD and is_plain(text[found.start() : end])):
            return None
        return end


def _ends(alternatives: Iterable[re.Pattern[str]], text: str, starts: Iterable[int]) -> set[int]:
    matches = (one.match(text, start) for start in starts for one in alternatives)
    return {match.end() for match in matches if match is not None}


def is_plain(text: str) -> bool:
    """Return whether a text is a number or a lower-case word, of which any text is full."""
    return re.fullmatch(r"[\d.]+|[a-z_]+", text) is not None


@functools.lru_cache(maxsize=512)
def _forms(secret: str) -> tuple[_Form, ...]:
    if not secret:
        return ()
    raw = secret.encode("utf-8", "surrogatepass")
    is_short = len(secret) < MINIMUM
    spellings = [(tuple(re.findall(r"\\+|[^\\]", secret, re.DOTALL)), "")]
    if is_short:  # it has to stand alone, and so exactly
        spellings.append((tuple(base64.b64encode(raw).decode().rstrip("=")), ""))
    else:
        spellings += [_base64(raw, shift) for shift in range(3)]
    return tuple(_Form(choices, tail, is_short=is_short) for choices, tail in dict.fromkeys(spellings) if choices)


_ALPHABET = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"
_URLSAFE = {"+": "+-", "/": "/_"}


def _base64(raw: bytes, shift: int) -> tuple[tuple[str, ...], str]:
    """Return what octets are in base64 where ``shift`` (0 to 2) others precede them, and the last character's choice.

    At both ends a character may hold bits of a neighbour. The first is left where it stands.
    """
    encoded = base64.b64encode(b"\0" * shift + raw).decode().rstrip("=")
    whole = (shift + len(raw)) * 8 // 6
    tail = ""
    if whole < len(encoded):
        known = _ALPHABET.index(encoded[whole])
        tail = "".join(_ALPHABET[known : known + (4 if (shift + len(raw)) % 3 == 2 else 16)])
    first = {0: 0, 1: 2, 2: 3}[shift]
    return tuple(_URLSAFE.get(c, c) for c in encoded[first:whole]), tail


_compiled = functools.lru_cache(maxsize=1024)(re.compile)


def _choice(characters: str) -> list[str]:
    if len(characters) > 1 and characters[0] == "\\":
        number = len(characters)
        written = (r"\\{1,64}u(?i:005c)", r"\\{1,64}x(?i:5c)", "%(?:25){0,2}(?i:5c)", "&#0*92;", "&#[xX]0*(?i:5c);")
        return [*(rf"(?:{one}){{{number}}}" for one in written), rf"\\{{{number},{64 * number}}}"]
    return [*itertools.chain.from_iterable(map(_character, characters))]


_LETTERS = {"\n": "n", "\r": "r", "\t": "t"}


@functools.lru_cache(maxsize=1024)
def _character(c: str) -> tuple[str, ...]:
    """Return patterns for one character: itself, after backslashes, percent-encoded (repeatedly), or an entity.

    Each of them begins with a literal character, so that a search can skip what begins no secret.
    """
    raw = c.encode("utf-8", "surrogatepass")
    units = c.encode("utf-16-be", "surrogatepass")
    escapes = [
        r"\\{1,64}".join(f"u(?i:{units[i : i + 2].hex()})" for i in range(0, len(units), 2)),
        r"\\{1,64}".join(f"x(?i:{b:02x})" for b in raw),
    ]
    if c != "\\":
        escapes.append(re.escape(_LETTERS.get(c, c)))
    after_backslash = rf"\\\\{{0,63}}(?:{'|'.join(escapes)})"
    octets = ["".join(rf"%(?:25){{{again}}}(?i:{b:02x})" for b in raw) for again in range(3)]
    forms = [after_backslash, *octets, f"&#0*{ord(c)};", f"&#[xX]0*(?i:{ord(c):x});"]
    if html.escape(c) != c:
        forms.append(re.escape(html.escape(c)))
    if c == " ":
        forms.append(r"\+")
    forms.append(r"\\\\{0,63}" if c == "\\" else re.escape(c))
    return tuple(forms)


_BACKSLASHED = re.compile(r"\\+(?:u([0-9A-Fa-f]{4})|x([0-9A-Fa-f]{2})|([nrt]))")
_PERCENT = re.compile(r"%(?:25)*([0-9A-Fa-f]{2})")
_ENTITY = re.compile(r"&(?:#0*(\d{1,6})|#[xX]0*([0-9A-Fa-f]{1,5})|(amp|lt|gt|quot|apos));")
_NAMED = {"amp": "&", "lt": "<", "gt": ">", "quot": '"', "apos": "'"}


def _unescaped(text: str) -> str:
    """Return a text as it might have been before it was escaped; only good for telling that something is not in it."""
    # A secret may look escaped itself. Four passes at most: hostile text could need one for every few characters.
    for _ in range(4):
        before, text = text, _unescaped_once(text)
        if text == before:
            break
    return text


def _unescaped_once(text: str) -> str:
    if "%" in text:
        text = _PERCENT.sub(lambda m: chr(int(m[1], 16)), text)
    if "\\" in text:
        if "\\u" in text or "\\x" in text:
            text = _BACKSLASHED.sub(lambda m: chr(int(m[1] or m[2], 16)) if m[1] or m[2] else m[0], text)
        text = text.replace("\\", "")
    if "&" in text:
        text = _ENTITY.sub(lambda m: _NAMED[m[3]] if m[3] else chr(int(m[1]) if m[1] else int(m[2], 16)), text)
    return text.replace("+", " ")


def redact_url(url: str, *, query: bool = True) -> str:
    """Return a URL without its ``user:password@``; a text that is no URL stays as it is.

    :param query: whether its query, in which some services take a key, may stay.
    """
    head, separator, rest = url.partition("://")
    if separator and not query:
        rest = re.split("[?#]", rest, maxsplit=1)[0]
    authority, slash, path = rest.partition("/")
    return f"{head}{separator}{authority.rpartition('@')[2]}{slash}{path}"


def hide_in_error(error: BaseException | None, secrets: Sequence[str]) -> None:
    """Take secrets out of an error's message, and cut off causes of it that show them: those are not ours to change."""
    seen: set[int] = set()
    while secrets and error is not None and id(error) not in seen:
        seen.add(id(error))
        if isinstance(error, A2ABenchError):
            error.args = tuple(hide_secrets(a, secrets) if isinstance(a, str) else a for a in error.args)
        if _shows(error.__cause__, secrets):
            error.__cause__ = None
        if _shows(error.__context__, secrets):
            error.__context__ = None
        error = error.__cause__ or error.__context__


def _shows(error: BaseException | None, secrets: Sequence[str]) -> bool:
    if error is None or isinstance(error, A2ABenchError):
        return False
    shown = f"{error}\n{error!r}\n"
    return hide_secrets(shown, secrets) != shown


class Secret:
    """A text whose ``repr`` and ``str`` are redacted; :meth:`reveal` returns it."""

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
    """The headers and parameters of authentication: names that may be shown, and values that may not."""

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
    """A secret and its name, such as the environment variable that holds it."""

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
        """Hide some secrets from now on, and return a function that ends it."""
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

    def kinds_in(self, *texts: str, sent: Iterable[str] = ()) -> tuple[str, ...]:
        """Return the names of the secrets that occur in texts.

        :param sent: the text that its author received: secrets in it are not counted.
        """
        found = [s for s in self._secrets if any(_holds(text, s.text) for text in texts if text)]
        return tuple(dict.fromkeys(s.kind for s in found if not any(_holds(text, s.text) for text in sent if text)))


def _holds(text: str, secret: str) -> bool:
    return hide_secrets(text, (secret,), least=MINIMUM) != text


KNOWN = KnownSecrets()
"""Everything that leaves this process is asked of this."""


_LONGEST_WORD = 20


def is_telling(text: str) -> bool:
    """Return whether a secret differs from other text, so that hiding it everywhere leaves the rest readable.

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

    :param kind: the subject in messages, such as ``the endpoint``.
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
