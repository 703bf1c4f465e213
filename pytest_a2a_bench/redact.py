"""Text from elsewhere, made harmless for terminals and reports, and without our secrets.

Everything that hides a secret does it by :func:`hide_secrets`: in errors, in the HTTP client's log, in transcripts, and
in the evidence of a conformance check.
"""

from __future__ import annotations

import base64
import functools
import html
import logging
import re
import unicodedata
from collections.abc import Iterable, Sequence

from pytest_a2a_bench.errors import A2ABenchError

_SHOWN = 400
_ESCAPES = re.compile(
    r"\x1b(?:\[[0-?]*[ -/]*[@-~]|[\]PX^_].*?(?:\x1b\\|\x07|$)|[ -/]*[0-~])|\x9b[0-?]*[ -/]*[@-~]", re.S
)


_BREAKS = re.compile("[\u2028\u2029]")
# Each is obeyed only as it stands, so a space in it is enough, and people still read what was said.
_COMMANDS = (
    # GitHub: "::name key=value::", at the beginning of a line, behind any kind of blank.
    (re.compile(r"^([^\S\n]*):(?=:)", re.MULTILINE), r"\1: "),
    # GitHub's older "##[name]" and Azure's "##vso[...]", "##[group]", TeamCity's "##teamcity[...]": anywhere in a line.
    (re.compile(r"##(?=\w*\[)"), "## "),
    # GitLab: "section_start:SECONDS:NAME", "section_end:...", which end in characters that are removed anyway.
    (re.compile(r"(section_(?:start|end)):(?=\d)", re.IGNORECASE), r"\1 :"),
)


def sanitise(text: str) -> str:
    """Make a text harmless where it is shown, in a terminal, a log of CI or a report; line breaks and tabs stay.

    Escape sequences and control, bidirectional and invisible characters are removed. What a log of GitHub, GitLab,
    Azure or TeamCity would obey is broken by a space.
    """
    plain = _BREAKS.sub("\n", _ESCAPES.sub("", text.replace("\r\n", "\n")))
    if not plain.isprintable():  # nearly always it is, which is a hundred times faster than to look at each character
        plain = "".join(c for c in plain if c in "\n\t" or unicodedata.category(c) not in ("Cc", "Cf", "Cs", "Co"))
    for command, broken in _COMMANDS:
        plain = command.sub(broken, plain)
    return plain


def one_line(text: str, limit: int = _SHOWN) -> str:
    """Return sanitised text on one line, shortened."""
    plain = " ".join(sanitise(text).split())
    return plain if len(plain) <= limit else plain[: limit - 3] + "..."


# A logger's filter does not see what its children log, so each of these has to have it.
_LOGGERS = (
    "httpx",
    "httpcore.connection",
    "httpcore.http11",
    "httpcore.http2",
    "httpcore.proxy",
    "httpcore.socks",
)

HIDDEN = "***"
_SHORT = 4
"""A secret shorter than this is only hidden where it stands alone: it is part of too many words."""

_FRAGMENT = 8
_CUT = re.compile(r"\Z|['\"]?\.\.\.")


def hide_secrets(text: str, secrets: Iterable[str]) -> str:
    """Replace secrets by ``***``: as they are, escaped for a URL, JSON or HTML, and as HTTP's basic credentials.

    So are long beginnings of them, and short ones where the text was cut off: a shortened text may end within one.
    """
    for secret in secrets:
        for form in _forms(secret):
            text = form.hide(text)
    return text


class _Form:
    """One spelling of a secret, to be found however each of its characters is escaped."""

    def __init__(self, secret: str) -> None:
        self._characters = [re.compile(_character(c)) for c in secret]
        whole = "".join(p.pattern for p in self._characters)
        self._is_short = len(secret) < _SHORT
        self._whole = re.compile(rf"(?<![A-Za-z0-9]){whole}(?![A-Za-z0-9])" if self._is_short else whole)
        self._head = re.compile("".join(p.pattern for p in self._characters[:_SHORT]))
        self._telling = max(_FRAGMENT, len(secret) // 2)

    def hide(self, text: str) -> str:
        text = self._whole.sub(HIDDEN, text)
        return text if self._is_short else self._hide_fragments(text)

    def _hide_fragments(self, text: str) -> str:
        kept: list[str] = []
        start = 0
        for found in self._head.finditer(text):
            end, count = found.end(), _SHORT
            for character in self._characters[_SHORT:]:
                following = character.match(text, end)
                if following is None:
                    break
                end, count = following.end(), count + 1
            if found.start() >= start and (count >= self._telling or _CUT.match(text, end)):
                kept += [text[start : found.start()], HIDDEN]
                start = end
        return "".join([*kept, text[start:]])


@functools.lru_cache(maxsize=64)
def _forms(secret: str) -> tuple[_Form, ...]:
    raw = secret.encode("utf-8", "surrogatepass")
    encoded = (base64.b64encode(raw), base64.urlsafe_b64encode(raw))
    spellings = [secret, *(e.decode().rstrip("=") for e in encoded)]
    return tuple(_Form(s) for s in dict.fromkeys(spellings) if s)


def _character(c: str) -> str:
    """Return a pattern for one character: itself, after backslashes, percent-encoded (repeatedly), or an entity."""
    if c == "\\":
        plain = r"\\{1,4}"
    else:
        plain = r"\\{0,4}" + re.escape(c)
    octets = "".join(rf"%(?:25){{0,2}}(?i:{b:02x})" for b in c.encode("utf-8", "surrogatepass"))
    forms = [plain, octets, rf"\\{{1,4}}u(?i:{ord(c):04x})"]
    if c == " ":
        forms.append(r"\+")
    if html.escape(c) != c:
        forms += [re.escape(html.escape(c)), f"&#0*{ord(c)};"]
    return f"(?:{'|'.join(forms)})"


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


class SecretFilter(logging.Filter):
    """Rewrites what the HTTP client logs (URLs at INFO, headers of answers at DEBUG) without the secrets.

    :param secrets: of one connection; other connections have filters of their own.
    """

    def __init__(self, secrets: Sequence[str]) -> None:
        super().__init__()
        self._secrets = tuple(secrets)

    def install(self) -> None:
        """Begin."""
        for name in _LOGGERS if self._secrets else ():
            logging.getLogger(name).addFilter(self)

    def remove(self) -> None:
        """End."""
        for name in _LOGGERS:
            logging.getLogger(name).removeFilter(self)

    def filter(self, record: logging.LogRecord) -> bool:
        """Let every record pass, changed where it must be."""
        message = record.getMessage()
        hidden = hide_secrets(message, self._secrets)
        if hidden != message:
            record.msg, record.args = hidden, ()
        return True
