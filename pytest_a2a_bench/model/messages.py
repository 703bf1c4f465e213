"""Messages between user, agent and tools, independent of any protocol's or benchmark's classes; their bounds
(``reply-limits``) and their cost.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal

from pytest_a2a_bench.model.keys import Count, Finite


@dataclass(frozen=True, slots=True)
class Part:
    """One A2A part, whatever the protocol version calls it.

    Exactly one of ``text``, ``data``, ``url`` and ``raw`` is meaningful, as ``kind`` says.

    :param data: any JSON value (1.0); an object in 0.3.
    :param raw: base64 text of a file's bytes.
    """

    kind: Literal["text", "data", "url", "raw"]
    text: str = ""
    data: Any = None
    url: str = ""
    raw: str = ""
    media_type: str | None = None
    filename: str | None = None
    metadata: Mapping[str, Any] | None = None

    @classmethod
    def of_text(cls, text: str) -> Part:
        """Make a text part."""
        return cls("text", text=text)

    @classmethod
    def of_data(cls, data: Any) -> Part:
        """Make a data part."""
        return cls("data", data=data)


@dataclass(frozen=True, slots=True)
class ToolSpec:
    """A tool that the agent may call.

    :param parameters: JSON Schema of the arguments object (``{"type": "object", "properties": ...}``).
    """

    name: str
    description: str = ""
    parameters: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ToolCall:
    """A call of a tool. ``id`` is empty where the agent gave none."""

    name: str
    arguments: Mapping[str, Any] = field(default_factory=dict)
    id: str = ""


@dataclass(frozen=True, slots=True)
class UserSaid:
    """The user said something to the agent."""

    text: str


@dataclass(frozen=True, slots=True)
class ToolReturned:
    """A tool returned; ``call_id`` is the id of the call that it answers."""

    call_id: str
    name: str
    content: str
    error: bool = False


@dataclass(frozen=True, slots=True)
class AgentSaid:
    """The agent spoke or called tools (used where history is sent again)."""

    text: str | None = None
    calls: tuple[ToolCall, ...] = ()


Event = UserSaid | ToolReturned | AgentSaid


@dataclass(frozen=True, slots=True)
class ToolAccess:
    """Where an agent reaches the tools of one trial by itself: an MCP server over streamable HTTP.

    :param token: its credentials there (``Authorization: Bearer TOKEN``), valid for this trial alone.
    """

    url: str
    token: str = field(repr=False)

    @property
    def headers(self) -> dict[str, str]:
        """The metadata of every request."""
        return {"Authorization": f"Bearer {self.token}"}


@dataclass(frozen=True, slots=True)
class Briefing:
    """The briefing of an agent before the first turn.

    :param facts: details of the task as fields, for dialects that send fields; the policy has them in words.
    :param access: where the agent calls its tools by itself; the tools are then not described to it.
    :param speaking_tool: the tool by which the agent speaks to the user; where there is none, plain text does.
    :param greeting: the agent's first message, which the conversation begins with; empty for none.
    """

    policy: str
    tools: tuple[ToolSpec, ...] = ()
    facts: Mapping[str, Any] = field(default_factory=dict)
    access: ToolAccess | None = None
    speaking_tool: str = ""
    greeting: str = ""


@dataclass(frozen=True, slots=True)
class DialectFinding:
    """Something in a reply that its dialect does not allow.

    :param rule: a stable short id, e.g. ``unreadable-call``, ``prose-where-json-asked``.
    :param raw: the offending text, bounded.
    """

    rule: str
    message: str
    raw: str = ""
    turn: int = 0


MEGABYTE: Final = 1024 * 1024

MAX_DEPTH: Final = 64
"""The deepest nesting that ``depth`` may allow: tau2, pydantic and our own code recurse over values."""


@dataclass(frozen=True, slots=True)
class Bounds:
    """Limits of a reply; the rest is cut off, and a finding names the limit.

    :param calls: calls of tools in one reply that are carried out.
    :param parts: parts of one reply that are read.
    :param bytes: bytes of one answer on the wire, and of all answers of one turn's stream.
    :param depth: levels of lists and objects in a call, or in anything else that an agent writes as JSON.
    :param cpu: CPU seconds for reading one turn's answers from the wire, and as many for finding the calls in them.
    :param total: bytes of all answers of one trial.
    """

    calls: int = 64
    parts: int = 4096
    bytes: int = 16 * MEGABYTE
    depth: int = MAX_DEPTH
    cpu: float = 5.0
    total: int = 256 * MEGABYTE

    @classmethod
    def of(cls, given: Mapping[str, float]) -> Bounds:
        """Return the defaults with some of them changed, by name."""
        values: dict[str, Any] = {name: value if name == "cpu" else int(value) for name, value in given.items()}
        return cls(**values)

    def show(self, name: str) -> str:
        """Return how one bound is given as an option, for messages."""
        value = getattr(self, name)
        in_megabytes = name in ("bytes", "total") and value % MEGABYTE == 0
        return f"--a2a-set reply-limits={name}={f'{value // MEGABYTE}M' if in_megabytes else f'{value:.16g}'}"


DEFAULT_BOUNDS: Final = Bounds()

LARGEST: Final[Mapping[str, float]] = {
    "calls": 1_000_000,
    "parts": 10_000_000,
    "bytes": 2**31 - 1,
    "depth": MAX_DEPTH,
    "cpu": 86_400,
    "total": 2**50,
}
"""The names of all bounds, and the most that each may be."""


class CpuAllowance:
    """CPU seconds of the calling thread: other conversations do not count.

    :param seconds: how many there are.
    """

    def __init__(self, seconds: float, clock: Callable[[], float] = time.thread_time) -> None:
        self._end = clock() + seconds
        self._clock = clock

    @property
    def is_spent(self) -> bool:
        """Whether they are used up."""
        return self._clock() >= self._end


def is_deeper(value: object, limit: int) -> bool:
    """Return whether a JSON value has more levels of lists and objects than the limit; never recurses."""
    level = [value]
    for _ in range(limit):
        level = [child for v in level for child in _children(v) if isinstance(child, (dict, list))]
        if not level:
            return False
    return True


def _children(value: object) -> list[object]:
    if isinstance(value, dict):
        return list(value.values())
    return value if isinstance(value, list) else []


# --- what it costs ---


@dataclass(frozen=True, slots=True)
class Usage:
    """Tokens and money. None means not reported, which is not zero."""

    input_tokens: Count | None = None
    output_tokens: Count | None = None
    cost_usd: Finite | None = None

    @property
    def tokens(self) -> int | None:
        """Input plus output, as far as they are known; None where neither is."""
        return add_known(self.input_tokens, self.output_tokens)  # type: ignore[no-any-return]

    def __add__(self, other: Usage) -> Usage:
        return Usage(
            add_known(self.input_tokens, other.input_tokens),
            add_known(self.output_tokens, other.output_tokens),
            add_known(self.cost_usd, other.cost_usd),
        )


def sum_usage(usages: Iterable[Usage]) -> Usage:
    """Add up the known numbers."""
    total = Usage()
    for usage in usages:
        total = total + usage
    return total


@dataclass(frozen=True, slots=True)
class Cost:
    """Dollars of one or several trials, by who spent them. None means not known, which is not zero.

    :param agent: as the agents under test reported it, or estimated where they reported none.
    :param user: of the simulated user and the judge; ``others`` of further agents.
    :param estimated: whether some of the agent's is an estimate; it is then shown after a tilde.
    """

    agent: float | None = None
    user: float | None = None
    others: float | None = None
    estimated: bool = False

    @property
    def total(self) -> float | None:
        """All together, as far as it is known."""
        return add_known(add_known(self.agent, self.user), self.others)  # type: ignore[no-any-return]

    def __add__(self, other: Cost) -> Cost:
        return Cost(
            add_known(self.agent, other.agent),
            add_known(self.user, other.user),
            add_known(self.others, other.others),
            self.estimated or other.estimated,
        )

    def __str__(self) -> str:
        return dollars(self.total, estimated=self.estimated)

    @property
    def parts(self) -> str:
        """Who spent it, where that is not the agent alone: ``agent ~$59.39, user $6.20``."""
        beside = [f"{who} {dollars(one)}" for who, one in (("user", self.user), ("others", self.others)) if one]
        if not beside:
            return ""
        agent = "not known" if self.agent is None else dollars(self.agent, estimated=self.estimated)
        return ", ".join([f"agent {agent}", *beside])

    @property
    def words(self) -> str:
        """The total and who spent it: ``~$65.59 (agent ~$59.39, user $6.20)``."""
        return f"{self} ({self.parts})" if self.parts else str(self)


def dollars(value: float | None, *, estimated: bool = False) -> str:
    """Return dollars, with as many digits as it takes to see anything."""
    if value is None:
        return "-"
    digits = f"{value:.2f}" if value >= 1 or value == 0 else f"{value:#.2g}" if value >= 0.0001 else f"{value:.1e}"
    return f"{'~' * estimated}${digits}"


def add_known(a: Any, b: Any) -> Any:
    """Add known numbers: None is not zero, and the sum of none is None."""
    if a is None or b is None:
        return a if b is None else b
    return a + b
