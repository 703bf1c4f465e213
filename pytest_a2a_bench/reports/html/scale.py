"""From values to positions: bins and ticks (pure)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from pytest_a2a_bench.model import percentile

_WIDE = 40.0
"""Where the largest value is so many times the smallest that matters, equal bins would all be the first one."""

_FLOOR = 1e-6
"""What is less than this part of the largest value is shown as this part."""


@dataclass(frozen=True, slots=True)
class Axis:
    """A range of values, linear or logarithmic."""

    low: float
    high: float
    log: bool = False

    def at(self, value: float) -> float:
        """Return where a value is: 0 at the low end, 1 at the high end."""
        if self.high <= self.low:
            return 0.5
        if self.log:
            clipped = min(max(value, self.low), self.high)
            return math.log(clipped / self.low) / math.log(self.high / self.low)
        return (min(max(value, self.low), self.high) - self.low) / (self.high - self.low)

    def value(self, position: float) -> float:
        """Return the value at a position of 0 to 1."""
        if self.log:
            return self.low * math.exp(math.log(self.high / self.low) * position)
        return self.low + (self.high - self.low) * position


def axis_of(values: Sequence[float]) -> Axis:
    """Return the axis that shows values best.

    :param values: none of them negative, at least one.
    """
    ordered = sorted(values)
    low, high = percentile(ordered, 2) or 0.0, ordered[-1]
    if low > 0 and high / low > _WIDE:
        return Axis(max(ordered[0], low / 2, high * _FLOOR), high, log=True)
    return Axis(0.0, nice(high) if high > 0 else 1.0)


def bins(values: Sequence[float], axis: Axis, count: int) -> list[int]:
    """Return how many values are in each of a number of equally wide parts of the axis."""
    found = [0] * count
    for value in values:
        found[min(count - 1, int(axis.at(value) * count))] += 1
    return found


def ticks(axis: Axis) -> list[float]:
    """Return a few round values on an axis."""
    if axis.log:
        return _log_ticks(axis)
    step = nice((axis.high - axis.low) / 4 or 1)
    first = math.ceil(axis.low / step - 1e-9)
    return [i * step for i in range(first, math.floor(axis.high / step + 1e-9) + 1)]


def nice(value: float) -> float:
    """Return the smallest of 1, 2, 2.5, 5 times a power of ten that is not less.

    :raises ValueError: if the value is not positive.
    """
    if value <= 0:
        raise ValueError(f"{value} has no round number above it")
    power = 10.0 ** math.floor(math.log10(value))
    steps = (step * power for step in (1, 2, 2.5, 5, 10, 20))
    # Below about 1e-307 a power of ten is not exact any more, or is 0.
    return next((step for step in steps if step >= value * (1 - 1e-9)), value)


def _log_ticks(axis: Axis) -> list[float]:
    low, high = math.floor(math.log10(axis.low)), math.ceil(math.log10(axis.high))
    every = [step * 10.0**power for power in range(low, high + 1) for step in (1, 3)]
    inside = [value for value in every if axis.low * 0.999 <= value <= axis.high * 1.001]
    return inside if len(inside) <= 5 else [value for value in inside if f"{value:e}".startswith("1.0")]
