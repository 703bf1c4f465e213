"""The ACTS file format (A2A pull request 1882, Appendix A) as pydantic models (pure).

Assertions stay plain data: only the value that ``{type: array, count: 1}`` is compared with tells whether ``type`` is a
member or an operator (:mod:`.assertions`).
"""

from __future__ import annotations

import itertools
import json
import re
import urllib.parse
from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import (
    AfterValidator,
    AliasChoices,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Discriminator,
    Field,
    Tag,
    model_validator,
)

from pytest_a2a_bench.conformance.acts.values import Until, path_steps
from pytest_a2a_bench.conformance.protocol.operations import OPERATIONS, SENDING

CARD = "GetAgentCard"
# ``create_push_config`` is CreateTaskPushNotificationConfig, and the others are named alike.
_NAMES = {
    re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name).lower().replace("task_push_notification_config", "push_config"): name
    for name in (*OPERATIONS, CARD)
}
_SAME_ERRORS = (
    *("TaskNotFoundError", "TaskNotCancelableError", "UnsupportedOperationError", "ContentTypeNotSupportedError"),
    *("InvalidParamsError", "VersionNotSupportedError", "PushNotificationNotSupportedError"),
    *("ExtensionSupportRequiredError", "MethodNotFoundError", "InternalError"),
)
ERROR_TYPES: Mapping[str, str] = {
    **{name: name for name in _SAME_ERRORS},
    # A2A has no error of that name; an agent that cannot stream answers UnsupportedOperationError (3.3.4).
    "StreamingNotSupportedError": "UnsupportedOperationError",
    "ExtendedCardNotSupportedError": "ExtendedAgentCardNotConfiguredError",
    "JSONParseError": "ParseError",
}
"""ACTS' name of an error -> the specification's."""

_METHODS = {method: op.name for op in OPERATIONS.values() for method in (op.name, op.rpc03) if method}
_POSTED = {
    re.compile(re.sub(r"\\{\w+\\}", "[^/]+", re.escape(op.rest[1])) + "$"): op.name
    for op in OPERATIONS.values()
    if op.rest[0] == "POST"
}


# --- values -----------------------------------------------------------------------------------------------------------


def _named(names: Collection[str]) -> Callable[[Any], Any]:
    def check(value: Any) -> Any:
        if not isinstance(value, dict | list) and value not in names:
            raise ValueError(f"there is no {value!r}; there are {', '.join(names)}")
        return value

    return check


def _with_patterns(assertion: Any) -> Any:
    """Check the regular expressions of an assertion, before anything is sent."""
    for key, inner in assertion.items() if isinstance(assertion, Mapping) else ():
        if key != "matches" or not isinstance(inner, str):
            _with_patterns(inner)
            continue
        try:
            re.compile(inner)
        except re.error as error:
            raise ValueError(f"matches: {inner!r} is no regular expression: {error}") from error
    for inner in assertion if isinstance(assertion, list) else ():
        _with_patterns(inner)
    return assertion


def _checked(check: Callable[[str], object]) -> AfterValidator:
    def validate(text: str) -> str:
        check(text)
        return text

    return AfterValidator(validate)


Transport = Literal["jsonrpc", "grpc", "rest"]
Path = Annotated[str, _checked(path_steps)]
Assertion = Annotated[Any, AfterValidator(_with_patterns)]
Members = Annotated[dict[str, Any], AfterValidator(_with_patterns)]


# --- forms ------------------------------------------------------------------------------------------------------------


class Form(BaseModel):
    """A mapping with exactly the keys that are declared."""

    model_config = ConfigDict(extra="forbid", frozen=True)


def known_keys(form: type[Form] = Form) -> set[str]:
    """Return every key of the format, for suggestions."""
    return set(form.model_fields).union(*map(known_keys, form.__subclasses__()))


class Preconditions(Form):
    """The declarations of the card that a test needs to apply.

    :param authentication: whether it must demand credentials (pull request 2227).
    """

    capabilities: dict[str, Any] = {}
    skills: list[dict[str, Any]] = []
    transport: list[Transport] = []
    extensions: list[str] = []
    authentication: bool | None = None
    description: str = ""


class CollectionMatch(Form):
    """A path with ``[*]``, and the assertion about its elements."""

    path: Path
    match: Members


class NamedAssertion(Form):
    """An assertion about the answer of an earlier step: exactly one of match, any, all and none."""

    source: str
    id: str = ""
    description: str = ""
    path: Path | Literal[""] = ""
    match: Assertion = None
    any: CollectionMatch | None = None
    all: CollectionMatch | None = None
    none: CollectionMatch | None = None

    @property
    def kinds(self) -> list[str]:
        """The forms that are given."""
        return [name for name in ("match", "any", "all", "none") if getattr(self, name) is not None]

    @model_validator(mode="after")
    def _check(self) -> Self:
        if len(self.kinds) != 1:
            found = " and ".join(self.kinds) or "none of them"
            raise ValueError(f"an assertion has one of match, any, all and none; found {found}")
        return self


class Raw(Form):
    """An HTTP request that is sent as it is written."""

    method: Literal["GET", "POST", "PUT", "DELETE"]
    path: str
    headers: dict[str, str] = {}
    body: Any = None
    body_raw: str | None = None

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.body is not None and self.body_raw is not None:
            raise ValueError("body and body_raw are both given")
        return self

    @property
    def document(self) -> Any:
        """The body as JSON; None where it is not JSON."""
        try:
            return self.body if self.body_raw is None else json.loads(self.body_raw)
        except (ValueError, RecursionError):
            return None

    @property
    def operation(self) -> str:
        """The A2A operation that it asks for, by its path or its JSON-RPC method; empty where neither names one."""
        path = urllib.parse.unquote(re.split(r"[?#]", self.path)[0]).rstrip("/")
        document = self.document
        method = document.get("method") if isinstance(document, Mapping) else None
        # A tenant, or the path of the interface, may stand before the path of the operation.
        by_path = next((name for end, name in _POSTED.items() if end.search(path)), "")
        by_method = _METHODS.get(method, "") if isinstance(method, str) else ""
        return by_path if by_path in SENDING else by_method or by_path

    @property
    def params(self) -> Mapping[str, Any]:
        """The operation's parameters, as far as the body has them."""
        document = self.document
        found = document.get("params") if isinstance(document, Mapping) and "method" in document else document
        return found if isinstance(found, Mapping) else {}


class Repeat(Form):
    """Ask again until a condition holds."""

    until: Annotated[str, _checked(Until)]
    max_attempts: int = 10
    delay_ms: int = 1000
    backoff: Literal["none", "linear", "exponential"] = "none"

    @property
    def pauses(self) -> Iterator[float]:
        """Seconds before each further attempt."""
        for attempt in range(1, self.max_attempts):
            factor = {"none": 1, "linear": attempt, "exponential": 2 ** min(attempt - 1, 16)}[self.backoff]
            yield max(self.delay_ms, 0) * factor / 1000

    @property
    def seconds(self) -> float:
        """All pauses together; of the many attempts that a file may ask for, the first ten thousand."""
        return sum(itertools.islice(self.pauses, 10_000))


class Expect(Form):
    """Assertions about an answer; ``headers`` is of pull request 2227."""

    status: Assertion = None
    body: Members | None = None
    headers: Members = {}


class ExpectError(Form):
    """Assertions about an error; without ``error_type``, which the first draft calls ``code``, any error will do."""

    error_type: Annotated[Assertion, AfterValidator(_named(ERROR_TYPES))] = Field(
        None, validation_alias=AliasChoices("error_type", "code")
    )
    message: Assertion = None
    data: Assertion = None
    details: Members | None = None


class ExpectStream(Form):
    """Assertions about the events of a stream."""

    timeout_ms: int | None = None
    min_count: int | None = None
    max_count: int | None = None
    ordering: Literal["monotonic_state"] | None = None
    events: list[Members] = []
    final_event: Members | None = None
    each_event: Members | None = None


# --- steps ------------------------------------------------------------------------------------------------------------


class _Step(Form):
    id: str
    description: str = ""
    delay_ms: int = 0


class AskingStep(_Step):
    """A step that asks the agent: an :class:`OperationStep` or a :class:`RawStep`."""

    expect: Expect | None = None
    expect_error: ExpectError | None = None
    expect_stream: ExpectStream | None = None
    capture: dict[str, Path] = {}
    assertions: list[NamedAssertion] = []
    repeat: Repeat | None = None

    @model_validator(mode="after")
    def _check(self) -> Self:
        has_body = self.expect is not None and self.expect.body is not None
        if self.expect_error is not None and (self.expect_stream is not None or has_body):
            raise ValueError("an answer and an error are both expected")
        return self


class OperationStep(AskingStep):
    """Ask an operation, over any binding."""

    operation: Annotated[str, AfterValidator(_named(_NAMES))]
    params: dict[str, Any] = {}

    @property
    def a2a_operation(self) -> str:
        """The specification's name of the operation; one parameter of ``get_agent_card`` makes it another one."""
        if self.operation == "get_agent_card" and self.params.get("extended") is True:
            return "GetExtendedAgentCard"
        return _NAMES[self.operation]


class RawStep(AskingStep):
    """Send an HTTP request as it is written."""

    raw: Raw


class ClientStep(_Step):
    """Let a client read an answer; no agent is asked."""

    client_response: dict[str, Any]
    expect_parsed: dict[str, Any]


class AssertionStep(_Step):
    """Assert something about an earlier answer."""

    assertion: NamedAssertion


_KINDS = ("operation", "raw", "client_response", "assertion")


def _kind(step: Any) -> str:
    # A step without any of them is read as an operation, so that the message names the key that was misspelled.
    return next((f"<{kind}>" for kind in _KINDS if isinstance(step, Mapping) and kind in step), "<operation>")


# --- spellings of the first draft, which 26 of its 111 tests use ------------------------------------------------------

_OLD_OPERATIONS = {
    "set_push_notification_config": "create_push_config",
    "get_push_notification_config": "get_push_config",
    "list_push_notification_configs": "list_push_configs",
    "delete_push_notification_config": "delete_push_config",
}
_SOME_ERROR = {"exists": True}


def _modernised(step: Any) -> Any:
    """Return a step in the spelling of the draft's grammar."""
    if not isinstance(step, dict):
        return step
    found = dict(step)
    if isinstance(operation := found.get("operation"), str):
        found["operation"] = _OLD_OPERATIONS.get(operation, operation)
    if isinstance(expect := found.get("expect"), dict):
        kept = {name: value for name, value in expect.items() if name in Expect.model_fields}
        # Other members are those of the answer's body.
        body = {name: value for name, value in expect.items() if name not in kept}
        if body.get("error") == _SOME_ERROR and "operation" in step:
            del body["error"]
            # A status beside it is no number.
            found["expect_error"], kept = {}, {name: value for name, value in kept.items() if name != "status"}
        if body:
            kept["body"] = {**(kept.get("body") or {}), **body}
        found["expect"] = kept or None
    return found


Step = Annotated[
    Annotated[OperationStep, Tag("<operation>")]
    | Annotated[RawStep, Tag("<raw>")]
    | Annotated[ClientStep, Tag("<client_response>")]
    | Annotated[AssertionStep, Tag("<assertion>")],
    Discriminator(_kind),
    BeforeValidator(_modernised),
]


# --- files ------------------------------------------------------------------------------------------------------------


class Test(Form):
    """One test."""

    __test__: ClassVar[bool] = False

    id: Annotated[str, Field(pattern=r"\S")]
    name: str
    level: Literal["must", "should", "may"]
    steps: Annotated[list[Step], Field(min_length=1)]
    description: str = ""
    spec_ref: str = ""
    tags: list[str] = []
    transport: list[Transport] = []
    preconditions: Preconditions = Preconditions()
    requires_behaviors: list[str] = []
    origin: str = ""
    runner_requirements: list[str] = []
    assertions: list[NamedAssertion] = []

    @model_validator(mode="after")
    def _check(self) -> Self:
        if not self.transport and all(isinstance(step, RawStep) for step in self.steps):
            raise ValueError("a test of raw steps alone must say its transport: they have the form of one binding")
        return self


class Suite(Form):
    """Tests under one name."""

    id: str
    name: str
    tests: list[Test]
    description: str = ""
    tags: list[str] = []


class Document(Form):
    """One file: suites of its own, other files, or both."""

    acts_version: str
    spec_version: Literal["1.0"]
    spec_ref: str = ""
    metadata: dict[str, Any] = {}
    variables: dict[str, str] = {}
    include: list[str] = []
    suites: list[Suite] = []

    @model_validator(mode="after")
    def _check(self) -> Self:
        if not self.include and not self.suites:
            raise ValueError("it has neither suites nor include")
        return self


class Behavior(BaseModel):
    """The behavior of an agent for a prefix of a message; only the prefix is used here."""

    prefix: str


class Behaviors(Form):
    """The file that lists the prefixes that an agent knows (``acts/sut-behaviors.yaml``)."""

    acts_version: str
    behaviors: list[Behavior]
