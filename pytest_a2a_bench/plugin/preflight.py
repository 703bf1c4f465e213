"""Finding the agent once, on the controller, before any item runs."""

from __future__ import annotations

import contextlib
import dataclasses
import importlib.util
import os
from pathlib import Path

import pytest

from pytest_a2a_bench import cassettes
from pytest_a2a_bench.a2a.card import AgentCard, choose_interface, parse_card
from pytest_a2a_bench.agents.options import start_builtin
from pytest_a2a_bench.config.load import CORE
from pytest_a2a_bench.config.settings import Settings, without_query
from pytest_a2a_bench.errors import A2ABenchError, CardError, CassetteError, ConfigurationError, MissingExtraError
from pytest_a2a_bench.model.messages import Bounds
from pytest_a2a_bench.plugin.schedule import connect
from pytest_a2a_bench.plugin.state import BenchRun, Endpoint, nothing_will_run, raise_usage_error
from pytest_a2a_bench.results import lock
from pytest_a2a_bench.results.store import Store, StoreError
from pytest_a2a_bench.trials import stopping


def at_start(config: pytest.Config, run: BenchRun, *, distributed: bool) -> None:
    """Find the agent when the session starts, if that is the time.

    An endpoint on the command line must be there. One that the environment or the table mentions only matters once an
    item uses it; with workers, who cannot wait for that, it is looked for now and missed later.

    :raises pytest.UsageError: if an endpoint on the command line does not answer.
    """
    if not run.settings.endpoint or run.plan.problems or nothing_will_run(config):
        return
    if run.settings.endpoint_source == "cli" or run.plan.selection.conformance:
        find_agent(run)
    elif distributed:
        try:
            find_agent(run)
        except pytest.UsageError as error:
            run.decide(endpoint_problem=str(error))


def after_collection(config: pytest.Config, run: BenchRun) -> None:
    """Find the agent that some item uses, if it was not found before.

    :raises pytest.UsageError: if it does not answer.
    """
    if run.collected.used and run.settings.endpoint and run.plan.endpoint is None and not nothing_will_run(config):
        find_agent(run)


def _meet_others(settings: Settings) -> None:
    """Ask further agents and language models for a sign of life; raises A2ABenchError if one of them gives none."""
    if settings.user_endpoint or settings.colleague:
        from pytest_a2a_bench.benchmarks import participants

        participants.meet(settings, os.environ)
    if settings.user_llm or settings.judge_llm:
        from pytest_a2a_bench.benchmarks import models

        for player, problem in models.model_problems(settings):
            option = "--a2a-judge-llm" if player == "judge" else "--a2a-user"
            raise ConfigurationError(f"{option}: {problem}")


def _serve_tools(settings: Settings) -> None:
    """Begin to listen for tools where that is one port, which the trials of this process use.

    :raises ConfigurationError: if it cannot be listened on.
    """
    if settings.tools != "mcp" or not settings.mcp_bind or settings.mcp_bind.endswith(":0"):
        return
    from pytest_a2a_bench.tool_door import place_of
    from pytest_a2a_bench.tool_door.server import open_tool_queue  # needs the extra "mcp"

    try:
        open_tool_queue(place_of(settings), Bounds.of(settings.reply_limits)).close()
    except ConfigurationError as error:
        raise ConfigurationError(f"--a2a-set mcp-bind={settings.mcp_bind}: {error}") from error


def find_agent(run: BenchRun) -> None:
    """Start the built-in agent or wait for the endpoint, and read its card.

    :raises pytest.UsageError: with the problem in one line.
    """
    try:
        if run.settings.agents:
            _find_each(run)
        else:
            run.decide(endpoint=Endpoint(_begin(run, run.settings)))
            run.decide(endpoint=_look(run) if run.plan.selection.conformance else _describe(run))
        if run.plan.selection.trials and not run.plan.selection.only_conformance:
            _meet_others(run.settings)
            _serve_tools(run.settings)
        if run.services.lock is None and not run.plan.selection.only_conformance:  # which writes no results
            run.services.lock = lock.take(run.plan.results, "pytest")
        Store(run.plan.results).prepare()
        stopping.forget(run.plan.results)
        if run.settings.live is not None:
            from pytest_a2a_bench.results import live  # few runs are watched

            live.clear(run.plan.results)
    except A2ABenchError as error:
        run.decide(endpoint=None)
        raise_usage_error(_problem(run, error))


def _begin(run: BenchRun, settings: Settings) -> str:
    """Start an agent that is a built-in one, and return where it is."""
    if settings.replay:
        if run.plan.selection.conformance:
            raise ConfigurationError("--a2a-replay: the protocol is judged on a real agent, not on recordings")
        return cassettes.read_card(Path(settings.replay)).url
    if settings.builtin:
        _require_both(run)
        run.services.agent_processes.append(agent := start_builtin(settings.builtin, settings))
        return agent.url
    return str(settings.endpoint)


def _require_both(run: BenchRun) -> None:
    """See that what serves the agent and what most trials need is there, or name both: one thing to install at a time
    would be another round for each.

    :raises MissingExtraError: if neither is installed, and not the protocol alone is judged.
    """
    lacking = [module for module in ("uvicorn", "tau2") if importlib.util.find_spec(module) is None]
    if len(lacking) == 2 and not run.plan.selection.only_conformance:
        raise MissingExtraError("what serves built-in agents and holds tau2's tasks", "tau2,agents")


def _find_each(run: BenchRun) -> None:
    """Find every agent that has a name; those that do not answer are reported together."""
    if run.plan.selection.conformance:
        raise ConfigurationError("the protocol is judged on one agent; give one endpoint for a2a/card and a2a/protocol")
    wrong = []
    for name in run.settings.agents:
        try:
            if run.plan.agents and run.settings.is_noise_pair:
                run.decide(agents={name: found for name in run.settings.agents for found in run.plan.agents.values()})
                break
            run.decide(agents={**run.plan.agents, name: Endpoint(_begin(run, run.settings.of_agent(name)))})
            run.decide(agents={**run.plan.agents, name: _describe(run, name)})
        except A2ABenchError as error:
            wrong.append(f"{name}: {error}")
    if wrong:
        raise ConfigurationError(*wrong)
    run.decide(endpoint=next(iter(run.plan.agents.values())))


def _describe(run: BenchRun, name: str | None = None) -> Endpoint:
    connection = connect(run, name)
    try:
        card = connection.wait_until_ready()
        if run.settings.record:
            endpoint = without_query(str(run.settings.endpoint), run.settings.endpoint)
            cassettes.write_agent(Path(run.settings.record), endpoint, card, connection.config.secrets)
    finally:
        connection.close()
    return _endpoint(run, card, name)


def _endpoint(run: BenchRun, card: AgentCard, name: str | None = None) -> Endpoint:
    chosen = choose_interface(card, run.settings.protocol, run.settings.transport)
    replayed = ", replayed" if run.settings.replay else ""
    spoken = f"A2A {chosen.version} {chosen.transport}{replayed}"
    return Endpoint(str(run.plan.target_of(name).endpoint), card.title, spoken, card.url, chosen.url)


def _look(run: BenchRun) -> Endpoint:
    """Describe an agent that is to be judged: a card that is wrong is a finding then, and no reason to stop."""
    if run.settings.wait:
        with contextlib.suppress(A2ABenchError):
            _describe(run)
    from pytest_a2a_bench.plugin import verdicts  # the whole room that judges the protocol

    subject = verdicts.subject_of(run)
    try:
        card = dataclasses.replace(parse_card(subject.card, subject.endpoint), url=subject.card_url)
        return _endpoint(run, card)
    except CardError:
        return Endpoint(subject.endpoint, "", "its card cannot be used", subject.card_url)


def _problem(run: BenchRun, error: A2ABenchError) -> str:
    if isinstance(error, StoreError | CassetteError):  # says itself which file, and it is not the endpoint's fault
        return str(error)
    first = str(error).partition(" ")[0].rstrip(":")
    if error.party is not None or first.startswith("--a2a-") or first.replace("-", "_") in CORE:
        return f"{_option_of(error.party, run.settings)}{error}"
    where = {"cli": "--a2a-endpoint", "env": "A2A_ENDPOINT", "table": "endpoint"}[run.settings.endpoint_source]
    return without_query(f"{where}={run.plan.shown_endpoint}: {error}", run.settings.endpoint)


def _option_of(party: str | None, settings: Settings) -> str:
    """Return the option that names another agent, for a message about it; empty where it is about none."""
    if party is None:
        return ""
    if party == "user":
        return without_query(f"--a2a-user={settings.user}: ", settings.user_endpoint)
    url = settings.colleague[party]
    return without_query(f"--a2a-set colleague={party}={url}: ", url)
