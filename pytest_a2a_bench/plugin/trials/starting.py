"""What this process's conversations are held with: agent, store, tapes, spans, and which of them start ahead."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Mapping
from typing import Any

import pytest

from pytest_a2a_bench.a2a.client import AgentConnection
from pytest_a2a_bench.plugin.run.state import BenchRun
from pytest_a2a_bench.plugin.trials import connection as connections
from pytest_a2a_bench.plugin.trials import outcome
from pytest_a2a_bench.plugin.trials.schedule import Schedule
from pytest_a2a_bench.results.store import Store
from pytest_a2a_bench.tracing import NO_TRACING, Tracing, is_wanted
from pytest_a2a_bench.trials.runner import Runner


def start_schedule(
    session: pytest.Session, run: BenchRun, connection: AgentConnection, metadata: Mapping[str, Any]
) -> Schedule:
    """Begin the conversations of this process's items.

    :param metadata: goes with every message to the agent.
    """
    store = Store(run.plan.results)
    prepare = session.config.hook.pytest_a2a_bench_prepare_trial
    runner = Runner(
        # Results name a built-in agent by its name, not by the port that it happened to get.
        dataclasses.replace(run.plan.target, endpoint=run.settings.endpoint),
        lambda: connection,
        store,
        run.plan.run_id,
        metadata=metadata,
        agent=run.plan.agent_identity,
        reached=connections.differences(run, connection.config),
        tapes=connections.tapes(run, connection.config.secrets),
        tracing=_start_tracing(run),
        prepare=lambda key, told: prepare(key=key, metadata=told),
    )
    ahead = outcome.trials_ahead(session, run)
    tick = outcome.ticker(session.config, run)
    run.services.schedule = Schedule(runner, run.settings.concurrency, ahead, tick, outcome.suspects(ahead, run, store))
    return run.services.schedule


def _start_tracing(run: BenchRun) -> Tracing:
    if not is_wanted(run.settings.otel, os.environ):
        return NO_TRACING
    from pytest_a2a_bench.tracing.otel import open_tracing  # needs the extra "otel"

    run.services.tracing = open_tracing()
    return run.services.tracing
