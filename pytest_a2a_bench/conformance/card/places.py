"""Where in a card's text each of its members stands (pure)."""

from __future__ import annotations

import json
import re

from pytest_a2a_bench.conformance.card.document import MAX_DEPTH, to_pointer

_TOKEN = re.compile(r'"(?:\\.|[^"\\])*"|[{}\[\]:,]|[^\s{}\[\]:,"]+', re.DOTALL)


def lines_of(text: str) -> dict[str, int]:
    """Return JSON pointer -> line, from 1, on which the member (or element) of a JSON text begins.

    What is no JSON, or deeper than a card may be, has its places up to there.
    """
    found = {"": 1}
    # The name (or index) of what comes next, in each object (or array) that is open.
    path: list[str | int] = []
    line, at = 1, 0
    is_name = False
    for token in _TOKEN.finditer(text):
        line, at = line + text.count("\n", at, token.start()), token.start()
        word = token[0]
        if word in "}]":
            path = path[:-1]
            is_name = False
        elif word == ",":
            if path and isinstance(path[-1], int):
                path[-1] += 1
            is_name = bool(path) and isinstance(path[-1], str)
        elif word == ":":
            is_name = False
        elif is_name:
            path[-1] = _read(word)
            found.setdefault(to_pointer(tuple(path)), line)
        else:
            found.setdefault(to_pointer(tuple(path)), line)
            if word in "{[":
                if len(path) >= MAX_DEPTH:
                    return found
                path.append("" if word == "{" else 0)
                is_name = word == "{"
    return found


def _read(word: str) -> str:
    try:
        return str(json.loads(word))
    except ValueError:
        return word
