"""Reading a judge's answer: the JSON that a language model was asked for, in the forms in which models write it.

The values are found tolerantly (``json_repair``), but a verdict is never guessed: each expected outcome needs a result
of its own that says true or false.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pytest_a2a_bench.errors import MissingExtraError
from pytest_a2a_bench.redact import one_line

_MET = "metexpectation"

_NUMBER = ("number", "index", "id", "position")
"""Members of a result that may hold the number of its expected outcome."""

_LISTED = re.compile(r"\A\W*(\d+)\s*(?:[.):\]-]|\Z)\s*")
"""The number before an expected outcome: ``1. The agent ...``."""


class UnusableAnswerError(ValueError):
    """What is wrong with a judge's answer, in words that the judge is asked again with."""


@dataclass(frozen=True)
class Result:
    """A judge's result for one expected outcome."""

    met: bool
    reasoning: str


def read_results(text: str, expected: Sequence[str]) -> list[Result]:
    """Return the result of each expected outcome, in their order.

    A result is an object with ``metExpectation``. It belongs to the outcome whose text its ``expectedOutcome`` repeats
    (but for case, spaces and punctuation), or else whose number it gives.

    :raises UnusableAnswerError: unless each expected outcome has exactly one result, and each says true or false.
    """
    value = _parse(text)
    results = list(_objects(value, _MET))
    if len(results) > len(expected) and isinstance(value, list) and _MET not in _plain(value[-1]):
        # Models write drafts before the answer that they mean.
        results = list(_objects(value[-1], _MET))
    if len(results) != len(expected):
        raise UnusableAnswerError(f"it has {len(results)} results for {len(expected)} expected outcomes")
    found: dict[int, Result] = {}
    for result, place in zip(results, _places(results, expected), strict=True):
        if place is None or place in found:
            continue
        met = read_bool(result[_MET])
        if met is None:
            raise UnusableAnswerError("a metExpectation is neither true nor false")
        found[place] = Result(met, str(result.get("reasoning") or ""))
    for place, outcome in enumerate(expected):
        if place not in found:
            raise UnusableAnswerError(
                f'no result has the expectedOutcome "{one_line(outcome, 200)}", which is to be repeated word for word'
            )
    return [found[place] for place in range(len(expected))]


def read_object(text: str, member: str) -> Mapping[str, Any]:
    """Return the last object that has a member; names of members are in lower case, without separators.

    :raises UnusableAnswerError: if there is none.
    """
    found = list(_objects(_parse(text), member))
    if not found:
        raise UnusableAnswerError(f"it has no {member!r}")
    return found[-1]


def read_bool(value: Any) -> bool | None:
    """Return a truth value that may be written as a text or a number; None for anything else."""
    if isinstance(value, str):
        return {"true": True, "false": False}.get(value.strip().lower())
    return bool(value) if isinstance(value, int) and value in (0, 1) else None


def read_text(text: str) -> str:
    """Return an answer in words.

    :raises UnusableAnswerError: if there is none.
    """
    if not text.strip():
        raise UnusableAnswerError("it is empty")
    return text


def _parse(text: str) -> Any:
    try:
        from json_repair import loads
    except ImportError as error:
        raise MissingExtraError("json-repair", "tau2", detail="the judge needs it") from error
    read_text(text)
    try:
        value = loads(text)
    except (ValueError, RecursionError) as error:
        raise UnusableAnswerError("it is not JSON") from error
    if not isinstance(value, dict | list):
        raise UnusableAnswerError("it is not JSON")
    return value


def _objects(value: Any, member: str) -> Iterator[dict[str, Any]]:
    """Yield the innermost objects that have a member."""
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    found = [each for item in inner for each in _objects(item, member)]
    plain = _plain(value)
    yield from found or ([plain] if member in plain else [])


def _plain(value: Any) -> dict[str, Any]:
    """Return an object with the names of its members in lower case, without separators; nothing of anything else."""
    if not isinstance(value, dict):
        return {}
    return {re.sub(r"[\W_]", "", str(name)).lower(): item for name, item in value.items()}


def _places(results: Sequence[Mapping[str, Any]], expected: Sequence[str]) -> list[int | None]:
    """Return which expected outcome each result is about; None where that is not said."""
    texts = [_words(outcome) for outcome in expected]
    free = list(range(len(expected)))
    places: list[int | None] = []
    numbers: list[int | None] = []
    for result in results:
        said = str(result.get("expectedoutcome") or "")
        listed = _LISTED.match(said)
        wanted = {_words(said), _words(said[listed.end() :] if listed else said)} - {""}
        # Two outcomes may have the same text.
        place = next((place for place in free if texts[place] in wanted), None)
        if place is not None:
            free.remove(place)
        places.append(place)
        given = [result.get(name) for name in _NUMBER] + [listed[1] if listed else None]
        numbers.append(
            next((int(n) for n in given if isinstance(n, int) or (isinstance(n, str) and n.isdigit())), None)
        )
    first = 0 if 0 in numbers else 1
    for position, number in enumerate(numbers):
        if places[position] is None and number is not None and number - first in free:
            places[position] = number - first
            free.remove(number - first)
    return places


def _words(text: str) -> str:
    return " ".join(re.findall(r"\w+", text.casefold()))
