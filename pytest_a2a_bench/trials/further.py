"""Agents that options put beside the one under test: who they are, and a connection to each for all trials."""

from __future__ import annotations

import contextlib
import importlib.util
from collections.abc import Callable, Iterator, Mapping

from pytest_a2a_bench.a2a.card import AgentCard, choose_interface
from pytest_a2a_bench.a2a.client import AgentConnection
from pytest_a2a_bench.a2a.config import ClientConfig, party_config
from pytest_a2a_bench.benchmarks.parties import FurtherAgent
from pytest_a2a_bench.config.settings import Settings
from pytest_a2a_bench.errors import A2ABenchError
from pytest_a2a_bench.model import PartyRole
from pytest_a2a_bench.results.fingerprint import where
from pytest_a2a_bench.secret import KNOWN


def configs(settings: Settings, environ: Mapping[str, str]) -> list[tuple[PartyRole, str, ClientConfig]]:
    """Return what each is there for, its name and how it is reached.

    :raises ConfigurationError: if a variable or file that an option names is not there.
    """
    found: list[tuple[PartyRole, str, ClientConfig]] = []
    if settings.user_endpoint:
        option = "user-auth-env"
        config = party_config(settings, environ, settings.user_endpoint, settings.user_auth_env, option)
        found.append(("user", "user", config))
    for name, url in settings.colleague.items():
        option, variable = "colleague-auth-env", settings.variable_of_colleague(name)
        # One of several need not want any.
        token = variable if len(settings.colleague) == 1 or environ.get(variable or "", "").strip() else None
        found.append(("colleague", name, party_config(settings, environ, url, token, option)))
    return found


def meet(settings: Settings, environ: Mapping[str, str]) -> None:
    """Make sure that each is there, and waits no longer than ``--a2a-wait`` for one that starts.

    :raises A2ABenchError: if one of them is not, with its ``party``.
    """
    for _, name, config in configs(settings, environ):
        with AgentConnection(config) as connection:
            try:
                connection.wait_until_ready()
            except A2ABenchError as error:
                error.party = name
                raise


@contextlib.contextmanager
def further_agents(settings: Settings, environ: Mapping[str, str]) -> Iterator[tuple[FurtherAgent, ...]]:
    """Give those of a process, for all its trials.

    One that does not show its card is nobody known; its trials say what is wrong.

    :raises ConfigurationError: if a variable or file that an option names is not there.
    """
    found: list[FurtherAgent] = []
    with contextlib.ExitStack() as stack:
        for role, name, config in configs(settings, environ):
            stack.callback(KNOWN.remember(config.known))
            connection = stack.enter_context(AgentConnection(config))
            card: AgentCard | None = None
            with contextlib.suppress(A2ABenchError):
                card = connection.card()
            agent = describe(card) if card is not None else ""
            found.append(FurtherAgent(name, role, _always(connection), agent, where(config.endpoint)))
        yield tuple(found)


def _always(connection: AgentConnection) -> Callable[[], AgentConnection]:
    return lambda: connection


def describe(card: AgentCard) -> str:
    """Return an agent's name, version and interface."""
    with contextlib.suppress(A2ABenchError):
        chosen = choose_interface(card, "auto", "auto", grpc=importlib.util.find_spec("grpc") is not None)
        return " ".join(filter(None, (card.name, card.version, f"(A2A {chosen.version} {chosen.transport})")))
    return " ".join(filter(None, (card.name, card.version)))
