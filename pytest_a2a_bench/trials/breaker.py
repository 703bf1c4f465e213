"""When to stop paying: trials that ended in trouble are counted, and where the next ones cannot fare better it says so.

Pure. Five kinds of trouble open the breaker:

- ``refused``: the agent refused our credentials (HTTP 401 or 403). It will refuse every other request too, so once is
  enough.
- ``gone``: several trials in a row ended in the same infrastructure trouble, and the agent does not answer a fresh
  request either: for its card, or at the address of its interface. Where it answers, the count starts again.
- ``party``: several trials in a row could not reach an agent beside the one under test, such as who plays the user.
- ``quota``: a service that the benchmark asks has no more answers for today, such as a live org. Once is enough.
- ``model``: several trials in a row met a language model whose provider refuses us (key, permission, budget, a model
  that it does not have). The agent's card would say nothing about that, so nobody asks for it.

Timeouts and overload of a model, recordings that do not fit, functions of somebody's own that raise, and trials that
were stopped open nothing: they pass, or are somebody else's. A trial of any other end, good or bad, ends a row.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from pytest_a2a_bench.errors import (
    AuthenticationError,
    CardError,
    CassetteError,
    EndpointUnreachableError,
    InfrastructureError,
    LLMError,
    OwnFunctionError,
    PrerequisiteMissingError,
    QuotaError,
    RunTimeoutError,
    TrialCancelledError,
)

Cause = Literal["refused", "gone", "party", "model", "quota", "time"]
Step = Literal["go on", "ask the agent", "stop"]

_REMEDIES: dict[Cause, str] = {
    "refused": "correct that",  # the refusal itself says what was sent, and what to do
    "gone": "start the agent again (--a2a-wait SECONDS gives one that restarts the time for it)",
    "party": "start that agent again",
    "model": "correct the model's name or its provider's key",
    "quota": "wait until its limit is renewed",
    "time": "raise --a2a-run-timeout",
}


@dataclass(frozen=True, slots=True)
class Opened:
    """Why no further trial is begun.

    :param cause: which of the kinds above, or ``time``: the run took as long as it may (``--a2a-run-timeout``).
    :param key: the trial that opened it; empty where it was the clock.
    :param reason: what was found, in one line.
    :param run_id: the run that it is about.
    """

    cause: Cause
    key: str
    reason: str
    run_id: str = ""

    @property
    def text(self) -> str:
        """Why a trial is not run, in one line."""
        return f"not run: {self._what}"

    @property
    def advice(self) -> str:
        """What happened and what to do, in one line."""
        return f"{self._what}; {_REMEDIES[self.cause]}, then run again with --a2a-resume: only what is missing is held"

    @property
    def _what(self) -> str:
        return f"the breaker is open since {self.key}: {self.reason}" if self.key else self.reason


class Breaker:
    """Counts trials that ended in the same trouble one after another.

    :param limit: how many open it; 0 for never.
    """

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self._kind = ""
        self._row = 0

    def note(self, error: Exception | None) -> Step:
        """Take in how a trial ended.

        :param error: its trouble; None where it was evaluated.
        :returns: whether to ``stop``, or to ``ask the agent`` and come back with :meth:`answered` if it is there.
        """
        if not self.limit or _says_nothing(error):
            return "go on"
        if (isinstance(error, AuthenticationError) and error.refused) or isinstance(error, QuotaError):
            return "stop"
        kind = _kind(error)
        self._row = (self._row + 1 if kind == self._kind else 1) if kind else 0
        self._kind = kind
        if self._row < self.limit:
            return "go on"
        # The tested agent's card says nothing about either.
        return "stop" if isinstance(error, LLMError) or _party(error) else "ask the agent"

    def answered(self) -> None:
        """Start to count anew: the agent is there."""
        self._row = 0


def cause_of(error: Exception) -> Cause:
    """Return which kind of trouble it was that opened the breaker."""
    if isinstance(error, QuotaError):
        return "quota"
    if isinstance(error, LLMError):
        return "model"
    if _party(error) and not isinstance(error, AuthenticationError):
        return "party"
    return "refused" if isinstance(error, AuthenticationError) and error.refused else "gone"


def _says_nothing(error: Exception | None) -> bool:
    """Tell whether a trial ended before it met anybody, or because it was stopped."""
    return isinstance(error, PrerequisiteMissingError | TrialCancelledError | RunTimeoutError)


def _party(error: Exception | None) -> str:
    return (isinstance(error, InfrastructureError) and error.party) or ""


def _kind(error: Exception | None) -> str:
    """Return what makes trouble the same as other trouble; empty for what opens nothing."""
    if isinstance(error, LLMError):
        return "LLMError" if error.refused else ""
    if party := _party(error):
        return f"{party} is gone" if isinstance(error, EndpointUnreachableError) else ""
    if isinstance(error, InfrastructureError | CardError) and not isinstance(error, CassetteError | OwnFunctionError):
        return type(error).__name__
    return ""
