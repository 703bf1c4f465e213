"""Run conversations ahead of the items that report them, with their connections, store and observers; and hand their
results to the items, which wait for and explain them. Misses that a gate counts are excused.
"""

from __future__ import annotations

import concurrent.futures
import contextlib
import dataclasses
import os
import re
import time
from collections.abc import Callable, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from pytest_a2a_bench import cassettes, extensions
from pytest_a2a_bench.a2a.client import AgentConnection
from pytest_a2a_bench.a2a.config import ClientConfig
from pytest_a2a_bench.benchmarks import registry
from pytest_a2a_bench.benchmarks.base import FurtherAgent
from pytest_a2a_bench.config.settings import Settings, without_query
from pytest_a2a_bench.errors import A2ABenchError, OwnFunctionError, TrialCancelledError
from pytest_a2a_bench.model import Party, TrialKey, TrialResult, percentile
from pytest_a2a_bench.plugin import shim, state
from pytest_a2a_bench.plugin.collection import categories_of
from pytest_a2a_bench.plugin.explanation import (
    MISSED,
    PLAIN,
    PREFIX,
    STOPPED,
    add_explanation,
    set_properties,
    shown_path,
)
from pytest_a2a_bench.plugin.state import TRIAL, BenchRun
from pytest_a2a_bench.redact import KNOWN
from pytest_a2a_bench.reports import trial_text
from pytest_a2a_bench.reports.reported import REPORTED_PROVENANCE
from pytest_a2a_bench.reports.trial_text import cause_of, diagnosis_of
from pytest_a2a_bench.results.gates.terms import PREFIX as EXCUSED
from pytest_a2a_bench.results.gates.terms import is_counted, is_unsolved, quarantine_of
from pytest_a2a_bench.results.manifest import where
from pytest_a2a_bench.results.store import Store, StoreError, load_trial
from pytest_a2a_bench.text import one_line, sanitise
from pytest_a2a_bench.tracing import is_wanted
from pytest_a2a_bench.trials.observers import Categorized, Taped, Traced, Watched, asked_for
from pytest_a2a_bench.trials.pool import Pool
from pytest_a2a_bench.trials.runner import Runner, Runners
from pytest_a2a_bench.trials.stopping import Breaker, Limits, Opened, Stopping
from pytest_a2a_bench.trials.trial import Client, TrialObserver

_TICK = 0.5


class _Reported(NamedTuple):
    """A reported trial in memory: with its result only if no file has it."""

    is_repeated: bool
    result: TrialResult | None


class Schedule:
    """The conversations of one process.

    :param ahead: trials in the order in which their items will run; they start before their items do.
    :param careful: trials that run one at a time before any other starts: after a worker crashed, one of these
        was the cause, and alone it cannot take others with it.
    :param tick: called now and then while an item waits.
    :ivar opened: returns why no trial of a trial's agent begins in this process; None where they do. Never waits.
    """

    def __init__(
        self,
        runner: Runners,
        concurrency: int,
        ahead: Sequence[TrialKey],
        tick: Callable[[], None],
        careful: Sequence[TrialKey] = (),
        opened: Callable[[TrialKey], Opened | None] = lambda key: None,
    ) -> None:
        self._runner = runner
        self.opened = opened
        self._tick = tick
        self._careful = set(careful)
        self._ahead = list(ahead)
        self._stopped = False
        self._reported: dict[TrialKey, _Reported] = {}
        self._pools = [self._pool(concurrency)]
        self._look_ahead = concurrency > 1
        self._start_ahead()

    @property
    def in_flight(self) -> int:
        """How many conversations are running now."""
        return sum(pool.in_flight for pool in self._pools)

    def result(self, key: TrialKey) -> TrialResult:
        """Wait for a trial.

        Asked again (a rerun of the item), a trial is run again only if the infrastructure failed it, and trials may
        still be run: all others would end in the same way, a user's function that raised as well.

        :raises TrialCancelledError: if the run is stopping.
        """
        previous = self._reported.get(key)
        if previous is not None and (not previous.is_repeated or self.opened(key) is not None):
            return previous.result or load_trial(self._runner.store.path(key))
        if key not in self._careful:
            self._careful.clear()
            self._start_ahead()
        future = (self._repeat(key) if previous else self._pools[0]).submit(key)
        # Asked itself: to wait() a future that was cancelled in the queue is never done.
        while not future.done():
            concurrent.futures.wait([future], timeout=_TICK)
            self._tick()
        if future.cancelled():
            raise TrialCancelledError(f"{key} was not started, because the run is stopping")
        result = future.result()
        self._pools[0].forget(key)
        # Results with their transcripts would fill the memory of a long run; what has a file is read again if need be.
        is_repeated = result.status == "infrastructure_error" and result.error_type != OwnFunctionError.__name__
        self._reported[key] = _Reported(is_repeated, result if result.path is None else None)
        self._careful.discard(key)
        self._start_ahead()
        return result

    def look_ahead(self, item: pytest.Item) -> None:
        """Start the conversation of an item that will come, if there is room for it."""
        if not self._look_ahead or self._stopped or self._careful:
            return
        if may_run_ahead(item):
            self._pools[0].submit(item.stash[TRIAL].key)

    def stop(self) -> None:
        """Start no more trials and abort the running ones. Does not wait; callable from any thread."""
        self._stopped = True
        for pool in self._pools:
            pool.cancel_all()

    def close(self) -> None:
        """Stop, and wait a little for the threads."""
        self.stop()
        for pool in self._pools:
            pool.close()

    def _start_ahead(self) -> None:
        if not self._careful:
            for key in self._ahead:
                self._pools[0].submit(key)
            self._ahead.clear()

    def _repeat(self, key: TrialKey) -> Pool:
        # The runner gives back what is stored, and a pool what it ran: both must forget the failed attempt.
        self._runner.store.forget(key)
        pool = self._pool(1)
        if self._stopped:
            pool.cancel_all()
        self._pools.append(pool)
        return pool

    def _pool(self, concurrency: int) -> Pool:
        runner = self._runner
        return Pool(runner.run, concurrency, runner.cancel_all, runner.limits.patience, runner.give_up)


def may_run_ahead(item: pytest.Item) -> bool:
    """Return whether an item will certainly want its conversation: has a trial and no marker that may skip it."""
    if TRIAL not in item.stash:
        return False
    if any(item.iter_markers("skip")) or any(item.iter_markers("skipif")):
        return False
    return not any(mark.kwargs.get("run") is False for mark in item.iter_markers("xfail"))


def trials_ahead(session: pytest.Session, run: BenchRun) -> list[TrialKey]:
    """Return the trials that this process may start at once, in order; none with one conversation at a time."""
    if run.concurrency == 1:
        return []
    items = session.items
    if run.worker is not None:
        items = [items[i] for i in run.services.certain()]
    return [item.stash[TRIAL].key for item in items if may_run_ahead(item)]


def suspects(ahead: list[TrialKey], run: BenchRun, store: Store) -> list[TrialKey]:
    """Return the trials that may have been running when the worker crashed that this one replaces.

    A worker runs its trials in order, so these are the first ones without a result.
    """
    if run.worker is None or not run.worker.is_replacement:
        return []
    return list(islice((key for key in ahead if not _is_done(key, run, store)), run.concurrency))


def _is_done(key: TrialKey, run: BenchRun, store: Store) -> bool:
    try:
        stored = store.read(key)
    except StoreError:
        return False
    # Files of an earlier run say nothing about what this one finished.
    return stored is not None and stored.run_id == run.plan.run_id


def ticker(config: pytest.Config, run: BenchRun) -> Callable[[], None]:
    """Return the callback while an item waits: it writes the progress line, in the process that has a terminal."""
    reporting = config.pluginmanager.get_plugin("a2a-bench-reporting")
    if reporting is None:
        return lambda: None
    return lambda: reporting.tick(run.services.schedule.in_flight if run.services.schedule else 0)


# --- what conversations are run with: the agent or its recordings, store, observers ---


def start_schedule(
    session: pytest.Session,
    run: BenchRun,
    connections: Mapping[str | None, AgentConnection],
    metadata: Mapping[str, Any],
) -> Schedule:
    """Begin the conversations of this process's items.

    :param connections: to each agent by its name; None is the name of one that has none.
    :param metadata: goes with every message to the agents.
    """
    for connection in connections.values():
        session.config.add_cleanup(KNOWN.remember(connection.config.known))  # a fixture may have credentials of its own
    stack = contextlib.ExitStack()
    session.config.add_cleanup(stack.close)
    further: tuple[FurtherAgent, ...] = ()
    if run.settings.user_endpoint or run.settings.colleague:
        from pytest_a2a_bench.benchmarks.participants import further_agents  # few runs have some

        further = stack.enter_context(further_agents(run.settings, os.environ))
    store = Store(run.plan.results)
    prepare = session.config.hook.pytest_a2a_bench_prepare_trial
    stoppings = {name: _stopping(run, connections[name], name) for name in run.settings.under_test}
    categories = categories_of(session)
    shared = [*_tracing(run), *_watched(run), *([Categorized(categories)] if categories else [])]

    def runner_of(name: str | None) -> Runner:
        connection, settings = connections[name], run.settings.of_agent(name)
        found = run.plan.found(name)
        client = Client(
            connection,
            identity=found.identity if found is not None else "",
            reached=_differences(run.plan.target_of(name), connection.config),
            further=(*further, *_further(run, connections)),
            metadata=metadata,
            prepare=(lambda key, sent: prepare(key=key, metadata=sent)) if prepare.get_hookimpls() else None,
        )
        observers: list[TrialObserver] = [stoppings[name], *shared]
        if (settings.record or settings.replay) and (taped := Taped.of(settings, connection.config.secrets)):
            observers.append(taped)
        if settings.agent_model or extensions.names("observers"):
            observers += asked_for(settings)
        # Results name a built-in agent by its name, not by the port that it happened to get.
        return Runner(settings, client, store, run.plan.run_id, observers, stoppings[name].limits)

    runner = Runners({name: runner_of(name) for name in run.settings.under_test})
    runner.load({item.stash[TRIAL].key.suite for item in session.items if TRIAL in item.stash})
    ahead = trials_ahead(session, run)
    tick = ticker(session.config, run)
    careful = suspects(ahead, run, store)
    run.services.schedule = Schedule(
        runner, run.concurrency, ahead, tick, careful, lambda key: stoppings[key.agent].known
    )
    return run.services.schedule


def _further(run: BenchRun, connections: Mapping[str | None, AgentConnection]) -> tuple[FurtherAgent, ...]:
    """Return the agents that take part in the conversations of those under test."""
    name = run.settings.transfer
    if name is None:
        return ()
    found, connection = run.plan.found(name), connections[name]
    place = where(run.settings.agents[name])
    return (FurtherAgent(name, "transfer", connection, found.identity if found else "", place),)


def _stopping(run: BenchRun, connection: AgentConnection, name: str | None) -> Stopping:
    """Return this process's decision on whether trials of an agent may still begin."""
    settings = run.settings
    # The calendar's clock is the one that a worker on another machine has too.
    end = time.monotonic() + run.plan.end - time.time() if run.plan.end is not None else None
    limits = Limits(settings.trial_timeout, settings.run_timeout, end)

    def ask() -> str:
        # A connection of its own, because the other one has the card, and connections that may be dead.
        with AgentConnection(connection.config) as fresh:
            try:
                fresh.wait_until_ready()
            except A2ABenchError as error:
                return str(error)
        return ""

    breaker = Breaker(0 if settings.replay else settings.breaker)
    return Stopping(breaker, limits, run.plan.results, run.plan.run_id, ask, name)


def _tracing(run: BenchRun) -> list[TrialObserver]:
    if not is_wanted(run.settings.otel, os.environ):
        return []
    from pytest_a2a_bench.tracing.otel import open_tracing  # needs the extra "otel"

    run.services.tracing = open_tracing()
    return [Traced(run.services.tracing, run.plan.run_id)]


def _watched(run: BenchRun) -> list[TrialObserver]:
    return [Watched(run.plan.results, run.plan.run_id)] if run.settings.live is not None else []


def connect(run: BenchRun, name: str | None = None) -> AgentConnection:
    """Return a connection to an agent as the settings ask for it."""
    return open_connection(run, ClientConfig.from_settings(run.plan.target_of(name), os.environ))


def connect_each(run: BenchRun, config: ClientConfig) -> dict[str | None, AgentConnection]:
    """Return a connection to each agent by its name.

    :param config: of the one that has no name.
    """
    if run.settings.agents:
        return {name: connect(run, name) for name in run.settings.agents}
    return {None: open_connection(run, config)}


def open_connection(run: BenchRun, config: ClientConfig) -> AgentConnection:
    """Return a connection: to the agent, or to its recordings.

    :raises ConfigurationError: if the recordings cannot be read.
    """
    if run.settings.replay is None:
        workers = run.worker.workers if run.worker is not None else 1
        sharing = workers * (2 if run.settings.is_noise_pair else 1)
        return AgentConnection(dataclasses.replace(config, rate=config.rate and config.rate / sharing))
    # Nobody has to be given time.
    config = dataclasses.replace(config, poll_interval=0.001, poll_max_interval=0.001, backoff_base=0.0, rate=None)
    return AgentConnection(config, cassettes.read_card(Path(run.settings.replay)))


def _differences(target: Settings, config: ClientConfig) -> dict[str, str]:
    """Return how a fixture's configuration reaches the agent in another way than the settings say."""

    def reach(how: ClientConfig) -> dict[str, str]:
        ways = {"protocol": how.protocol, "transport": how.transport, "streaming": how.streaming}
        return {**ways, "endpoint": where(how.endpoint), "bounds": repr(how.bounds)}

    usual = reach(ClientConfig.from_settings(target, os.environ))
    return {name: value for name, value in reach(config).items() if value != usual[name]}


RESULT = pytest.StashKey[TrialResult]()


def receive(item: pytest.Item, key: TrialKey, schedule: Schedule, run: BenchRun) -> TrialResult:
    """Wait for an item's trial and return its result, if it has been evaluated.

    Anything else ends the item in its setup, so that reporters count it as an error (or a skip), not as a bad agent.
    """
    try:
        result = schedule.result(key)
    except A2ABenchError as error:
        result = _unstored(item, error)
    item.stash[RESULT] = result
    set_properties(item, properties(result, shown_path(result.path, item.config)))
    if result.status in ("skipped", "not_run"):
        # What was not run says nothing about anybody; the gate "breaker" sees to it that such a run fails.
        pytest.skip(_shown(result.error or "skipped", item.config))
    if result.status != "evaluated":
        pytest.fail(_trouble(result, item.config) + _aftermath(item, result, schedule.opened(key)), pytrace=False)
    return result


def _unstored(item: pytest.Item, error: BaseException) -> TrialResult:
    """Return the message about a trial that has no result: without it the trial would leave every denominator."""
    found, run_id = item.stash[TRIAL], state.of(item.config).plan.run_id
    return TrialResult(
        found.key,
        "infrastructure_error",
        run_id=run_id,
        error=str(error),
        error_type=type(error).__name__,
        category=found.task.category,
    )


def forget(item: pytest.Item) -> None:
    """Let go of a result that has been reported: its transcript may be large, and items live as long as a run."""
    if RESULT in item.stash:
        del item.stash[RESULT]


def properties(result: TrialResult, path: str | None) -> dict[str, str | int | float | bool]:
    """Return the scalars for every reporter, without unknown ones."""
    wire, provenance, suite = result.wire, result.provenance, registry.find(result.key.suite)
    why = None if result.success else diagnosis_of(result)
    metrics = result.reward_info.metrics if result.reward_info else {}
    values: dict[str, Any] = {
        "key": str(result.key),
        "suite": result.key.suite,
        "domain": result.key.domain,
        "task": result.key.task_key,
        "trial": result.key.trial,
        "label": result.key.label,
        "agent": result.key.agent,
        "status": result.status,
        "reward": result.reward if result.status == "evaluated" else None,
        "success": result.success if result.status == "evaluated" else None,
        "termination_reason": result.termination_reason,
        "error_type": result.error_type,
        "fault": cause_of(result.key.suite, why.kind).blame if why else None,
        "cause": f"{why.kind}: {one_line(why.subject, 100)}" if why and why.subject else why.kind if why else None,
        "turns": result.turns,
        "requests": wire.requests,
        "retries": wire.retries,
        "held_again": len(result.held_again),
        "user_fault": result.user_fault.kind if result.user_fault else None,
        "extra_turn": result.extra_turn.verdict if result.extra_turn else None,
        "user_retries": len(result.user_retries) or None,
        "retry_error": result.retry_error.partition(":")[0] if result.retry_error else None,
        "duration_s": round(result.duration, 3),
        "latency_p50_ms": _milliseconds(result.turn_latencies, 50),
        "latency_p95_ms": _milliseconds(result.turn_latencies, 95),
        "tokens_in": result.agent_usage.input_tokens,
        "tokens_out": result.agent_usage.output_tokens,
        "cost_usd": result.cost,
        "agent_cost_usd": result.agent_usage.cost_usd,
        "user_cost_usd": result.user_usage.cost_usd,
        "estimated_tokens_in": result.estimated_usage.input_tokens,
        "estimated_tokens_out": result.estimated_usage.output_tokens,
        "estimated_cost_usd": result.estimated_usage.cost_usd,
        "findings": len(result.findings),
        STOPPED: provenance.get(STOPPED),
        "seed": result.seed,
        "dialect": result.dialect,
        "category": result.category or None,
        **{name: provenance.get(name) for name in (*REPORTED_PROVENANCE, *(suite.reported if suite else ()))},
        **{f"metric.{name}": value for name, value in metrics.items()},
        **{name: provenance.get("measured", {}).get(name) for name in (suite.counts if suite else ())},
        "run_id": result.run_id,
        "reused_from": result.reused_from,
        "transcript": path,
        "blame": result.blame,
        **{f"{party.name}.{name}": value for party in result.parties for name, value in _of_party(party).items()},
    }
    return {name: value for name, value in values.items() if value is not None}


def _of_party(party: Party) -> dict[str, Any]:
    """Return the same numbers of another agent that took part."""
    return {
        "role": party.role,
        "turns": party.turns,
        "requests": party.wire.requests,
        "errors": party.wire.errors,
        "latency_p50_ms": _milliseconds(party.turn_latencies, 50),
        "latency_p95_ms": _milliseconds(party.turn_latencies, 95),
        "tokens_in": party.usage.input_tokens,
        "tokens_out": party.usage.output_tokens,
        "cost_usd": party.usage.cost_usd,
        "findings": len(party.findings),
    }


def explain_failure(item: pytest.Item, call: pytest.CallInfo[Any], report: pytest.TestReport) -> None:
    """Give an item's reports the conversation's duration, and its failure an explanation."""
    result = item.stash.get(RESULT, None)
    if result is None:
        # Another fixture failed, or another plugin ended the wait: an error, even if the test hides it.
        asked = (pytest.skip.Exception, pytest.xfail.Exception)
        if report.when == "setup" and call.excinfo is not None and not call.excinfo.errisinstance(asked):
            set_properties(item, properties(_unstored(item, call.excinfo.value), None))
            report.user_properties = list(item.user_properties)
        return
    if report.when == "setup":
        report.duration = result.duration
    elif report.when == "call" and report.failed:
        _explain(report, result, shown_path(result.path, item.config))


def _aftermath(item: pytest.Item, result: TrialResult, opened: Opened | None) -> str:
    """Mark the trial that opened the breaker, in its report and in its error."""
    if opened is None or opened.key != str(result.key):
        return ""
    item.user_properties.append((PREFIX + STOPPED, _shown(opened.advice, item.config)))
    return "\nThis opened the breaker: trials that had not begun are not run (a2a/gate::breaker says what to do)"


def _shown(text: str, config: pytest.Config) -> str:
    return without_query(sanitise(text), state.of(config).settings.endpoint)


def _trouble(result: TrialResult, config: pytest.Config) -> str:

    path = shown_path(result.path, config)
    tail = f"\ntranscript so far: {path}" if path else ""
    error = _shown(result.error or "no reason given", config)
    name = registry.shown_name(str(result.key))
    if result.status == "evaluator_error":
        return f"{name}: {error}{tail}"
    if result.status == "harness_error" and result.key.suite not in registry.BUILT_IN:
        return f"{name}: an error in the suite {result.key.suite!r}, or in pytest-a2a-bench\n{error}{tail}"
    if result.status == "harness_error":
        return (
            f"{name}: a bug in pytest-a2a-bench (or in a hook of yours), not in the agent; please report it with "
            f"this traceback\n{error}{tail}"
        )
    if result.error_type == OwnFunctionError.__name__:
        return f"{name}: the agent was not judged: {error}{tail}"
    return f"{name}: infrastructure error, the agent was not judged: {result.error_type}: {error}{tail}"


def _explain(report: pytest.TestReport, result: TrialResult, path: str | None) -> None:
    text = trial_text.explain(result, path)
    headline = trial_text.headline(result) if not result.success else None
    add_explanation(report, f"a2a trial {result.key}", text, headline)


def _milliseconds(latencies: Sequence[float], percent: float) -> float | None:
    seconds = percentile(sorted(latencies), percent)
    return None if seconds is None else round(seconds * 1000, 1)


# -- failures that a gate counts become expected failures (xfail) --


def excuse_miss(item: pytest.Item, call: pytest.CallInfo[Any], report: pytest.TestReport) -> None:
    """Turn the failure of a tolerated miss into an expected failure (``xfail``), which reporters know.

    Of one that is not tolerated the traceback is left out where it only says that a trial is no success.
    """
    if report.when != "call" or not report.failed or item.config.option.runxfail:
        return
    result = item.stash.get(RESULT, None)
    if result is None or not is_unsolved(result):
        return
    if not _decides_reward(result) and (call.excinfo is None or not _asserts_success(call.excinfo, result, item)):
        return
    run = state.of(item.config)
    reason = _reason(item, result, run)
    if reason:
        report.outcome = "skipped"
        report.wasxfail = reason
        setattr(report, MISSED, True)
    elif item.config.getoption("tbstyle", "auto") == "auto":
        # "assert False" of a line that everybody knows: what matters is in the sections below.
        shim.hide_traceback(report, trial_text.headline(result))
        setattr(report, PLAIN, True)


def fail_unsolved(item: pytest.Item, report: pytest.TestReport) -> None:
    """Let a test fail whose judge saw a miss: test and judge decide its trial's reward together."""
    result = item.stash.get(RESULT, None)
    if report.when != "call" or not report.passed or result is None:
        return
    if is_unsolved(result) and _decides_reward(result):
        report.outcome, report.longrepr = "failed", trial_text.headline(result)


def _decides_reward(result: TrialResult) -> bool:
    """Return whether a trial's reward is decided by its own test's assertions."""
    suite = registry.find(result.key.suite)
    return suite is not None and suite.from_test is not None


def _reason(item: pytest.Item, result: TrialResult, run: BenchRun) -> str | None:
    """Return the reason that a tolerated miss is reported with, or None where a miss is a failure."""
    entry = quarantine_of(result.key, run.plan.quarantine)
    if entry is not None:
        what = f"{EXCUSED} (quarantined until {entry.expires}: {one_line(entry.reason)})"
    elif run.plan.named or not is_counted(result, run.settings):
        return None
    else:
        what = EXCUSED
    path = shown_path(result.path, item.config)
    return f"{what}: {trial_text.headline(result)}" + (f"; transcript: {path}" if path else "")


def _asserts_success(excinfo: pytest.ExceptionInfo[BaseException], result: TrialResult, item: pytest.Item) -> bool:
    """Return whether the assertion that failed is the plain ``assert trial.success`` of this item's trial."""
    if not excinfo.errisinstance(AssertionError):
        return False
    entry = excinfo.traceback[-1]
    try:
        statement = str(entry.statement)
    except (SyntaxError, IndexError, OSError, ValueError):
        # Without its source only our own modules are known to assert nothing else.
        return item.getparent(shim.SuiteModule) is not None
    asserted = _SUCCESS.match(statement.strip())
    values = {**entry.frame.f_globals, **entry.frame.f_locals}
    return asserted is not None and values.get(asserted[1]) is result


_SUCCESS = re.compile(r"assert\s+(?:\(\s*)?(\w+)\.success(?:\s+(?:is|==)\s+True)?\s*\)?\s*(?:,|#|$)")
"""``assert trial.success``, with or without parentheses and a message."""
