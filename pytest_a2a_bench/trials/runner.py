"""One trial of one task against one agent: from a key to a stored :class:`~pytest_a2a_bench.model.TrialResult`.

Trouble never escapes as an exception: it is the result's ``status``, so that infrastructure, agent and harness are
told apart in one place.
"""

from __future__ import annotations

import contextlib
import dataclasses
import random
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pytest_a2a_bench import __version__, dialects
from pytest_a2a_bench.benchmarks import registry
from pytest_a2a_bench.benchmarks.base import Outcome, TrialContext
from pytest_a2a_bench.benchmarks.participants import FurtherAgent, Parties
from pytest_a2a_bench.benchmarks.registry import get_benchmark
from pytest_a2a_bench.cassettes import library
from pytest_a2a_bench.config.settings import Settings
from pytest_a2a_bench.errors import A2ABenchError, TrialTimeoutError, TurnTimeoutError
from pytest_a2a_bench.model import TrialKey, TrialResult
from pytest_a2a_bench.results.fingerprint import fingerprint
from pytest_a2a_bench.results.store import Store, StoreError
from pytest_a2a_bench.tracing import NO_TRACING, Span, Tracing, names
from pytest_a2a_bench.trials import estimating
from pytest_a2a_bench.trials.attempt import Attempt
from pytest_a2a_bench.trials.concluding import make_result
from pytest_a2a_bench.trials.native import open_native, refuse_unused
from pytest_a2a_bench.trials.redelivery import hold_again, refuse_tainted
from pytest_a2a_bench.trials.stopping import Limits, Stopping

if TYPE_CHECKING:
    from pytest_a2a_bench.a2a.client import AgentConnection
    from pytest_a2a_bench.a2a.session import AgentSession
    from pytest_a2a_bench.cassettes.tape import Tape
    from pytest_a2a_bench.results.live import Growing
    from pytest_a2a_bench.trials.breaker import Opened

_LATE = (TurnTimeoutError, TrialTimeoutError)

Prepare = Callable[[TrialKey, "dict[str, Any]"], None]


def trial_seed(seed: int, trial: int, again: int = 0) -> int:
    """Return the seed of one trial: the same for all tasks, and what tau2's own runner derives from the run's seed.

    :param again: how often it has been held again because of its user; then it is another one.
    """
    source = random.Random(seed)
    own = [source.randint(0, 1000000) for _ in range(trial + 1)][-1]
    return random.Random(f"{own}/{again}").randint(0, 1000000) if again else own


def trial_metadata(key: TrialKey) -> dict[str, Any]:
    """Return the message metadata that names the trial to the agent (``--a2a-set tag-trials=on``)."""
    return {"a2a_bench": {"task": key.task_key, "trial": key.trial}}


class Runner:
    """Runs trials, in as many threads as the caller likes.

    :param connect: returns the process's connection to the agent; called when the first trial runs.
    :param metadata: put into every message's metadata.
    :param tapes: makes what a trial is recorded on, or replayed from.
    :param tracing: makes the spans of trials.
    :param agent: what the agent's card says it is; a stored result of another one is not reused.
    :param reached: how the connection differs from what the settings say, if a fixture made another one.
    :param stopping: says whether trials may still begin, and hears how each ended.
    :param further: agents that take part beside this one.
    :param growing: makes the files in which conversations are watched.
    :param prepare: called in the conversation's thread before it starts (again, if it is held again), with the key and
        the metadata, which it may change.
    :param categories: of tasks that have one: a trial that came to nothing counts in its category's rates as well.
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
        stopping: Stopping | None = None,
        further: Iterable[FurtherAgent] = (),
        growing: Callable[[TrialKey], Growing] | None = None,
        categories: Mapping[str, str] | None = None,
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
        self._stopping = stopping
        self._further = tuple(further)
        self._growing = growing
        self._categories = categories or {}
        self.limits: Limits = stopping.limits if stopping is not None else Limits(settings.trial_timeout)
        self._attempts: dict[TrialKey, Attempt] = {}
        self._lock = threading.Lock()

    def run(self, key: TrialKey, cancel: threading.Event | None = None) -> TrialResult:
        """Run one trial, or return this run's stored result of it; with ``resume`` also an earlier run's.

        Where no trial may begin any more, its status is ``not_run`` and nothing is stored; one that need not begin is
        ``skipped``. Never raises for trouble of the trial; a result that cannot be stored raises ``StoreError``.
        """
        attempt = Attempt(key, cancel or threading.Event(), dict(self._metadata))
        stored = self._stored(attempt)
        if stored is not None and stored.run_id == self.run_id:
            return stored
        with self._registered(attempt):
            opened = self._stopping.opened if self._stopping is not None else None
            if opened is None or (stored is not None and self.settings.resume):
                self._make_ready(attempt)
                if stored is not None and self._is_reusable(stored, attempt):
                    origin = stored.reused_from or stored.run_id
                    return self.store.write(dataclasses.replace(stored, run_id=self.run_id, reused_from=origin))
            if opened is not None:
                return self._not_run(key, opened)
            left_out = self._stopping.left_out(key) if self._stopping is not None else None
            return self._traced(attempt) if left_out is None else self.store.write(self._placed(left_out))

    def give_up(self, key: TrialKey) -> TrialResult | None:
        """End a trial whose time is up and whose thread does not come back: stuck where nothing bounds it.

        :returns: the error that it came to, which is stored; None where the trial has ended after all.
        """
        with self._lock:
            attempt = self._attempts.get(key)
        if attempt is None or attempt.has_ended:
            return None
        error = self.limits.error(key)
        seconds = time.monotonic() - attempt.began
        stuck = f"{error}; after {seconds:.0f} s its thread had still not come back, so it was given up"
        result = self._make_result(attempt, Outcome(error=type(error)(stuck)))
        stored = self._keep(attempt, result, error)
        # Not before: a conversation that is cancelled ends, and would say so instead.
        attempt.give_up()
        return stored

    def _make_ready(self, attempt: Attempt) -> None:
        if self.settings.tag_trials:
            attempt.metadata.update(trial_metadata(attempt.key))
        try:
            if self._prepare is not None:
                self._prepare(attempt.key, attempt.metadata)
        except Exception as exc:  # becomes the trial's status
            attempt.trouble = exc

    def _traced(self, attempt: Attempt) -> TrialResult:
        key = attempt.key
        start = {"a2a.key": str(key), "a2a.suite": key.suite, "a2a.domain": key.domain, "a2a.run_id": self.run_id}
        span = self._tracing.trial(str(key), start)
        try:
            result = self._hold(attempt, span)
            span.set(names.trial_end(result))
            if result.status == "evaluated":
                span.event("gen_ai.evaluation.result", names.evaluation(result))
            elif result.status != "skipped":
                span.fail(result.error_type or result.status)
            return result
        finally:
            span.end()

    def _hold(self, attempt: Attempt, span: Span) -> TrialResult:
        """Hold a trial's conversation, again while it says nothing of the agent, and store the result."""
        while True:
            outcome, tape = self._hold_once(attempt, span)
            session = attempt.session
            if session is None or attempt.has_ended:
                break
            deadline = self.limits.deadline(attempt.began)
            why = hold_again(outcome, attempt.abandoned, self.settings, attempt.cancel, deadline)
            if not why:
                break
            attempt.set_aside(outcome, session, self._seed(attempt), tape)
            span.event("a2a.held_again", {"a2a.reason": why})
            attempt.session, attempt.native, attempt.parties = None, None, Parties()
            attempt.metadata = dict(self._metadata)
            self._make_ready(attempt)
        return self._conclude(attempt, outcome, tape)

    def _hold_once(self, attempt: Attempt, span: Span) -> tuple[Outcome, Tape | None]:
        clock = time.monotonic()
        tape: Tape | None = None
        try:
            if attempt.trouble is not None:
                raise attempt.trouble
            tape = self._tapes(attempt.key) if self._tapes else None
            attempt.session = self._connect().session(attempt.metadata or None, tape)
            attempt.session.span = span
            if self._growing is not None:
                attempt.grow(self._growing(attempt.key))
            attempt.parties = Parties(self._further, attempt.metadata, span)
            attempt.native = open_native(self.settings, attempt.session)
            outcome = self._converse(attempt, attempt.session)
        except Exception as exc:  # every kind of trouble becomes a status below
            outcome = Outcome(error=exc)
        finally:
            attempt.end_native()
            attempt.parties.finish()
            if attempt.session is not None:
                attempt.session.finish()
                estimating.fill_in(attempt.session, self.settings.agent_model, attempt.native)
        outcome.error = self._whose_time(attempt, outcome.error)
        if attempt.session is not None:
            outcome = refuse_tainted(outcome, attempt.session, *(s.session for s in attempt.parties.seats))
        if outcome.duration is None:
            outcome.duration = time.monotonic() - clock
        return outcome, tape

    def _conclude(self, attempt: Attempt, outcome: Outcome, tape: Tape | None) -> TrialResult:
        result = self._make_result(attempt, outcome)
        stored = self._keep(attempt, result, outcome.error)
        if result.retry_error and attempt.evaluated is not None:
            tape = attempt.evaluated.tape
        # What trouble broke off is no conversation to be held again.
        if stored is not None and tape is not None and result.status in ("evaluated", "evaluator_error"):
            tape.keep()
        return stored or result

    def _keep(self, attempt: Attempt, result: TrialResult, error: Exception | None) -> TrialResult | None:
        """Store what came of an attempt, unless that has been said already."""
        if not attempt.conclude(result):
            return None
        stored = self.store.write(result)
        if self._stopping is not None:
            self._stopping.note(attempt.key, error)
        return stored

    def _stored(self, attempt: Attempt) -> TrialResult | None:
        try:
            return self.store.read(attempt.key)
        except StoreError as error:
            # Damaged, or of another version: whatever it was, it is not of this run, and it will be replaced.
            attempt.damaged = str(error)
            return None

    def _is_reusable(self, stored: TrialResult, attempt: Attempt) -> bool:
        """Tell whether an earlier run's result answers the same question, and no more is asked for than the answer."""
        if not self.settings.resume or stored.status != "evaluated" or attempt.trouble is not None:
            return False
        attempt.before = str(stored.provenance.get("benchmark") or "")
        return not self._wants_again(stored.key) and stored.fingerprint == self._fingerprint(attempt)

    def _wants_again(self, key: TrialKey) -> bool:
        """Tell whether more is asked for than the result: another try at a miss, or a recording that is not there."""
        if self.settings.missed or self.settings.record is None:
            return self.settings.missed
        return not library.has(Path(self.settings.record), key)

    def _data(self, key: TrialKey) -> Mapping[str, Any]:
        """Return which data a trial was to be held on that came to nothing: it is counted among trials on the same."""
        known = getattr(get_benchmark(key.suite), "data_provenance", None)
        try:
            return known(key.domain, key.task_id, self.settings) if known else {}
        except A2ABenchError:  # it is what the trial came to nothing for
            return {}

    def _fingerprint(self, attempt: Attempt) -> str:
        # A benchmark of somebody else's may not know its data's version; then only the settings tell.
        benchmark = get_benchmark(attempt.key.suite)
        version = getattr(benchmark, "data_version", None)
        of_task = getattr(benchmark, "task_version", None)
        try:
            data = version(attempt.key.domain, self.settings) if version else ""
        except A2ABenchError:  # not installed, or not found: its trial will say so
            data = ""
        everything: dict[str, Any] = {
            "metadata": attempt.metadata,
            "reached": self._reached,
            "prompt": self._prompt(attempt.key.suite),
        }
        if of_task is not None:
            everything["task"] = of_task(attempt.key, self.settings)
        if self._further:
            everything["parties"] = _identities(self._further)
        settings = registry.without_places(self.settings) if data else self.settings
        return fingerprint(settings, self._agent, data, everything, __version__)

    def _prompt(self, suite: str) -> str:
        """Return in which form agents are told the tasks of a suite; numbers of two forms are not comparable."""
        try:
            return dialects.form(self.settings.dialect, getattr(get_benchmark(suite), "prompt", None))
        except A2ABenchError:  # there is no such dialect, which its trial will say
            return ""

    @property
    def opened(self) -> Opened | None:
        """What is known already of why no further trial may begin. Never waits."""
        return self._stopping.known if self._stopping is not None else None

    def cancel_all(self) -> None:
        """Abort every request in flight; their trials end as infrastructure errors."""
        with self._lock:
            attempts = list(self._attempts.values())
        for attempt in attempts:
            attempt.cancel_sessions()

    @contextlib.contextmanager
    def _registered(self, attempt: Attempt) -> Iterator[None]:
        with self._lock:
            self._attempts[attempt.key] = attempt
        try:
            yield
        finally:
            attempt.forget()
            with self._lock:
                # One that was given up comes back when the same trial may be held again already.
                if self._attempts.get(attempt.key) is attempt:
                    del self._attempts[attempt.key]

    def _converse(self, attempt: Attempt, session: AgentSession) -> Outcome:
        key = attempt.key
        context = TrialContext(
            key=key,
            settings=self.settings,
            session=session,
            seed=self._seed(attempt),
            cancel=attempt.cancel,
            deadline=self.limits.deadline(attempt.began),
            native=attempt.native,
            parties=attempt.parties,
        )
        outcome = get_benchmark(key.suite).run_trial(context)
        refuse_unused(attempt.native, key, outcome)
        return outcome

    def _seed(self, attempt: Attempt) -> int:
        return trial_seed(self.settings.seed, attempt.key.trial, len(attempt.abandoned.faults))

    def _whose_time(self, attempt: Attempt, error: Exception | None) -> Exception | None:
        """Return the error of a limit: a turn's time is never more than what its trial, or the run, has left."""
        deadline = self.limits.deadline(attempt.began)
        is_late = deadline is not None and time.monotonic() >= deadline
        if not is_late or not isinstance(error, _LATE):
            return error
        late = self.limits.error(attempt.key)
        late.party = error.party
        return late

    def _not_run(self, key: TrialKey, opened: Opened) -> TrialResult:
        told = {**self._data(key), "stopped": opened.advice}
        return self._placed(TrialResult(key, "not_run", self.run_id, error=opened.text, provenance=told))

    def _placed(self, result: TrialResult) -> TrialResult:
        """Return a result with its task's category, which no benchmark said of a conversation that it did not hold."""
        category = result.category or self._categories.get(result.key.task_key, "")
        return dataclasses.replace(result, category=category)

    def _make_result(self, attempt: Attempt, outcome: Outcome) -> TrialResult:
        seed, data = self._seed(attempt), {} if outcome.provenance else self._data(attempt.key)
        mark = self._fingerprint(attempt)
        result = make_result(attempt, outcome, self.settings, run_id=self.run_id, seed=seed, data=data, mark=mark)
        if hasattr(get_benchmark(attempt.key.suite), "prompt"):  # what a benchmark of others says is its own affair
            told = {**result.provenance, "prompt": self._prompt(attempt.key.suite)}
            result = dataclasses.replace(result, provenance=told)
        return self._placed(result)


def _identities(parties: Iterable[FurtherAgent]) -> dict[str, Any]:
    """Return who takes part, by what each is there for, as fingerprints have it."""
    found: dict[str, list[list[str]]] = {}
    for party in parties:
        found.setdefault(party.role, []).append([party.name, party.where, party.agent])
    # Of one alone as it was when there could be no more: its results stay good.
    return {role: each[0][1:] if len(each) == 1 else each for role, each in found.items()}
