"""Text from elsewhere, made harmless for terminals and reports, and without our secrets.

Everything that hides a secret does it by :func:`hide_secrets`: in errors, in the HTTP client's log, in transcripts, and
in the evidence of a conformance check.
"""

from __future__ import annotations

import base64
import functools
import html
import itertools
import re
import unicodedata
from collections.abc import Iterable, Sequence

from pytest_a2a_bench.errors import A2ABenchError

_SHOWN = 400
_ESCAPES = re.compile(
    r"\x1b(?:\[[0-?]*[ -/]*[@-~]|[\]PX^_].*?(?:\x1b\\|\x07|$)|[ -/]*[0-~])|\x9b[0-?]*[ -/]*[@-~]", re.S
)


_REMOVED = frozenset({"Cc", "Cf", "Cs", "Co"})
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
    # Nearly every text is like this, and nothing below would change it.
    if text.isprintable() and ":" not in text and "#" not in text:
        return text
    plain = _BREAKS.sub("\n", _ESCAPES.sub("", text.replace("\r\n", "\n")))
    # Characters that occur are few, so each is looked at once.
    removed = {ord(c): None for c in set(plain) if c not in "\n\t" and unicodedata.category(c) in _REMOVED}
    if removed:
        plain = plain.translate(removed)
    for command, broken in _COMMANDS:
        plain = command.sub(broken, plain)
    return plain


def one_line(text: str, limit: int = _SHOWN) -> str:
    """Return sanitised text on one line, shortened."""
    plain = " ".join(sanitise(text).split())
    return plain if len(plain) <= limit else plain[: limit - 3] + "..."


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
    :param tail: what the character after it may be, if it is part of the secret, too.
    """

    def __init__(self, choices: Sequence[str], tail: str = "", *, is_short: bool) -> None:
        patterns = [_choice(c) for c in choices]
        self._characters = [_compiled(p) for p in patterns]
        self._tail = _compiled(_choice(tail)) if tail else None
        self._is_short = is_short
        self._head = re.compile(("(?<![A-Za-z0-9])" if is_short else "") + "".join(patterns[:_HEAD]))
        self._telling = max(_FRAGMENT, len(choices) // 2)
        # What does not follow from the text alone (a choice, a character of several octets) is looked for each time.
        clear = "".join(itertools.takewhile(lambda c: len(c) == 1 and c.isascii() and c.isprintable(), choices))
        self._heads = {clear[:_HEAD], _unescaped(clear)[:_HEAD], _unescaped(clear[:_HEAD])}
        self._raw_head = clear[:_HEAD]

    def may_be_in(self, text: str, plain: str) -> bool:
        """Tell quickly whether it is worth looking: this is asked about every form and nearly every answer is no.

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
        end, count = found.end(), min(_HEAD, len(self._characters))
        for character in self._characters[count:]:
            following = character.match(text, end)
            if following is None:
                break
            end, count = following.end(), count + 1
        if count == len(self._characters):
            if self._is_short and text[end : end + 1].isalnum():
                return None
            last = self._tail.match(text, end) if self._tail is not None else None
            return last.end() if last is not None else end
        telling = count >= self._telling or (count >= least and _CUT.match(text, end))
        if self._is_short or not telling or (least > _HEAD and is_plain(text[found.start() : end])):
            return None
        return end


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


def _choice(characters: str) -> str:
    if len(characters) > 1 and characters[0] == "\\":
        number = len(characters)
        written = (r"\\{1,64}u(?i:005c)", r"\\{1,64}x(?i:5c)", "%(?:25){0,2}(?i:5c)", "&#0*92;", "&#[xX]0*(?i:5c);")
        runs = [rf"(?:{one}){{{number}}}" for one in written]
        return f"(?:{'|'.join(runs)}|" + rf"\\{{{number},{64 * number}}})"
    return "(?:" + "|".join(map(_character, characters)) + ")"


_LETTERS = {"\n": "n", "\r": "r", "\t": "t"}


@functools.lru_cache(maxsize=1024)
def _character(c: str) -> str:
    """Return a pattern for one character: itself, after backslashes, percent-encoded (repeatedly), or an entity.

    Each alternative begins with a literal character, so that a search can skip what begins no secret.
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
    octets = "".join(rf"%(?:25){{0,2}}(?i:{b:02x})" for b in raw)
    # The longer first: what was found of a character is not looked at again.
    forms = [after_backslash, octets, f"&#0*{ord(c)};", f"&#[xX]0*(?i:{ord(c):x});"]
    if html.escape(c) != c:
        forms.append(re.escape(html.escape(c)))
    if c == " ":
        forms.append(r"\+")
    forms.append(r"\\\\{0,63}" if c == "\\" else re.escape(c))
    return "|".join(forms)


_BACKSLASHED = re.compile(r"\\+(?:u([0-9A-Fa-f]{4})|x([0-9A-Fa-f]{2})|([nrt]))")
_PERCENT = re.compile(r"%(?:25)*([0-9A-Fa-f]{2})")
_ENTITY = re.compile(r"&(?:#0*(\d{1,6})|#[xX]0*([0-9A-Fa-f]{1,5})|(amp|lt|gt|quot|apos));")
_NAMED = {"amp": "&", "lt": "<", "gt": ">", "quot": '"', "apos": "'"}


def _unescaped(text: str) -> str:
    """Return a text as it might have been before it was escaped; only good for telling that something is not in it."""
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
