"""Reading a card's JSON with everything that a parser usually hides (pure)."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from pytest_a2a_bench.a2a.bodies import parse_json
from pytest_a2a_bench.conformance.card.ledger import Path
from pytest_a2a_bench.errors import ProtocolError

MAX_DEPTH = 64
_MAX_DUPLICATES = 20


class Document(NamedTuple):
    """A card's JSON, and the names that an object in it has twice."""

    raw: Any
    duplicates: tuple[str, ...]


def read_document(body: bytes | str) -> Document:
    """Parse a card's text.

    :raises ProtocolError: if it is not JSON; the message says what is wrong.
    """
    raw = parse_json(body)
    text = body.decode("utf-8-sig") if isinstance(body, bytes) else body
    duplicates: list[str] = []

    def note(pairs: list[tuple[str, Any]]) -> None:
        counts = Counter(name for name, _ in pairs)
        if len(counts) != len(pairs) and len(duplicates) < _MAX_DUPLICATES:
            duplicates.extend(name for name, n in counts.items() if n > 1)

    try:
        json.loads(text, object_pairs_hook=note)
    except (ValueError, RecursionError) as error:  # parse_json accepted it, so that only depth can be the reason
        raise ProtocolError("nested too deeply") from error
    return Document(raw, tuple(duplicates[:_MAX_DUPLICATES]))


def is_too_deep(value: Any, limit: int = MAX_DEPTH) -> bool:
    """Tell whether arrays and objects are nested deeper than a card can need; without recursion."""
    level = [value]
    for _ in range(limit):
        level = [c for v in level if isinstance(v, (dict, list)) for c in (v.values() if isinstance(v, dict) else v)]
        if not level:
            return False
    return True


def texts(value: Any, path: Path = ()) -> Iterator[tuple[Path, str]]:
    """Yield every string of a document with its place; only for documents that are not too deep."""
    if isinstance(value, str):
        yield path, value
    elif isinstance(value, Mapping):
        for key, inner in value.items():
            yield from texts(inner, (*path, str(key)))
    elif isinstance(value, list):
        for index, inner in enumerate(value):
            yield from texts(inner, (*path, index))


def as_object(value: Any) -> Mapping[str, Any]:
    """Return an object, or an empty one where something else stands."""
    return value if isinstance(value, Mapping) else {}


def as_list(value: Any) -> list[Any]:
    """Return an array, or an empty one where something else stands."""
    return value if isinstance(value, list) else []


def as_text(value: Any) -> str:
    """Return a string, or an empty one where something else stands."""
    return value if isinstance(value, str) else ""


def objects(value: Any) -> Iterator[tuple[int, Mapping[str, Any]]]:
    """Yield the objects of an array with their indexes."""
    return ((i, v) for i, v in enumerate(as_list(value)) if isinstance(v, Mapping))
