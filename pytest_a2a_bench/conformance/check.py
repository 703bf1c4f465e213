"""How a check is written: a coroutine that asks through a :class:`Context` and records what is wrong.

::

    @check("SEND-008")
    async def unknown_task(ctx: Context) -> None:
        reply = await ctx.send(task_id=ctx.unknown_id())
        ctx.expect_error(reply, "TaskNotFoundError")
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, NamedTuple, TypeVar

if TYPE_CHECKING:
    from pytest_a2a_bench.conformance.context import Context
    from pytest_a2a_bench.conformance.finding import Requirement
    from pytest_a2a_bench.conformance.wire.reply import WireReply

CheckFunction = Callable[["Context"], Awaitable[None]]
F = TypeVar("F", bound=CheckFunction)

CHECKS: dict[tuple[str, str], CheckFunction] = {}
"""(requirement id, version) -> the check."""

TIMED: set[tuple[str, str]] = set()
"""(requirement id, version) of checks whose verdict depends on time: see :mod:`.recurrence`."""

CROSSED: dict[tuple[str, str], CheckFunction] = {}
"""The same for what a requirement is tried with beside its check, where the whole breadth is wanted."""


class Added(NamedTuple):
    """A check that is in no catalogue and was asked for by name, such as a test of ACTS.

    :param is_rough: whether it may send what is malformed, so that it comes last.
    :param is_timed: whether its verdict depends on time.
    :param seconds: how long it may wait of its own accord, which is no time that the agent takes.
    """

    check: CheckFunction
    is_rough: bool = False
    is_timed: bool = False
    seconds: float = 0.0


ADDED: dict[tuple[str, str], Added] = {}
"""(requirement id, version) -> a check that was added; those that were read last replace all others."""

UNCHECKABLE: dict[str, str] = {}
"""Requirement id -> why no endpoint can show it."""


class SkipCheck(Exception):
    """The check does not apply here; the message says why, and how to enable it."""


class NoAnswer(Exception):
    """The agent did not answer what a check needs, so that nothing can be said about its requirement."""

    def __init__(self, message: str, reply: WireReply | None = None) -> None:
        self.reply = reply
        super().__init__(message)


def added_of(requirement: Requirement) -> Added | None:
    """Return what was added for a requirement, where it is none of a catalogue."""
    return ADDED.get((requirement.id, requirement.version))


def check_of(requirement: Requirement) -> CheckFunction:
    """Return a check, of the catalogue or added.

    :raises KeyError: if there is none.
    """
    added = added_of(requirement)
    return added.check if added is not None else CHECKS[requirement.id, requirement.version]


def check(*ids: str, version: str = "1.0", timed: bool = False) -> Callable[[F], F]:
    """Register a check for one or more requirements of one version; it is run once for each.

    :param timed: the verdict depends on time (order, staleness, promptness, the end of a stream, what arrives within):
        the engine measures a reference exchange around it, and repeats it alone before it may fail.
    :raises ValueError: if a requirement has a check already.
    """

    def register(function: F) -> F:
        for id in ids:
            if CHECKS.setdefault((id, version), function) is not function:
                raise ValueError(f"two checks for {id} of {version}")
            if timed:
                TIMED.add((id, version))
        return function

    return register


def crossed(*ids: str, version: str = "1.0") -> Callable[[F], F]:
    """Register what else is asked for requirements whose check found nothing: data that tell one agent from another.

    What is asked with the check itself, of other operations and about other tasks, is in :mod:`.crossing`.
    """

    def register(function: F) -> F:
        CROSSED.update({(id, version): function for id in ids})
        return function

    return register


def uncheckable(reasons: Mapping[str, str]) -> None:
    """Declare requirements that no endpoint can show, each with its reason."""
    UNCHECKABLE.update(reasons)
