"""Options of a built-in agent, and its start in a process of its own.

``oracle?latency=0.05&reply=task`` (after ``builtin:``) and ``oracle --latency 0.05 --reply task`` mean the same.

Options are fields of one dataclass, read from a spec or from a command line.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path
from types import TracebackType
from typing import IO, Annotated, Any, Literal, Self, get_args
from urllib.parse import parse_qsl

from pydantic import AfterValidator, BeforeValidator, Field, ValidationError
from pydantic.dataclasses import dataclass

import pytest_a2a_bench
from pytest_a2a_bench import extensions
from pytest_a2a_bench.benchmarks import registry
from pytest_a2a_bench.config.settings import BUILTIN_AGENTS, BUILTIN_PREFIX, DIALECTS, TAGGED_AGENTS, Settings
from pytest_a2a_bench.config.values import read_json_object, read_model_arguments
from pytest_a2a_bench.errors import ConfigurationError, MissingExtraError
from pytest_a2a_bench.text import did_you_mean, waiting_for

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
    """The options of one built-in agent; each field's description is its documentation.

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
    """Read the text after ``builtin:``, such as ``oracle`` or ``oracle?latency=0.05&reply=task``.

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
    """Read the arguments of :func:`add_arguments`; raises ConfigurationError as :func:`parse_spec` does."""
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


START_TIMEOUT = 300.0
"""Seconds that an agent may take to start: imports on a busy two-core runner can take ten."""

_STOP_TIMEOUT = 5.0

_PACKAGE_ROOT = str(Path(pytest_a2a_bench.__file__).parent.parent)
_BOOTSTRAP = (
    "import json, os, sys; sys.path.extend(sys.argv.pop(1).split(os.pathsep)); "
    "from pytest_a2a_bench import extensions; extensions.take_over(json.loads(sys.argv.pop(1))); "
    "from pytest_a2a_bench.agents.__main__ import main; sys.exit(main())"
)


class BuiltinAgent:
    """A running built-in agent.

    :param url: base URL to give to a client.
    """

    def __init__(self, process: subprocess.Popen[bytes], errors: IO[bytes], url: str, card_url: str) -> None:
        self._process = process
        self._errors = errors
        self.url = url
        self.card_url = card_url

    @property
    def pid(self) -> int:
        """The process id."""
        return self._process.pid

    def stop(self) -> None:
        """End the process and wait for it. Safe to call again."""
        _end(self._process)
        self._errors.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()


def start_builtin(spec: str, settings: Settings | None = None, *, timeout: float = START_TIMEOUT) -> BuiltinAgent:
    """Start the agent that a spec names, e.g. ``oracle`` or ``oracle?latency=0.05&reply=task``.

    All bindings and protocol versions are served unless the spec says otherwise, whatever the settings ask: the client
    chooses. With an ``auth_env`` in the spec, its variable must be set in this process's environment.

    :param settings: the run's settings, which name the place of its benchmarks' golds; the agent uses no others.
    :raises ConfigurationError: if the spec is wrong or the agent does not start; the message has the end of its stderr.
    :raises MissingExtraError: if the packages of its server are not installed.
    """
    options = parse_spec(spec.removeprefix(BUILTIN_PREFIX), settings)
    require_server(f"the built-in agent {options.name!r}")
    errors = tempfile.TemporaryFile()
    process = _spawn(options, errors)
    try:
        with waiting_for(f"the built-in agent {options.name!r} to start"):
            line = _first_line(process, timeout)
        served = json.loads(line)
        return BuiltinAgent(process, errors, served["url"], served["card_url"])
    except (ValueError, KeyError, TypeError):
        code = _exit_code(process)
        _end(process)
        message = _failure(options, code, _tail(errors), timeout)
        errors.close()
        raise ConfigurationError(message) from None
    except BaseException:
        _end(process)
        errors.close()
        raise


def require_server(what: str) -> None:
    """See that the libraries that serve a built-in agent are installed, without importing them.

    :raises MissingExtraError: if one of them is not.
    """
    for module in ("uvicorn", "starlette", "sse_starlette"):
        if find_spec(module) is None:
            raise MissingExtraError(module, "agents", detail=f"it serves {what}")


def _spawn(options: AgentOptions, errors: IO[bytes]) -> subprocess.Popen[bytes]:
    # A session of its own: Ctrl-C in the terminal is for pytest, which stops the agent when the last trial is over.
    # -P -c instead of -m: the package may be importable here by sys.path alone, and the user's working directory must
    # not shadow the server's imports.
    return subprocess.Popen(
        [sys.executable, "-P", "-c", _BOOTSTRAP, *_surroundings(options), *options.to_argv()],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=errors,
        start_new_session=True,
    )


def _surroundings(options: AgentOptions) -> tuple[str, str]:
    """Return the module search path and the project's extensions, as arguments of that process."""
    places = dict.fromkeys([*_places(options), *extensions.places()])
    return os.pathsep.join(places), json.dumps(extensions.passed_on())


def _places(options: AgentOptions) -> list[str]:
    """Return the directories that this package and the players of a project's own suites are imported from."""
    places = [_PACKAGE_ROOT]
    for module in options.players.values():
        found = find_spec(module.partition(".")[0])
        if found is not None and found.origin is not None:
            places.append(str(Path(found.origin).parents[1 if found.submodule_search_locations else 0]))
    return list(dict.fromkeys(places))


def _first_line(process: subprocess.Popen[bytes], timeout: float) -> bytes:
    """Return the first line of stdout, or its beginning when the process ends or the time is up."""
    found: list[bytes] = []
    stdout = process.stdout
    assert stdout is not None
    reader = threading.Thread(target=lambda: found.append(stdout.readline()), daemon=True)
    reader.start()
    deadline = time.monotonic() + timeout
    while reader.is_alive() and time.monotonic() < deadline:
        reader.join(min(0.5, max(0.0, deadline - time.monotonic())))
    return found[0] if found else b""


def _exit_code(process: subprocess.Popen[bytes]) -> int | None:
    """Return the exit code of a process that ended by itself, or None. Its stdout closes a moment before it ends."""
    try:
        return process.wait(1.0)
    except subprocess.TimeoutExpired:
        return None


def _end(process: subprocess.Popen[bytes]) -> None:
    """End a process: by closing its stdin and SIGTERM, then by SIGKILL."""
    if process.stdin and not process.stdin.closed:
        process.stdin.close()
    process.terminate()
    try:
        process.wait(_STOP_TIMEOUT)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
    if process.stdout and not process.stdout.closed:
        process.stdout.close()


def _failure(options: AgentOptions, code: int | None, stderr: str, timeout: float) -> str:
    what = f"did not answer within {timeout:g} s" if code is None else f"ended with exit code {code}"
    said = f": {stderr}" if stderr else " and wrote nothing to stderr"
    return f"built-in agent {options.name!r} {what} at its start{said}"


def _tail(errors: IO[bytes]) -> str:
    size = errors.seek(0, 2)
    errors.seek(max(0, size - 2000))
    return errors.read().decode(errors="replace").strip()
