"""Run one assessment: the trials of a plan by the runner and pool that the plugin uses, or the checks of a protocol.

It runs in a thread of its own, and other threads may stop it. Its directory has the files of a pytest run, which
``a2a-bench export`` and ``a2a-bench gate`` read.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextlib
import dataclasses
import logging
import math
import os
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from pytest_a2a_bench.a2a import loop
from pytest_a2a_bench.a2a.card import choose_interface
from pytest_a2a_bench.a2a.client import AgentConnection
from pytest_a2a_bench.a2a.config import ClientConfig
from pytest_a2a_bench.a2a.loop import Stop
from pytest_a2a_bench.agents.options import start_builtin
from pytest_a2a_bench.assessor.terms import Plan, Terms
from pytest_a2a_bench.benchmarks import models
from pytest_a2a_bench.config.settings import BUILTIN_PREFIX, Settings, without_query
from pytest_a2a_bench.conformance.engine import run_checks
from pytest_a2a_bench.conformance.report import Report
from pytest_a2a_bench.conformance.scenarios import Scenarios
from pytest_a2a_bench.conformance.subject import look_at
from pytest_a2a_bench.errors import A2ABenchError, CardError, InfrastructureError
from pytest_a2a_bench.model import TrialKey, TrialResult
from pytest_a2a_bench.model.messages import add_known
from pytest_a2a_bench.redact import dump_json, redact_url
from pytest_a2a_bench.results.gates.files import JudgedAgent, StoredVerdict, write_verdict
from pytest_a2a_bench.results.gates.terms import Trials, Verdict, find_missed
from pytest_a2a_bench.results.manifest import Manifest
from pytest_a2a_bench.results.store import Store, StoreError, save
from pytest_a2a_bench.trials import stopping
from pytest_a2a_bench.trials.observers import asked_for
from pytest_a2a_bench.trials.pool import Pool
from pytest_a2a_bench.trials.runner import Runner
from pytest_a2a_bench.trials.stopping import Breaker, Limits, Stopping
from pytest_a2a_bench.trials.trial import Client, TrialObserver

log = logging.getLogger(__name__)

PROTOCOL_FILE = "conformance.json"
"""The file of a protocol's report, as ``a2a-bench check --format json`` writes it."""

_ANSWER_SECONDS = 10.0

_NETWORK_VARIABLES = ("http_proxy", "https_proxy", "all_proxy", "no_proxy", "ssl_cert_file", "ssl_cert_dir")
"""Environment variables that connections to a caller's agent may use, beside the token that is for this agent."""


@dataclass(frozen=True, slots=True)
class Progress:
    """How far an assessment is.

    :param what: the unit that is counted: ``trials`` or ``checks``.
    :param errors: how many could not be evaluated.
    :param cost: dollars so far, as far as agents and models report them.
    :param awaited: the agent's URL, until it has answered.
    """

    what: str = "trials"
    total: int = 0
    done: int = 0
    passed: int = 0
    errors: int = 0
    cost: float | None = None
    awaited: str = ""

    @property
    def text(self) -> str:
        """Return it in one line."""
        if self.awaited:
            return f"waiting for the agent at {self.awaited}"
        text = f"{self.done} of {self.total} {self.what} done, {self.passed} passed"
        if self.errors:
            text += f", {self.errors} could not be evaluated"
        return text + (f", ${self.cost:.4f}" if self.cost else "")

    def after(self, result: TrialResult) -> Progress:
        """Return the progress with one more trial, unless that was not run."""
        if result.status == "not_run":
            return self
        return dataclasses.replace(
            self,
            done=self.done + 1,
            passed=self.passed + result.success,
            errors=self.errors + (result.status != "evaluated"),
            cost=add_known(self.cost, result.cost),
        )


_IMPOSSIBLE = "the assessment is not possible"
_TOKEN_ADVICE = "name a token that is for this agent with --a2a-auth-env"


class AssessmentFailed(Exception):
    """The assessment has no result; the message says why."""


class Stopped(Exception):
    """The assessment was stopped."""


@dataclass(frozen=True, slots=True)
class Concluded:
    """The outcome of an assessment.

    :param agent: name and version from the agent's card; ``interface`` its protocol version and transport.
    :param results: of the trials, in the order of the plan; empty for the protocol, which has a ``report``.
    :param seconds: how long it took since it was last begun or taken up.
    """

    plan: Plan
    agent: str = ""
    interface: str = ""
    results: tuple[TrialResult, ...] = ()
    report: Report | None = None
    seconds: float = 0.0
    run_id: str = ""


class Assessment:
    """An assessment that runs once.

    :param name: of the assessment and of its run; its directory's, too.
    :param note: called with each trial's result, in the assessment's thread.
    :param observers: further observers of its trials, beside those of its settings.
    """

    def __init__(
        self,
        name: str,
        plan: Plan,
        terms: Terms,
        environ: Mapping[str, str] = os.environ,
        note: Callable[[TrialResult], None] = lambda trial: None,
        observers: Sequence[TrialObserver] = (),
    ) -> None:
        self.name = name
        self.plan = plan
        self.progress = Progress(total=len(plan.keys), awaited=redact_url(plan.request.agent, query=False))
        self._terms = terms
        self._directory = terms.directory(name)
        token = plan.settings.auth_env
        self._environ = {k: v for k, v in environ.items() if k.lower() in _NETWORK_VARIABLES or k == token}
        self._note = note
        self._observers = observers
        self._stop = Stop()
        self._pool: Pool | None = None
        self._deadline = math.inf
        self._lock = threading.Lock()
        self._overspent: str | None = None

    def stop(self) -> None:
        """Begin no trial any more and abort those in flight. Does not wait; callable from any thread."""
        self._stop.set()
        pool = self._pool
        if pool is not None:
            pool.cancel_all()

    def run(self) -> Concluded:
        """Run the trials, or judge the protocol, and return the outcome.

        :raises AssessmentFailed: if it has no result.
        :raises Stopped: if it was stopped.
        """
        began = time.monotonic()
        self._deadline = began + self._terms.seconds
        try:
            try:
                with self._target() as target:
                    found = self._judge(target) if self.plan.is_protocol else self._run_trials(target)
            except A2ABenchError as error:
                self._raise_if_stopped()
                self._raise_if_late(error)
                kind = "Agent error" if isinstance(error, InfrastructureError | CardError) else _IMPOSSIBLE
                raise AssessmentFailed(f"{kind}: {error}") from error
        except AssessmentFailed as error:
            raise AssessmentFailed(self.plan.door.words(str(error))) from error
        self._raise_if_stopped()
        return dataclasses.replace(found, seconds=time.monotonic() - began, run_id=self.name)

    def _raise_if_stopped(self) -> None:
        if self._stop.is_set():
            raise Stopped(self.name)

    def _raise_if_late(self, error: Exception | None = None) -> None:
        if time.monotonic() >= self._deadline:
            raise AssessmentFailed(
                f"stopped after {self.progress.text}: it took longer than the {self._terms.seconds:g} s that this "
                "assessor allows"
            ) from error

    @contextlib.contextmanager
    def _target(self) -> Iterator[Settings]:
        """Give the settings with the agent's real URL; a built-in agent is started, and ended afterwards."""
        settings = self.plan.settings
        if not self.plan.request.agent.startswith(BUILTIN_PREFIX):
            yield settings
            return
        with start_builtin(self.plan.request.agent, settings) as agent:
            yield dataclasses.replace(settings, endpoint=agent.url)

    def _config(self, target: Settings) -> ClientConfig:
        config = ClientConfig.from_settings(target, self._environ)
        # A built-in agent is ours, and on this machine.
        guard = None if self.plan.settings.builtin else self._terms.guard
        network = dataclasses.replace(config.network, guard=guard)
        return dataclasses.replace(config, network=network, token_advice=_TOKEN_ADVICE)

    # -- trials --

    def _run_trials(self, target: Settings) -> Concluded:
        store = Store(self._directory)
        store.prepare()
        stopping.forget(self._directory)
        for player, problem in models.model_problems(target):
            raise AssessmentFailed(f"{_IMPOSSIBLE}: the {player}: {problem}")
        with AgentConnection(self._config(target)) as connection:
            with self._stop.ends_waiting():
                card = connection.wait_until_ready(min(connection.config.wait, self._terms.seconds))
            self.progress = dataclasses.replace(self.progress, awaited="")
            chosen = choose_interface(card, target.protocol, target.transport)
            agent, interface = card.title, f"A2A {chosen.version} {chosen.transport}"
            log.info("assessment begun", extra={"assessment": self.name, "agent": agent, "interface": interface})
            self._write_manifest(f"{agent}, {interface}")
            self._forget_interrupted(store)
            limits = Limits(target.trial_timeout, target.run_timeout, self._deadline)
            halting = Stopping(
                Breaker(target.breaker), limits, self._directory, self.name, lambda: _probe(connection.config)
            )
            client = Client(connection, identity=f"{agent}, {interface}")
            # Results name a built-in agent by its name, not by the port that it happened to get.
            settings = dataclasses.replace(target, endpoint=self.plan.settings.endpoint)
            observers = (halting, *self._observers, *asked_for(settings))
            runner = Runner(settings, client, store, self.name, observers, limits)
            runner.load({key.suite for key in self.plan.keys})
            results = self._run_all(runner, target.concurrency)
            self._raise_if_stopped()
            self._write_verdict(results, agent, interface)
            self._require_results(results, halting)
        return Concluded(self.plan, agent, interface, tuple(results))

    def _run_all(self, runner: Runner, concurrency: int) -> list[TrialResult]:
        """Run the trials and return the results that there are, in the order of the plan."""
        pool = self._pool = Pool(runner.run, concurrency, runner.cancel_all, runner.limits.patience, runner.give_up)
        try:
            if self._stop.is_set():  # stopped before there was a pool
                pool.cancel_all()
            futures = []
            for key in self.plan.keys:
                futures.append(pool.submit(key))
                # Called in the trial's thread, so that its cost is counted before that begins another one.
                futures[-1].add_done_callback(self._take)
            results = []
            for future in futures:
                with contextlib.suppress(concurrent.futures.CancelledError):
                    results.append(future.result())
        finally:
            pool.close()
        if self._overspent is not None:
            raise AssessmentFailed(
                f"stopped after {self._overspent}: it cost more than the ${self._terms.cost:g} that this assessor "
                "allows"
            )
        return results

    def _take(self, future: concurrent.futures.Future[TrialResult]) -> None:
        """Count a trial that has ended, and stop the others if they would cost too much."""
        if future.cancelled() or future.exception() is not None:
            return
        self._note(future.result())
        with self._lock:
            self.progress = self.progress.after(future.result())
            is_over = self._terms.cost is not None and (self.progress.cost or 0.0) > self._terms.cost
            if not is_over or self._overspent is not None or self.progress.done == self.progress.total:
                return
            self._overspent = self.progress.text
        if self._pool is not None:
            self._pool.cancel_all()

    def _require_results(self, results: list[TrialResult], halting: Stopping) -> None:
        """Raise unless there is something to score: a run that was broken off is an error, and no low score."""
        opened = halting.known
        is_cut_short = any(r.status == "not_run" for r in results)
        if opened is not None or is_cut_short:
            self._raise_if_late()
            why = opened.what if opened is not None else "it took too long"
            done = f"stopped after {self.progress.text}" if is_cut_short else self.progress.text
            raise AssessmentFailed(f"Agent error: {done}: {why}")
        if not any(r.status == "evaluated" for r in results):
            first = next((r for r in results if r.error), None)
            none = f"none of {len(results)} trials could be evaluated"
            if first is not None and first.status == "infrastructure_error":
                raise AssessmentFailed(f"Agent error: {none} ({first.error})")
            raise AssessmentFailed(f"{none} ({', '.join(sorted({r.error_type or r.status for r in results}))})")

    def _forget_interrupted(self, store: Store) -> None:
        """Remove results of trials that were cut off when this assessment was interrupted: they run again."""
        for key in self.plan.keys:
            with contextlib.suppress(StoreError):
                found = store.read(key)
                if found is not None and found.error_type == "TrialCancelledError":
                    store.path(key).unlink(missing_ok=True)

    # -- files --

    def _write_manifest(self, agent: str) -> None:
        settings = dataclasses.asdict(self.plan.settings)
        settings |= settings.pop("benchmark_options")
        for name in ("endpoint", "results"):
            del settings[name]
        Manifest(
            run_id=self.name,
            endpoint=without_query(self.plan.request.agent, self.plan.request.agent),
            agent=agent,
            whole=_texts(self.plan.whole),
            keys=_texts(self.plan.keys),
            shard=self.plan.settings.shard,
            settings=settings,
        ).write(self._directory)

    def _write_verdict(self, results: list[TrialResult], agent: str, interface: str) -> None:
        """Write the verdict of a run of which nothing was asked, which the report shows."""
        ran = [r for r in results if r.status != "not_run"]
        trials = Trials(ran, selected=len(self.plan.keys), not_run=len(self.plan.keys) - len(ran))
        endpoint = without_query(self.plan.request.agent, self.plan.request.agent)
        stored = StoredVerdict.of(Verdict(errors=trials.errors), self.name, trials, find_missed(ran, frozenset()))
        write_verdict(self._directory, dataclasses.replace(stored, agent=JudgedAgent(endpoint, agent, interface)))

    # -- the protocol --

    def _judge(self, target: Settings) -> Concluded:
        began = time.monotonic()
        timeout = min(_ANSWER_SECONDS, target.timeout)
        with self._stop.ends_waiting():
            subject = look_at(self._config(target), timeout=timeout)
            if subject.problem:
                raise CardError(f"the protocol cannot be judged: {subject.explained}")
            planned, results = subject.plan(), list(subject.card_results())
            total = len(results) + len(planned)

            def count() -> None:
                passed = sum(r.outcome in ("passed", "warned") for r in results)
                errors = sum(r.outcome == "error" for r in results)
                self.progress = Progress("checks", total, len(results), passed, errors)

            async def run() -> None:
                targets = subject.targets(self._config(target), Scenarios(), timeout)
                running = run_checks(targets, planned, concurrency=target.concurrency)
                async with asyncio.timeout(self._deadline - time.monotonic()), contextlib.aclosing(running):
                    async for result in running:
                        results.append(result)
                        count()

            count()
            try:
                loop.run(run())
            except TimeoutError as error:
                raise InfrastructureError(f"it took too long ({len(results)} of {total} checks)") from error
        order = {p.name: number for number, p in enumerate(planned)}
        report = subject.report(
            redact_url(self._config(target).endpoint),
            sorted(results, key=lambda r: order.get(r.name, -1)),
            strict=target.strict,
            seconds=time.monotonic() - began,
            planned=tuple(subject.planned),
            profile="standard",
        )
        if not report.could_run:
            raise InfrastructureError("no check of the protocol could be made; is the agent still there?")
        save(self._directory / PROTOCOL_FILE, dump_json(report.to_json()))
        return Concluded(self.plan, report.agent, ", ".join(report.interfaces), report=report)


def _probe(config: ClientConfig) -> str:
    """Connect to an agent anew, and return the error; empty where it answers."""
    with AgentConnection(config) as fresh:
        try:
            fresh.wait_until_ready(0.0)
        except A2ABenchError as error:
            return str(error)
    return ""


def _texts(keys: tuple[TrialKey, ...]) -> tuple[str, ...]:
    return tuple(str(key) for key in keys)


def failure_of(result: TrialResult) -> str:
    """Return how a trial ended that was evaluated and failed, without its expected answer; empty for other trials."""
    if result.status != "evaluated" or result.success:
        return ""
    reason = result.termination_reason or "unknown"
    return f"{reason} ({result.category})" if result.category else reason
