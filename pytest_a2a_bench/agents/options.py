"""Options of a built-in agent: fields of one dataclass, read from a spec or from a command line.

``oracle?latency=0.05&reply=task`` (after ``builtin:``) and ``oracle --latency 0.05 --reply task`` mean the same.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any
from urllib.parse import parse_qsl

from pytest_a2a_bench import extensions
from pytest_a2a_bench.benchmarks import registry
from pytest_a2a_bench.configuration.option import Option
from pytest_a2a_bench.configuration.readers import read_json_object, read_model_arguments
from pytest_a2a_bench.errors import ConfigurationError
from pytest_a2a_bench.nearest import did_you_mean
from pytest_a2a_bench.settings import BUILTIN_AGENTS, DIALECTS, TAGGED_AGENTS, Settings

PROTOCOLS = ("both", "1.0", "0.3")
TRANSPORTS = ("all", "jsonrpc", "rest", "grpc")
REPLIES = ("message", "task")

_CHOICES = {"protocol": PROTOCOLS, "transport": TRANSPORTS, "reply": REPLIES, "dialect": DIALECTS}
_WORDS = {"1": True, "true": True, "on": True, "yes": True, "0": False, "false": False, "off": False, "no": False}


def _field(default: Any, help: str, metavar: str | None = None) -> Any:
    return field(default=default, metadata={"help": help, "metavar": metavar})


@dataclass(frozen=True, slots=True)
class AgentOptions:
    """How one built-in agent is served; each field's help says what it does.

    :param benchmark_options: options of benchmarks that say where their golds are (``Suite.gold_options``), for
        ``oracle`` and ``readonly``: the run's values, unless given. What is at its default is left out.
    """

    name: str
    host: str = _field("127.0.0.1", "address to listen on, also the host in the card's URLs")
    port: int = _field(0, "HTTP port (default: any free one)", "N")
    grpc_port: int = _field(0, "gRPC port (default: any free one)", "N")
    dialect: str = _field("auto", f"how to answer: {', '.join(DIALECTS)} (as addressed)", "NAME")
    latency: float = _field(0.0, "seconds that every turn takes at least", "SECONDS")
    protocol: str = _field("both", "protocol versions to serve")
    transport: str = _field("all", "bindings to serve; all leaves gRPC out where grpcio is not installed")
    reply: str = _field("message", "answer with a message, or with a completed task")
    streaming: bool = _field(True, "whether the card offers streaming")
    model: str | None = _field(None, "llm: LiteLLM model name (default: $A2A_AGENT_LLM)", "MODEL")
    api_base: str | None = _field(None, "llm: address of an OpenAI-compatible server", "URL")
    llm_args: str = _field("{}", "llm: further arguments of litellm.completion, as an object", "JSON")
    auth_env: str | None = _field(None, "require the bearer token that this environment variable holds", "NAME")
    card_url: str | None = _field(None, "base URL that the card shows (default: where it listens)", "URL")
    benchmark_options: Mapping[str, Any] = field(default_factory=dict)
    players: str = _field("", "suites that this command does not know, and their players' modules", "NAME=MODULE,...")
    dedupe: bool = _field(True, "answer a message that comes again under its id as before, as A2A allows")
    contexts: int = _field(2000, "conversations remembered; the least recently used is forgotten first", "N")

    def __post_init__(self) -> None:
        problems = list(self._problems())
        if problems:
            raise ConfigurationError(f"built-in agent {self.name!r}: {'; '.join(problems)}")

    def _problems(self) -> Iterator[str]:
        if self.name not in BUILTIN_AGENTS and self.name not in extensions.names("agents"):
            valid = (*BUILTIN_AGENTS, *extensions.names("agents"))
            yield f"there is no such agent; valid names are {', '.join(valid)}{did_you_mean(self.name, valid)}"
        for key, valid in _CHOICES.items():
            value = getattr(self, key)
            if value not in valid and not (key == "dialect" and value in extensions.names("dialects")):
                near = did_you_mean(str(value), valid)
                yield f"{key}={value!r} is unknown; valid values are {', '.join(valid)}{near}"
        if not 0 <= self.latency < float("inf"):
            yield f"latency={self.latency!r} must be a number of seconds, 0 or more"
        for key in ("port", "grpc_port"):
            if not 0 <= getattr(self, key) <= 65535:
                yield f"{key}={getattr(self, key)} is not a port (0 to 65535)"
        if self.contexts < 1:
            yield f"contexts={self.contexts} must be at least 1"
        if any(not name or not module for name, module in self.named_players.items()):
            yield f"players={self.players!r} is not NAME=MODULE, with commas between several"
        try:
            # Command lines are seen by everybody who may list processes, and in CI logs: no credentials.
            read_model_arguments(self.llm_args)
        except ValueError as error:
            yield f"llm_args: {error}"

    @property
    def protocols(self) -> tuple[str, ...]:
        """The protocol versions served, the preferred one first."""
        return ("1.0", "0.3") if self.protocol == "both" else (self.protocol,)

    @property
    def transports(self) -> tuple[str, ...]:
        """The bindings asked for, the preferred one first."""
        return TRANSPORTS[1:] if self.transport == "all" else (self.transport,)

    @property
    def llm_kwargs(self) -> dict[str, Any]:
        """The parsed ``llm_args``."""
        return read_json_object(self.llm_args)

    @property
    def named_players(self) -> dict[str, str]:
        """The parsed ``players``: suite -> module."""
        pairs = (part.partition("=") for part in self.players.split(",") if part.strip())
        return {name.strip(): module.strip() for name, _, module in pairs}

    def to_argv(self) -> list[str]:
        """Return the command line arguments that :func:`add_arguments` reads back to the same value."""
        argv = [self.name]
        for each in dataclasses.fields(self)[1:]:
            value = getattr(self, each.name)
            if value in (each.default, {}):
                continue
            if isinstance(value, Mapping):
                # As JSON: the process that reads it may not know the suite whose options these are.
                value = json.dumps(dict(value))
            argv.append(f"--{each.name.replace('_', '-')}={value}")
        return argv


_FIELDS = {each.name: each for each in dataclasses.fields(AgentOptions) if each.metadata}


def parse_spec(spec: str, settings: Settings | None = None) -> AgentOptions:
    """Read what follows ``builtin:``, such as ``oracle`` or ``oracle?latency=0.05&reply=task``.

    :param settings: the run's; where its tasks come from is where the agent finds the golds, unless the spec says else.
    :raises ConfigurationError: for an unknown agent, option or value; the message lists the valid ones.
    """
    name, _, query = spec.partition("?")
    options: dict[str, Any] = {}
    known = gold_options()
    golds: dict[str, Any] = {}
    # Only an agent that plays golds has a use for where they are.
    if settings is not None and name in TAGGED_AGENTS:
        golds = {key: value for key, value in settings.benchmark_options.items() if key in known}
        options["players"] = ",".join(f"{suite}={module}" for suite, module in registry.offered_players().items())
    for key, text in parse_qsl(query, keep_blank_values=True):
        key = key.replace("-", "_")
        try:
            if key in known:
                golds[key] = known[key].read(text)
            elif key in _FIELDS:
                options[key] = _read(key, text)
            else:
                valid = [*_FIELDS, *known]
                raise ValueError(f"no option {key!r}; valid options are {', '.join(valid)}{did_you_mean(key, valid)}")
        except ValueError as error:
            said = f"{key}: {error}" if key in known else error
            raise ConfigurationError(f"built-in agent {name!r}: {said}") from None
    return AgentOptions(name, **options, benchmark_options=_without_defaults(golds))


def _read(name: str, text: str) -> Any:
    """Return a field's value, of the type of its default."""
    default = _FIELDS[name].default
    try:
        if isinstance(default, bool):
            return _WORDS[text.lower()]
        return type(default)(text) if isinstance(default, int | float) else text
    except (KeyError, ValueError):
        kind = "on or off" if isinstance(default, bool) else "a number"
        raise ValueError(f"{name}={text!r} must be {kind}") from None


def gold_options() -> dict[str, Option]:
    """Return the options of all benchmarks that say where their golds are, by name."""
    suites = registry.known()
    return {option.name: option for suite in suites for option in suite.options if option.name in suite.gold_options}


def _without_defaults(golds: Mapping[str, Any]) -> dict[str, Any]:
    known = gold_options()
    # These end as arguments of a process: a value that is the default need not stand in its command line.
    return {key: value for key, value in golds.items() if key not in known or value != known[key].default}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare every option of :class:`AgentOptions`."""
    parser.add_argument("name", metavar="NAME", help=f"one of {', '.join(BUILTIN_AGENTS)}")
    for name, each in _FIELDS.items():
        switch = isinstance(each.default, bool)
        parser.add_argument(
            "--" + name.replace("_", "-"),
            type=_as_argument(partial(_read, name)),
            default=each.default,
            metavar=each.metadata["metavar"] or ("on|off" if switch else None),
            choices=_CHOICES.get(name) if name != "dialect" else None,
            help=each.metadata["help"],
        )
    for option in gold_options().values():
        help = f"oracle, readonly: {option.help[0].lower()}{option.help[1:]}".replace("%", "%%")
        read = _as_argument(option.read)
        parser.add_argument("--" + option.cli_stem, dest=option.name, type=read, metavar=option.metavar, help=help)
    parser.add_argument(
        "--benchmark-options",
        type=_as_argument(read_json_object),
        default={},
        metavar="JSON",
        help="oracle, readonly: options of benchmarks that this command does not know, as an object",
    )


def from_namespace(namespace: argparse.Namespace) -> AgentOptions:
    """Read what :func:`add_arguments` declared."""
    given = {name: getattr(namespace, name) for name in gold_options()}
    # A flag is typed for this start, the object may come from a run's settings: the flag wins.
    golds = {**namespace.benchmark_options, **{name: value for name, value in given.items() if value is not None}}
    options = {name: getattr(namespace, name) for name in ("name", *_FIELDS)}
    return AgentOptions(**options, benchmark_options=_without_defaults(golds))


def _as_argument(read: Callable[[str], Any]) -> Callable[[str], Any]:
    """Let argparse show what a reader says of a wrong value: it hides the words of a ValueError."""

    def convert(text: str) -> Any:
        try:
            return read(text)
        except ValueError as error:
            raise argparse.ArgumentTypeError(str(error)) from None

    return convert
