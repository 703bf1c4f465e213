"""What a built-in agent can be told, in its three spellings: a spec, a command line and a frozen value.

``oracle?latency=0.05&reply=task`` (after ``builtin:``) and ``oracle --latency 0.05 --reply task`` mean the same.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qsl

from pytest_a2a_bench import extensions
from pytest_a2a_bench.benchmarks import registry
from pytest_a2a_bench.chaos.spec import parse_chaos
from pytest_a2a_bench.configuration.option import Option
from pytest_a2a_bench.configuration.readers import read_json_object
from pytest_a2a_bench.errors import ConfigurationError
from pytest_a2a_bench.nearest import did_you_mean
from pytest_a2a_bench.settings import BUILTIN_AGENTS, DIALECTS, TAGGED_AGENTS, Settings

PROTOCOLS = ("both", "1.0", "0.3")
TRANSPORTS = ("all", "jsonrpc", "rest", "grpc")
REPLIES = ("message", "task")

_GOLDS = "benchmark_options"
_CHOICES = {"protocol": PROTOCOLS, "transport": TRANSPORTS, "reply": REPLIES, "dialect": DIALECTS}
_WORDS = {"1": True, "true": True, "on": True, "yes": True, "0": False, "false": False, "off": False, "no": False}


@dataclass(frozen=True, slots=True)
class AgentOptions:
    """How one built-in agent is served.

    :param host: the address to listen on, also the host in the card's URLs.
    :param port: the HTTP port; 0 for any free one.
    :param grpc_port: the gRPC port; 0 for any free one.
    :param dialect: ``auto`` answers in the dialect that the agent is addressed in.
    :param latency: seconds that every turn takes at least.
    :param protocol: the protocol versions served: ``both``, ``1.0`` or ``0.3``.
    :param transport: the bindings served: ``all`` leaves gRPC out where grpcio is not installed.
    :param reply: ``message``, or ``task`` for a completed task with an artifact.
    :param streaming: whether the card says that the agent streams.
    :param model: LiteLLM model name (``llm`` only; else from the environment, see :mod:`..agents.llm`).
    :param api_base: address of an OpenAI-compatible server (``llm`` only).
    :param llm_args: further arguments of ``litellm.completion`` as a JSON object (``llm`` only).
    :param auth_env: name of the environment variable whose value every caller must send as a bearer token.
    :param card_url: base URL that the card shows, where callers reach the agent by another address than ``host``.
    :param benchmark_options: what benchmarks must know to find the golds that it plays (``oracle`` and ``readonly``
        only, ``Suite.gold_options``): the values of the run with which the agent is started, unless given. In a spec
        and on a command line each is an option of its own; what is at its default is left out.
    :param players: ``NAME=MODULE`` for each suite that this process does not know, with commas between them: the module
        of its player.
    :param dedupe: whether a message that comes again under its id gets the answer that was given already, instead of
        being taken for a new one, as A2A allows.
    :param chaos: faults between it and its callers, such as ``reset=0.05,seed=7`` (see :mod:`...chaos.spec`).
    :param chaos_log: file to which each of these faults adds a line of JSON.
    :param contexts: conversations remembered; the least recently used is forgotten first.
    """

    name: str
    host: str = "127.0.0.1"
    port: int = 0
    grpc_port: int = 0
    dialect: str = "auto"
    latency: float = 0.0
    protocol: str = "both"
    transport: str = "all"
    reply: str = "message"
    streaming: bool = True
    model: str | None = None
    api_base: str | None = None
    llm_args: str = "{}"
    auth_env: str | None = None
    card_url: str | None = None
    benchmark_options: Mapping[str, Any] = field(default_factory=dict)
    players: str = ""
    dedupe: bool = True
    chaos: str | None = None
    chaos_log: str | None = None
    contexts: int = 2000

    def __post_init__(self) -> None:
        problems = list(self._problems())
        if problems:
            raise ConfigurationError(f"built-in agent {self.name!r}: {'; '.join(problems)}")

    def _problems(self) -> list[str]:
        found = []
        if self.name not in BUILTIN_AGENTS and self.name not in extensions.names("agents"):
            valid = (*BUILTIN_AGENTS, *extensions.names("agents"))
            found.append(f"there is no such agent; valid names are {', '.join(valid)}{did_you_mean(self.name, valid)}")
        for key, valid in _CHOICES.items():
            value = getattr(self, key)
            if value not in valid and not (key == "dialect" and value in extensions.names("dialects")):
                near = did_you_mean(str(value), valid)
                found.append(f"{key}={value!r} is unknown; valid values are {', '.join(valid)}{near}")
        if not 0 <= self.latency < float("inf"):
            found.append(f"latency={self.latency!r} must be a number of seconds, 0 or more")
        found.extend(
            f"{key}={getattr(self, key)} is not a port (0 to 65535)"
            for key in ("port", "grpc_port")
            if not 0 <= getattr(self, key) <= 65535
        )
        if self.contexts < 1:
            found.append(f"contexts={self.contexts} must be at least 1")
        if any(not name or not module for name, module in self._pairs()):
            found.append(f"players={self.players!r} is not NAME=MODULE, with commas between several")
        found.extend(_llm_args_problems(self.llm_args))
        found.extend(_chaos_problems(self.chaos, self.chaos_log))
        return found

    @property
    def protocols(self) -> tuple[str, ...]:
        """The protocol versions served, the preferred one first."""
        return ("1.0", "0.3") if self.protocol == "both" else (self.protocol,)

    @property
    def transports(self) -> tuple[str, ...]:
        """The bindings asked for, the preferred one first."""
        return ("jsonrpc", "rest", "grpc") if self.transport == "all" else (self.transport,)

    @property
    def llm_kwargs(self) -> dict[str, Any]:
        """The parsed ``llm_args``."""
        parsed: dict[str, Any] = json.loads(self.llm_args)
        return parsed

    @property
    def named_players(self) -> dict[str, str]:
        """The parsed ``players``: suite -> module."""
        return dict(self._pairs())

    def _pairs(self) -> list[tuple[str, str]]:
        pairs = (part.partition("=") for part in self.players.split(",") if part.strip())
        return [(name.strip(), module.strip()) for name, _, module in pairs]

    def to_argv(self) -> list[str]:
        """Return the command line arguments that :func:`add_arguments` reads back to the same value."""
        argv = [self.name]
        for f in dataclasses.fields(self):
            value = getattr(self, f.name)
            if f.name == "name" or value == f.default:
                continue
            flag = "--" + f.name.replace("_", "-")
            if isinstance(value, Mapping):
                # As JSON: the process that reads it may not know the suite whose options these are.
                argv += [f"{flag}={json.dumps(dict(value))}"] * bool(value)
            elif isinstance(value, bool):
                argv.append(flag if value else flag.replace("--", "--no-", 1))
            else:
                argv.append(f"{flag}={value}")
        return argv


def _llm_args_problems(text: str) -> list[str]:
    try:
        parsed = json.loads(text)
    except ValueError as error:
        return [f'llm_args is not JSON ({error}); give an object such as {{"temperature": 0}}']
    if not isinstance(parsed, dict):
        return [f"llm_args must be a JSON object, not {text!r}"]
    # Arguments are seen by everybody who may list processes, and by CI logs.
    return ["llm_args must not hold the api_key; set OPENAI_API_KEY or your provider's"] if "api_key" in parsed else []


def _chaos_problems(chaos: str | None, log: str | None) -> list[str]:
    if chaos is None:
        return ["chaos_log is for chaos only; say which faults there shall be"] if log else []
    try:
        parse_chaos(chaos)
    except ConfigurationError as error:
        return [str(error)]
    return []


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
    for key, text in ((key.replace("-", "_"), text) for key, text in parse_qsl(query, keep_blank_values=True)):
        if key in known:
            golds[key] = _read_gold_option(name, known[key], text)
        else:
            options[key] = _read_value(name, key, text)
    return AgentOptions(name, **options, benchmark_options=_without_defaults(golds))


def gold_options() -> dict[str, Option]:
    """Return the options of all benchmarks that say where their golds are, by name."""
    suites = registry.known()
    return {option.name: option for suite in suites for option in suite.options if option.name in suite.gold_options}


def _without_defaults(golds: Mapping[str, Any]) -> dict[str, Any]:
    known = gold_options()
    # These end as arguments of a process: what is as it always is need not stand in its command line.
    return {key: value for key, value in golds.items() if key not in known or value != known[key].default}


def _read_gold_option(name: str, option: Option, text: str) -> Any:
    try:
        return option.read(text)
    except ValueError as error:
        raise ConfigurationError(f"built-in agent {name!r}: {option.name}: {error}") from None


def _read_value(name: str, key: str, text: str) -> Any:
    fields = {f.name: f.default for f in dataclasses.fields(AgentOptions) if f.name not in ("name", _GOLDS)}
    if key not in fields:
        valid = ", ".join([*fields, *gold_options()])
        near = did_you_mean(key, [*fields, *gold_options()])
        raise ConfigurationError(f"built-in agent {name!r} has no option {key!r}; valid options are {valid}{near}")
    default = fields[key]
    try:
        if isinstance(default, bool):
            return _WORDS[text.lower()]
        return type(default)(text) if isinstance(default, int | float) else text
    except (KeyError, ValueError):
        kind = "on or off" if isinstance(default, bool) else "a number"
        raise ConfigurationError(f"built-in agent {name!r}: {key}={text!r} must be {kind}") from None


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare every option of :class:`AgentOptions`."""
    add = parser.add_argument
    add("name", metavar="NAME", help=f"one of {', '.join(BUILTIN_AGENTS)}")
    add("--host", default="127.0.0.1", help="address to listen on (default: %(default)s)")
    add("--port", type=int, default=0, metavar="N", help="HTTP port (default: any free one)")
    add("--grpc-port", type=int, default=0, metavar="N", help="gRPC port (default: any free one)")
    add("--dialect", metavar="NAME", default="auto", help=f"how to answer: {', '.join(DIALECTS)} (as addressed)")
    add(
        "--latency",
        type=float,
        default=0.0,
        metavar="SECONDS",
        help="time that every turn takes (default: %(default)s)",
    )
    add("--protocol", choices=PROTOCOLS, default="both", help="protocol versions to serve (default: %(default)s)")
    add("--transport", choices=TRANSPORTS, default="all", help="bindings to serve (default: %(default)s)")
    add("--reply", choices=REPLIES, default="message", help="answer with a message or a task (default: %(default)s)")
    add("--streaming", action=argparse.BooleanOptionalAction, default=True, help="whether the card offers streaming")
    add("--model", metavar="MODEL", help="llm: LiteLLM model name (default: $A2A_AGENT_LLM)")
    add("--api-base", metavar="URL", help="llm: address of an OpenAI-compatible server")
    add("--llm-args", default="{}", metavar="JSON", help="llm: further arguments of the completion, as an object")
    add("--auth-env", metavar="NAME", help="require the bearer token that this environment variable holds")
    add("--card-url", metavar="URL", help="base URL that the card shows (default: from the address it listens on)")
    add(
        "--dedupe",
        action=argparse.BooleanOptionalAction,
        default=True,
        help="whether a message that comes twice is answered as before, instead of being worked on again",
    )
    for option in gold_options().values():
        add(
            "--" + option.cli_stem,
            dest=option.name,
            type=_as_argument(option.read),
            metavar=option.metavar,
            help=f"oracle, readonly: {option.help[0].lower()}{option.help[1:]}".replace("%", "%%"),
        )
    add(
        "--benchmark-options",
        type=_as_argument(read_json_object),
        default={},
        metavar="JSON",
        help="oracle, readonly: options of benchmarks that this command does not know, as an object",
    )
    add(
        "--players",
        default="",
        metavar="NAME=MODULE,...",
        help="suites that this command does not know, and the modules of their players",
    )
    add("--chaos", metavar="SPEC", help="faults between it and its callers (a2a-bench chaos --list shows all)")
    add("--chaos-log", metavar="FILE", help="add a line of JSON to it for each of these faults")
    add("--contexts", type=int, default=2000, metavar="N", help="conversations remembered (default: %(default)s)")


def from_namespace(namespace: argparse.Namespace) -> AgentOptions:
    """Read what :func:`add_arguments` declared."""
    given = {name: getattr(namespace, name) for name in gold_options()}
    # A flag is typed for this start, the object may come from a run's settings: the flag wins.
    golds = {**namespace.benchmark_options, **{name: value for name, value in given.items() if value is not None}}
    names = [f.name for f in dataclasses.fields(AgentOptions) if f.name != _GOLDS]
    return AgentOptions(
        **{name: getattr(namespace, name) for name in names}, benchmark_options=_without_defaults(golds)
    )


def _as_argument(read: Callable[[str], Any]) -> Callable[[str], Any]:
    """Let argparse show what a reader says of a wrong value: it hides the words of a ValueError."""

    def convert(text: str) -> Any:
        try:
            return read(text)
        except ValueError as error:
            raise argparse.ArgumentTypeError(str(error)) from None

    return convert
