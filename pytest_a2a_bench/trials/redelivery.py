"""When a conversation is run again from the start, and what is told of it.

A conversation in which a message may have been delivered without an answer is worth nothing: the agent may have worked
on it once, twice or not at all. What is evaluated instead is another one, in a new context, a new environment and with
the same seed, so that the agent is neither blamed nor helped.

One whose simulated user was at fault says little about the agent. Where that is asked for (``user-retry``) it is
run again too, with another seed: the user of the same seed would do the same again. It was evaluated, though: where
the other conversation comes to nothing, it is still what the trial came to.
"""

from __future__ import annotations

import math
import random
import threading
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from pytest_a2a_bench.a2a.requests import RetryPolicy
from pytest_a2a_bench.benchmarks.base import Outcome
from pytest_a2a_bench.config.settings import Settings
from pytest_a2a_bench.errors import DeliveryUncertain, InfrastructureError, RunTimeoutError, TrialTimeoutError
from pytest_a2a_bench.model import Party, ProtocolMetrics, Usage, UserFault
from pytest_a2a_bench.model.parties import with_abandoned

if TYPE_CHECKING:
    from pytest_a2a_bench.a2a.session import AgentSession
    from pytest_a2a_bench.cassettes.tape import Tape

_PAUSE = RetryPolicy(base=0.25, maximum=30.0)
_STEPS = 4
"""How many doublings of the pause lie between two conversations: the first trouble mostly was a single one, the second
says that something restarts, and that takes seconds (0.25, 4, 30, always between half of it and the whole)."""


@dataclass(slots=True)
class Abandoned:
    """What the conversations of a trial that came to nothing leave behind.

    :param reasons: why those were given up in which a message may have arrived or not.
    :param faults: what the user did wrong in the others.
    :param metrics: their requests, which were made and paid for like all others; those of further agents are in
        ``parties``.
    """

    reasons: tuple[str, ...] = ()
    faults: tuple[UserFault, ...] = ()
    metrics: tuple[ProtocolMetrics, ...] = ()
    agent_usage: Usage = field(default_factory=Usage)
    user_usage: Usage = field(default_factory=Usage)
    parties: tuple[Party, ...] = ()

    def add(self, outcome: Outcome, session: AgentSession, parties: tuple[Party, ...] = ()) -> None:
        """Take in one more."""
        if isinstance(outcome.error, DeliveryUncertain):
            self.reasons += (outcome.error.reason,)
        elif outcome.user_fault is not None:
            self.faults += (outcome.user_fault,)
        self.metrics += tuple(session.metrics)
        self.agent_usage = self.agent_usage + outcome.agent_usage
        self.user_usage = self.user_usage + outcome.user_usage
        self.parties = with_abandoned(parties, self.parties)


@dataclass(frozen=True, slots=True)
class Evaluated:
    """A conversation that was evaluated and is run again for its user: the trial's, if the next comes to nothing.

    :param seed: of its user.
    :param tape: what it was recorded on.
    """

    outcome: Outcome
    session: AgentSession
    parties: tuple[Party, ...]
    seed: int
    tape: Tape | None = None


def refuse_tainted(outcome: Outcome, *sessions: AgentSession) -> Outcome:
    """Return what may be kept of an outcome: nothing that a tainted conversation was found to be worth.

    A benchmark may have caught the error and gone on, or made another one of it.

    :param sessions: with the agent under test, and with all others.
    """
    found = [session.tainted for session in sessions if session.tainted is not None]
    # One that is worth another conversation first.
    tainted = next((e for e in found if isinstance(e, DeliveryUncertain)), found[0] if found else None)
    if tainted is None or isinstance(outcome.error, TrialTimeoutError | RunTimeoutError):
        return outcome
    if isinstance(outcome.error, InfrastructureError) and not isinstance(tainted, DeliveryUncertain):
        return outcome
    # Neither is there a finished conversation that could be evaluated later.
    outcome.reward, outcome.simulation, outcome.user_fault = None, None, None
    outcome.error, outcome.termination_reason = tainted, "infrastructure_error"
    return outcome


def hold_again(
    outcome: Outcome,
    abandoned: Abandoned,
    settings: Settings,
    cancel: threading.Event,
    deadline: float | None,
) -> str:
    """Return why to hold the conversation again, after waiting as long as seems right; empty where it is not to be.

    :param deadline: when the trial's time is up, by the monotonic clock.
    """
    error, fault = outcome.error, outcome.user_fault
    if cancel.is_set():
        return ""
    if isinstance(error, DeliveryUncertain):
        return error.reason if _deliver_again(error, abandoned, settings, cancel, deadline) else ""
    # A cassette has one conversation.
    if error is not None or fault is None or settings.replay or len(abandoned.faults) >= settings.user_retry:
        return ""
    if fault.kind == "not_understood":
        # A script has no seed: it would understand no more.
        return ""
    return f"user at fault: {fault.kind}" if deadline is None or time.monotonic() < deadline else ""


def _deliver_again(
    error: DeliveryUncertain,
    abandoned: Abandoned,
    settings: Settings,
    cancel: threading.Event,
    deadline: float | None,
) -> bool:
    """Return whether to try again, after a pause; else complete the error."""
    count = len(abandoned.reasons)
    if count >= settings.redeliver:
        error.args = (f"{error}; {_given_up(error, abandoned, settings)}",)
        return False
    pause = _PAUSE.delay(1 + _STEPS * count, error.retry_after, random.random)
    left = min(settings.timeout, deadline - time.monotonic() if deadline is not None else math.inf)
    if pause >= left:
        error.args = (
            f"{error}; before the conversation could be run again {pause:.0f} s would have to pass, and there are "
            f"{max(left, 0):.0f} s (--a2a-timeout, --a2a-trial-timeout); try again later",
        )
        return False
    return not cancel.wait(pause)


def _given_up(error: DeliveryUncertain, abandoned: Abandoned, settings: Settings) -> str:
    remedy = "see what answers between here and the agent, or raise redeliver"
    if not abandoned.reasons:
        return f"the conversation was not run again (--a2a-set redeliver={settings.redeliver}); {remedy}"
    every = ", ".join((*abandoned.reasons, error.reason))
    return f"the conversation was run {len(abandoned.reasons) + 1} times, and none came to its end ({every}); {remedy}"
