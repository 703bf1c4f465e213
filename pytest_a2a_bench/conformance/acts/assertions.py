"""The assertions of ACTS: what a value must be, said by nesting and by operators (pure).

A key of a mapping is an operator where it has an operator's name and a value that this operator takes; otherwise it is
a member. Both halves are needed: ``{type: {type: string}}`` asks for a member called type that is a text.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pytest_a2a_bench.conformance.acts.document import NamedAssertion
from pytest_a2a_bench.conformance.acts.values import MISSING, at, every_at
from pytest_a2a_bench.redact import one_line

_SHOWN = 160


@dataclass(frozen=True, slots=True)
class Mismatch:
    """One assertion that does not hold.

    :param path: where, such as ``task.status.state``; empty for the whole answer.
    """

    path: str
    expected: str
    found: str

    def __str__(self) -> str:
        return f"{self.path or 'the answer'} is {self.found}"


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _is_count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


_TYPES: Mapping[str, Callable[[Any], bool]] = {
    "string": lambda v: isinstance(v, str),
    "number": _is_number,
    "boolean": lambda v: isinstance(v, bool),
    "array": lambda v: isinstance(v, list | tuple),
    "object": lambda v: isinstance(v, Mapping),
    "null": lambda v: v is None,
}

_Takes = Callable[[Any], bool]
_Holds = Callable[[Any, Any], bool]


def _text(holds: Callable[[str, str], bool]) -> tuple[_Takes, _Holds]:
    return lambda a: isinstance(a, str), lambda a, v: isinstance(v, str) and holds(v, a)


def _number(holds: Callable[[Any, Any], bool]) -> tuple[_Takes, _Holds]:
    return _is_number, lambda a, v: _is_number(v) and holds(v, a)


def _length(holds: Callable[[int, int], bool]) -> tuple[_Takes, _Holds]:
    return _is_count, lambda a, v: isinstance(v, list | tuple) and holds(len(v), a)


def _contains(argument: Any, value: Any) -> bool:
    return isinstance(value, str | list) and argument in value


OPERATORS: Mapping[str, tuple[_Takes, _Holds]] = {
    "type": (lambda a: isinstance(a, str) and a in _TYPES, lambda a, v: v is not MISSING and _TYPES[a](v)),
    "exists": (lambda a: isinstance(a, bool), lambda a, v: (v is not MISSING) is a),
    "absent": (lambda a: isinstance(a, bool), lambda a, v: (v is MISSING) is a),
    "contains": (lambda a: isinstance(a, str), _contains),
    "matches": _text(lambda v, a: re.search(a, v) is not None),
    "starts_with": _text(str.startswith),
    "ends_with": _text(str.endswith),
    "gte": _number(operator.ge),
    "lte": _number(operator.le),
    "gt": _number(operator.gt),
    "lt": _number(operator.lt),
    "count": _length(operator.eq),
    "count_gte": _length(operator.ge),
    "count_lte": _length(operator.le),
    # Members that are mappings are assertions: the draft's own example of a final event has two of them.
    "one_of": (
        lambda a: isinstance(a, list),
        lambda a, v: any(not mismatches(o, v) if isinstance(o, Mapping) else _same(o, v) for o in a),
    ),
    "all_of": (lambda a: _is_list(a), lambda a, v: not any(mismatches(one, v) for one in a)),
    "any_of": (lambda a: _is_list(a), lambda a, v: any(not mismatches(one, v) for one in a)),
    "not": (lambda a: True, lambda a, v: bool(mismatches(a, v))),
}
# Not in the draft's grammar, and in five of its tests: as in JSON Schema, a mapping is about every element and a list
# about the first ones.
_ITEMS = "items"


def _is_list(value: Any) -> bool:
    return isinstance(value, list) and bool(value)


def _same(expected: Any, found: Any) -> bool:
    # In Python True is 1.
    return isinstance(expected, bool) == isinstance(found, bool) and bool(expected == found)


def shown(value: Any) -> str:
    """Return a value for a message, in one short line."""
    return one_line(repr(value), _SHOWN)


def mismatches(assertion: Any, value: Any, path: str = "") -> list[Mismatch]:
    """Return what does not hold of a value, which may be :data:`~.values.MISSING`."""
    if isinstance(assertion, Mapping):
        # Whoever writes no members means that there is something to have them.
        if not assertion and value is MISSING:
            return [Mismatch(path, "something", shown(value))]
        return [m for key, argument in assertion.items() for m in _keyed(key, argument, value, path)]
    if isinstance(assertion, list):
        return _by_position(assertion, value, path)
    return [] if _same(assertion, value) else [Mismatch(path, repr(assertion), shown(value))]


def _keyed(key: str, argument: Any, value: Any, path: str) -> list[Mismatch]:
    if key in OPERATORS and OPERATORS[key][0](argument):
        if OPERATORS[key][1](argument, value):
            return []
        return [Mismatch(path, f"{key}: {shown(argument)}", shown(value))]
    if key == _ITEMS and isinstance(argument, Mapping | list):
        if isinstance(argument, list) or not isinstance(value, list):
            return _by_position(argument if isinstance(argument, list) else [argument], value, path)
        return [m for n, element in enumerate(value) for m in mismatches(argument, element, f"{path}[{n}]")]
    inner = value[key] if isinstance(value, Mapping) and key in value else MISSING
    return mismatches(argument, inner, f"{path}.{key}" if path else key)


def _by_position(assertions: Sequence[Any], value: Any, path: str) -> list[Mismatch]:
    if not isinstance(value, list):
        return [Mismatch(path, "an array", shown(value))]
    found = [m for n, a in enumerate(assertions[: len(value)]) for m in mismatches(a, value[n], f"{path}[{n}]")]
    # Of an element that is not there no member is told: what lacks is the element.
    missing = ((n, a) for n, a in enumerate(assertions[len(value) :], len(value)) if mismatches(a, MISSING))
    return found + [Mismatch(f"{path}[{n}]", shown(a), shown(MISSING)) for n, a in missing]


def named_mismatches(assertion: NamedAssertion, source: Any) -> list[Mismatch]:
    """Return what does not hold of an answer that an assertion names as its source."""
    path = assertion.path
    if assertion.match is not None:
        return mismatches(assertion.match, at(source, path) if path else source, path)
    (kind,) = assertion.kinds
    match = getattr(assertion, kind)
    root = at(source, path) if path else source
    where = f"{path}.{match.path}" if path else match.path
    found = [] if root is MISSING else every_at(root, match.path)
    results = [mismatches(match.match, one, where) for one in found]
    wrong = {
        "any": all(results),
        # What looked at nothing has shown nothing.
        "all": not found or any(results),
        "none": not all(results),
    }[kind]
    if not wrong:
        return []
    words = {"any": "one that is", "all": "every one", "none": "none that is"}[kind]
    return [Mismatch(where, f"{words} {shown(match.match)}", f"{len(found)} values: {shown(found)}")]


def patterns(assertion: Any) -> Iterator[str]:
    """Yield the regular expressions of an assertion, to be compiled before anything is sent."""
    if isinstance(assertion, Mapping):
        for key, argument in assertion.items():
            if key == "matches" and isinstance(argument, str):
                yield argument
            else:
                yield from patterns(argument)
    elif isinstance(assertion, list):
        for one in assertion:
            yield from patterns(one)
