"""Decide whether further trials may begin: the circuit breaker and the run's time limit, for all processes of a run.

Six kinds of trouble open the breaker:

- ``refused``: the agent refused our credentials (HTTP 401 or 403). It will refuse every other request too, so once is
  enough.
- ``gone``: several trials in a row ended in the same infrastructure trouble, and the agent does not answer a fresh
  request either: for its card, or at the address of its interface. Where it answers, the count starts again.
- ``party``: several trials in a row could not reach an agent beside the one under test, such as the simulated user's.
- ``quota``: a service that the benchmark asks has no more answers for today, such as a live org. Once is enough.
- ``model``: several trials in a row met a language model whose provider refuses us (key, permission, budget, a model
  that it does not have). The agent's card says nothing about that, so it is not asked for.

- ``trouble``: :data:`MANY` trials in a row could not be evaluated, for whatever reasons, also if the agent answers.

Trials that were stopped count for nothing. Timeouts and overload of a model, recordings that do not fit and functions
of a project that raise count for the last kind only. A trial that is evaluated, whatever its reward, ends a row.

The breaker of one worker must stop the others, which may be about to run hundreds of hopeless trials: the one that
opens leaves ``breaker.json`` in the results directory, and each looks there before it begins a trial. A file also
reaches the worker that replaces a crashed one, and one on another machine with the same disk; any other opens its own
breaker soon.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Literal

from pytest_a2a_bench.benchmarks.registry import shown_name
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
    TrialTimeoutError,
)
from pytest_a2a_bench.model import TrialKey, TrialResult
from pytest_a2a_bench.model.messages import KeyText
from pytest_a2a_bench.results.gates.terms import DECIDED_ERROR
from pytest_a2a_bench.results.store import Content, StoredForm, StoreError, fetched, save
from pytest_a2a_bench.text import one_line
from pytest_a2a_bench.trials.trial import Trial, TrialObserver

Cause = Literal["refused", "gone", "party", "model", "quota", "time", "trouble"]
Step = Literal["go on", "ask the agent", "stop", "give up"]
MANY = 20
"""Trials in a row that end in any trouble after which no further trial begins."""

_REMEDIES: dict[Cause, str] = {
    "refused": "correct that",  # the refusal itself says what was sent, and what to do
    "gone": "start the agent again",
    "party": "start that agent again",
    "model": "correct the model's name or its provider's key",
    "quota": "wait until its limit is renewed",
    "time": "raise --a2a-run-timeout",
    "trouble": "see what the errors say (--a2a-set breaker=off goes on all the same)",
}


@dataclasses.dataclass(frozen=True, slots=True)
class Opened:
    """Why no further trial is begun.

    :param cause: which of the kinds above, or ``time``: the run took as long as it may (``--a2a-run-timeout``).
    :param key: the trial that opened it; empty where it was the clock.
    :param reason: the trouble, in one line.
    :param run_id: the run that it is about.
    """

    cause: Cause
    key: str
    reason: str
    run_id: str = ""

    @property
    def text(self) -> str:
        """Why a trial is not run, in one line."""
        return f"not run: {self.what}"

    @property
    def advice(self) -> str:
        """The event and the remedy, in one line."""
        return f"{self.what}; {_REMEDIES[self.cause]}, then run again with --a2a-resume: only missing trials run"

    @property
    def what(self) -> str:
        """The event, in one line."""
        return f"the breaker is open since {shown_name(self.key)}: {self.reason}" if self.key else self.reason


class Breaker:
    """Counts trials that ended in trouble one after another.

    :param limit: how many with the same trouble open it; 0 for never.
    :param most: how many with whatever trouble do.
    """

    def __init__(self, limit: int, most: int = MANY) -> None:
        self.limit = limit
        self.most = most
        self._kind = ""
        self._row = 0
        self._any = 0

    def note(self, error: Exception | None) -> Step:
        """Take in how a trial ended.

        :param error: its trouble; None where it was evaluated.
        :returns: whether to ``stop``, to ``give up`` after many troubles of whatever kind, or to ``ask the agent`` and
            come back with :meth:`answered` if it is there.
        """
        if not self.limit or _says_nothing(error):
            return "go on"
        if (isinstance(error, AuthenticationError) and error.refused) or isinstance(error, QuotaError):
            return "stop"
        self._any = self._any + 1 if error is not None else 0
        if self._any >= self.most:
            return "give up"
        kind = _kind(error)
        self._row = (self._row + 1 if kind == self._kind else 1) if kind else 0
        self._kind = kind
        if self._row < self.limit:
            return "go on"
        # The tested agent's card says nothing about either.
        return "stop" if isinstance(error, LLMError) or _party(error) else "ask the agent"

    def answered(self) -> None:
        """Start to count the same trouble anew: the agent is there."""
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
    """Return whether a trial ended before its first message, or because it was stopped."""
    return isinstance(error, PrerequisiteMissingError | TrialCancelledError | RunTimeoutError)


def _party(error: Exception | None) -> str:
    return (isinstance(error, InfrastructureError) and error.party) or ""


def _kind(error: Exception | None) -> str:
    """Return the kind of an error, for counting errors in a row; empty for an outcome that opens no breaker."""
    if isinstance(error, LLMError):
        return "LLMError" if error.refused else ""
    if party := _party(error):
        return f"{party} is gone" if isinstance(error, EndpointUnreachableError) else ""
    if isinstance(error, InfrastructureError | CardError) and not isinstance(error, CassetteError | OwnFunctionError):
        return type(error).__name__
    return ""


NAME = "breaker.json"

_REASON = 500
_GRACE = 30.0
"""Most seconds that a trial whose time is up is given to end by itself before it is given up."""

OPENED = StoredForm(Opened, " is not what an open breaker leaves", "remove it", StoreError)


DECIDED_NAME = "decided.json"


@dataclasses.dataclass(frozen=True, slots=True)
class Settled:
    """Which trials need not run any more (``--a2a-trials auto``).

    :param reason: the decision, in one line.
    :param keys: these trials.
    :param run_id: the run that it is about.
    """

    reason: str
    keys: tuple[KeyText, ...]
    run_id: str = ""


SETTLED = StoredForm(Settled, " is not what a run leaves that was decided early", "remove it", StoreError)


def settle(directory: Path, settled: Settled) -> None:
    """Announce to all processes of a run which trials need not run; raises StoreError if it cannot be written."""
    save(directory / DECIDED_NAME, json.dumps(SETTLED.to_json(settled)))


@dataclasses.dataclass(frozen=True, slots=True)
class Limits:
    """How long a trial may take.

    :param trial: seconds for each (``--a2a-trial-timeout``); 0 for any time.
    :param run: seconds that the run was given (``--a2a-run-timeout``); None for any time.
    :param end: when these are over, by ``time.monotonic()``.
    """

    trial: float = 0.0
    run: float | None = None
    end: float | None = None

    def deadline(self, began: float) -> float | None:
        """Return when a trial must have ended that began at a time; None where nothing limits it."""
        own = began + self.trial if self.trial else None
        return min((d for d in (own, self.end) if d is not None), default=None)

    def patience(self, began: float) -> float | None:
        """Return until when a trial is waited for whose thread does not come back: a while after its deadline."""
        deadline = self.deadline(began)
        if deadline is None or deadline <= began:  # no limit, or nothing is to run any more
            return None
        # With little time for all of it, little is waited beyond; evaluating may take a while, though.
        return deadline + min(_GRACE, max(1.0, deadline - began))

    @property
    def is_over(self) -> bool:
        """Whether the run's time is up."""
        return self.end is not None and time.monotonic() >= self.end

    def error(self, key: TrialKey) -> InfrastructureError:
        """Return the message of a trial whose deadline has passed."""
        if self.is_over:
            return RunTimeoutError(f"{key} was ended, because the run took longer than {self._run_limit}")
        return TrialTimeoutError(f"{key} took longer than --a2a-trial-timeout ({self.trial:g} s)")

    @property
    def _run_limit(self) -> str:
        return f"--a2a-run-timeout ({self.run:g} s)"

    @property
    def opened(self) -> Opened:
        """The message of trials that did not begin because the run's time was up."""
        return Opened("time", "", f"the run took longer than {self._run_limit}")


class Stopping(TrialObserver):
    """Decides before each trial whether it may begin, and learns from each that has ended.

    :param breaker: counts.
    :param limits: of the run.
    :param directory: where processes of one run leave notes for each other.
    :param ask: asks the agent anew, and returns the error; empty if its card and its interface answer.
    :param agent: its name, where there are several: trouble with one does not stop the trials of the others.
    """

    def __init__(
        self,
        breaker: Breaker,
        limits: Limits,
        directory: Path,
        run_id: str,
        ask: Callable[[], str],
        agent: str | None = None,
    ) -> None:
        self.limits = limits
        self._breaker = breaker
        self._path = directory / (f"breaker-{agent}.json" if agent else NAME)
        self._run_id = run_id
        self._ask = ask
        self._opened: Opened | None = None
        self._settled: Settled | None = None
        self._settled_path = directory / DECIDED_NAME
        self._lock = threading.Lock()

    @property
    def opened(self) -> Opened | None:
        """Why no further trial may begin; None where one may. Waits while the agent is being asked."""
        with self._lock:
            if self._opened is None:
                self._opened = self.limits.opened if self.limits.is_over else self._told()
            return self._opened

    @property
    def known(self) -> Opened | None:
        """The reason, as far as this process knows one, why no further trial may begin. Never waits."""
        return self._opened

    def before_trial(self, trial: Trial) -> TrialResult | None:
        """Return the result of a trial that may not begin, or need not; None where it must run."""
        opened = self.opened
        if opened is None:
            return self.left_out(trial.key)
        provenance = {"stopped": opened.advice}
        return TrialResult(trial.key, "not_run", self._run_id, error=opened.text, provenance=provenance)

    def after_trial(self, trial: Trial, result: TrialResult | None) -> None:
        """Count how it ended."""
        if result is not None:
            self.note(trial.key, trial.error)

    def left_out(self, key: TrialKey) -> TrialResult | None:
        """Return the outcome of a trial that need not run; None if it must run.

        With a file, so that later readers of the directory miss nothing.
        """
        if self._settled is None or str(key) not in self._settled.keys:
            # Mostly there is no such file, and it grows with each gate that is decided.
            with contextlib.suppress(OSError, StoreError):
                found = _read(SETTLED, self._settled_path)
                self._settled = found if found.run_id == self._run_id else self._settled
        if self._settled is None or str(key) not in self._settled.keys:
            return None
        return TrialResult(key, "skipped", self._run_id, error=self._settled.reason, error_type=DECIDED_ERROR)

    def note(self, key: TrialKey, error: Exception | None) -> None:
        """Take in how a trial ended."""
        # Other trials wait here, at their begin or end, while one asks the agent.
        with self._lock:
            if self._opened is not None:
                return
            step = self._breaker.note(error)
            if step == "go on" or error is None:
                return
            reason = one_line(str(error), _REASON)
            if step == "ask the agent":
                trouble = self._ask()
                if not trouble:
                    self._breaker.answered()
                    return
                many = f"{self._breaker.limit} trials in a row ended" if self._breaker.limit > 1 else "a trial ended"
                name = type(error).__name__
                reason = (
                    f"{many} with {name}, and the agent does not answer a new request: {one_line(trouble, _REASON)}"
                )
            elif step == "give up":
                reason = f"{self._breaker.most} trials in a row could not be evaluated; the last: {reason}"
            cause = "trouble" if step == "give up" else cause_of(error)
            self._open(Opened(cause, str(key), reason, self._run_id))

    def _open(self, opened: Opened) -> None:
        self._opened = opened
        # Where nothing can be written, the other workers find out by themselves.
        with contextlib.suppress(StoreError):
            save(self._path, json.dumps(OPENED.to_json(opened), indent=1))

    def _told(self) -> Opened | None:
        """Return the note of another process of this run."""
        try:
            found = _read(OPENED, self._path)
        except (OSError, StoreError):
            return None
        return found if found.run_id == self._run_id else None


def _read(form: StoredForm[Content], path: Path) -> Content:
    try:
        return form.read(path)
    except FileNotFoundError:
        data = fetched(path)  # this machine may have no disk that the controller writes to
        if data is None:
            raise
        return form.parse(data, path)


def forget(directory: Path) -> None:
    """Remove the notes of an earlier run's breaker and early verdict: they say nothing about this run."""
    with contextlib.suppress(OSError):
        for path in (directory / NAME, directory / DECIDED_NAME, *directory.glob("breaker-*.json")):
            path.unlink(missing_ok=True)
