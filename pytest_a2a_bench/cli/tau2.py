"""``a2a-bench tau2 COMMAND ...``: tau2's own command line, with ``a2a_agent`` among its agents.

``a2a-bench tau2 run DOMAIN --agent-a2a-endpoint URL`` runs tau2's runner with the agent at that URL; every other
argument is tau2's own, and so is all that it does and writes. The other commands (``view``, ``submit``, ...) are handed
over.
"""

from __future__ import annotations

import argparse
import contextlib
import re
import sys
from argparse import ArgumentParser, Namespace
from collections.abc import Iterator, Sequence
from importlib import import_module

from pytest_a2a_bench.cli import _connection
from pytest_a2a_bench.configuration.table import CONNECTION, OPTIONS
from pytest_a2a_bench.errors import ConfigurationError

PREFIX = "--agent-a2a-"

_CONVERSATION = ("timeout", "stall_timeout", "protocol", "transport", "streaming", "dialect", "history", "reply_limits")
_OPTIONS = (*CONNECTION, *(option for option in OPTIONS if option.name in _CONVERSATION))


def configure(parser: ArgumentParser) -> None:
    """Declare the arguments."""
    parser.allow_abbrev = False  # tau2's --agent is no abbreviation of ours
    _add_own(parser)
    parser.add_argument("arguments", nargs=argparse.REMAINDER, metavar="COMMAND ...", help="tau2's command line")


def _add_own(parser: ArgumentParser) -> None:
    parser.add_argument(f"{PREFIX}endpoint", metavar="URL", help="The agent's base URL (after run)")
    about = f"As in pytest, with {PREFIX} in the place of --a2a-; among tau2's own arguments, after run."
    _connection.add_options(parser, _OPTIONS, "the agent behind A2A", about, (PREFIX,))


def run(namespace: Namespace) -> int:
    """Register the agent, if one is named, and hand over."""
    # They may stand before tau2's command or, as is natural, among its arguments.
    own = ArgumentParser(add_help=False, allow_abbrev=False, exit_on_error=False)
    _add_own(own)
    try:
        ours, theirs = own.parse_known_args(namespace.arguments, argparse.Namespace(**_given(namespace)))
    except argparse.ArgumentError as error:
        raise ConfigurationError(f"tau2: {error}") from error
    if theirs[:1] == ["run"]:
        theirs = ["run", *_run_arguments(ours, theirs[1:])]
    elif any(getattr(ours, option.dest) is not None for option in _OPTIONS) or ours.agent_a2a_endpoint:
        raise ConfigurationError(f"tau2: {PREFIX}... belongs to run; this is {theirs[0] if theirs else 'no command'}")
    return _hand_over(theirs)


def _given(namespace: Namespace) -> dict[str, object]:
    return {name: value for name, value in vars(namespace).items() if name not in ("run", "arguments")}


def _run_arguments(ours: Namespace, theirs: Sequence[str]) -> list[str]:
    """Return tau2's arguments: the domain as its option, and the agent, registered."""
    arguments = list(theirs)
    if arguments and not arguments[0].startswith("-"):
        arguments[:1] = ["--domain", arguments[0]]
    if not ours.agent_a2a_endpoint:
        if _value_of("--agent", arguments) == "a2a_agent":
            raise ConfigurationError(f"tau2: --agent a2a_agent needs {PREFIX}endpoint URL")
        return arguments
    if {"-h", "--help"} & set(arguments):
        return arguments
    name = _value_of("--agent", arguments) or "a2a_agent"
    settings = _connection.read_settings(ours, ours.agent_a2a_endpoint, _OPTIONS)
    # Not at the top: it imports tau2, which takes seconds.
    tau2 = import_module("pytest_a2a_bench.tau2")
    connection = tau2.connect(settings)
    card = connection.wait_until_ready()
    tau2.register_connected(connection, settings, name)
    if _value_of("--agent", arguments) is None:
        arguments += ["--agent", name]
    if _value_of("--agent-llm", arguments) is None:
        # tau2 writes a model into its results and their name; its default has nothing to do with this agent.
        arguments += ["--agent-llm", _word(f"a2a {card.name} {card.version}")]
    return arguments


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
