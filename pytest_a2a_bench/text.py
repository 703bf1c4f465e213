"""Text for people: made harmless for terminals and reports; the nearest valid name to a wrong one; and a line that says
what a long step waits for.
"""

from __future__ import annotations

import contextlib
import re
import sys
import threading
import time
import unicodedata
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeVar

from pytest_a2a_bench.errors import A2ABenchError, ConfigurationError

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


def listed(names: Sequence[str], most: int) -> str:
    """Return the first names, separated by commas, and how many more there are."""
    return ", ".join(names[:most]) + (f" and {len(names) - most} more" if len(names) > most else "")


def times(found: Counter[str]) -> str:
    """Return counted values, the most frequent first: ``3x timeout, 1x reset``."""
    return ", ".join(f"{number}x {value}" for value, number in found.most_common())


def shares(found: Mapping[Any, int], none: str = "none") -> str:
    """Return the first values with how often each occurred, ``scripted (3), llm (1)``; of one value it alone."""
    if len(found) <= 1:
        return str(next(iter(found), none))
    return listed([f"{value} ({number:,})" for value, number in Counter(found).most_common()], 8)


def p_value(p: float, equals: str = "") -> str:
    """Return a p-value: ``0.023``, ``< 0.001``.

    :param equals: stands before a number, as ``"= "`` does in a sentence.
    """
    return "< 0.001" if p < 0.001 else f"{equals}{p:.3f}"


def reason_of(error: Exception) -> str:
    """Return the reason of an error with a file or an address, whose name the message that quotes it has."""
    if isinstance(error, UnicodeDecodeError):
        return f"not UTF-8 (byte {error.start})"
    # Python adds the address, which the message has, to a refusal to bind it.
    return str(getattr(error, "strerror", None) or error).partition(" (while attempting to bind")[0]


@contextlib.contextmanager
def refusing(
    what: str,
    remedy: str = "",
    raises: type[A2ABenchError] = ConfigurationError,
    errors: tuple[type[Exception], ...] = (OSError, UnicodeDecodeError),
) -> Iterator[None]:
    """Turn an error with a file or an address that the user named, in a ``with`` block, into one of ours.

    :param what: how its message begins: ``FILE cannot be read``.
    :param remedy: how it ends.
    """
    try:
        yield
    except errors as error:
        raise raises(f"{what}: {reason_of(error)}{remedy and '; '}{remedy}") from error


def did_you_mean(names: str | Iterable[str], valid: Iterable[str]) -> str:
    """Return ``; did you mean 'airline'?``, or nothing where no name is near.

    :param names: one that is unknown, or several.
    """
    unknown = [names] if isinstance(names, str) else list(names)
    every = list(valid)
    near = [found for name in unknown for found in nearest(name, every, 1)]
    near = [name for name in dict.fromkeys(near) if name not in unknown]
    return f"; did you mean {' and '.join(map(repr, near))}?" if near else ""


def nearest(name: str, valid: Iterable[str], most: int, cutoff: float = 0.6) -> list[str]:
    """Return the valid names that are most like one, best first.

    :param most: how many there may be.
    :param cutoff: the lowest likeness, from 0 to 1.
    """
    from difflib import get_close_matches  # for messages only; most processes write none

    # By case and leading zeros names differ most often; a name is shown as it is valid.
    spelt = {_plain(one): one for one in valid}
    return [spelt[found] for found in get_close_matches(_plain(name), spelt, most, cutoff)]


def _plain(name: str) -> str:
    return re.sub(r"(?<!\d)0+(?=\d)", "", name.lower())


T = TypeVar("T")

PATIENCE = 3.0
"""Seconds after which a wait is announced."""
_EVERY = 5.0


def _to_stderr(line: str) -> None:
    print(f"a2a-bench: {line}", file=sys.stderr, flush=True)


_SAY: list[Callable[[str], None]] = [_to_stderr]


def announce_with(say: Callable[[str], None]) -> Callable[[], None]:
    """Let another function write the announcements; return a function that undoes it."""
    _SAY.append(say)
    return lambda: _SAY.remove(say)


@contextlib.contextmanager
def waiting_for(what: str) -> Iterator[None]:
    """Announce the reason of a wait, if the block takes more than three seconds."""
    timer = threading.Timer(PATIENCE, lambda: _SAY[-1](f"waiting for {what} ..."))
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


def counted(items: Sequence[T], what: str) -> Iterator[T]:
    """Yield items; every five seconds, announce how many are done and how long the rest will take.

    :param what: the items in the plural, for the line: ``checks``.
    """
    first = last = time.monotonic()
    for done, item in enumerate(items):
        now = time.monotonic()
        if done == 1:
            first = now  # the first one may have loaded what the others need, and says nothing about them
        if done and now - last >= _EVERY:
            last = now
            # The first few of an uneven series say little about the rest.
            known = done > max(1, len(items) // 5)
            left = f", about {(now - first) / (done - 1) * (len(items) - done):,.0f} s left" if known else ""
            _SAY[-1](f"{done:,} of {len(items):,} {what}{left}")
        yield item
