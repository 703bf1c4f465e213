"""How this process reaches the agent: over the wire, or from recordings."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Callable, Iterable
from pathlib import Path

from pytest_a2a_bench.a2a.client import AgentConnection
from pytest_a2a_bench.a2a.config import ClientConfig
from pytest_a2a_bench.cassettes import library
from pytest_a2a_bench.cassettes.tape import Tape
from pytest_a2a_bench.model import TrialKey
from pytest_a2a_bench.plugin.run.state import BenchRun
from pytest_a2a_bench.results.fingerprint import where


def connect(run: BenchRun) -> AgentConnection:
    """Return a connection as the settings ask for it."""
    return open_connection(run, ClientConfig.from_settings(run.plan.target, os.environ))


def open_connection(run: BenchRun, config: ClientConfig) -> AgentConnection:
    """Return a connection: to the agent, or to its recordings.

    :raises ConfigurationError: if the recordings cannot be read.
    """
    if run.settings.replay is None:
        return AgentConnection(config)
    # Nobody has to be given time.
    config = dataclasses.replace(config, poll_interval=0.001, poll_max_interval=0.001, backoff_base=0.0)
    return AgentConnection(config, library.read_card(Path(run.settings.replay)))


def differences(run: BenchRun, config: ClientConfig) -> dict[str, str]:
    """Return how a fixture's configuration reaches the agent in another way than the settings say."""

    def reach(how: ClientConfig) -> dict[str, str]:
        ways = {"protocol": how.protocol, "transport": how.transport, "streaming": how.streaming}
        return {**ways, "endpoint": where(how.endpoint)}

    usual = reach(ClientConfig.from_settings(run.plan.target, os.environ))
    return {name: value for name, value in reach(config).items() if value != usual[name]}


def tapes(run: BenchRun, secrets: Iterable[str]) -> Callable[[TrialKey], Tape] | None:
    """Return what makes the tapes that trials are recorded on or replayed from; None where neither is wanted."""
    if run.settings.replay:
        return library.player(Path(run.settings.replay))
    if run.settings.record:
        return library.recorder(Path(run.settings.record), secrets)
    return None
