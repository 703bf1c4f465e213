"""Evaluate ACTS assertions on JSON values and on the events of streams (pure).

A key of a mapping is an operator if it has an operator's name and an argument that this operator takes; otherwise it is
a member: ``{type: {type: string}}`` is about a member ``type`` whose value is a string.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from pytest_a2a_bench.a2a.codec import TERMINAL
from pytest_a2a_bench.conformance.acts.document import ExpectStream, NamedAssertion
from pytest_a2a_bench.conformance.acts.values import MISSING, at, every_at
from pytest_a2a_bench.conformance.protocol.payloads import spelled_state
from pytest_a2a_bench.conformance.protocol.streams import Problem, is_same
from pytest_a2a_bench.conformance.variants import enum_of
from pytest_a2a_bench.text import one_line

_SHOWN = 160


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
    # Mappings in the list are assertions, as in the draft's own example of a final event.
    "one_of": (
        lambda a: isinstance(a, list),
        lambda a, v: any(not mismatches(o, v) if isinstance(o, Mapping) else is_same(o, v) for o in a),
    ),
    "all_of": (lambda a: _is_list(a), lambda a, v: not any(mismatches(one, v) for one in a)),
    "any_of": (lambda a: _is_list(a), lambda a, v: any(not mismatches(one, v) for one in a)),
    "not": (lambda a: True, lambda a, v: bool(mismatches(a, v))),
}
# Not in the draft's grammar, and in five of its tests: as in JSON Schema, a mapping holds for every element, a list for
# the first ones.
_ITEMS = "items"


def _is_list(value: Any) -> bool:
    return isinstance(value, list) and bool(value)


def shown(value: Any) -> str:
    """Return a value for a message, in one short line."""
    return one_line(repr(value), _SHOWN)


def sentence(problem: Problem) -> str:
    """Describe a value that is not as asserted."""
    return f"{problem.pointer or 'the answer'} is {problem.found}"


def mismatches(assertion: Any, value: Any, path: str = "") -> list[Problem]:
    """Return the assertions that a value, which may be :data:`~.values.MISSING`, does not meet.

    The pointer of each is a path such as ``task.status.state``, empty for the whole answer.
    """
    if isinstance(assertion, Mapping):
        # An empty mapping asserts that there is a value.
        if not assertion and value is MISSING:
            return [Problem(path, shown(value), "something")]
        return [m for key, argument in assertion.items() for m in _keyed(key, argument, value, path)]
    if isinstance(assertion, list):
        return _by_position(assertion, value, path)
    return [] if is_same(assertion, value) else [Problem(path, shown(value), repr(assertion))]


def _keyed(key: str, argument: Any, value: Any, path: str) -> list[Problem]:
    if key in OPERATORS and OPERATORS[key][0](argument):
        if OPERATORS[key][1](argument, value):
            return []
        return [Problem(path, shown(value), f"{key}: {shown(argument)}")]
    if key == _ITEMS and isinstance(argument, Mapping | list):
        if isinstance(argument, list) or not isinstance(value, list):
            return _by_position(argument if isinstance(argument, list) else [argument], value, path)
        return [m for n, element in enumerate(value) for m in mismatches(argument, element, f"{path}[{n}]")]
    inner = value[key] if isinstance(value, Mapping) and key in value else MISSING
    return mismatches(argument, inner, f"{path}.{key}" if path else key)


def _by_position(assertions: Sequence[Any], value: Any, path: str) -> list[Problem]:
    if not isinstance(value, list):
        return [Problem(path, shown(value), "an array")]
    found = [m for n, a in enumerate(assertions[: len(value)]) for m in mismatches(a, value[n], f"{path}[{n}]")]
    # A missing element is reported as a whole, and not member by member.
    missing = ((n, a) for n, a in enumerate(assertions[len(value) :], len(value)) if mismatches(a, MISSING))
    return found + [Problem(f"{path}[{n}]", shown(MISSING), shown(a)) for n, a in missing]


def named_mismatches(assertion: NamedAssertion, source: Any) -> list[Problem]:
    """Return the mismatches of a named assertion on the value of its source."""
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
        # "All of nothing" has shown nothing.
        "all": not found or any(results),
        "none": not all(results),
    }[kind]
    if not wrong:
        return []
    words = {"any": "one that is", "all": "every one", "none": "none that is"}[kind]
    return [Problem(where, f"{len(found)} values: {shown(found)}", f"{words} {shown(match.match)}")]


# --- streams (section 7 of the draft) ---------------------------------------------------------------------------------

_KINDS = {
    "task": "task",
    "message": "message",
    "statusUpdate": "status_update",
    "artifactUpdate": "artifact_update",
}
_TERMINAL, _FIRST = frozenset(map(enum_of, TERMINAL)), enum_of("submitted")
_ABOUT = ("description", "match", "index")


def view(event: Any) -> Any:
    """Return an event as assertions address it: the members of its payload, and the payload once more by its kind.

    ``{status: ...}`` and ``{status_update: {status: ...}}`` both match a status update; ``{message: ...}`` matches a
    message alone. Anything but a StreamResponse, such as the envelope of a raw step, stays as it is.
    """
    if isinstance(event, Mapping) and len(event) == 1:
        ((name, inner),) = event.items()
        if name in _KINDS and isinstance(inner, Mapping):
            return {**inner, _KINDS[name]: inner}
    return event


def stream_mismatches(expect: ExpectStream, views: Sequence[Any]) -> list[Problem]:
    """Return the mismatches of a stream's events, as :func:`view` returns them."""
    found: list[Problem] = []
    count = len(views)
    if expect.min_count is not None and count < expect.min_count:
        found.append(Problem("the stream", f"{count} events", f"at least {expect.min_count} events"))
    if expect.max_count is not None and count > expect.max_count:
        found.append(Problem("the stream", f"{count} events", f"at most {expect.max_count} events"))
    if expect.ordering is not None:
        found += _out_of_order(views)
    for position, event in enumerate(expect.events):
        found += _event(event, position, views)
    if expect.final_event is not None:
        found += _one(expect.final_event, views[-1:], "the last event")
    if expect.each_event is not None:
        found += _one(expect.each_event, views[:1], "event 0")
        for number, seen in enumerate(views[1:], 1):
            found += _one(expect.each_event, [seen], f"event {number}")
    return found


def _one(assertion: Mapping[str, Any], views: Sequence[Any], where: str) -> list[Problem]:
    if not views:
        return [Problem(where, "not there", repr(assertion))]
    return mismatches(assertion, views[0], where)


def _event(event: Mapping[str, Any], position: int, views: Sequence[Any]) -> list[Problem]:
    wanted = {name: value for name, value in event.items() if name not in _ABOUT}
    if event.get("match") == "any_position":
        if any(not mismatches(wanted, seen) for seen in views):
            return []
        about = event.get("description") or repr(wanted)
        return [Problem("no event", f"such among {len(views)}", str(about))]
    index = event.get("index", position)
    return _one(wanted, views[index : index + 1], f"event {index}")


def _states(views: Sequence[Any]) -> Iterator[tuple[int, str]]:
    for number, seen in enumerate(views):
        if state := spelled_state(seen):
            yield number, state


def _out_of_order(views: Sequence[Any]) -> list[Problem]:
    # Only the transitions that the draft forbids; its list of allowed ones lacks some that the protocol allows.
    found, before = [], ""
    for number, state in _states(views):
        if before and state != before:
            if before in _TERMINAL:
                found.append(Problem(f"event {number}", state, f"nothing after {before}"))
            elif state == _FIRST:
                found.append(Problem(f"event {number}", state, f"no way back from {before}"))
        before = state
    return found
