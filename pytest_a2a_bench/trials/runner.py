"""One trial of one task against one agent: from a key to a stored :class:`~pytest_a2a_bench.model.TrialResult`.

Trouble never escapes as an exception: it is the result's ``status``, so that infrastructure, agent and harness are
told apart in one place.
"""

from __future__ import annotations

import dataclasses
import random
import threading
import time
import traceback
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pytest_a2a_bench import __version__
from pytest_a2a_bench.benchmarks.base import Outcome, TrialContext
from pytest_a2a_bench.benchmarks.registry import get_benchmark
from pytest_a2a_bench.cassettes import library
from pytest_a2a_bench.errors import (
    A2ABenchError,
    CardError,
    ConfigurationError,
    EvaluatorError,
    InfrastructureError,
    JudgeMissingError,
    TrialTimeoutError,
    TurnTimeoutError,
)
from pytest_a2a_bench.model import TrialKey, TrialResult, TrialStatus
from pytest_a2a_bench.results.fingerprint import fingerprint
from pytest_a2a_bench.results.store import Store, StoreError
from pytest_a2a_bench.settings import Settings
from pytest_a2a_bench.tracing import NO_TRACING, Span, Tracing, names

if TYPE_CHECKING:
    from pytest_a2a_bench.a2a.client import AgentConnection
    from pytest_a2a_bench.a2a.session import AgentSession
    from pytest_a2a_bench.cassettes.tape import Tape

TRACEBACK_LIMIT = 8_000
"""Characters of a traceback that a result keeps."""

Prepare = Callable[[TrialKey, "dict[str, Any]"], None]


def trial_seed(seed: int, trial: int) -> int:
    """Return the seed of one trial: the same for all tasks, and what tau2's own runner derives from the run's seed."""
    source = random.Random(seed)
    return [source.randint(0, 1000000) for _ in range(trial + 1)][-1]


def trial_metadata(key: TrialKey) -> dict[str, Any]:
    """Return the message metadata that names the trial to the agent (``--a2a-tag-trials``)."""
    return {"a2a_bench": {"task": key.task_key, "trial": key.trial}}


class _Told:
    """What goes with every message of one trial, and what went wrong while it was made, or read (``damaged``)."""

    def __init__(self, metadata: Mapping[str, Any]) -> None:
        self.metadata = dict(metadata)
        self.trouble: Exception | None = None
        self.damaged = ""


class Runner:
    """Runs trials, in as many threads as the caller likes.

    :param connect: returns the process's connection to the agent; called when the first trial runs.
    :param metadata: put into every message's metadata.
    :param tapes: makes what a trial is recorded on, or replayed from.
    :param tracing: makes the spans of trials.
    :param agent: what the agent's card says it is; a stored result of another one is not reused.
    :param reached: how the connection differs from what the settings say, if a fixture made another one.
    :param prepare: called in the conversation's thread before it starts, with the key and the metadata, which it may
        change.
    """

    def __init__(
        self,
        settings: Settings,
        connect: Callable[[], AgentConnection],
        store: Store,
        run_id: str,
        *,
        metadata: Mapping[str, Any] | None = None,
        prepare: Prepare | None = None,
        agent: str = "",
        reached: Mapping[str, Any] | None = None,
        tapes: Callable[[TrialKey], Tape] | None = None,
        tracing: Tracing = NO_TRACING,
    ) -> None:
        self.settings = settings
        self.store = store
        self.run_id = run_id
        self._connect = connect
        self._metadata = dict(metadata or {})
        self._prepare = prepare
        self._agent = agent
        self._reached = dict(reached or {})
        self._tapes = tapes
        self._tracing = tracing
        self._live: dict[int, AgentSession] = {}
        self._lock = threading.Lock()

    def run(self, key: TrialKey, cancel: threading.Event | None = None) -> TrialResult:
        """Run one trial, or return this run's stored result of it; with ``resume`` also an earlier run's.

        Never raises for trouble of the trial; a result that cannot be stored raises ``StoreError``.
        """
        told = _Told(self._metadata)
        stored = self._stored(key, told)
        if stored is not None and stored.run_id == self.run_id:
            return stored
        if self.settings.tag_trials:
            told.metadata.update(trial_metadata(key))
        try:
            if self._prepare is not None:
                self._prepare(key, told.metadata)
        except Exception as exc:  # becomes the trial's status
            told.trouble = exc
        if stored is not None and self._is_reusable(stored, told):
            origin = stored.reused_from or stored.run_id
            return self.store.write(dataclasses.replace(stored, run_id=self.run_id, reused_from=origin))
        return self._traced(key, cancel or threading.Event(), told)

    def _traced(self, key: TrialKey, cancel: threading.Event, told: _Told) -> TrialResult:
        start = {"a2a.key": str(key), "a2a.suite": key.suite, "a2a.domain": key.domain, "a2a.run_id": self.run_id}
        span = self._tracing.trial(str(key), start)
        try:
            result = self._hold(key, cancel, span, told)
            span.set(names.trial_end(result))
            if result.status == "evaluated":
                span.event("gen_ai.evaluation.result", names.evaluation(result))
            elif result.status != "skipped":
                span.fail(result.error_type or result.status)
            return result
        finally:
            span.end()

    def _hold(self, key: TrialKey, cancel: threading.Event, span: Span, told: _Told) -> TrialResult:
        started, clock = datetime.now(UTC).isoformat(), time.monotonic()
        session: AgentSession | None = None
        tape: Tape | None = None
        try:
            if told.trouble is not None:
                raise told.trouble
            tape = self._tapes(key) if self._tapes else None
            session = self._open_session(told.metadata, tape)
            session.span = span
            outcome = self._converse(key, session, cancel)
        except Exception as exc:  # every kind of trouble becomes a status below
            outcome = Outcome(error=exc)
        finally:
            self._close_session(session)
        duration = outcome.duration if outcome.duration is not None else time.monotonic() - clock
        result = self._result(key, outcome, session, started, duration, told)
        # What trouble broke off is no conversation to be held again.
        if tape is not None and result.status in ("evaluated", "evaluator_error"):
            tape.keep()
        return self.store.write(result)

    def _stored(self, key: TrialKey, told: _Told) -> TrialResult | None:
        try:
            return self.store.read(key)
        except StoreError as error:
            # Damaged, or of another version: whatever it was, it is not of this run, and it will be replaced.
            told.damaged = str(error)
            return None

    def _is_reusable(self, stored: TrialResult, told: _Told) -> bool:
        """Tell whether an earlier run's result answers the same question, and no more is asked for than the answer."""
        if not self.settings.resume or stored.status != "evaluated" or told.trouble is not None:
            return False
        return not self._wants_again(stored.key) and stored.fingerprint == self._fingerprint(stored.key, told)

    def _wants_again(self, key: TrialKey) -> bool:
        """Tell whether more is asked for than the result: another try at a miss, or a recording that is not there."""
        if self.settings.missed or self.settings.record is None:
            return self.settings.missed
        return not library.has(Path(self.settings.record), key)

    def _fingerprint(self, key: TrialKey, told: _Told) -> str:
        # A benchmark of somebody else's may not know its data's version; then only the settings tell.
        version = getattr(get_benchmark(key.suite), "data_version", None)
        try:
            data = version(key.domain, self.settings) if version else ""
        except A2ABenchError:  # not installed, or not found: its trial will say so
            data = ""
        everything = {"metadata": told.metadata, "reached": self._reached}
        return fingerprint(self.settings, self._agent, data, everything, __version__)

    def cancel_all(self) -> None:
        """Abort every request in flight; their trials end as infrastructure errors."""
        with self._lock:
            live = list(self._live.values())
        for session in live:
            session.cancel()

    def _open_session(self, metadata: dict[str, Any], tape: Tape | None) -> AgentSession:
        session = self._connect().session(metadata or None, tape)
        with self._lock:
            self._live[id(session)] = session
        return session

    def _close_session(self, session: AgentSession | None) -> None:
        if session is None:
            return
        with self._lock:
            self._live.pop(id(session), None)
        session.finish()

    def _converse(self, key: TrialKey, session: AgentSession, cancel: threading.Event) -> Outcome:
        limit = self.settings.trial_timeout
        context = TrialContext(
            key=key,
            settings=self.settings,
            session=session,
            seed=trial_seed(self.settings.seed, key.trial),
            cancel=cancel,
            deadline=time.monotonic() + limit if limit else None,
        )
        outcome = get_benchmark(key.suite).run_trial(context)
        if isinstance(outcome.error, TurnTimeoutError) and context.deadline and time.monotonic() >= context.deadline:
            outcome.error = TrialTimeoutError(f"{key} took longer than --a2a-trial-timeout ({limit:g} s)")
        return outcome

    def _result(
        self,
        key: TrialKey,
        outcome: Outcome,
        session: AgentSession | None,
        started: str,
        duration: float,
        told: _Told,
    ) -> TrialResult:
        error = outcome.error
        status = classify(error)
        return TrialResult(
            key=key,
            status=status,
            run_id=self.run_id,
            reward_info=outcome.reward,
            termination_reason=outcome.termination_reason,
            error=describe(error) if error is not None else None,
            error_type=type(error).__name__ if error is not None else None,
            started_at=started,
            duration=duration,
            transcript=outcome.transcript,
            metrics=tuple(session.metrics) if session is not None else (),
            turn_latencies=tuple(session.turn_seconds) if session is not None else (),
            findings=outcome.findings + (tuple(session.findings) if session is not None else ()),
            agent_usage=outcome.agent_usage,
            user_usage=outcome.user_usage,
            context_id=session.context_id if session is not None else None,
            dialect=outcome.dialect,
            splits=outcome.splits,
            category=outcome.category,
            seed=trial_seed(self.settings.seed, key.trial),
            provenance={
                **outcome.provenance,
                **({"replayed": True} if self.settings.replay else {}),
                **({"replaced": told.damaged} if self.settings.resume and told.damaged else {}),
            },
            simulation=outcome.simulation,
            fingerprint=self._fingerprint(key, told),
        )


def classify(error: Exception | None) -> TrialStatus:
    """Tell whose trouble an exception is."""
    if error is None:
        return "evaluated"
    if isinstance(error, JudgeMissingError):
        return "skipped"
    if isinstance(error, EvaluatorError):
        return "evaluator_error"
    if isinstance(error, InfrastructureError | CardError | ConfigurationError):
        return "infrastructure_error"
    return "harness_error"


def describe(error: Exception) -> str:
    """Return our own errors' message, or the traceback of anything else, bounded."""
    if isinstance(error, A2ABenchError):
        return str(error)
    text = "".join(traceback.format_exception(error)).strip()
    if len(text) <= TRACEBACK_LIMIT:
        return text
    # How it came about stands first, and what it is last; one message alone may be as long as what an agent sent.
    head, tail = TRACEBACK_LIMIT // 4, TRACEBACK_LIMIT - TRACEBACK_LIMIT // 4
    return f"{text[:head]}\n... {len(text) - TRACEBACK_LIMIT} characters left out ...\n{text[-tail:]}"
