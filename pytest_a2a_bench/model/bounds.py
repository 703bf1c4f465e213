"""How much of one reply is read and carried out, and of all replies of one trial (``reply-limits``)."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

MEGABYTE: Final = 1024 * 1024

MAX_DEPTH: Final = 64
"""The deepest nesting that ``depth`` may allow: what we, tau2 and pydantic do with a value recurses over it."""


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
    """CPU seconds of the thread that asks: what other conversations do meanwhile does not count.

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
