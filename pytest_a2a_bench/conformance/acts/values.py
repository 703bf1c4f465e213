"""Values of a test while it runs: paths into answers, conditions, and ``{{...}}`` references (pure)."""

from __future__ import annotations

import re
import uuid
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final, TypeVar

from pydantic import BaseModel

Form = TypeVar("Form", bound=BaseModel)

_STEP = re.compile(r"([^.\[\]]+)|\[(\d+|\*)\]")
_REFERENCE = re.compile(r"\{\{\s*([^{}]+?)\s*\}\}")
_UNTIL = re.compile(r"\s*(?P<path>[^\s=!]+)\s*(?:(?P<sign>==|!=)\s*(?P<value>.+?)|in\s*\[(?P<values>.*)\])\s*")
_NESTED = 8


class _Missing:
    def __repr__(self) -> str:
        return "missing"


MISSING: Final = _Missing()
"""Stands for an absent member, as null is a value."""


class Unresolved(Exception):
    """A reference without a value; the message names it."""


def path_steps(path: str) -> list[str]:
    """Split a path: ``task.artifacts[*].parts[0]`` gives ``task artifacts [*] parts [0]``.

    :raises ValueError: if it is not a path.
    """
    found: list[str] = []
    position = 0
    while position < len(path):
        if found and path[position] == ".":
            position += 1
        match = _STEP.match(path, position)
        if match is None:
            raise ValueError(f"{path!r} is no path, such as task.artifacts[0].parts")
        found.append(match.group())
        position = match.end()
    if not found:
        raise ValueError("the path is empty")
    return found


def every_at(value: Any, path: str) -> list[Any]:
    """Return the values at a path: at most one, or with ``[*]`` any number."""
    found = [value]
    for step in path_steps(path) if path else []:
        found = [inner for one in found for inner in _members(one, step)]
    return found


def _members(value: Any, step: str) -> Iterator[Any]:
    if not step.startswith("["):
        if isinstance(value, Mapping) and step in value:
            yield value[step]
    elif isinstance(value, list | tuple):
        index = step[1:-1]
        yield from value if index == "*" else value[int(index) : int(index) + 1]


def at(value: Any, path: str) -> Any:
    """Return the first value at a path, or :data:`MISSING`."""
    return next(iter(every_at(value, path)), MISSING)


class Until:
    """The condition of a step that is repeated: ``PATH == VALUE``, ``PATH != VALUE`` or ``PATH in [VALUE, ...]``.

    :raises ValueError: if the text is none of these.
    """

    def __init__(self, text: str) -> None:
        match = _UNTIL.fullmatch(text)
        if match is None:
            raise ValueError(f"{text!r} is no condition, such as: status.state in [TASK_STATE_COMPLETED]")
        self._path, self._sign = match["path"], match["sign"]
        path_steps(self._path)
        listed = match["values"].split(",") if match["values"] is not None else [match["value"]]
        self._values = [value.strip().strip("'\"") for value in listed]

    def holds(self, answer: Any) -> bool:
        """Return whether it is true of an answer."""
        found = at(answer, self._path)
        is_listed = found is not MISSING and _written(found) in self._values
        return not is_listed if self._sign == "!=" else is_listed


def _written(value: Any) -> str:
    words = {True: "true", False: "false", None: "null"}
    return words[value] if value is None or isinstance(value, bool) else str(value)


def references(value: Any) -> Iterator[str]:
    """Yield the references in all texts of a JSON value."""
    if isinstance(value, str):
        yield from _REFERENCE.findall(value)
    elif isinstance(value, Mapping | list):
        for inner in value.values() if isinstance(value, Mapping) else value:
            yield from references(inner)


class Scope:
    """The values of references in one test: captures first, then the file's variables, then ``given``.

    :param variables: of the file.
    :param given: the runner's own values, by their names.
    :param environment: returns the value of ``{{env.NAME}}``.
    """

    def __init__(
        self, variables: Mapping[str, str], given: Mapping[str, str], environment: Callable[[str], str | None]
    ) -> None:
        self._variables, self._given, self._environment = variables, given, environment
        self._steps: dict[str, dict[str, Any]] = {}

    def add(self, step: str, name: str, value: Any) -> None:
        """Keep a captured value of a step; ``response`` is its whole answer."""
        self._steps.setdefault(step, {})[name] = value

    def fill(self, value: Any, depth: int = 0) -> Any:
        """Return a JSON value with references replaced; a text that is one reference becomes the value itself.

        :raises Unresolved: if a reference has no value.
        """
        if isinstance(value, str):
            if whole := _REFERENCE.fullmatch(value):
                return self._resolve(whole.group(1), depth)
            return _REFERENCE.sub(lambda match: _written(self._resolve(match.group(1), depth)), value)
        if isinstance(value, Mapping):
            return {name: self.fill(inner, depth) for name, inner in value.items()}
        if isinstance(value, list):
            return [self.fill(inner, depth) for inner in value]
        return self.fill_form(value) if isinstance(value, BaseModel) else value

    def fill_form(self, form: Form) -> Form:
        """Return a form with references replaced in all its members."""
        return form.model_copy(update={name: self.fill(value) for name, value in form})

    def source(self, text: str) -> Any:
        """Return the value of an assertion's source: a reference, with or without braces, or the id of a step."""
        whole = _REFERENCE.fullmatch(text.strip())
        name = whole.group(1) if whole else text.strip()
        return self._resolve(f"{name}.response" if name in self._steps else name, 0)

    def _resolve(self, name: str, depth: int) -> Any:
        step, _, path = name.partition(".")
        if name == "$uuid":
            return str(uuid.uuid4())
        if step in self._steps and path:
            found = at(self._steps[step], path)
            if found is MISSING:
                raise Unresolved(f"{{{{{name}}}}}: step {step} has captured no {path}")
            return found
        if name in self._variables and depth < _NESTED:
            # The runner's value comes before the file's: the public files name a webhook on example.com.
            return self._given[name] if name in self._given else self.fill(self._variables[name], depth + 1)
        value = self._environment(path) if step == "env" else self._given.get(name) or self._environment(name)
        if value is None:
            raise Unresolved(f"nothing gives {{{{{name}}}}} a value")
        return value
