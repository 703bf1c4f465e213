"""Read ACTS files into cases, and report all that is wrong with them by file, line and key."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from pydantic import ValidationError

from pytest_a2a_bench.conformance.acts.document import (
    AskingStep,
    AssertionStep,
    Behaviors,
    Document,
    Form,
    NamedAssertion,
    Test,
    known_keys,
)
from pytest_a2a_bench.conformance.acts.values import references
from pytest_a2a_bench.errors import ConfigurationError, MissingExtraError
from pytest_a2a_bench.results.store import described
from pytest_a2a_bench.text import did_you_mean, one_line, reason_of

Content = TypeVar("Content", bound=Form)
Place = tuple[str | int, ...]

MASTER = "suite.acts.yaml"
"""The file of a directory that includes the others."""
_VALUES = 300_000
_SHOWN = 20


@dataclass(frozen=True, slots=True)
class Case:
    """One test of a file.

    :param suite: the id of its suite.
    :param where: file and line.
    :param variables: of its file, and of the files that include it.
    """

    test: Test
    suite: str
    where: str
    variables: Mapping[str, str] = field(default_factory=dict)


def load_cases(path: Path) -> tuple[Case, ...]:
    """Read a file of tests, or a directory of such files, with everything that they include.

    :raises MissingExtraError: without ruamel.yaml.
    :raises ConfigurationError: naming all that is wrong, each by file, line and key.
    """
    loader = _Loader()
    for file in _files(path):
        loader.load(file, {})
    if not loader.problems and not loader.cases:
        loader.problems.append(f"{path}: it has no tests")
    if loader.problems:
        raise ConfigurationError(_shortened(loader.problems))
    return tuple(loader.cases)


def load_behaviors(path: Path) -> frozenset[str]:
    """Return the prefixes that an agent's ``sut-behaviors.yaml`` lists.

    :raises MissingExtraError: without ruamel.yaml.
    :raises ConfigurationError: naming all that is wrong.
    """
    return frozenset(behavior.prefix for behavior in YamlFile(path).read(Behaviors).behaviors)


def _files(path: Path) -> list[Path]:
    if not path.is_dir():
        return [path]
    if (path / MASTER).is_file():
        return [path / MASTER]
    found = sorted(p for p in path.iterdir() if p.name.endswith((".acts.yaml", ".acts.yml", ".acts.json")))
    if not found:
        raise ConfigurationError(f"{path}: it has no {MASTER}, and no *.acts.yaml")
    return found


def _shortened(lines: list[str]) -> str:
    more = [f"and {len(lines) - _SHOWN} more"] if len(lines) > _SHOWN else []
    return "; ".join([*lines[:_SHOWN], *more])


class YamlFile:
    """The content of one YAML file, and the line of every key.

    :raises MissingExtraError: without ruamel.yaml.
    :raises ConfigurationError: if it cannot be read, or is not YAML.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.content: Any = _load(path)
        # Aliases can stand for one another again and again, and would be written out below.
        left, values = [self.content], 0
        while left:
            node, values = left.pop(), values + 1
            left += node.values() if isinstance(node, dict) else node if isinstance(node, list) else ()
            if values > _VALUES:
                raise ConfigurationError(f"{path}: it has more than {_VALUES} values")

    def line(self, place: Place) -> int:
        """Return the line (from 1) of a value, or of the nearest around it."""
        node, line = self.content, 1
        for part in place:
            known = getattr(getattr(node, "lc", None), "data", None) or {}
            if part not in known:
                break
            line, node = known[part][0] + 1, node[part]
        return line

    def problem(self, place: Place, text: str) -> str:
        """Return a message with file, line and key."""
        key = ".".join(one_line(str(part), 40) for part in place)
        return f"{self.path}:{self.line(place)}: {key + ': ' if key else ''}{text}"

    def read(self, form: type[Content]) -> Content:
        """Return the content as a model.

        :raises ConfigurationError: naming all that is wrong.
        """
        try:
            text = json.dumps(self.content)
        except (TypeError, ValueError, RecursionError) as error:
            raise ConfigurationError(f"{self.path}: it has values that JSON does not have: {error}") from error
        try:
            return form.model_validate_json(text, strict=True)
        except ValidationError as error:
            errors = error.errors(include_url=False, include_context=False)
            raise ConfigurationError(_shortened([self._explained(e) for e in errors])) from error

    def _explained(self, error: Any) -> str:
        # The names of a union's members are in angle brackets, and no keys.
        place = tuple(part for part in error["loc"] if not str(part).startswith(("<", "literal[", "function-")))
        message = error["msg"].replace("Input should be", "should be")
        if error["type"] == "missing":
            text = "is missing"
        elif error["type"] == "extra_forbidden":
            text = f"is no key of the format here{did_you_mean(str(place[-1]), known_keys())}"
        elif error["type"] == "value_error":
            text = message.removeprefix("Value error, ")
        else:
            text = f"{message[0].lower()}{message[1:]}, found {described(error['input'])}"
        return self.problem(place, text)


def _load(path: Path) -> Any:
    try:
        from ruamel.yaml import YAML
        from ruamel.yaml.constructor import RoundTripConstructor
        from ruamel.yaml.error import MarkedYAMLError, YAMLError
    except ImportError as error:
        raise MissingExtraError("ruamel.yaml", "acts", detail=f"it reads {path}") from error

    class Constructor(RoundTripConstructor):
        """Reads dates as text, as JSON has it."""

    Constructor.add_constructor("tag:yaml.org,2002:timestamp", lambda _, node: node.value)
    yaml = YAML(typ="rt", pure=True)
    yaml.Constructor = Constructor
    try:
        return yaml.load(path.read_bytes())
    except OSError as error:
        raise ConfigurationError(f"{path}: it cannot be read: {reason_of(error)}") from error
    except MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        where = f":{mark.line + 1}" if mark is not None else ""
        problem = one_line(str(error.problem or error.context), 200)
        raise ConfigurationError(f"{path}{where}: it is not YAML: {problem}") from error
    except (YAMLError, ValueError, TypeError, RecursionError) as error:
        raise ConfigurationError(f"{path}: it is not YAML: {one_line(str(error), 200)}") from error


class _Loader:
    def __init__(self) -> None:
        self.cases: list[Case] = []
        self.problems: list[str] = []
        self._seen: set[Path] = set()
        self._ids: dict[str, str] = {}

    def load(self, path: Path, variables: Mapping[str, str]) -> None:
        """Read one file and the files that it includes."""
        if path.resolve() in self._seen:
            return
        self._seen.add(path.resolve())
        try:
            file = YamlFile(path)
            document = file.read(Document)
        except ConfigurationError as error:
            self.problems.append(str(error))
            return
        # A file's own variables come before those of the file that includes it.
        known = {**variables, **document.variables}
        for number, suite in enumerate(document.suites):
            for index, test in enumerate(suite.tests):
                place: Place = ("suites", number, "tests", index)
                self._add(Case(test, suite.id, f"{path}:{file.line((*place, 'id'))}", known))
                self.problems += [file.problem((*place, *inner), text) for inner, text in _problems(test)]
        for name in document.include:
            self.load(path.parent / name, known)

    def _add(self, case: Case) -> None:
        other = self._ids.setdefault(case.test.id, case.where)
        if other != case.where:
            self.problems.append(f"{case.where}: the id {case.test.id!r} is that of the test in {other}, too")
        self.cases.append(case)


# --- references from step to step -------------------------------------------------------------------------------------


def _problems(test: Test) -> Iterator[tuple[Place, str]]:
    """Yield references to unknown steps or captures, and ids that are used twice, with the place inside of the test."""
    known: dict[str, set[str]] = {}
    for number, step in enumerate(test.steps):
        place: Place = ("steps", number)
        if step.id in known:
            yield (*place, "id"), f"{step.id!r} is the id of an earlier step, too"
        known[step.id] = {*step.capture, "response"} if isinstance(step, AskingStep) else set()
        assertions = step.assertions if isinstance(step, AskingStep) else []
        assertions = [step.assertion] if isinstance(step, AssertionStep) else assertions
        yield from ((place, text) for text in _reference_problems(step, assertions, known))
    yield from (((), text) for text in _reference_problems(None, test.assertions, known))


def _reference_problems(
    step: Form | None, assertions: list[NamedAssertion], known: Mapping[str, set[str]]
) -> Iterator[str]:
    named = list(references(step.model_dump())) if step is not None else []
    named += [assertion.source for assertion in assertions if "{{" not in assertion.source]
    for reference in named:
        step_id, _, name = reference.partition(".")
        if not name or step_id == "env":
            continue
        if step_id not in known:
            yield f"{{{{{reference}}}}}: no step before this one has the id {step_id!r}"
        elif re.split(r"[.\[]", name)[0] not in known[step_id]:
            yield f"{{{{{reference}}}}}: step {step_id!r} captures {', '.join(sorted(known[step_id])) or 'nothing'}"
