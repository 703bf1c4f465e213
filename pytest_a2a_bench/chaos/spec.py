"""What chaos is asked for: ``reset=0.05,503=0.1,seed=7`` as a frozen value (pure)."""

from __future__ import annotations

import dataclasses
import difflib
import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, get_type_hints

from pytest_a2a_bench.errors import ConfigurationError

STATUSES = {500: "Internal Server Error", 502: "Bad Gateway", 503: "Service Unavailable", 504: "Gateway Timeout"}
STATUSES |= {429: "Too Many Requests"}


@dataclass(frozen=True, slots=True)
class StatusFault:
    """An error status in place of the answer.

    :param retry: whether it says when to come back.
    :param late: whether the agent has received and worked the message before.
    """

    status: int
    retry: bool
    late: bool

    @property
    def name(self) -> str:
        """What a spec calls it, such as ``503-retry-late``."""
        return f"{self.status}{'-retry' * self.retry}{'-late' * self.late}"

    @property
    def told(self) -> str:
        """One line for lists."""
        after = "after the agent worked the message" if self.late else "before the agent sees the request"
        return f"{self.status} {STATUSES[self.status]}{', with Retry-After,' * self.retry} {after}"


STATUS_FAULTS = {
    fault.name: fault
    for fault in (
        StatusFault(status, retry, late) for status in STATUSES for late in (False, True) for retry in (False, True)
    )
}

FAULTS = {
    "refuse": "answers, closes the connection, and refuses new ones (ECONNREFUSED) for refuse-for seconds",
    "reset": "resets the connection before the agent sees the request",
    "after-delivery": "lets the agent work the whole message, throws its answer away and resets the connection",
    "half-close": "ends the connection (FIN) in the middle of the answer",
    "hang-before": "delivers the request and is silent for hang seconds before the answer's headers",
    "hang-after": "is silent for hang seconds after the answer's headers, or after a stream's first event",
    "dribble": "gives the answer byte by byte, dribble-delay seconds between them",
    "truncate": "cuts the end of the answer (of a stream: of its last event) and ends it properly",
    "duplicate": "gives every event of a stream twice",
    "reorder": "swaps the first two events of a stream",
    "wrong-id": "answers with another JSON-RPC id",
    "wrong-context": "answers with other contextIds, once the conversation has one",
    "wrong-task": "answers with other task ids",
    **{name: fault.told for name, fault in STATUS_FAULTS.items()},
}
"""Every fault that has a probability, with what it does."""

CHOICES = {"by": ("order", "message"), "on": ("messages", "sends", "all")}


@dataclass(frozen=True, slots=True)
class ChaosSpec:
    """What to do to requests.

    :param rates: fault and probability in 0..1, in the order in which they were asked for; together at most 1.
    :param seed: of the draws.
    :param by: what a request's draw depends on: its ``order`` among those that are hit, or its ``message`` id and how
        often that was sent, so that concurrency changes nothing (for clients whose message ids are the same each run).
    :param on: what is hit: ``messages`` (sending, and asking for tasks), ``sends`` only, or ``all``, the card included.
    :param hang: seconds of silence of the hanging faults, unless the client leaves before.
    :param dribble_delay: seconds between two bytes of ``dribble``.
    :param retry_after: seconds that the ``-retry`` faults ask to wait.
    :param refuse_for: seconds for which ``refuse`` refuses connections.
    :param slow_start: seconds for which connections are refused at the start.
    :param restart_after: the agent restarts at every so many requests, dropping all connections; 0 for never.
    :param restart_pause: seconds for which connections are refused at a restart.
    """

    rates: tuple[tuple[str, float], ...] = ()
    seed: int = 0
    by: str = "order"
    on: str = "messages"
    hang: float = 600.0
    dribble_delay: float = 0.01
    retry_after: int = 1
    refuse_for: float = 0.5
    slow_start: float = 0.0
    restart_after: int = 0
    restart_pause: float = 1.0

    def __str__(self) -> str:
        """Return the spec that is read back to this value."""
        settings = [
            f"{_spelled(f.name)}={getattr(self, f.name)!s}"
            for f in dataclasses.fields(self)
            if f.name != "rates" and getattr(self, f.name) != f.default
        ]
        return ",".join([*(f"{name}={rate!r}" for name, rate in self.rates), *settings])


def _spelled(field: str) -> str:
    return field.replace("_", "-")


SETTINGS = {_spelled(f.name): f.default for f in dataclasses.fields(ChaosSpec) if f.name != "rates"}
"""Every setting by the name that a spec gives it, with its default."""

_TYPES = {_spelled(name): kind for name, kind in get_type_hints(ChaosSpec).items() if name != "rates"}


def parse_chaos(text: str) -> ChaosSpec:
    """Read a spec: ``NAME=VALUE`` pairs with commas between them.

    :raises ConfigurationError: naming everything that is wrong with it in one line.
    """
    problems: list[str] = []
    values = dict(_pairs(text, problems))
    rates = tuple((name, rate) for name, rate in values.items() if name in FAULTS)
    total = math.fsum(rate for _, rate in rates)
    # Ten rates of 0.1 are 1, whatever binary fractions make of it.
    if total > 1 + 1e-9:
        problems.append(f"the probabilities sum to {total:g}; a request has one fault at most, so keep them within 1")
    if problems:
        raise ConfigurationError(f"chaos {text!r}: {'; '.join(problems)}")
    settings: dict[str, Any] = {name.replace("-", "_"): v for name, v in values.items() if name in SETTINGS}
    return ChaosSpec(rates, **settings)


def _pairs(text: str, problems: list[str]) -> Iterable[tuple[str, Any]]:
    seen = set()
    entries = [entry.strip() for entry in text.split(",")]
    if not any(entries):
        problems.append("it asks for nothing; give faults with probabilities, such as reset=0.05,503=0.1")
        return
    for entry in filter(None, entries):
        name, equals, value = (part.strip() for part in entry.partition("="))
        if name not in FAULTS and name not in SETTINGS:
            problems.append(_unknown(name))
        elif not equals or not value:
            problems.append(f"{name} has no value; write {name}={0.05 if name in FAULTS else SETTINGS[name]}")
        elif name in seen:
            problems.append(f"{name} is given twice")
        else:
            seen.add(name)
            try:
                yield name, _read_rate(value) if name in FAULTS else _read_setting(name, value)
            except ValueError as error:
                problems.append(f"{name}={value} {error}")


def _unknown(name: str) -> str:
    near = difflib.get_close_matches(name, [*FAULTS, *SETTINGS], n=1, cutoff=0.0)
    return f"{name!r} is no fault and no setting; did you mean {near[0]!r}? (a2a-bench chaos --list has all)"


def _read_rate(value: str) -> float:
    rate = _number(value, float, "is no probability, a number from 0 to 1")
    if not 0 <= rate <= 1:
        raise ValueError("is no probability, a number from 0 to 1")
    return rate


def _read_setting(name: str, value: str) -> int | float | str:
    if name in CHOICES:
        if value not in CHOICES[name]:
            raise ValueError(f"is unknown; use one of {', '.join(CHOICES[name])}")
        return value
    if name == "seed":
        return int(_number(value, int, "is no whole number"))
    wanted = "must be a whole number, 0 or more" if _TYPES[name] is int else "must be a number of seconds, 0 or more"
    number = _number(value, _TYPES[name], wanted)
    if not 0 <= number < math.inf:
        raise ValueError(wanted)
    return number


def _number(value: str, kind: type[int] | type[float], wanted: str) -> int | float:
    try:
        return kind(value)
    except ValueError:
        raise ValueError(wanted) from None


def describe() -> str:
    """Return the list of faults and settings for ``--list``."""
    width = max(map(len, [*FAULTS, *SETTINGS]))
    faults = [f"  {name:{width}}  {told}" for name, told in FAULTS.items()]
    settings = [f"  {name:{width}}  {default}" for name, default in SETTINGS.items()]
    return "\n".join(["faults, each with a probability (reset=0.05):", *faults, "settings, with defaults:", *settings])
