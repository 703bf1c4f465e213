"""What this process's conversations are run with: the agent or its recordings, store, tapes, spans, and a schedule."""

from __future__ import annotations

import contextlib
import dataclasses
import os
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from pytest_a2a_bench.a2a.client import AgentConnection
from pytest_a2a_bench.a2a.config import ClientConfig
from pytest_a2a_bench.benchmarks.participants import FurtherAgent, further_agents
from pytest_a2a_bench.cassettes import library
from pytest_a2a_bench.config.settings import Settings
from pytest_a2a_bench.errors import A2ABenchError
from pytest_a2a_bench.plugin.collect.conclusion import categories_of
from pytest_a2a_bench.plugin.run.state import BenchRun
from pytest_a2a_bench.plugin.trials import outcome
from pytest_a2a_bench.plugin.trials.schedule import Schedule
from pytest_a2a_bench.results.fingerprint import where
from pytest_a2a_bench.results.store import Store
from pytest_a2a_bench.secret import KNOWN
from pytest_a2a_bench.tracing import is_wanted
from pytest_a2a_bench.trials.observers import Categorized, Taped, Traced, Watched, asked_for
from pytest_a2a_bench.trials.runner import Runner, Runners
from pytest_a2a_bench.trials.stopping import Breaker, Limits, Stopping
from pytest_a2a_bench.trials.trial import Client, TrialObserver


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
            prepare=lambda key, told: prepare(key=key, metadata=told),
        )
        taped = Taped.of(run.settings, connection.config.secrets)
        observers = (stoppings[name], *shared, *([taped] if taped else []), *asked_for(settings))
        # Results name a built-in agent by its name, not by the port that it happened to get.
        return Runner(settings, client, store, run.plan.run_id, observers, stoppings[name].limits)

    runner = Runners({name: runner_of(name) for name in run.settings.under_test})
    ahead = outcome.trials_ahead(session, run)
    tick = outcome.ticker(session.config, run)
    careful = outcome.suspects(ahead, run, store)
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
    return (FurtherAgent(name, "transfer", lambda: connection, found.identity if found else "", place),)


def _stopping(run: BenchRun, connection: AgentConnection, name: str | None) -> Stopping:
    """Return what decides, for this process, whether trials of an agent may still begin."""
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
        return AgentConnection(dataclasses.replace(config, rate=config.rate and config.rate / workers))
    # Nobody has to be given time.
    config = dataclasses.replace(config, poll_interval=0.001, poll_max_interval=0.001, backoff_base=0.0, rate=None)
    return AgentConnection(config, library.read_card(Path(run.settings.replay)))


def _differences(target: Settings, config: ClientConfig) -> dict[str, str]:
    """Return how a fixture's configuration reaches the agent in another way than the settings say."""

    def reach(how: ClientConfig) -> dict[str, str]:
        ways = {"protocol": how.protocol, "transport": how.transport, "streaming": how.streaming}
        return {**ways, "endpoint": where(how.endpoint), "bounds": repr(how.bounds)}

    usual = reach(ClientConfig.from_settings(target, os.environ))
    return {name: value for name, value in reach(config).items() if value != usual[name]}
