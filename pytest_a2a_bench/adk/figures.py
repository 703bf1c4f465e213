"""Numbers in a text, held against the numbers that there are (pure).

A number is there if a result has it, exactly or rounded as the text has it; with a percent sign it has to be there as a
percentage. Words are numbers too, from ``two`` to ``ninety``, but for ``one``, which mostly is none.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

_ONES = ("zero", "", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve")
_TEENS = ("thirteen", "fourteen", "fifteen", "sixteen", "seventeen", "eighteen", "nineteen")
_TENS = ("twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety")
_WORDS = {
    **{word: float(value) for value, word in enumerate((*_ONES, *_TEENS)) if word},
    **{word: 10.0 * value for value, word in enumerate(_TENS, 2)},
    "hundred": 100.0,
    "thousand": 1000.0,
    "dozen": 12.0,
}
_PERCENT = r"(?:\s*(?:%|percent\b|per cent\b|percentage))"
_NUMBER = re.compile(
    rf"(?<![\w.])[-+]?(?P<digits>\d+(?:,\d{{3}})+(?:\.\d+)?|\d+(?:\.\d+)?(?:[eE][-+]?\d+)?)(?P<percent>{_PERCENT})?"
    rf"|\b(?P<word>{'|'.join(_WORDS)})\b(?P<words_percent>{_PERCENT})?",
    re.IGNORECASE,
)
_TASKS = r"\b(?:tasks?|ids?|task_ids?)\b(?:\s+ids?\b)?[\s:#\"'`\[(]*"
_LEAST_ROUNDED = 10.0
"""From here on a number may be rounded to a whole one: 66.7 to 67, and 0.7 not to 1."""


@dataclass(frozen=True, slots=True)
class Figures:
    """Numbers that a text may have.

    :param plain: as they are; ``percent`` are percentages.
    :param names: ids that may be named, whose digits are no numbers.
    """

    plain: frozenset[float] = frozenset()
    percent: frozenset[float] = frozenset()
    names: frozenset[str] = frozenset()

    @classmethod
    def of(
        cls, facts: Any, counts: Mapping[str, int], names: Iterable[str], percentages: Iterable[float] = ()
    ) -> Figures:
        """Find the numbers of a JSON value, in its numbers and texts.

        :param counts: numbers of things, of which percentages may be made, each of each that is not smaller.
        :param percentages: numbers that are percentages without a sign.
        """
        plain, percent = set[float](), set[float]()
        known = tuple(dict.fromkeys(names))
        for value in _values(facts):
            if isinstance(value, str):
                for number, is_percent, _ in _numbers(_without(value, known)):
                    (percent if is_percent else plain).add(number)
            else:
                plain.add(float(value))
        plain |= set(map(float, counts.values()))
        shares = {100.0 * a / b for a in counts.values() for b in counts.values() if b and a <= b}
        # A rate of 0.6 is 60 %.
        rates = {100.0 * number for number in plain if 0 <= number <= 1}
        return cls(frozenset(plain), frozenset(percent | shares | rates | set(percentages)), frozenset(known))

    def strangers(self, text: str) -> list[str]:
        """Return the numbers of a text that are not there, as they are written."""
        rest = _without(text, self.names)
        return [
            written
            for number, is_percent, written in _numbers(rest)
            if not _is_among(number, _decimals(written), self.percent if is_percent else self.plain)
        ]


def _values(facts: Any) -> Iterator[float | str]:
    if isinstance(facts, Mapping):
        for value in facts.values():
            yield from _values(value)
    elif isinstance(facts, list | tuple):
        for value in facts:
            yield from _values(value)
    elif isinstance(facts, str | int | float) and not isinstance(facts, bool):
        yield facts


def _numbers(text: str) -> Iterator[tuple[float, bool, str]]:
    """Yield each number, whether it is a percentage, and how it is written."""
    for match in _NUMBER.finditer(text):
        if match["digits"] is not None:
            number = float(match["digits"].replace(",", ""))
        else:
            number = _WORDS[match["word"].lower()]
        yield number, bool(match["percent"] or match["words_percent"]), match[0].strip()


def _decimals(written: str) -> int:
    found = re.search(r"\.(\d+)", written)
    return len(found[1]) if found else 0


def _is_among(number: float, decimals: int, known: Iterable[float]) -> bool:
    return any(
        abs(number - one) < 1e-9
        or ((decimals or abs(one) >= _LEAST_ROUNDED) and abs(number - one) <= 0.5 * 10**-decimals + 1e-9)
        for one in known
    )


def _without(text: str, names: Iterable[str]) -> str:
    """Return a text without ids: words of their own anywhere, and mere numbers where it speaks of tasks."""
    words = sorted((name for name in names if not name.isdigit()), key=len, reverse=True)
    for word in words:
        if word in text:
            text = re.sub(rf"(?<!\w){re.escape(word)}(?!\w)", " ", text)
    digits = {name for name in names if name.isdigit()}
    if not digits:
        return text
    one = r"[\"'`]?\d+[\"'`]?"
    several = re.compile(
        rf"({_TASKS})({one}(?:(?:\s*,\s*(?:and\s+)?|\s+and\s+|\s*&\s*){one})*)(?![\w.%])", re.IGNORECASE
    )
    return several.sub(lambda m: m[1] + _other_numbers(m[2], digits), text)


def _other_numbers(text: str, digits: set[str]) -> str:
    return re.sub(r"\d+", lambda m: " " if m[0] in digits else m[0], text)
