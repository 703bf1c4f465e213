"""A YAML file as typed content, with the line of every key, so that what is wrong is told where it stands."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from pydantic import ValidationError

from pytest_a2a_bench.conformance.acts.document import known_keys
from pytest_a2a_bench.errors import ConfigurationError, MissingExtraError
from pytest_a2a_bench.nearest import did_you_mean
from pytest_a2a_bench.redact import one_line
from pytest_a2a_bench.results.stored import adapter_of, described

if TYPE_CHECKING:
    import yaml

Content = TypeVar("Content")
Place = tuple[str | int, ...]

LARGEST = 8 * 2**20
"""Bytes that are read of a file; the largest of the public suite has 14 KB."""
_VALUES = 300_000
_DEPTH = 100
_SHOWN = 20
# YAML 1.2's core schema. PyYAML reads 1.1, where ``no`` is false and a date is no text.
_INT = re.compile(r"[-+]?\d+|0o[0-7]+|0x[0-9a-fA-F]+")
_FLOAT = re.compile(r"[-+]?(?:\.\d+|\d+(?:\.\d*)?)(?:[eE][-+]?\d+)?")
_WORDS: dict[str, bool | None] = dict.fromkeys(("", "~", "null", "Null", "NULL"))
_WORDS |= dict.fromkeys(("true", "True", "TRUE"), True) | dict.fromkeys(("false", "False", "FALSE"), False)


class YamlFile:
    """The content of one file, and where its keys are.

    :raises ConfigurationError: if it cannot be read, or is no YAML.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._lines: dict[Place, int] = {}
        self._values = 0
        self.content: Any = self._value(self._node(_text(path)), (), 0)

    def line(self, place: Place) -> int:
        """Return the line (from 1) of a value, or of the nearest around it."""
        while place and place not in self._lines:
            place = place[:-1]
        return self._lines.get(place, 1)

    def problem(self, place: Place, text: str) -> str:
        """Return a line about a place: file, line, key, and what is wrong there."""
        key = ".".join(one_line(str(part), 40) for part in place)
        return f"{self.path}:{self.line(place)}: {key + ': ' if key else ''}{text}"

    def read(self, form: type[Content], prepare: Callable[[Any], Any] = lambda content: content) -> Content:
        """Return the content as a dataclass.

        :param prepare: changes what is there before it is validated.
        :raises ConfigurationError: naming all that is wrong.
        """
        found: Content
        try:
            found = adapter_of(form).validate_json(json.dumps(prepare(self.content)), strict=True)
        except ValidationError as error:
            lines = [
                self.problem(tuple(e["loc"]), _explain(e))
                for e in error.errors(include_url=False, include_context=False)
            ]
            raise ConfigurationError(shortened(lines)) from error
        return found

    def _node(self, text: str) -> yaml.Node | None:
        try:
            import yaml
        except ImportError as error:
            raise MissingExtraError("PyYAML", "acts", detail=f"it reads {self.path}") from error
        loader: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
        try:
            node: yaml.Node | None = yaml.compose(text, Loader=loader)
        except yaml.MarkedYAMLError as error:
            mark = error.problem_mark or error.context_mark
            where = f":{mark.line + 1}" if mark is not None else ""
            raise ConfigurationError(f"{self.path}{where}: it is not YAML: {error.problem or error.context}") from error
        except (yaml.YAMLError, RecursionError) as error:
            raise ConfigurationError(f"{self.path}: it is not YAML: {one_line(str(error), 200)}") from error
        return node

    def _value(self, node: Any, place: Place, depth: int) -> Any:
        if node is None:
            return None
        self._values += 1
        # Aliases can stand for one another, again and again.
        if self._values > _VALUES or depth > _DEPTH:
            raise ConfigurationError(f"{self.path}: it has more than {_VALUES} values, or nests deeper than {_DEPTH}")
        self._lines.setdefault(place, node.start_mark.line + 1)
        if node.id == "sequence":
            return [self._value(item, (*place, number), depth + 1) for number, item in enumerate(node.value)]
        if node.id == "mapping":
            return self._mapping(node, place, depth)
        # What is quoted, or in a block, is text.
        return _plain(node.value) if node.style in (None, "") else node.value

    def _mapping(self, node: Any, place: Place, depth: int) -> dict[str, Any]:
        found: dict[str, Any] = {}
        for key, value in node.value:
            line = key.start_mark.line + 1
            if key.id != "scalar":
                raise ConfigurationError(f"{self.path}:{line}: a key must be a text")
            if key.value in found:
                raise ConfigurationError(f"{self.path}:{line}: {key.value!r} is there twice")
            self._lines[*place, key.value] = line
            found[key.value] = self._value(value, (*place, key.value), depth + 1)
        return found


def shortened(lines: list[str]) -> str:
    """Return problems as one text."""
    more = [f"and {len(lines) - _SHOWN} more"] if len(lines) > _SHOWN else []
    return "; ".join([*lines[:_SHOWN], *more])


def _text(path: Path) -> str:
    try:
        with path.open("rb") as stream:
            data = stream.read(LARGEST + 1)
        if len(data) > LARGEST:
            raise ConfigurationError(f"{path}: it has more than {LARGEST >> 20} MB, and is no ACTS file")
        return data.decode("utf-8-sig")
    except OSError as error:
        raise ConfigurationError(f"{path}: it cannot be read: {error.strerror or error}") from error
    except UnicodeDecodeError as error:
        raise ConfigurationError(f"{path}: it is not UTF-8: {error}") from error


def _plain(text: str) -> Any:
    if text in _WORDS:
        return _WORDS[text]
    if _INT.fullmatch(text) and len(text) < _DEPTH:
        return int(text, 0) if text[:2] in ("0o", "0x") else int(text)
    return float(text) if _FLOAT.fullmatch(text) else text


def _explain(error: Any) -> str:
    kind, message = error["type"], error["msg"].replace("Input should be", "should be")
    if kind == "missing":
        return "is missing"
    if kind == "unexpected_keyword_argument" or kind == "extra_forbidden":
        return f"is no key of the format here{did_you_mean(str(error['loc'][-1]), known_keys())}"
    if kind == "dataclass_type":
        message = "should be a mapping"
    return f"{message[0].lower()}{message[1:]}, found {described(error['input'])}"
