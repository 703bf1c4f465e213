"""Finding the agent once, on the controller, before any item runs."""

from __future__ import annotations

import contextlib
import dataclasses
import importlib.util
import os
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from pytest_a2a_bench.errors import A2ABenchError, CardError, ConfigurationError
from pytest_a2a_bench.plugin.run import options
from pytest_a2a_bench.plugin.run.state import BenchRun, Endpoint, raise_usage_error

if TYPE_CHECKING:
    from pytest_a2a_bench.a2a.card import AgentCard
    from pytest_a2a_bench.a2a.client import AgentConnection
    from pytest_a2a_bench.a2a.config import ClientConfig
    from pytest_a2a_bench.cassettes.tape import Tape
    from pytest_a2a_bench.model import TrialKey

_NOTHING_RUNS = ("collectonly", "showfixtures", "show_fixtures_per_test", "setupplan", "cacheshow", "markers")


def nothing_will_run(config: pytest.Config) -> bool:
    """Tell whether pytest was only asked to show something."""
    return any(config.getoption(name, False) for name in _NOTHING_RUNS)


def at_start(config: pytest.Config, run: BenchRun, *, distributed: bool) -> None:
    """Find the agent when the session starts, if that is the time.

    An endpoint on the command line must be there. One that the environment or ini mentions only matters once an item
    uses it; with workers, who cannot wait for that, it is looked for now and missed later.

    :raises pytest.UsageError: if an endpoint on the command line does not answer.
    """
    if not run.settings.endpoint or run.resolution.problems or nothing_will_run(config):
        return
    if run.settings.endpoint_source == "cli" or run.selection.conformance:
        find_agent(run)
    elif distributed:
        try:
            find_agent(run)
        except pytest.UsageError as error:
            run.endpoint_problem = str(error)


def after_collection(config: pytest.Config, run: BenchRun) -> None:
    """Find the agent that some item uses, if it was not found before.

    :raises pytest.UsageError: if it does not answer.
    """
    if run.used and run.settings.endpoint and run.endpoint is None and not nothing_will_run(config):
        find_agent(run)


def find_agent(run: BenchRun) -> None:
    """Start the built-in agent or wait for the endpoint, and read its card.

    :raises pytest.UsageError: one line that says what is wrong.
    """
    settings = run.settings
    try:
        if settings.replay:
            if run.selection.conformance:
                raise ConfigurationError("--a2a-replay: the protocol is judged on a real agent, not on recordings")
            from pytest_a2a_bench.cassettes import library

            run.endpoint = Endpoint(library.read_card(Path(settings.replay)).url)
        elif settings.builtin:
            from pytest_a2a_bench.agents.launcher import start_builtin

            run.agent_process = start_builtin(settings.builtin, settings)
            run.endpoint = Endpoint(run.agent_process.url)
        else:
            run.endpoint = Endpoint(str(settings.endpoint))
        if run.selection.conformance:
            run.endpoint = _look(run)
        else:
            run.endpoint = _describe(run)
        _prepare_results(run)
    except A2ABenchError as error:
        run.endpoint = None
        raise_usage_error(_problem(run, error))


def stop_agent(run: BenchRun) -> None:
    """Stop the built-in agent, if this process started one."""
    if run.agent_process is not None:
        run.agent_process.stop()
        run.agent_process = None


def connect(run: BenchRun) -> AgentConnection:
    """Return a connection as the settings ask for it."""
    from pytest_a2a_bench.a2a.config import ClientConfig

    return open_connection(run, ClientConfig.from_settings(run.target, os.environ))


def open_connection(run: BenchRun, config: ClientConfig) -> AgentConnection:
    """Return a connection: to the agent, or to its recordings.

    :raises ConfigurationError: if the recordings cannot be read.
    """
    from pytest_a2a_bench.a2a.client import AgentConnection

    if run.settings.replay is None:
        return AgentConnection(config)
    from pytest_a2a_bench.cassettes import library

    # Nobody has to be given time.
    config = dataclasses.replace(config, poll_interval=0.001, poll_max_interval=0.001, backoff_base=0.0)
    return AgentConnection(config, library.read_card(Path(run.settings.replay)))


def differences(run: BenchRun, config: ClientConfig) -> dict[str, str]:
    """Return how a fixture's configuration reaches the agent in another way than the settings say."""
    from pytest_a2a_bench.a2a.config import ClientConfig
    from pytest_a2a_bench.results.fingerprint import where

    def reach(how: ClientConfig) -> dict[str, str]:
        ways = {"protocol": how.protocol, "transport": how.transport, "streaming": how.streaming}
        return {**ways, "endpoint": where(how.endpoint)}

    usual = reach(ClientConfig.from_settings(run.target, os.environ))
    return {name: value for name, value in reach(config).items() if value != usual[name]}


def tapes(run: BenchRun, secrets: Iterable[str]) -> Callable[[TrialKey], Tape] | None:
    """Return what makes the tapes that trials are recorded on or replayed from; None where neither is wanted."""
    from pytest_a2a_bench.cassettes import library

    if run.settings.replay:
        return library.player(Path(run.settings.replay))
    if run.settings.record:
        return library.recorder(Path(run.settings.record), secrets)
    return None


def _describe(run: BenchRun) -> Endpoint:
    connection = connect(run)
    try:
        card = connection.wait_until_ready()
        if run.settings.record:
            from pytest_a2a_bench.cassettes import library

            endpoint = options.without_query(str(run.settings.endpoint), run.settings.endpoint)
            library.write_agent(Path(run.settings.record), endpoint, card, connection.config.secrets)
    finally:
        connection.close()
    return _endpoint(run, card)


def _endpoint(run: BenchRun, card: AgentCard) -> Endpoint:
    from pytest_a2a_bench.a2a.card import choose_interface

    has_grpc = importlib.util.find_spec("grpc") is not None
    chosen = choose_interface(card, run.settings.protocol, run.settings.transport, grpc=has_grpc)
    agent = " ".join(word for word in (card.name, card.version) if word)
    replayed = ", replayed" if run.settings.replay else ""
    return Endpoint(str(run.target.endpoint), agent, f"A2A {chosen.version} {chosen.transport}{replayed}")


def _look(run: BenchRun) -> Endpoint:
    """Describe an agent that is to be judged: a card that is wrong is a finding then, and no reason to stop."""
    from pytest_a2a_bench.a2a.card import parse_card
    from pytest_a2a_bench.plugin.conformance import verdicts

    if run.settings.wait:
        with contextlib.suppress(A2ABenchError):
            _describe(run)
    subject = verdicts.subject_of(run)
    try:
        return _endpoint(run, parse_card(subject.card, subject.endpoint))
    except CardError:
        return Endpoint(subject.endpoint, "", "its card cannot be used")


def _prepare_results(run: BenchRun) -> None:
    from pytest_a2a_bench.results.store import Store

    Store(run.results).prepare()


def _problem(run: BenchRun, error: A2ABenchError) -> str:
    from pytest_a2a_bench.errors import CassetteError
    from pytest_a2a_bench.results.store import StoreError

    if isinstance(error, StoreError | CassetteError):  # says itself which file, and it is not the endpoint's fault
        return str(error)
    where = {"cli": "--a2a-endpoint", "env": "A2A_ENDPOINT", "ini": "ini a2a_endpoint"}[run.settings.endpoint_source]
    return options.without_query(f"{where}={run.settings.endpoint}: {error}", run.settings.endpoint)
