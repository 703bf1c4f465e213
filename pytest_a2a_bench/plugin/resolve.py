"""Resolve the settings of a run from pytest's options, report contradictions, and read the files that options name."""

from __future__ import annotations

import dataclasses
import importlib.util
import itertools
import os
import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from pytest_a2a_bench import extensions
from pytest_a2a_bench.a2a.config import connection_problems
from pytest_a2a_bench.benchmarks import registry
from pytest_a2a_bench.config.load import Loaded, Table, read_env_file, read_table
from pytest_a2a_bench.config.rates import split_tier
from pytest_a2a_bench.config.settings import BUILTIN_PREFIX, Settings, with_endpoint
from pytest_a2a_bench.config.values import is_gateway_itself, read_json_object, split_named
from pytest_a2a_bench.errors import A2ABenchError, ConfigurationError
from pytest_a2a_bench.installation import install_command
from pytest_a2a_bench.language_models import named
from pytest_a2a_bench.plugin import shim
from pytest_a2a_bench.plugin.state import BenchRun
from pytest_a2a_bench.results.gates import files
from pytest_a2a_bench.results.gates.terms import BLAMELESS
from pytest_a2a_bench.text import did_you_mean, reason_of
from pytest_a2a_bench.tracing import is_installed

# Ways by which xdist reaches other machines.
_REMOTE_TX = re.compile(r"(?:^|\*|//)(?:ssh|socket|vagrant_ssh)=")


@dataclasses.dataclass(frozen=True, slots=True)
class Resolution:
    """The settings of a run.

    :param problems: one line for each wrong value; where there are any, the settings must not be used.
    :param asked: whether the command line or the table (not only the environment) mentions this plugin.
    """

    settings: Settings
    problems: tuple[str, ...] = ()
    asked: bool = False


def resolve(config: pytest.Config, environ: Mapping[str, str]) -> Resolution:
    """Load and check the settings of a run.

    :param environ: the environment, ``os.environ`` outside tests.
    """
    table, unread = _table(config, environ)
    loaded = load_settings(config, environ, table)
    settings, problems = loaded.settings, [*unread, *loaded.problems]
    if settings.replay:
        settings = _recorded_endpoint(settings, loaded.source("replay"), problems)
    problems += _contradictions(settings, config)
    # An endpoint in the environment alone asks for nothing yet; a wrong name in the table does, and a missing file.
    asked = bool(unread or table.values or config.getoption("a2a_set", None)) or "suite" in loaded.sources
    asked = asked or any(source.kind == "cli" for source in loaded.sources.values())
    return Resolution(settings, tuple(problems), asked)


def load_settings(config: pytest.Config, environ: Mapping[str, str], table: Table) -> Loaded:
    """Load the settings of a run from pytest's options, the environment and a table."""
    options = {}
    for name in registry.every_setting():
        given = config.getoption(f"a2a_{name}", None)
        if given is not None:
            options[name] = "\n".join(given) if isinstance(given, list) else str(given)
    return registry.load_settings(
        options=options,
        assignments=config.getoption("a2a_set", None) or (),
        environ=environ,
        table=table,
        directory=config.invocation_params.dir.absolute(),
    )


def _table(config: pytest.Config, environ: Mapping[str, str]) -> tuple[Table, list[str]]:
    """Return the table of settings, and a line for a file that cannot be read."""
    given = config.getoption("a2a_config", None) or environ.get("A2A_CONFIG")
    ini = config.getini("a2a_config")
    named = config.invocation_params.dir / given if given else config.rootpath / ini if ini else None
    try:
        return read_table(config.rootpath, named), []
    except ConfigurationError as error:
        return Table(), [str(error)]


def results_directory(settings: Settings, config: pytest.Config) -> Path:
    """Return the directory of result files; a relative one is below the directory in which pytest was started."""
    return (config.invocation_params.dir / settings.results).absolute()


def _recorded_endpoint(settings: Settings, source: str, problems: list[str]) -> Settings:
    """Return the settings with the endpoint that the cassettes were recorded from, unless they have one."""
    from pytest_a2a_bench import cassettes

    try:
        recorded = cassettes.read_endpoint(Path(str(settings.replay)))
    except A2ABenchError as error:
        problems.append(f"--a2a-replay: {error}")
        return settings
    return settings if settings.endpoint else with_endpoint(settings, recorded, endpoint_source=source)


def _contradictions(settings: Settings, config: pytest.Config) -> list[str]:
    problems = []
    if settings.user_auth_env and not settings.user_endpoint:
        problems.append("user-auth-env is for an agent that plays the user: add --a2a-user a2a:URL")
    others = [("--a2a-user", "user" if settings.user_endpoint else "")]
    others += [("colleague", name) for name in settings.colleague]
    for option, name in others:
        if name in settings.agents:
            problems.append(f"{option} and --a2a-endpoint both have an agent {name!r}; give that endpoint another name")
    if settings.colleague_auth_env and not settings.colleague:
        problems.append("colleague-auth-env is for an agent that may be asked: add --a2a-set colleague=NAME=URL")
    if settings.direct and is_gateway_itself(settings.direct, settings.endpoint or ""):
        problems.append("--a2a-direct is the gateway itself, like --a2a-endpoint; give its agent's address")
    if settings.record and settings.replay:
        problems.append("--a2a-record and --a2a-replay exclude each other: what is replayed is recorded already")
    if settings.tools == "mcp" or settings.mcp_bind or settings.mcp_url:
        from pytest_a2a_bench import tool_door

        problems += tool_door.problems(settings, bool(config.getoption("tx", None)))
    if settings.agent_model and importlib.util.find_spec("litellm") is None:
        problems.append(f"agent-model needs LiteLLM; run: {install_command('tau2')}")
    if settings.agents or settings.transfer:
        problems += several_problems(settings)
    problems += _output_problems(settings)
    if settings.ray is not None:
        problems += ray_problems(settings, config)
    for suite in registry.known():
        problems += suite.check_options(settings)
    if settings.noise and not settings.is_noise_pair and settings.agents:
        names = ", ".join(settings.agents)
        problems.append(f"--a2a-noise compares one agent with itself: give one endpoint without a name, not {names}")
    if settings.noise and settings.baseline:
        problems.append("--a2a-noise compares with the run's own plain trials: leave out --a2a-baseline")
    if settings.max_noise_loss is not None and not settings.noise:
        problems.append("--a2a-max-noise-loss needs noise: add --a2a-noise KIND=RATE, such as tool-error=0.1")
    if settings.max_drop is not None and not settings.baseline and len(settings.under_test) < 2:
        problems.append("--a2a-max-drop is measured from a baseline: add --a2a-baseline FILE")
    if settings.auto and not (settings.min_pass or settings.min_pass_k or settings.baseline):
        asked = "--a2a-min-pass RATE or --a2a-baseline FILE"
        problems.append(f"--a2a-trials auto needs a gate that can be decided: add {asked}")
    if settings.auto and settings.max_metric:
        problems.append(
            "max-metric and --a2a-trials auto exclude each other: the mean of a number is not decided early, and "
            "would be of the trials that had run by then; leave one of them out"
        )
    if settings.auto and any(split_tier(name)[0].endswith(BLAMELESS) for name in settings.min_pass):
        problems.append(f"floors of {BLAMELESS} trials are not decided early: leave out --a2a-trials auto")
    if settings.otel == "on" and not is_installed():
        problems.append(f"otel=on needs OpenTelemetry; run: {install_command('otel')}")
    # An agent of this machine cannot be reached from another.
    remote = [str(spec) for spec in config.getoption("tx", None) or () if _REMOTE_TX.search(str(spec))]
    endpoints = [*settings.agents.values(), settings.endpoint or ""]
    builtin = next((e for e in endpoints if e.startswith(BUILTIN_PREFIX)), "")
    if builtin and remote:
        problems.append(
            f"--a2a-endpoint={builtin} listens on this machine only, which --tx {remote[0]} "
            "cannot reach; start it with 'a2a-bench agent' on an address that every worker reaches and pass its URL"
        )
    return problems


def _output_problems(settings: Settings) -> Iterator[str]:
    """List the files that cannot be written, and the users' code that cannot be loaded, before anything is paid for."""
    for kind, name in named(settings.user_llm, settings.judge_llm):
        try:
            extensions.load(kind, name)
        except ConfigurationError as error:
            yield str(error)
    if extensions.names("observers"):
        from pytest_a2a_bench.trials.observers import asked_for  # few runs have observers of their own

        try:
            asked_for(settings)
        except ConfigurationError as error:
            yield str(error)
    for option, value in (("--a2a-html", settings.html), ("--a2a-markdown", settings.markdown)):
        if not value:
            continue
        path = Path(value)
        try:
            # Directories are made by the run; only obstacles are reported.
            above = next((p for p in path.absolute().parents if p.exists()), path)
            if path.is_dir():
                yield f"{option}={path}: it is a directory; give the name of a file"
            elif not above.is_dir():
                yield f"{option}={path}: {above} is no directory"
        except OSError as error:
            yield f"{option}={path}: {reason_of(error)}"


# -- options that several agents in one run exclude --


def several_problems(settings: Settings) -> Iterator[str]:
    """List the options that contradict each other, a line each."""
    names = ", ".join(settings.agents)
    if settings.transfer is not None:
        yield from _transfer_problems(settings, names)
    for option, value in (("--a2a-record", settings.record), ("--a2a-replay", settings.replay)):
        if value and len(settings.agents) > 1:
            yield f"{option} has the conversations of one agent, and there are several ({names}); give one endpoint"
    if settings.auto and len(settings.agents) > 1:
        yield f"--a2a-trials auto is about one agent, and there are several ({names}); give one endpoint, or a number"
    name, _ = split_named(settings.baseline or "")
    if name is not None and settings.agents and name not in settings.under_test:
        near = did_you_mean(name, settings.agents)
        yield f"--a2a-baseline {name}=...: no agent under test is called {name}; there is: {names}{near}"


def _transfer_problems(settings: Settings, names: str) -> Iterator[str]:
    if settings.transfer not in settings.agents:
        there = f"the endpoints are {names}" if names else "the endpoints have no names"
        there += did_you_mean(settings.transfer or "", settings.agents)
        yield (
            f"--a2a-set transfer={settings.transfer}: {there}; name both agents: "
            f"--a2a-endpoint a=URL --a2a-endpoint {settings.transfer}=URL"
        )
    elif len(settings.agents) < 2:
        yield f"--a2a-set transfer={settings.transfer}: there is no other agent that could transfer to it"
    if settings.tools == "mcp":
        yield (
            "transfer and --a2a-tools mcp exclude each other: an agent that calls tools by itself is in the "
            "middle of its turn when it transfers"
        )


# -- values of our options that pytest takes for paths of tests --
# pytest looks for its ini file before plugins are loaded and does not know their options then. A value that is a word
# of its own (``--a2a-results DIR``) and an existing path is taken for an argument: pytest searches from there, finds no
# ini file or another one, and runs other tests. So does each of xdist's workers, once the directory exists.

OPTION_PREFIX = "--a2a-"


def root_directory_problems(config: pytest.Config) -> list[str]:
    """Return one line for each value that makes pytest read another ini file, or would if the path were there."""
    # In the order in which pytest reads them.
    arguments = [*shlex.split(os.environ.get("PYTEST_ADDOPTS", "")), *map(str, config.invocation_params.args)]
    separate = list(_separate(arguments))
    if not separate:
        return []
    named = list(config.known_args_namespace.file_or_dir)
    right = shim.ini_file(config, named)
    if right is None:
        return []
    found = []
    for option, value in separate:
        # Asked of pytest itself: with this value among the places, which file would it read?
        other = shim.ini_file(config, [*named, str(_nearest(value, config.invocation_params.dir))])
        if other != right:
            found.append(
                f"{option} {value}: pytest takes the value for a place of tests and does not read {right}; "
                f"write it with an equals sign: {option}={value}"
            )
    return list(dict.fromkeys(found))


def _separate(arguments: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Yield our options whose value is a path of its own, and the value."""
    names = {f"{OPTION_PREFIX}{one.key}" for one in registry.every_setting().values() if one.locate is not None}
    names.add(f"{OPTION_PREFIX}config")
    for option, value in itertools.pairwise(arguments):
        if option in names and not value.startswith("-"):
            yield option, value


def _nearest(value: str, directory: Path) -> Path:
    """Return a path, or its nearest parent that is there: a directory of results is made by the run."""
    path = directory / value.split("::")[0]
    return next((p for p in (path, *path.parents) if p.exists()), directory)


# -- options that ``--a2a-ray`` needs or excludes --


def ray_problems(settings: Settings, config: pytest.Config) -> list[str]:
    """Describe the problems of the options, one line each."""
    if settings.ray is None:
        return []
    found = []
    if importlib.util.find_spec("ray") is None:
        found.append(f"--a2a-ray needs Ray; run: {install_command('ray')}")
    if not config.getoption("numprocesses", None):
        found.append("--a2a-ray needs to know how many workers to place: add -n N (pytest-xdist)")
    if settings.builtin:
        found.append(
            f"--a2a-endpoint=builtin:{settings.builtin} listens on this machine only, which a worker on a Ray cluster "
            "may not reach; start it with 'a2a-bench agent' on an address that every node reaches and pass its URL"
        )
    if settings.record:
        found.append("--a2a-record writes on each worker's own machine, where it stays; record without --a2a-ray")
    try:
        runtime_env(settings)
    except ValueError as error:
        found.append(f"--a2a-set ray-runtime-env={settings.ray_runtime_env}: {error}")
    return found


def runtime_env(settings: Settings) -> dict[str, Any]:
    """Return the value of ``ray-runtime-env``; raises ValueError if it cannot be read."""
    if settings.ray_runtime_env is None:
        return {}
    try:
        return read_json_object(Path(settings.ray_runtime_env).read_text(encoding="utf-8"))
    except OSError as error:
        raise ValueError(f"cannot be read: {reason_of(error)}") from None


# --- files that options name, read on the controller before anything runs and is paid for ---


def read_files(run: BenchRun, directory: Path) -> None:
    """Read baseline, quarantine, the last run's misses into the run; problems go into its plan.

    :param directory: the directory that relative names start from.
    """
    found = files.read(run.settings, directory, run.plan.results)
    run.services.baseline = found.baseline
    wrong: tuple[str, ...] = ()
    run.services.variables, unread = read_variables(run.settings)
    if run.settings.endpoint_source == "cli" and not run.settings.replay:
        # One that environment or table name matters once an item uses it, and is looked at then.
        given = {**run.services.variables, **os.environ}
        each = (run.settings.of_agent(name) for name in run.settings.agents or (None,))
        wrong = tuple(dict.fromkeys(p for settings in each for p in connection_problems(settings, given)))
    if run.settings.history_file:
        from pytest_a2a_bench.results import history  # few runs are added to one

        try:
            history.read(Path(run.settings.history_file))
        except ConfigurationError as error:
            wrong += (f"--a2a-history-file: {error}",)
    run.decide(
        quarantine=found.quarantine,
        missed=found.missed,
        missed_shard=found.missed_shard,
        problems=(*run.plan.problems, *found.problems, *wrong, *unread),
    )


def read_variables(settings: Settings) -> tuple[dict[str, str], tuple[str, ...]]:
    """Read the environment variables of ``env-file``.

    :return: the variables, and the problems of the file.
    """
    if settings.env_file is None:
        return {}, ()
    try:
        return read_env_file(Path(settings.env_file)), ()
    except ConfigurationError as error:
        return {}, (f"--a2a-set env-file={error}",)
