"""What an ACTS file may say (A2A pull request 1882, Appendix A), as types that pydantic validates (pure).

Assertions stay plain data: in ``{status: {state: X}}`` and ``{type: array, count: 1}`` nothing but a value that is
looked at tells a member from an operator (:mod:`.assertions`).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, fields
from typing import Any, Literal

from pydantic import ConfigDict

Transport = Literal["jsonrpc", "grpc", "rest"]
Operation = Literal[
    "send_message",
    "send_streaming_message",
    "get_task",
    "list_tasks",
    "cancel_task",
    "subscribe_to_task",
    "get_agent_card",
    "get_extended_agent_card",
    "create_push_config",
    "get_push_config",
    "list_push_configs",
    "delete_push_config",
]
STEP_KINDS = ("operation", "raw", "client_response", "expect_webhook", "assertion")
"""The forms of a step."""
_FORM = ConfigDict(extra="forbid")


@dataclass(frozen=True, slots=True)
class Metadata:
    """Words for people."""

    __pydantic_config__ = _FORM
    title: str = ""
    description: str = ""
    authors: list[str] = field(default_factory=list)
    license: str = ""


@dataclass(frozen=True, slots=True)
class Preconditions:
    """What the card must say for a test to apply.

    :param authentication: whether it must want credentials (pull request 2227).
    """

    __pydantic_config__ = _FORM
    capabilities: dict[str, Any] = field(default_factory=dict)
    skills: list[dict[str, Any]] = field(default_factory=list)
    transport: list[Transport] = field(default_factory=list)
    extensions: list[str] = field(default_factory=list)
    authentication: bool | None = None
    description: str = ""


@dataclass(frozen=True, slots=True)
class CollectionMatch:
    """A path with ``[*]``, and what an element that it leads to must be."""

    __pydantic_config__ = _FORM
    path: str
    match: dict[str, Any]


@dataclass(frozen=True, slots=True)
class NamedAssertion:
    """An assertion about what an earlier step was answered with; exactly one of match, any, all and none."""

    __pydantic_config__ = _FORM
    source: str
    id: str = ""
    description: str = ""
    path: str = ""
    match: Any = None
    any: CollectionMatch | None = None
    all: CollectionMatch | None = None
    none: CollectionMatch | None = None

    @property
    def kinds(self) -> list[str]:
        """Which of the four it has."""
        return [name for name in ("match", "any", "all", "none") if getattr(self, name) is not None]


@dataclass(frozen=True, slots=True)
class Raw:
    """An HTTP request as it is to be sent."""

    __pydantic_config__ = _FORM
    method: Literal["GET", "POST", "PUT", "DELETE"]
    path: str
    headers: dict[str, str] = field(default_factory=dict)
    body: Any = None
    body_raw: str | None = None


@dataclass(frozen=True, slots=True)
class ClientResponse:
    """An answer that a client is to read."""

    __pydantic_config__ = _FORM
    operation: Operation
    wire_payload: Any


@dataclass(frozen=True, slots=True)
class Repeat:
    """Asking again until something holds."""

    __pydantic_config__ = _FORM
    until: str
    max_attempts: int = 10
    delay_ms: int = 1000
    backoff: Literal["none", "linear", "exponential"] = "none"

    @property
    def pauses(self) -> Iterator[float]:
        """Seconds before each further attempt."""
        for attempt in range(1, self.max_attempts):
            factor = {"none": 1, "linear": attempt, "exponential": 2 ** min(attempt - 1, 16)}[self.backoff]
            yield self.delay_ms * factor / 1000

    @property
    def seconds(self) -> float:
        """All pauses together; not by adding them up, for a file may want any number."""
        most = max(self.max_attempts - 1, 0)
        doubled: int = 2 ** min(most, 17) - 1 + 2**16 * max(most - 17, 0)
        factor = {"none": most, "linear": most * (most + 1) // 2, "exponential": doubled}[self.backoff]
        return max(self.delay_ms, 0) * factor / 1000


@dataclass(frozen=True, slots=True)
class Expect:
    """What an answer must be; ``headers`` is of pull request 2227."""

    __pydantic_config__ = _FORM
    status: Any = None
    body: dict[str, Any] | None = None
    headers: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ExpectError:
    """What a refusal must be; without ``error_type`` and ``code`` any error will do.

    :param code: the number of the error, which the grammar does not have and files do.
    """

    __pydantic_config__ = _FORM
    error_type: Any = None
    code: Any = None
    message: Any = None
    data: Any = None
    details: dict[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class StreamAssertions:
    """What the events of one stream must be."""

    __pydantic_config__ = _FORM
    min_count: int | None = None
    max_count: int | None = None
    ordering: Literal["monotonic_state"] | None = None
    events: list[dict[str, Any]] = field(default_factory=list)
    final_event: dict[str, Any] | None = None
    each_event: dict[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class OneOfStreams(StreamAssertions):
    """One of several streams, with what must be true of it besides (pull request 2227).

    :param disconnect_after: how many of its events are read before it is hung up.
    """

    description: str = ""
    disconnect_after: int | None = None


@dataclass(frozen=True, slots=True)
class ExpectStream(StreamAssertions):
    """What must be true of a stream, or of each where a step opens several at once.

    :param timeout_ms: for the whole step.
    :param streams: one for each that is opened, with the step's own request (pull request 2227); empty for one stream.
    """

    timeout_ms: int | None = None
    streams: list[OneOfStreams] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class ExpectWebhook:
    """What must be delivered to ``{{webhookUrl}}`` about a task (pull request 2227).

    :param each_event: of every notification so far; ``headers`` and ``token`` too.
    :param final_event: of the last one.
    :param token: of the header X-A2A-Notification-Token.
    """

    __pydantic_config__ = _FORM
    task_id: str
    min_count: int = 1
    timeout_ms: int = 10_000
    each_event: dict[str, Any] | None = None
    final_event: dict[str, Any] | None = None
    headers: dict[str, Any] = field(default_factory=dict)
    token: Any = None


@dataclass(frozen=True, slots=True)
class Step:
    """One step; exactly one of operation, raw, client_response, expect_webhook and assertion."""

    __pydantic_config__ = _FORM
    id: str
    description: str = ""
    operation: Operation | None = None
    params: dict[str, Any] = field(default_factory=dict)
    raw: Raw | None = None
    client_response: ClientResponse | None = None
    expect_webhook: ExpectWebhook | None = None
    assertion: NamedAssertion | None = None
    expect: Expect | None = None
    expect_error: ExpectError | None = None
    expect_stream: ExpectStream | None = None
    expect_parsed: dict[str, Any] | None = None
    capture: dict[str, str] = field(default_factory=dict)
    assertions: list[NamedAssertion] = field(default_factory=list)
    repeat: Repeat | None = None
    delay_ms: int = 0

    @property
    def kinds(self) -> list[str]:
        """Which of the five forms it has."""
        return [name for name in STEP_KINDS if getattr(self, name) is not None]

    @property
    def streams(self) -> list[OneOfStreams]:
        """The streams that it opens at once; empty where it opens one, or none."""
        return self.expect_stream.streams if self.expect_stream is not None else []


@dataclass(frozen=True, slots=True)
class Test:
    """One test."""

    __test__ = False
    __pydantic_config__ = _FORM
    id: str
    name: str
    level: Literal["must", "should", "may"]
    steps: list[Step]
    description: str = ""
    spec_ref: str = ""
    tags: list[str] = field(default_factory=list)
    transport: list[Transport] = field(default_factory=list)
    preconditions: Preconditions = field(default_factory=Preconditions)
    requires_behaviors: list[str] = field(default_factory=list)
    origin: str = ""
    runner_requirements: list[str] = field(default_factory=list)
    assertions: list[NamedAssertion] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Suite:
    """Tests under one name."""

    __pydantic_config__ = _FORM
    id: str
    name: str
    tests: list[Test]
    description: str = ""
    tags: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Document:
    """One file: suites of its own, other files, or both."""

    __pydantic_config__ = _FORM
    acts_version: str
    spec_version: Literal["1.0"]
    spec_ref: str = ""
    metadata: Metadata = field(default_factory=Metadata)
    variables: dict[str, str] = field(default_factory=dict)
    include: list[str] = field(default_factory=list)
    suites: list[Suite] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Behavior:
    """What an agent does when it is told a prefix; only the prefix decides anything here."""

    __pydantic_config__ = _FORM
    prefix: str
    description: str = ""
    response_type: str = ""
    terminal_state: str = ""
    artifacts: list[Any] = field(default_factory=list)
    delay_ms: int = 0
    streaming: bool = False


@dataclass(frozen=True, slots=True)
class Behaviors:
    """The file that says which prefixes an agent knows (``acts/sut-behaviors.yaml``)."""

    __pydantic_config__ = _FORM
    acts_version: str
    behaviors: list[Behavior]


def known_keys() -> set[str]:
    """Return every key of the format, to name the one that was meant."""
    expected = (Expect, ExpectError, ExpectStream, OneOfStreams, ExpectWebhook, NamedAssertion, Preconditions)
    forms = (Document, Suite, Test, Step, Raw, Repeat, *expected)
    return {f.name for form in forms for f in fields(form)}
