"""Options of a built-in agent: fields of one dataclass, read from a spec or from a command line.

``oracle?latency=0.05&reply=task`` (after ``builtin:``) and ``oracle --latency 0.05 --reply task`` mean the same.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
from collections.abc import Mapping
from typing import Annotated, Any, Literal, get_args
from urllib.parse import parse_qsl

from pydantic import AfterValidator, BeforeValidator, Field, ValidationError
from pydantic.dataclasses import dataclass

from pytest_a2a_bench import extensions
from pytest_a2a_bench.benchmarks import registry
from pytest_a2a_bench.config.settings import BUILTIN_AGENTS, DIALECTS, TAGGED_AGENTS, Settings
from pytest_a2a_bench.config.values import read_json_object, read_model_arguments
from pytest_a2a_bench.errors import ConfigurationError
from pytest_a2a_bench.text import did_you_mean

Protocol = Literal["both", "1.0", "0.3"]
Transport = Literal["all", "jsonrpc", "rest", "grpc"]
Reply = Literal["message", "task"]
PROTOCOLS, TRANSPORTS = get_args(Protocol), get_args(Transport)

Port = Annotated[int, Field(ge=0, le=65535)]
JsonObject = Annotated[
    Mapping[str, Any], BeforeValidator(lambda given: read_json_object(given) if isinstance(given, str) else given)
]
# Everybody who may list processes sees command lines, and so do readers of CI logs: no credentials.
ModelArguments = Annotated[JsonObject, AfterValidator(lambda given: read_model_arguments(json.dumps(given)))]


def _one_of(kind: str, built_in: tuple[str, ...]) -> AfterValidator:
    """Return a validator of names, to which a project's extensions add."""

    def check(name: str) -> str:
        valid = (*built_in, *extensions.names(kind))
        if name not in valid:
            raise ValueError(f"valid names are {', '.join(valid)}{did_you_mean(name, valid)}")
        return name

    return AfterValidator(check)


def _option(default: Any, description: str, metavar: str | None = None, **limits: Any) -> Any:
    return Field(default, description=description, json_schema_extra={"metavar": metavar}, **limits)


@dataclass(frozen=True, slots=True)
class AgentOptions:
    """The options of one built-in agent; each field's description says what it does.

    :raises pydantic.ValidationError: for wrong values; :func:`parse_spec` makes a ConfigurationError of it.
    """

    name: Annotated[str, _one_of("agents", BUILTIN_AGENTS)]
    host: str = _option("127.0.0.1", "address to listen on, also the host in the card's URLs")
    port: Port = _option(0, "HTTP port (default: any free one)", "N")
    grpc_port: Port = _option(0, "gRPC port (default: any free one)", "N")
    dialect: Annotated[str, _one_of("dialects", DIALECTS)] = _option(
        "auto", f"dialect of answers: {', '.join(DIALECTS)} (auto: the request's)", "NAME"
    )
    latency: float = _option(0.0, "least seconds of every turn", "SECONDS", ge=0, allow_inf_nan=False)
    protocol: Protocol = _option("both", f"protocol versions to serve: {', '.join(PROTOCOLS)}")
    transport: Transport = _option("all", f"bindings to serve: {', '.join(TRANSPORTS)} (gRPC if grpcio is installed)")
    reply: Reply = _option("message", "answer with a message, or with a completed task")
    streaming: bool = _option(True, "whether the card offers streaming", "on|off")
    model: str | None = _option(None, "llm: LiteLLM model name (default: $A2A_AGENT_LLM)", "MODEL")
    api_base: str | None = _option(None, "llm: address of an OpenAI-compatible server", "URL")
    llm_args: ModelArguments = _option({}, "llm: further arguments of litellm.completion", "JSON")
    auth_env: str | None = _option(None, "require the bearer token that this environment variable holds", "NAME")
    card_url: str | None = _option(None, "base URL that the card shows (default: its address)", "URL")
    benchmark_options: JsonObject = _option(
        {}, 'oracle, readonly: benchmarks\' options that name the place of golds, such as {"tau2_data": DIR}', "JSON"
    )
    players: JsonObject = _option({}, "suites that this command does not know -> modules of their players", "JSON")
    dedupe: bool = _option(True, "answer a repeated message (same messageId) as before, as A2A allows", "on|off")
    contexts: int = _option(2000, "conversations kept; the least recently used is dropped first", "N", ge=1)

    @property
    def protocols(self) -> tuple[str, ...]:
        """The protocol versions served, the preferred one first."""
        return ("1.0", "0.3") if self.protocol == "both" else (self.protocol,)

    @property
    def transports(self) -> tuple[str, ...]:
        """The bindings to serve, the preferred one first."""
        return TRANSPORTS[1:] if self.transport == "all" else (self.transport,)

    def to_argv(self) -> list[str]:
        """Return the command line arguments that :func:`add_arguments` reads back to the same value."""
        given = {name: getattr(self, name) for name in _FIELDS}
        changed = {name: value for name, value in given.items() if value != _FIELDS[name].default}
        texts = {n: json.dumps(dict(v)) if isinstance(v, Mapping) else v for n, v in changed.items()}
        return [self.name, *(f"--{name.replace('_', '-')}={text}" for name, text in texts.items())]


_FIELDS: dict[str, Any] = {
    name: field
    for name, field in AgentOptions.__pydantic_fields__.items()  # type: ignore[attr-defined]
    if name != "name"
}


def parse_spec(spec: str, settings: Settings | None = None) -> AgentOptions:
    """Read what follows ``builtin:``, such as ``oracle`` or ``oracle?latency=0.05&reply=task``.

    :param settings: the run's, for an agent that plays golds: their place, and the suites' players.
    :raises ConfigurationError: for an unknown agent, option or value; the message lists the valid ones.
    """
    name, _, query = spec.partition("?")
    texts = {key.replace("-", "_"): text for key, text in parse_qsl(query, keep_blank_values=True)}
    options = _make(name, texts)
    if settings is None or name not in TAGGED_AGENTS:
        return options
    known = [option for suite in registry.known() for option in suite.options if option.name in suite.gold_options]
    values = [(option, settings.benchmark_options.get(option.name, option.default)) for option in known]
    # These become arguments of a process: a default need not be among them.
    golds = {option.name: value for option, value in values if value != option.default}
    players = {**registry.offered_players(), **options.players}
    return dataclasses.replace(options, benchmark_options={**golds, **options.benchmark_options}, players=players)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare every option of :class:`AgentOptions`."""
    parser.add_argument("name", metavar="NAME", help=f"one of {', '.join(BUILTIN_AGENTS)}")
    for name, field in _FIELDS.items():
        flag, metavar = "--" + name.replace("_", "-"), field.json_schema_extra["metavar"]
        parser.add_argument(flag, metavar=metavar, help=field.description)


def from_namespace(namespace: argparse.Namespace) -> AgentOptions:
    """Read what :func:`add_arguments` declared.

    :raises ConfigurationError: as :func:`parse_spec` does.
    """
    given = {name: getattr(namespace, name) for name in _FIELDS}
    return _make(namespace.name, {name: text for name, text in given.items() if text is not None})


def _make(name: str, texts: Mapping[str, str]) -> AgentOptions:
    problems = [f"no option {key!r}{did_you_mean(key, tuple(_FIELDS))}" for key in texts if key not in _FIELDS]
    if problems:
        problems.append(f"valid options are {', '.join(_FIELDS)}")
    try:
        given: dict[str, Any] = {key: text for key, text in texts.items() if key in _FIELDS}
        options = AgentOptions(name, **given)
    except ValidationError as error:
        problems += map(_explain, error.errors())
    if problems:
        raise ConfigurationError(f"built-in agent {name!r}: {'; '.join(problems)}")
    return options


def _explain(error: Any) -> str:
    field = str(error["loc"][0] or "name")
    # Arguments of a model may hold a credential.
    given = "" if field == "llm_args" else f"={error['input']!r}"
    return f"{field}{given}: {error['msg'].removeprefix('Value error, ')}"
