"""Queries that differ in their literals only are compiled once."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import date
from itertools import accumulate
from threading import Lock

from pytest_a2a_bench.benchmarks.crmarena.org.soql.plan import QueryPlan

# Longer texts are lists that nobody asks twice.
_LONGEST = 10_000
_REMEMBERED = 512
# What the lexer reads as one token wherever a token begins. Behind other signs it may be in the middle of one.
_LITERAL = re.compile(
    r"""('[^']*'
      | (?<![\w.+-])\d{4}-\d\d-\d\d(?:T\d\d:\d\d:\d\d(?:\.\d+)?(?:Z|[+-]\d\d:?\d\d))?(?!\w))""",
    re.VERBOSE | re.ASCII,
)
_LENGTH_OF_DAY = len("2023-01-31")

#: What stands between the literals, with the kind of each where it stood.
Shape = tuple[str, ...]


def cut_literals(text: str) -> tuple[Shape, list[str]] | None:
    """Return a query's shape and its literals, as written; None where these could not be told by their form.

    Texts and dates are taken out. Numbers and words stay in the shape.
    """
    # Without escapes quotes come in pairs. What is not ASCII is compared by other SQL.
    if len(text) > _LONGEST or "\\" in text or not text.isascii():
        return None
    parts = _LITERAL.split(text)
    literals = parts[1::2]
    parts[1::2] = [_kind(literal) for literal in literals]
    return tuple(parts), literals


def _kind(literal: str) -> str:
    if literal[0] == "'":
        # The empty text means null.
        return "text" if len(literal) > len("''") else "empty"
    return "date" if len(literal) == _LENGTH_OF_DAY else "datetime"


@dataclass(frozen=True, slots=True)
class _Template:
    """A plan and where its literals go.

    :param holes: for each literal, by its number: what reads it, and the place of each parameter that this makes.
    """

    plan: QueryPlan
    holes: tuple[tuple[int, Callable[[str], tuple[object, ...]], tuple[tuple[int, ...], ...]], ...]
    children: tuple[_Template, ...]

    def fill(self, literals: list[str]) -> QueryPlan:
        """Return the plan of other literals.

        :raises ValueError: for a literal that is none of its kind, or makes another number of parameters.
        :raises OverflowError: for a moment outside of the calendar.
        """
        plan = self.plan
        parameters = list(plan.parameters)
        for number, read, places in self.holes:
            for value, everywhere in zip(read(literals[number].strip("'")), places, strict=True):
                for place in everywhere:
                    parameters[place] = value
        children = tuple([child.fill(literals) for child in self.children])
        return QueryPlan(plan.sql, tuple(parameters), plan.build, plan.record_id, children, plan.counting)


class Shapes:
    """Compiles queries, those of one shape and day once.

    May be asked from several threads at once.

    :param compile_text: makes the plan of a query.
    """

    def __init__(self, compile_text: Callable[[str, date], QueryPlan]) -> None:
        self._compile = compile_text
        self._known: dict[tuple[Shape, date], _Template] = {}
        self._lock = Lock()

    def plan(self, text: str, day: date) -> QueryPlan:
        """Return the plan of a query.

        :raises OrgError: as compiling it does.
        """
        cut = cut_literals(text)
        if cut is None:
            return self._compile(text, day)
        shape, literals = cut
        known = self._known.get((shape, day))
        if known is not None:
            try:
                return known.fill(literals)
            except (ValueError, OverflowError):
                # Other SQL, or a refusal.
                return self._compile(text, day)
        plan = self._compile(text, day)
        template = _template(plan, _starts(shape, literals))
        if template is not None:
            self._remember((shape, day), template)
        return plan

    def _remember(self, key: tuple[Shape, date], template: _Template) -> None:
        with self._lock:
            while len(self._known) >= _REMEMBERED:
                # The first one that was put in.
                del self._known[next(iter(self._known))]
            self._known[key] = template


def _starts(shape: Shape, literals: list[str]) -> dict[int, int]:
    """Return the number of each literal by where it begins, but for empty texts: those are a part of the shape."""
    lengths = [len(part) for pair in zip(shape[::2], literals, strict=False) for part in pair]
    ends = list(accumulate(lengths))
    return {end: number for number, end in enumerate(ends[::2]) if shape[2 * number + 1] != "empty"}


def _template(plan: QueryPlan, numbers: dict[int, int]) -> _Template | None:
    """Return what makes plans of other literals.

    :return: None if what a literal says is in the plan otherwise than as a parameter.
    """
    return _of(plan, numbers) if set(_positions(plan)) == set(numbers) else None


def _positions(plan: QueryPlan) -> Iterator[int]:
    for _, taken in plan.taken:
        yield taken.position
    for child in plan.children:
        yield from _positions(child)


def _of(plan: QueryPlan, numbers: dict[int, int]) -> _Template:
    holes: dict[tuple[int, Callable[[str], tuple[object, ...]]], dict[int, list[int]]] = {}
    for place, taken in plan.taken:
        places = holes.setdefault((numbers[taken.position], taken.read), {})
        places.setdefault(taken.part, []).append(place)
    return _Template(
        plan,
        tuple(
            (number, read, tuple(tuple(places[part]) for part in sorted(places)))
            for (number, read), places in holes.items()
        ),
        tuple(_of(child, numbers) for child in plan.children),
    )
