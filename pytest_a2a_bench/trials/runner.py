"""Run one trial of one task against one agent: from a key to a stored :class:`~pytest_a2a_bench.model.TrialResult`.

Exceptions of a trial become its ``status``, so that faults of the infrastructure, the agent and the harness are kept
apart in one place.
"""

from __future__ import annotations

import contextlib
import dataclasses
import math
import random
import threading
import time
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pytest_a2a_bench import __version__, cassettes, dialects
from pytest_a2a_bench.a2a.requests import RetryPolicy
from pytest_a2a_bench.benchmarks import registry
from pytest_a2a_bench.benchmarks.base import Benchmark, FurtherAgent, Outcome
from pytest_a2a_bench.benchmarks.registry import get_benchmark
from pytest_a2a_bench.config.settings import Settings
from pytest_a2a_bench.errors import (
    A2ABenchError,
    ConfigurationError,
    DeliveryUncertain,
    InfrastructureError,
    RunTimeoutError,
    TrialTimeoutError,
    TurnTimeoutError,
)
from pytest_a2a_bench.language_models import load_litellm
from pytest_a2a_bench.model import Briefing, Event, TrialKey, TrialResult, Usage
from pytest_a2a_bench.model.messages import digest
from pytest_a2a_bench.results.manifest import question
from pytest_a2a_bench.results.store import Store, StoreError
from pytest_a2a_bench.text import waiting_for
from pytest_a2a_bench.trials.stopping import Limits
from pytest_a2a_bench.trials.trial import (
    Abandoned,
    Client,
    Trial,
    TrialObserver,
    make_result,
    refuse_unmeasured,
    refuse_unused,
    trial_metadata,
)

if TYPE_CHECKING:
    from pytest_a2a_bench.a2a.session import AgentSession


_LATE = (TurnTimeoutError, TrialTimeoutError)


class Runner:
    """Runs trials, in as many threads as the caller likes.

    :param client: how the agent is reached.
    :param observers: called in this order at every step of each trial.
    :param limits: of each trial and of the run; those of the settings where None.
    """

    def __init__(
        self,
        settings: Settings,
        client: Client,
        store: Store,
        run_id: str,
        observers: Iterable[TrialObserver] = (),
        limits: Limits | None = None,
    ) -> None:
        self.settings = settings
        self.store = store
        self.run_id = run_id
        self.limits: Limits = limits or Limits(settings.trial_timeout)
        self._client = client
        self._observers = tuple(observers)
        self._listeners = [o for o in self._observers if type(o).on_turn is not TrialObserver.on_turn]
        self._trials: dict[TrialKey, Trial] = {}
        self._benchmarks: dict[str, Benchmark] = {}
        self._lock = threading.Lock()
        # What is asked of the agent in every trial; where data have a version, it does not matter where they are.
        self._question = question(settings, client.identity, __version__)
        self._anywhere = question(registry.without_places(settings), client.identity, __version__)

    def load(self, suites: Collection[str]) -> None:
        """Import benchmarks, and LiteLLM where a model is called, in this thread.

        Their imports hide warnings of dependencies, which threads of trials would let out again. A benchmark that
        cannot be imported is reported by its trials.
        """
        with waiting_for("the benchmarks to load"), contextlib.suppress(Exception):
            if any((self.settings.agent_model, self.settings.user_llm, self.settings.judge_llm)):
                load_litellm()
            for suite in suites:
                load = getattr(self._benchmark(suite), "load", None)
                if load is not None:
                    load(self.settings)

    def run(self, key: TrialKey, cancel: threading.Event | None = None) -> TrialResult:
        """Run one trial, or return this run's stored result of it; with ``resume`` also an earlier run's.

        Where an observer has a result in place of the trial, it is stored unless its status is ``not_run``. Exceptions
        of the trial are not raised; a result that cannot be stored raises ``StoreError``.
        """
        trial = Trial(key, self.settings, cancel or threading.Event())
        stored = self._stored(trial)
        if stored is not None and stored.run_id == self.run_id:
            return stored
        with self._registered(trial):
            instead = next(filter(None, (observer.before_trial(trial) for observer in self._observers)), None)
            if instead is None or (stored is not None and self.settings.resume):
                self._prepare(trial)
                if stored is not None and self._is_reusable(stored, trial):
                    origin = stored.reused_from or stored.run_id
                    return self.store.write(dataclasses.replace(stored, run_id=self.run_id, reused_from=origin))
            if instead is None:
                return self._converse(trial)
            return self._store_instead(trial, _given(instead, "before_trial of an observer"))

    def give_up(self, key: TrialKey) -> TrialResult | None:
        """End a trial whose time is up and whose thread does not come back: stuck where nothing bounds it.

        :returns: the result with the error, which is stored; None where the trial has ended after all.
        """
        with self._lock:
            trial = self._trials.get(key)
        if trial is None or trial.has_ended:
            return None
        error = self.limits.error(key)
        seconds = time.monotonic() - trial.began
        stuck = f"{error}; after {seconds:.0f} s its thread had still not come back, so it was given up"
        result = self._make_result(trial, Outcome(error=type(error)(stuck)))
        stored = self._keep(trial, result, error)
        # Not before: a conversation that is cancelled ends, and would say so instead.
        trial.give_up()
        return stored

    def cancel_all(self) -> None:
        """Abort every request in flight; their trials end as infrastructure errors."""
        with self._lock:
            trials = list(self._trials.values())
        for trial in trials:
            trial.cancel_sessions()

    @contextlib.contextmanager
    def _registered(self, trial: Trial) -> Iterator[None]:
        with self._lock:
            self._trials[trial.key] = trial
        try:
            yield
        finally:
            trial.forget()
            with self._lock:
                # The same trial may run again already when a thread that was given up comes back.
                if self._trials.get(trial.key) is trial:
                    del self._trials[trial.key]

    # -- conversations --

    def _prepare(self, trial: Trial) -> None:
        """Set the metadata of the next conversation."""
        client, trial.metadata = self._client, dict(self._client.metadata)
        if self.settings.tag_trials:
            trial.metadata.update(trial_metadata(trial.key))
        try:
            if client.prepare is not None:
                client.prepare(trial.key, trial.metadata)
        except Exception as exc:  # becomes the trial's status
            trial.trouble = exc

    def _converse(self, trial: Trial) -> TrialResult:
        """Run a trial's conversation, again while it says nothing about the agent, and store the result."""
        trial.deadline = self.limits.deadline(trial.began)
        try:
            while True:
                outcome = self._converse_once(trial)
                session = trial.session
                if session is None or trial.has_ended:
                    break
                why = reason_to_repeat(outcome, trial.abandoned, self.settings, trial.cancel, trial.deadline)
                if not why:
                    break
                trial.set_aside(outcome, session, why)
                self._prepare(trial)
            result = self._make_result(trial, outcome)
            return self._keep(trial, result, outcome.error) or result
        finally:
            # Only where something broke the trial off that is no Exception.
            if trial.end():
                self._end(trial, None)

    def _converse_once(self, trial: Trial) -> Outcome:
        clock = time.monotonic()
        try:
            for observer in self._observers:
                observer.before_conversation(trial)
            if trial.trouble is not None:
                raise trial.trouble
            session = self._client.connection.session(trial.metadata or None, trial.tape)
            if self._listeners:
                session.listener = partial(self._on_turn, trial)
            context = trial.converse(session, self._client.further)
            outcome = self._benchmark(trial.key.suite).run_trial(context)
            refuse_unmeasured(outcome)
            refuse_unused(context, outcome)
        except Exception as exc:  # every kind of trouble becomes a status below
            outcome = Outcome(error=exc)
        finally:
            trial.end_conversation()
            for observer in self._observers:
                observer.after_conversation(trial)
        outcome.error = self._late_error(trial, outcome.error)
        if trial.session is not None:
            outcome = refuse_tainted(outcome, trial.session, *(s.session for s in trial.parties.seats))
        if outcome.agent_usage == Usage() and trial.session is not None:  # a benchmark need not hand it on
            outcome.agent_usage = trial.session.usage
        if outcome.duration is None:
            outcome.duration = time.monotonic() - clock
        return outcome

    def _on_turn(self, trial: Trial, briefing: Briefing, events: Sequence[Event], party: str | None = None) -> None:
        for observer in self._listeners:
            observer.on_turn(trial, briefing, events, party)

    def _late_error(self, trial: Trial, error: Exception | None) -> Exception | None:
        """Return the error of the limit that was reached: a turn gets no more time than its trial or run has left."""
        is_late = trial.deadline is not None and time.monotonic() >= trial.deadline
        if not is_late or not isinstance(error, _LATE):
            return error
        late = self.limits.error(trial.key)
        late.party = error.party
        return late

    # -- results --

    def _keep(self, trial: Trial, result: TrialResult, error: Exception | None) -> TrialResult | None:
        """Store the result of a trial, unless another thread has ended the trial."""
        if not trial.end():
            return None
        trial.error = error
        stored: TrialResult | None = None
        try:
            stored = self.store.write(result)
        finally:
            self._end(trial, stored)
        return stored

    def _end(self, trial: Trial, result: TrialResult | None) -> None:
        for observer in self._observers:
            observer.after_trial(trial, result)

    def _store_instead(self, trial: Trial, result: TrialResult) -> TrialResult:
        if result.status != "not_run":
            return self.store.write(self._conclude(trial, result))
        known = {**self._data(trial.key), **result.provenance}
        return self._conclude(trial, dataclasses.replace(result, provenance=known))

    def _make_result(self, trial: Trial, outcome: Outcome) -> TrialResult:
        suite = trial.key.suite
        data = {} if outcome.provenance else self._data(trial.key)
        prompt = self._prompt(suite)
        mark = self._fingerprint(trial, prompt)
        result = make_result(trial, outcome, run_id=self.run_id, data=data, mark=mark)
        if hasattr(self._benchmark(suite), "prompt"):  # other benchmarks decide for themselves what they state
            result = dataclasses.replace(result, provenance={**result.provenance, "prompt": prompt})
        if (version := getattr(self._benchmark(suite), "task_version", None)) is not None:
            known = {**result.provenance, "task_version": version(trial.key, self.settings)}
            result = dataclasses.replace(result, provenance=known)
        return self._conclude(trial, result)

    def _conclude(self, trial: Trial, result: TrialResult) -> TrialResult:
        for observer in self._observers:
            result = _given(observer.conclude(trial, result), f"{type(observer).__name__}.conclude")
        return result

    def _stored(self, trial: Trial) -> TrialResult | None:
        try:
            return self.store.read(trial.key)
        except StoreError as error:
            # Damaged, or of another version: whatever it was, it is not of this run, and it will be replaced.
            trial.damaged = str(error)
            return None

    def _is_reusable(self, stored: TrialResult, trial: Trial) -> bool:
        """Return whether an earlier run's result answers the same question, and may replace the trial."""
        if not self.settings.resume or stored.status != "evaluated" or trial.trouble is not None:
            return False
        trial.before = str(stored.provenance.get("benchmark") or "")
        if self._wants_again(stored.key):
            return False
        return stored.fingerprint == self._fingerprint(trial, self._prompt(stored.key.suite))

    def _wants_again(self, key: TrialKey) -> bool:
        """Return whether more is asked for than the result: another try at a miss, or a recording that is not there."""
        if self.settings.missed or self.settings.record is None:
            return self.settings.missed
        return not cassettes.has(Path(self.settings.record), key)

    def _data(self, key: TrialKey) -> Mapping[str, Any]:
        """Return the data of a trial that has no provenance of its own: it is counted among trials on the same."""
        known = getattr(self._benchmark(key.suite), "data_provenance", None)
        try:
            return known(key.domain, key.task_id, self.settings) if known else {}
        except A2ABenchError:  # it is what the trial came to nothing for
            return {}

    def _fingerprint(self, trial: Trial, prompt: str) -> str:
        # A third party's benchmark may not know its data's version; then only the settings count.
        benchmark = self._benchmark(trial.key.suite)
        version = getattr(benchmark, "data_version", None)
        of_task = getattr(benchmark, "task_version", None)
        try:
            data = version(trial.key.domain, self.settings) if version else ""
        except A2ABenchError:  # not installed, or not found: its trial will say so
            data = ""
        everything: dict[str, Any] = {
            "metadata": trial.metadata,
            "reached": dict(self._client.reached),
            "prompt": prompt,
        }
        if of_task is not None:
            everything["task"] = of_task(trial.key, self.settings)
        if self._client.further:
            everything["parties"] = _identities(self._client.further)
        return digest({**(self._anywhere if data else self._question), "data": data, "connection": everything})

    def _benchmark(self, suite: str) -> Benchmark:
        if suite not in self._benchmarks:
            self._benchmarks[suite] = get_benchmark(suite)
        return self._benchmarks[suite]

    def _prompt(self, suite: str) -> str:
        """Return the form of a suite's prompts; numbers of two forms are not comparable."""
        try:
            return dialects.form(self.settings.dialect, getattr(self._benchmark(suite), "prompt", None))
        except A2ABenchError:  # there is no such dialect, which its trial will say
            return ""


def _given(result: object, method: str) -> TrialResult:
    if not isinstance(result, TrialResult):
        raise ConfigurationError(f"{method} returned {type(result).__name__}; a TrialResult was expected")
    return result


def _identities(parties: Iterable[FurtherAgent]) -> dict[str, Any]:
    """Return the participants by role, as fingerprints have them."""
    found: dict[str, list[list[str]]] = {}
    for party in parties:
        found.setdefault(party.role, []).append([party.name, party.where, party.agent])
    # Of one alone as it was when there could be no more: its results stay good.
    return {role: each[0][1:] if len(each) == 1 else each for role, each in found.items()}


class Runners:
    """The runners of several agents in one run, each with its own breaker.

    :param runners: by the agent's name in keys; None for an agent without a name, which is the only one. They share
        store and limits.
    """

    def __init__(self, runners: Mapping[str | None, Runner]) -> None:
        self._runners = dict(runners)
        first = next(iter(self._runners.values()))
        self.store: Store = first.store
        self.limits: Limits = first.limits

    def load(self, suites: Collection[str]) -> None:
        """Import benchmarks in this thread; see :meth:`.Runner.load`."""
        for runner in self._runners.values():
            runner.load(suites)

    def run(self, key: TrialKey, cancel: threading.Event | None = None) -> TrialResult:
        """Run one trial; see :meth:`.Runner.run`."""
        return self._runners[key.agent].run(key, cancel)

    def give_up(self, key: TrialKey) -> TrialResult | None:
        """End a trial whose time is up; see :meth:`.Runner.give_up`."""
        return self._runners[key.agent].give_up(key)

    def cancel_all(self) -> None:
        """Abort every request in flight."""
        for runner in self._runners.values():
            runner.cancel_all()


# --- when a conversation is repeated from the start ---
# One in which a message may have been delivered without an answer says nothing: the agent may have worked on it once,
# twice or not at all. Another one, in a new context and environment and with the same seed, is evaluated instead. One
# whose simulated user was at fault is repeated with another seed, where ``user-retry`` asks for it.

_PAUSE = RetryPolicy(base=0.25, maximum=30.0)
_STEPS = 4
"""How many doublings of the pause lie between two conversations: the first trouble mostly was a single one, the second
says that something restarts, and that takes seconds (0.25, 4, 30, always between half of it and the whole)."""


def refuse_tainted(outcome: Outcome, *sessions: AgentSession) -> Outcome:
    """Return an outcome without the reward, if the conversation was tainted.

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
    outcome.reward, outcome.simulation, outcome.user_fault, outcome.extra_turn = None, None, None, None
    outcome.error, outcome.termination_reason = tainted, "infrastructure_error"
    return outcome


def reason_to_repeat(
    outcome: Outcome, abandoned: Abandoned, settings: Settings, cancel: threading.Event, deadline: float | None
) -> str:
    """Return why to repeat the conversation, after a pause; empty where it is not to be repeated.

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
    error: DeliveryUncertain, abandoned: Abandoned, settings: Settings, cancel: threading.Event, deadline: float | None
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
