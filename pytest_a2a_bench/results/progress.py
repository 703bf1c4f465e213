"""How far a run has come, and how long it will still take. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from pytest_a2a_bench.model import dollars


@dataclass(frozen=True, slots=True)
class Progress:
    """What is known while trials run.

    :param done: ``a2a.`` properties of each reported trial, without the prefix.
    :param seconds: since the run began.
    :param parallel: conversations that can be in flight at once, over all workers.
    :param in_flight: those that are; None where only the workers know.
    """

    done: tuple[Mapping[str, Any], ...]
    total: int
    seconds: float
    parallel: int = 1
    in_flight: int | None = None

    @property
    def line(self) -> str:
        """One line that says all of it."""
        return "a2a: " + ", ".join(self._parts())

    def _parts(self) -> Iterator[str]:
        judged = [values for values in self.done if values.get("status") == "evaluated"]
        passed = sum(bool(values.get("success")) for values in judged)
        left = self.total - len(self.done)
        yield f"{len(self.done)} of {self.total} trials"
        yield f"{passed} of {len(judged)} passed" + (f" ({passed / len(judged):.0%})" if judged else "")
        if len(self.done) > len(judged):
            yield f"{len(self.done) - len(judged)} not evaluated"
        if self.in_flight is not None:
            yield f"{self.in_flight} in flight"
        elif self.parallel > 1:
            yield f"up to {min(self.parallel, left)} in flight"
        if self.cost is not None:
            yield f"cost {dollars(self.cost, estimated=any('estimated_cost_usd' in v for v in self._held()))}"
        yield duration(self.seconds)
        if self.seconds_left is not None:
            yield f"about {duration(self.seconds_left)} left"

    @property
    def cost(self) -> float | None:
        """Dollars spent in this run, estimated ones too, or None where none are known."""
        spent = [float(v["cost_usd"]) for v in self._held() if v.get("cost_usd") is not None]
        return sum(spent) if spent else None

    @property
    def seconds_left(self) -> float | None:
        """A guess: what trials took so far, divided among those that can run at once; None before the first."""
        took = [float(v["duration_s"]) for v in self._held() if v.get("duration_s") is not None]
        left = self.total - len(self.done)
        if not took or left <= 0:
            return None
        mean = sum(took) / len(took)
        # Also what lies around the conversations takes time; the wall clock knows it, once a wave has passed.
        waves = len(took) / self.parallel
        pace = max(mean, self.seconds / waves) if waves >= 2 else mean
        return pace * max(1.0, left / self.parallel)

    def _held(self) -> Iterable[Mapping[str, Any]]:
        """Return what ran in this run: a result that was taken over took no time and no money now."""
        return [v for v in self.done if not v.get("reused_from")]


def duration(seconds: float) -> str:
    """Return ``42s``, ``3m05s`` or ``2h07m``."""
    minutes, rest = divmod(int(seconds), 60)
    if minutes >= 60:
        return f"{minutes // 60}h{minutes % 60:02d}m"
    return f"{minutes}m{rest:02d}s" if minutes else f"{rest}s"
