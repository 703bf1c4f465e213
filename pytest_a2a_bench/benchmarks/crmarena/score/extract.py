"""Read the values out of an answer without a model, by their form alone: ids, months, states, BANT factors, stages.

No sentence is understood: an answer that names a value to deny it gives that value, and one that names two gives both.
A judge model understands sentences, as upstream's evaluator does.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from functools import cache
from typing import Any

from pytest_a2a_bench.benchmarks.crmarena.tasks import BANT_FACTORS, MONTHS, NONE, STAGES, AnswerKind, Category
from pytest_a2a_bench.dialects.serialization import BROKEN, find_blocks

LIMIT = 20_000
"""Characters of an answer that are read."""

_STATES = """\
AL Alabama|AK Alaska|AZ Arizona|AR Arkansas|CA California|CO Colorado|CT Connecticut|DE Delaware|FL Florida|GA Georgia|\
HI Hawaii|ID Idaho|IL Illinois|IN Indiana|IA Iowa|KS Kansas|KY Kentucky|LA Louisiana|ME Maine|MD Maryland|\
MA Massachusetts|MI Michigan|MN Minnesota|MS Mississippi|MO Missouri|MT Montana|NE Nebraska|NV Nevada|NH New Hampshire|\
NJ New Jersey|NM New Mexico|NY New York|NC North Carolina|ND North Dakota|OH Ohio|OK Oklahoma|OR Oregon|\
PA Pennsylvania|RI Rhode Island|SC South Carolina|SD South Dakota|TN Tennessee|TX Texas|UT Utah|VT Vermont|\
VA Virginia|WA Washington|WV West Virginia|WI Wisconsin|WY Wyoming|DC District of Columbia|PR Puerto Rico"""
US_STATES: Mapping[str, str] = {entry[:2]: entry[3:] for entry in _STATES.split("|")}
"""Names by abbreviation."""
_WORDS = frozenset({"OK", "ID", "HI", "OR", "IN", "ME", "OH"})
"""Abbreviations that are words, too: beside another state, or in small letters, they are none."""

_LABEL = re.compile(r"\banswer\s*(?:is\b|:)", re.IGNORECASE)
# OR is Oregon, and N/A one word.
_SEPARATOR = re.compile(r"[,;\n]|(?<!\b[nN])/|\b(?:[Aa]nd|[Oo]r)\b")
_AROUND = " \t\r\"'`*_.,:;!()<>[]{}#~|-\u2018\u2019\u201c\u201d"
_NONE = frozenset({"none", "null", "n/a"})
_NONE_IN_TEXT = re.compile(r"\b(?:None|NONE)\b(?!\s+of\b)")


def read_values(category: Category, answer: str) -> tuple[str, ...]:
    """Return the values that an answer gives, each once; ``("None",)`` where it says None; nothing if it says neither.

    The last ``{"answer": ...}`` in it is what it says, else what stands behind the last "answer:" or "answer is", else
    all of it. Never raises.
    """
    text = answer[:LIMIT]
    if category.answer in ("text", "refusal"):
        return (answer,)
    structured = read_structured(text)
    if structured is not None:
        read = [value for item in structured for value in (_read(category, item) or (item,))]
        return tuple(dict.fromkeys(read)) or (NONE,)
    label = max((found.end() for found in _LABEL.finditer(text)), default=0)
    return _read(category, text[label:]) or _read(category, text)


def _read(category: Category, text: str) -> tuple[str, ...]:
    if category.key_prefix:
        # Mistyped ids are read, too: they are wrong answers.
        pattern = rf"(?<![\w-]){category.key_prefix}[0-9A-Za-z]{{7,20}}(?![\w-])"
        values = re.findall(pattern, text, re.ASCII)
    else:
        values = _named(category.answer, text)
    parts = [part.strip(_AROUND).casefold() for part in _SEPARATOR.split(text)]
    if not _NONE.isdisjoint(parts) or (not values and _NONE_IN_TEXT.search(text)):
        values = [*values, NONE]
    return tuple(dict.fromkeys(values))


def _named(kind: AnswerKind, text: str) -> list[str]:
    """Return the values of a fixed list that a text names: in any case where it has nothing else, else by capitals."""
    names, pattern = _spellings(kind)
    folded = {name.casefold(): value for name, value in names.items()}
    parts = [part for part in (each.strip(_AROUND).casefold() for each in _SEPARATOR.split(text)) if part]
    if parts and all(part in folded or part in _NONE for part in parts):
        return [folded[part] for part in parts if part in folded]
    found = pattern.findall(text)
    sure = [name for name in found if name not in _WORDS] if kind == "state" else found
    return [names[name] for name in sure or found]


@cache
def _spellings(kind: AnswerKind) -> tuple[dict[str, str], re.Pattern[str]]:
    """Return the value of each spelling, and what finds the spellings in a text."""
    match kind:
        case "state":
            names = {name: code for code, name in US_STATES.items()} | {code: code for code in US_STATES}
        case "month":
            names = {name: name for name in MONTHS} | {name.upper(): name for name in MONTHS}
        case "stage":
            names = {name: name for name in STAGES}
        case _:
            names = {name: name for name in BANT_FACTORS}
    # The longest first: West Virginia holds Virginia.
    listed = "|".join(map(re.escape, sorted(names, key=len, reverse=True)))
    return names, re.compile(rf"(?<![\w-])(?:{listed})(?![\w-])")


def read_structured(text: str) -> list[str] | None:
    """Return the values of the last ``{"answer": ...}`` in a text; None where there is no such object."""
    if '"answer"' not in text:
        return None
    found: list[str] | None = None
    for block in find_blocks(text):
        if block.value is not BROKEN and isinstance(block.value, dict) and "answer" in block.value:
            found = _items(block.value["answer"])
    return found


def _items(value: Any) -> list[str]:
    if value is None:
        return []
    items = value if isinstance(value, list) else [value]
    return [item.strip() if isinstance(item, str) else NONE if item is None else json.dumps(item) for item in items]
