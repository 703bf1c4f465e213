"""The names of tasks and trials; messages between user, agent and tools, independent of any protocol's or benchmark's
classes; their bounds (``reply-limits``) and their cost; and the types and plain JSON of the fields of stored
dataclasses.

Limits are for files that may have been edited by hand: pydantic asks each for its part of a schema, without being
imported here.
"""

from __future__ import annotations

import dataclasses
import functools
import hashlib
import json
import re
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Annotated, Any, Final, Literal


@dataclass(frozen=True, slots=True)
class Limits:
    """Keywords of a schema that a type alone does not say."""

    keywords: tuple[tuple[str, object], ...]

    def __get_pydantic_core_schema__(self, source: object, handler: Any) -> dict[str, object]:
        """Return the schema of the type with its limits."""
        return {**handler(source), **dict(self.keywords)}


Finite = Annotated[float, Limits((("allow_inf_nan", False),))]
"""Any number; JSON as Python writes it knows NaN and Infinity too, and no sum survives them."""

Seconds = Annotated[float, Limits((("allow_inf_nan", False), ("ge", 0)))]
"""A duration, or anything else that is measured and not negative."""

# Larger numbers are no counts, and do not fit into a float that they are averaged with.
Count = Annotated[int, Limits((("ge", 0), ("lt", 2**63)))]
"""A number of things."""


_LEAVES = frozenset({str, int, float, bool, type(None)})


@functools.cache
def _names(kind: type[Any]) -> tuple[str, ...]:
    return tuple(f.name for f in dataclasses.fields(kind))


def to_plain(value: Any) -> Any:
    """Return dict, list, str, int, float, bool and None for anything made of dataclasses."""
    kind: Any = type(value)
    if kind in _LEAVES:
        return value
    if kind is dict:
        return {k if type(k) is str else str(k): to_plain(v) for k, v in value.items()}
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {name: to_plain(getattr(value, name)) for name in _names(kind)}
    if isinstance(value, Mapping):
        return {str(k): to_plain(v) for k, v in value.items()}
    if isinstance(value, tuple | list):
        return [to_plain(v) for v in value]
    return value


def digest(value: Any) -> str:
    """Return 16 hex digits for a JSON value; a value of another type makes a difference rather than an exception."""
    return hashlib.sha256(json.dumps(value, sort_keys=True, default=str).encode()).hexdigest()[:16]


_SLUG_LENGTH = 40
_DIGITS = 8


def slugify(task_id: str) -> str:
    """Return a short, unique, ``-k``-safe form of a task id.

    Ids of at most 40 characters made of letters, digits, ``_``, ``-`` and ``.`` are returned as they are; any other
    becomes a slug of at most 40 characters plus ``-`` and 8 decimal digits of the SHA-256 of the full id: no letters,
    so that no word of ``-k`` (``b2c``, ``add``) finds itself in a hash.
    """
    if 0 < len(task_id) <= _SLUG_LENGTH and re.fullmatch(r"[\w.-]+", task_id, re.ASCII):
        return task_id
    slug = re.sub(r"[^A-Za-z0-9_]+", "-", task_id).strip("-")[:_SLUG_LENGTH].strip("-")
    number = int.from_bytes(hashlib.sha256(task_id.encode()).digest()[:8])
    digest = f"{number % 10**_DIGITS:0{_DIGITS}d}"
    return f"{slug}-{digest}" if slug else digest


def numbered(task_id: str) -> list[tuple[bool, int, str]]:
    """Return the natural sort key of a task id: ``2`` before ``11``, and ``task_2`` before ``task_11``."""
    parts = re.split(r"([0-9]{1,18})", task_id)
    return [(bool(number % 2), int(part) if number % 2 else 0, part) for number, part in enumerate(parts) if part]


_KEY = re.compile(
    r"(?P<suite>[^/]+)/(?P<domain>[^/]+)/(?P<task>.+)#(?P<trial>[0-9]{1,9})(?:@(?P<label>[\w.-]+))?"
    r"(?::(?P<agent>[A-Za-z][A-Za-z0-9_]*))?",
    re.DOTALL,
)
_PATTERN = r"^[^/]+/[^/]+/(.|\n)+#[0-9]{1,9}(@[\w.-]+)?(:[A-Za-z][A-Za-z0-9_]*)?$"
"""The same for JSON Schema, which has no flags and no names."""


@dataclass(frozen=True, slots=True, order=True)
class TrialKey:
    """The stable name of one trial: ``tau2/airline/12#0``, or ``tau2/airline/12#0@label``, or ``tau2/airline/12#0:b``.

    Baselines, resume, file names and durations use it; pytest's node id is never used for that.

    :param agent: the name of the agent under test in options; None if they give it none.
    """

    suite: str
    domain: str
    task_id: str
    trial: int = 0
    label: str | None = None
    agent: str | None = None

    def __str__(self) -> str:
        label = f"@{self.label}" if self.label else ""
        return f"{self.task_key}#{self.trial}{label}" + (f":{self.agent}" if self.agent else "")

    @property
    def task_key(self) -> str:
        """The task without the trial: ``tau2/airline/12``."""
        return f"{self.suite}/{self.domain}/{self.task_id}"

    @property
    def short_id(self) -> str:
        """The id inside the brackets of a node id: ``12-t0``, or ``b-12-t0``."""
        return (f"{self.agent}-" if self.agent else "") + f"{slugify(self.task_id)}-t{self.trial}"

    @property
    def of_any_agent(self) -> TrialKey:
        """The key without the agent: trials of several agents that are compared have it in common."""
        return replace(self, agent=None)

    @property
    def file_stem(self) -> str:
        """A file name without suffix: readable, unique, and safe whatever the task id contains."""
        readable = slugify(f"{self.suite}-{self.domain}-{slugify(self.task_id)}")
        label = f"-{slugify(self.label)}" if self.label else ""
        agent = f"-{self.agent}" if self.agent else ""
        digest = hashlib.sha256(str(self).encode()).hexdigest()[:8]
        return f"{readable}{label}-t{self.trial}{agent}-{digest}"

    @classmethod
    def parse(cls, text: str) -> TrialKey:
        """Read a key back from its text.

        :raises ValueError: if the text is not ``suite/domain/task#trial[@label][:agent]``.
        """
        match = _KEY.fullmatch(text)
        if match is None:
            raise ValueError(f"not a trial key: {text!r}; expected suite/domain/task#trial, such as tau2/airline/12#0")
        return cls(match["suite"], match["domain"], match["task"], int(match["trial"]), match["label"], match["agent"])

    @classmethod
    def __get_pydantic_core_schema__(cls, source: object, handler: object) -> dict[str, object]:
        """Have files hold a key as its text."""
        return _read_with(cls.parse)


@functools.lru_cache(16_384)  # every part of a run names all of its trials
def _canonical(text: str) -> str:
    return str(TrialKey.parse(text))


class _Text:
    """Marks a text that is a key."""

    def __get_pydantic_core_schema__(self, source: object, handler: object) -> dict[str, object]:
        return _read_with(_canonical)


KeyText = Annotated[str, _Text()]
"""``suite/domain/task#trial``, with ``@label`` where a task is tested twice, and ``:agent`` where agents have names."""


def _read_with(parse: Callable[[str], object]) -> dict[str, object]:
    text = {"type": "str", "strict": True, "pattern": _PATTERN}
    return {"type": "function-after", "function": {"type": "no-info", "function": parse}, "schema": text}


@dataclass(frozen=True, slots=True)
class BenchTask:
    """One task of a benchmark, as far as it is known without importing the benchmark.

    :param splits: every split that lists the task, e.g. ``("base", "test")``.
    :param keywords: extra words for pytest's ``-k``.
    :param category: its category, if its benchmark has categories.
    """

    suite: str
    domain: str
    task_id: str
    splits: tuple[str, ...] = ()
    keywords: tuple[str, ...] = ()
    category: str = ""

    def key(self, trial: int = 0, label: str | None = None, agent: str | None = None) -> TrialKey:
        """Return the key of one of this task's trials."""
        return TrialKey(self.suite, self.domain, self.task_id, trial, label, agent)


def json_object(text: str | bytes) -> dict[str, Any]:
    """Return the object that a text is in JSON; an empty one for anything else, however deep."""
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


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
