"""``a2a-bench tau2 COMMAND ...``: tau2's own command line, with ``a2a_agent`` among its agents, ``a2a_user`` its users.

``a2a-bench tau2 run DOMAIN --agent-a2a-endpoint URL`` runs tau2's runner with the agent at that URL, and
``--user-a2a-endpoint URL`` has another one play the user; every other argument is tau2's own, and so is all that it
does and writes. The other commands (``view``, ``submit``, ...) are handed over.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import re
import sys
from argparse import ArgumentParser, Namespace
from collections.abc import Iterator, Sequence
from importlib import import_module
from typing import NamedTuple

from pytest_a2a_bench.a2a.config import environ_of_party
from pytest_a2a_bench.cli import _settings
from pytest_a2a_bench.config.load import CORE
from pytest_a2a_bench.config.settings import Settings
from pytest_a2a_bench.errors import ConfigurationError

_NAMES = (
    *("auth_env", "ca", "client_cert", "proxy", "timeout", "stall_timeout", "protocol", "transport", "streaming"),
    *("dialect", "history", "reply_limits"),
)
"""The settings that have an option for each agent; every other one is set by ``--agent-a2a-set``."""
_VARIABLES = frozenset(setting.variable for setting in CORE.values())


class _Role(NamedTuple):
    """A place in tau2's conversations that an agent behind A2A may take.

    :param dest: stands before the names of its values; its endpoint's ends with ``endpoint``.
    """

    name: str
    dest: str
    title: str
    about: str

    @property
    def prefix(self) -> str:
        """What its options begin with."""
        return f"--{self.name}-a2a-"

    @property
    def implementation(self) -> str:
        """What tau2 calls it, unless it is given another name."""
        return f"a2a_{self.name}"

    def endpoint(self, ours: Namespace) -> str | None:
        """Return where it is; None for nowhere."""
        given: str | None = getattr(ours, f"{self.name}_a2a_endpoint")
        return given

    def is_named(self, ours: Namespace) -> bool:
        """Return whether any option of this role was given."""
        given = (getattr(ours, f"{self.dest}{name}") for name in (*_NAMES, "set", "config"))
        return bool(self.endpoint(ours)) or any(value is not None for value in given)


_AGENT = _Role(
    "agent",
    "agent_",
    "the agent behind A2A",
    "As in pytest, with --agent-a2a- in the place of --a2a-; among tau2's own arguments, after run.",
)
_USER = _Role(
    "user",
    "user_",
    "the agent behind A2A that plays the user",
    "The same with --user-a2a- for the agent that plays the user. It gets only the credentials that these name.",
)
_ROLES = (_AGENT, _USER)


def configure(parser: ArgumentParser) -> None:
    """Declare the arguments."""
    parser.allow_abbrev = False  # tau2's --agent is no abbreviation of ours
    _add_own(parser)
    parser.add_argument("arguments", nargs=argparse.REMAINDER, metavar="COMMAND ...", help="tau2's command line")


def _add_own(parser: ArgumentParser) -> None:
    for role in _ROLES:
        parser.add_argument(f"{role.prefix}endpoint", metavar="URL", help=f"Base URL of {role.title} (after run)")
        _settings.add_arguments(
            parser, _NAMES, prefix=role.prefix, dest=role.dest, about=role.about, shown=role is _AGENT
        )


def run(namespace: Namespace) -> int:
    """Register the agents that are named, and hand over."""
    # They may stand before tau2's command or, as is natural, among its arguments.
    own = ArgumentParser(add_help=False, allow_abbrev=False, exit_on_error=False)
    _add_own(own)
    try:
        ours, theirs = own.parse_known_args(namespace.arguments, argparse.Namespace(**_given(namespace)))
    except argparse.ArgumentError as error:
        raise ConfigurationError(f"tau2: {error}") from error
    if theirs[:1] == ["run"]:
        theirs = ["run", *_run_arguments(ours, theirs[1:])]
    else:
        for role in _ROLES:
            if role.is_named(ours):
                command = theirs[0] if theirs else "no command"
                raise ConfigurationError(f"tau2: {role.prefix}... belongs to run; this is {command}")
    return _hand_over(theirs)


def _given(namespace: Namespace) -> dict[str, object]:
    return {name: value for name, value in vars(namespace).items() if name not in ("run", "arguments")}


def _run_arguments(ours: Namespace, theirs: Sequence[str]) -> list[str]:
    """Return tau2's arguments: the domain as its option, and the agents, registered."""
    arguments = list(theirs)
    if arguments and not arguments[0].startswith("-"):
        arguments[:1] = ["--domain", arguments[0]]
    for role in _ROLES:
        needs = _value_of(f"--{role.name}", arguments) == role.implementation
        if not role.endpoint(ours) and (needs or role.is_named(ours)):
            which = f"--{role.name} {role.implementation}" if needs else f"{role.prefix}..."
            raise ConfigurationError(f"tau2: {which} needs {role.prefix}endpoint URL")
    if {"-h", "--help"} & set(arguments):
        return arguments
    named = [(role, url) for role in _ROLES if (url := role.endpoint(ours))]
    # All that is wrong with options is said before anything is imported.
    settings = [_read(role, ours, url) for role, url in named]
    for (role, _), found in zip(named, settings, strict=True):
        arguments += _register(role, found, arguments)
    return arguments


def _read(role: _Role, ours: Namespace, url: str) -> Settings:
    environ, is_agent = dict(os.environ), role is _AGENT
    if not is_agent:
        # The variables and the table of settings are about the agent under test.
        environ = {name: value for name, value in environ.items() if name not in _VARIABLES}
        environ = environ_of_party(ours.user_auth_env, environ)
    loaded = _settings.load_settings(ours, environ, _NAMES, prefix=role.prefix, dest=role.dest, own_table=is_agent)
    return _settings.for_endpoint(loaded, url, environ)


def _register(role: _Role, settings: Settings, arguments: Sequence[str]) -> list[str]:
    """Register an agent with tau2, and return what tau2's command line has to say of it beside its arguments."""
    # Not at the top: it imports tau2, which takes seconds.
    tau2 = import_module("pytest_a2a_bench.tau2")
    name = _value_of(f"--{role.name}", arguments) or role.implementation
    connection = (tau2.connect if role is _AGENT else tau2.connect_user)(settings)
    card = connection.wait_until_ready()
    (tau2.register_connected if role is _AGENT else tau2.register_connected_user)(connection, settings, name)
    more = []
    if _value_of(f"--{role.name}", arguments) is None:
        more += [f"--{role.name}", name]
    if _value_of(f"--{role.name}-llm", arguments) is None:
        # tau2 writes a model into its results and their name; its default has nothing to do with this agent.
        more += [f"--{role.name}-llm", _word(f"a2a {card.name} {card.version}")]
    return more


def _word(text: str) -> str:
    return re.sub(r"[^A-Za-z0-9.]+", "-", text).strip("-")[:60]


def _value_of(option: str, arguments: Sequence[str]) -> str | None:
    for number, word in enumerate(arguments):
        if word == option:
            return arguments[number + 1] if number + 1 < len(arguments) else ""
        if word.startswith(f"{option}="):
            return word.partition("=")[2]
    return None


def _hand_over(arguments: Sequence[str]) -> int:
    import_module("pytest_a2a_bench.tau2")  # says what is missing where there is no tau2
    cli = import_module("tau2.cli")
    before = sys.argv
    sys.argv = ["tau2", *arguments]
    try:
        with _questions_shown():
            return int(cli.main() or 0)
    except (ValueError, OSError) as error:
        # What tau2 refuses: task ids that there are not, a file that is there already.
        raise ConfigurationError(f"tau2: {error}") from error
    finally:
        sys.argv = before


@contextlib.contextmanager
def _questions_shown() -> Iterator[None]:
    """Let a person before a terminal see what tau2 asks: a question has no line's end, which our output waits for."""
    if sys.stdin.isatty() and sys.__stdout__ is not None and sys.__stdout__.isatty():
        with contextlib.redirect_stdout(sys.__stdout__):
            yield
    else:
        yield
