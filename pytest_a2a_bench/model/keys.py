"""The names of tasks and trials, and the types and plain JSON of the fields of stored dataclasses.

Limits are for files that may have been edited by hand: pydantic asks each for its part of a schema, without being
imported here.
"""

from __future__ import annotations

import dataclasses
import functools
import hashlib
import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Annotated, Any


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
