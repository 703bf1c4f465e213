"""ACTS files become cases: what they include, spellings of older drafts, and everything that is wrong with them."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pytest_a2a_bench.conformance.acts.assertions import patterns
from pytest_a2a_bench.conformance.acts.document import STEP_KINDS, Behaviors, Document, NamedAssertion, Step, Test
from pytest_a2a_bench.conformance.acts.values import Until, references, steps_of
from pytest_a2a_bench.conformance.acts.yaml_file import Place, YamlFile, shortened
from pytest_a2a_bench.errors import ConfigurationError

MASTER = "suite.acts.yaml"
"""The file of a directory that names the others."""

ERROR_TYPES: Mapping[str, str] = {
    "TaskNotFoundError": "TaskNotFoundError",
    "TaskNotCancelableError": "TaskNotCancelableError",
    "UnsupportedOperationError": "UnsupportedOperationError",
    "ContentTypeNotSupportedError": "ContentTypeNotSupportedError",
    "InvalidParamsError": "InvalidParamsError",
    "VersionNotSupportedError": "VersionNotSupportedError",
    "PushNotificationNotSupportedError": "PushNotificationNotSupportedError",
    # A2A has no such error: what cannot be streamed is not supported (3.3.4).
    "StreamingNotSupportedError": "UnsupportedOperationError",
    "ExtensionSupportRequiredError": "ExtensionSupportRequiredError",
    "ExtendedCardNotSupportedError": "ExtendedAgentCardNotConfiguredError",
    "JSONParseError": "ParseError",
    "MethodNotFoundError": "MethodNotFoundError",
    "InternalError": "InternalError",
}
"""Names of errors in ACTS, and the specification's own."""

# The first draft's tests were written before its grammar was: 26 of the 111 use these.
_OLD_OPERATIONS = {
    "set_push_notification_config": "create_push_config",
    "get_push_notification_config": "get_push_config",
    "list_push_notification_configs": "list_push_configs",
    "delete_push_notification_config": "delete_push_config",
}
_EXPECTED = ("status", "body", "headers")
_ANSWERED = ("expect", "expect_error", "expect_stream", "capture", "repeat")


@dataclass(frozen=True, slots=True)
class Case:
    """One test, ready to be made.

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

    :raises MissingExtraError: without PyYAML.
    :raises ConfigurationError: naming all that is wrong, each by file, line and key.
    """
    loader = _Loader()
    for file in _files(path):
        loader.load(file, {})
    if not loader.problems and not loader.cases:
        loader.problems.append(f"{path}: it has no tests")
    if loader.problems:
        raise ConfigurationError(shortened(loader.problems))
    return tuple(loader.cases)


def load_behaviors(path: Path) -> frozenset[str]:
    """Return the prefixes that an agent's ``sut-behaviors.yaml`` says it knows.

    :raises MissingExtraError: without PyYAML.
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


class _Loader:
    def __init__(self) -> None:
        self.cases: list[Case] = []
        self.problems: list[str] = []
        self._seen: set[Path] = set()
        self._ids: dict[str, str] = {}

    def load(self, path: Path, variables: Mapping[str, str]) -> None:
        """Read one file and what it includes."""
        if path.resolve() in self._seen:
            return
        self._seen.add(path.resolve())
        try:
            file = YamlFile(path)
            document = file.read(Document, _today)
        except ConfigurationError as error:
            self.problems.append(str(error))
            return
        if not document.include and not document.suites:
            self.problems.append(file.problem((), "it has neither suites nor include"))
        # A file's own win over those of the file that includes it.
        known = {**variables, **document.variables}
        for number, suite in enumerate(document.suites):
            for index, test in enumerate(suite.tests):
                place: Place = ("suites", number, "tests", index)
                self._add(Case(test, suite.id, f"{path}:{file.line((*place, 'id'))}", known))
                self.problems += [file.problem((*place, *inner), text) for inner, text in _problems(test)]
        for name in document.include:
            self.load(path.parent / name, known)

    def _add(self, case: Case) -> None:
        if not case.test.id.strip():
            self.problems.append(f"{case.where}: the id of the test is empty")
        other = self._ids.setdefault(case.test.id, case.where)
        if other != case.where:
            self.problems.append(f"{case.where}: the id {case.test.id!r} is that of the test in {other}, too")
        self.cases.append(case)


# --- spellings of other drafts ----------------------------------------------------------------------------------------


def _today(content: Any) -> Any:
    """Write a document as the draft's grammar has it; what is no document is left to the validation."""
    if not isinstance(content, dict):
        return content
    suites = _each(content.get("suites"), lambda suite: _with(suite, "tests", _test))
    return {**content, "suites": suites} if "suites" in content else content


def _with(value: Any, name: str, change: Callable[[Any], Any]) -> Any:
    if isinstance(value, dict) and name in value:
        return {**value, name: _each(value[name], change)}
    return value


def _each(values: Any, change: Callable[[Any], Any]) -> Any:
    return [change(value) for value in values] if isinstance(values, list) else values


def _test(test: Any) -> Any:
    return _with(test, "steps", _step)


def _step(step: Any) -> Any:
    if not isinstance(step, dict):
        return step
    found = dict(step)
    operation = found.get("operation")
    if isinstance(operation, str):
        found["operation"] = _OLD_OPERATIONS.get(operation, operation)
    if "expect_error" in found:
        found["expect_error"] = _refusal(found["expect_error"])
    return _with_expectation(found)


def _refusal(error: Any) -> Any:
    """Return what an error must be: a code that is a name is the type of ACTS' grammar."""
    if isinstance(error, dict) and "code" in error and "error_type" not in error and _is_named(error["code"]):
        return {("error_type" if name == "code" else name): value for name, value in error.items()}
    return error


def _is_named(code: Any) -> bool:
    if isinstance(code, dict | list):
        return any(map(_is_named, code.values() if isinstance(code, dict) else code))
    return isinstance(code, str) and code != "number"


def _with_expectation(step: dict[str, Any]) -> dict[str, Any]:
    """Return a step of which nothing but status, headers and body stands directly under ``expect``."""
    expect = step.get("expect")
    stray = [name for name in expect if name not in _EXPECTED] if isinstance(expect, dict) else []
    if not isinstance(expect, dict) or not stray:
        return step
    kept = {name: value for name, value in expect.items() if name in _EXPECTED}
    # Of a request by hand the body is the whole document, which has the error among its members.
    is_told = "error" in stray and "raw" not in step
    rest = {name: expect[name] for name in stray if not (is_told and name == "error")}
    found = {name: value for name, value in step.items() if name != "expect"}
    if is_told and not _is_nothing(expect["error"]):
        # A refusal, told in the place of an answer.
        found["expect_error"] = _said_of_error(expect["error"], found.get("expect_error"))
        kept = {name: value for name, value in kept.items() if name != "status" or isinstance(value, int)}
    if rest:
        body = kept.get("body")
        kept["body"] = {**body, **rest} if isinstance(body, dict) else rest
    return {**found, "expect": kept} if kept else found


def _is_nothing(error: Any) -> bool:
    """Tell whether it says that there is no error."""
    return error in (None, False) or (
        isinstance(error, dict) and (error.get("absent") is True or error.get("exists") is False)
    )


def _said_of_error(error: Any, other: Any) -> Any:
    """Return ``expect.error`` as ``expect_error``, beside what that says already."""
    if error is True:
        error = {}
    if not isinstance(error, dict):
        return _refusal({"code": error})
    # That there is one goes without saying; other members are told as keys that ``expect_error`` does not have.
    always = {"exists": True, "absent": False, "type": "object"}
    members = {name: value for name, value in error.items() if name not in always or value != always[name]}
    return {**_refusal(members), **(other if isinstance(other, dict) else {})}


# --- what types do not say --------------------------------------------------------------------------------------------


def _problems(test: Test) -> Iterator[tuple[Place, str]]:
    """Yield what is wrong with a test of the right types, with the place inside of it."""
    known: dict[str, set[str]] = {}
    if not test.steps:
        yield ("steps",), "has no steps"
    for number, step in enumerate(test.steps):
        place: Place = ("steps", number)
        if step.id in known:
            yield (*place, "id"), f"{step.id!r} is the id of an earlier step, too"
        yield from ((place, text) for text in _form_problems(step))
        # Of several streams nobody could say which one is meant.
        is_answered = step.kinds[:1] in (["operation"], ["raw"]) and not step.streams
        known[step.id] = {*step.capture, "response"} if is_answered else set()
        # What is sent can know of earlier steps alone, and what is expected of this one, too.
        yield from ((place, text) for text in _value_problems(step, known))
    if test.steps and not test.transport and all(step.raw is not None for step in test.steps):
        yield (), "a test of raw steps alone must say its transport: they have the form of one binding"
    for number, assertion in enumerate(test.assertions):
        yield from ((("assertions", number), text) for text in _assertion_problems(assertion, known))


def _form_problems(step: Step) -> Iterator[str]:
    if len(step.kinds) != 1:
        found = " and ".join(step.kinds) or "none of them"
        yield f"a step has one of {', '.join(STEP_KINDS[:-1])} and {STEP_KINDS[-1]}; found {found}"
        return
    (kind,) = step.kinds
    if kind != "operation" and step.params:
        yield f"params are those of an operation, and this is a step of {kind}"
    if (kind == "client_response") != (step.expect_parsed is not None):
        yield "client_response and expect_parsed belong together"
    given = [name for name in _ANSWERED if getattr(step, name)]
    if kind in ("client_response", "expect_webhook", "assertion") and given:
        yield f"{', '.join(given)}: a step of {kind} asks the agent nothing"
    if step.expect_webhook is not None and step.expect_webhook.min_count < 1:
        yield f"expect_webhook.min_count: should be 1 or more, found {step.expect_webhook.min_count}"
    yield from _streams_problems(step)
    if step.expect_error is not None and (step.expect_stream is not None or _has_body(step)):
        yield "an answer and an error are both expected"
    if step.raw is not None and step.raw.body is not None and step.raw.body_raw is not None:
        yield "raw.body and raw.body_raw are both given"
    if step.repeat is not None and kind != "operation":
        yield f"repeat is for operations, and this is a step of {kind}"
    named = step.expect_error.error_type if step.expect_error is not None else None
    if isinstance(named, str) and named not in ERROR_TYPES:
        yield f"expect_error.error_type: there is no {named!r}; there are {', '.join(ERROR_TYPES)}"


def _streams_problems(step: Step) -> Iterator[str]:
    """Yield what is wrong with the streams that a step opens at once."""
    if step.streams and (step.capture or step.repeat is not None):
        yield "expect_stream.streams: what one answer has is not captured or repeated of several streams"
    for number, stream in enumerate(step.streams):
        cut, where = stream.disconnect_after, f"expect_stream.streams.{number}"
        if cut is not None and cut < 1:
            yield f"{where}.disconnect_after: should be 1 or more, found {cut}"
        elif cut is not None and stream.max_count is not None:
            yield f"{where}.max_count: says nothing of a stream that is hung up after {cut} events"
        elif cut is not None and (stream.min_count or 0) > cut:
            yield f"{where}.min_count: {stream.min_count} events cannot come where {cut} are read"


def _has_body(step: Step) -> bool:
    return step.expect is not None and step.expect.body is not None


def _value_problems(step: Step, known: Mapping[str, set[str]]) -> Iterator[str]:
    parts = dataclasses.asdict(step)
    # A body that is sent may say "matches" too.
    for pattern in patterns({name: parts[name] for name in parts if name.startswith(("expect", "assert"))}):
        try:
            re.compile(pattern)
        except re.error as error:
            yield f"matches: {pattern!r} is no regular expression: {error}"
    for path in step.capture.values():
        yield from _path_problems(path)
    if step.repeat is not None:
        try:
            Until(step.repeat.until)
        except ValueError as error:
            yield f"repeat.until: {error}"
    for reference in references(parts):
        yield from _reference_problems(reference, known)
    for assertion in (*step.assertions, *([step.assertion] if step.assertion is not None else [])):
        yield from _assertion_problems(assertion, known)


def _assertion_problems(assertion: NamedAssertion, known: Mapping[str, set[str]]) -> Iterator[str]:
    if len(assertion.kinds) != 1:
        found = " and ".join(assertion.kinds) or "none of them"
        yield f"an assertion has one of match, any, all and none; found {found}"
    matches = (assertion.any, assertion.all, assertion.none)
    for path in (assertion.path, *(match.path for match in matches if match is not None)):
        yield from _path_problems(path) if path else ()
    if "{{" not in assertion.source:
        yield from _reference_problems(assertion.source, known)


def _path_problems(path: str) -> Iterator[str]:
    try:
        steps_of(path)
    except ValueError as error:
        yield str(error)


def _reference_problems(reference: str, known: Mapping[str, set[str]]) -> Iterator[str]:
    step, _, name = reference.partition(".")
    if not name or step == "env":
        return
    if step not in known:
        yield f"{{{{{reference}}}}}: no step before this one has the id {step!r}"
    elif re.split(r"[.\[]", name)[0] not in known[step]:
        there = ", ".join(sorted(known[step])) or "nothing"
        yield f"{{{{{reference}}}}}: step {step!r} captures {there}"
    else:
        yield from _path_problems(name)
