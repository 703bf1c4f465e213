"""The options of a pytest run: command line over environment over ini over default, resolved once into settings.

All values arrive as text and are read here, so that every wrong one can be reported, together and in one place,
and so that they can be sent to xdist's workers.
"""

from __future__ import annotations

import dataclasses
import importlib.util
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from pytest_a2a_bench import extensions, own_models
from pytest_a2a_bench.benchmarks import registry
from pytest_a2a_bench.benchmarks.suite import Suite
from pytest_a2a_bench.configuration import table
from pytest_a2a_bench.configuration.option import Option, describe_default
from pytest_a2a_bench.configuration.readers import AutoTrials, one_of, read_names
from pytest_a2a_bench.errors import A2ABenchError, ConfigurationError
from pytest_a2a_bench.nearest import did_you_mean
from pytest_a2a_bench.plugin.run.modules import CONFORMANCE_NAMES
from pytest_a2a_bench.plugin.run.standby import Row
from pytest_a2a_bench.redact import sanitise
from pytest_a2a_bench.secret import KNOWN
from pytest_a2a_bench.settings import BUILTIN_PREFIX, Settings, needs_tags
from pytest_a2a_bench.tracing import is_installed

# Ways by which xdist reaches other machines.
_REMOTE_TX = re.compile(r"(?:^|\*|//)(?:ssh|socket|vagrant_ssh)=")


@dataclass(frozen=True, slots=True)
class Resolution:
    """What the options came to.

    :param problems: one line for each wrong value; where there are any, the settings must not be used.
    :param asked: whether the command line or the ini file (not only the environment) mentions us.
    """

    settings: Settings
    problems: tuple[str, ...] = ()
    asked: bool = False


# --- declaring them ---------------------------------------------------------------------------------------------------


def declared() -> dict[str, Any]:
    """Return the core's options and those of the suites that come with us, as :mod:`.standby` declares them."""
    return {
        "core": [_row(option) for option in core_options()],
        "suites": {suite.name: [_row(option) for option in suite.options] for suite in registry.built_in()},
    }


def offered_rows(suites: Sequence[Suite]) -> list[tuple[str, list[Row]]]:
    """Register suites that a plugin or conftest offers, and return how each one's options are declared."""
    registry.register(suites)
    return [(suite.name, [_row(option) for option in suite.options]) for suite in suites]


def _row(option: Option) -> Row:
    return {
        "name": option.name,
        "cli": option.cli,
        "dest": option.dest,
        "metavar": option.metavar,
        "help": option.help,
        "default": describe_default(option, table.DEFAULTS),
        **({"flag": True} if option.flag else {}),
        **({"bare": option.bare} if option.bare else {}),
    }


def core_options() -> tuple[Option, ...]:
    """Return the core's options; what the known suites have decides what some of them take."""
    splits = registry.split_names()
    found = []
    for option in table.OPTIONS:
        if option.name == "split":
            option = dataclasses.replace(option, help=f"{option.help}: {', '.join(splits)}", read=one_of(*splits))
        elif option.name == "suites":
            option = dataclasses.replace(option, read=_read_suites)
        found.append(option)
    return tuple(found)


def every_option() -> tuple[Option, ...]:
    """Return the core's options and those of benchmarks, in the order of ``pytest --help``."""
    return (*core_options(), *(option for suite in registry.known() for option in suite.options))


def _read_suites(text: str) -> tuple[str, ...]:
    names = read_names(text)
    valid = registry.selectable_names(*CONFORMANCE_NAMES)
    if not names:
        raise ValueError(f"no suite is named; valid are: {', '.join(valid)}")
    unknown = [name for name in names if name not in valid]
    if unknown:
        near = did_you_mean(unknown, valid)
        raise ValueError(f"unknown suite {', '.join(map(repr, unknown))}; valid are: {', '.join(valid)}{near}")
    return names


# --- reading them -----------------------------------------------------------------------------------------------------


def resolve(config: pytest.Config, environ: Mapping[str, str]) -> Resolution:
    """Read all options of a run.

    :param environ: the environment, ``os.environ`` outside tests.
    """
    values: dict[str, Any] = {}
    problems: list[str] = []
    sources: dict[str, str] = {}
    options = every_option()
    for option in options:
        source, text, where = _find(option, config, environ, problems)
        if source == "none":
            continue
        sources[option.name] = source
        try:
            values[option.name] = option.read(text)
        except ValueError as error:
            problems.append(f"{where}: {error}")
            continue
        # Result files are shown as they were named, relative to where pytest was started.
        # Results stay as they were named, for messages.
        if option.locate is not None and (source == "ini" or option.name != "results"):
            base = config.rootpath if source == "ini" else config.invocation_params.dir.absolute()
            values[option.name] = option.locate(values[option.name], base)
    if "endpoint" in values:
        values["endpoint_source"] = sources["endpoint"]
        if isinstance(values["endpoint"], dict):
            values["agents"] = values["endpoint"]
            values["endpoint"] = next(iter(values["agents"].values()))
    if "replay" in values:
        values |= _recorded_endpoint(values, sources["replay"], problems)
    settings = _with_implied(_settings(values, options))
    problems += _contradictions(settings, config)
    # An endpoint in the environment alone asks for nothing yet.
    asked = any(source in ("cli", "ini") for source in sources.values()) or "suites" in sources
    return Resolution(settings, tuple(problems), asked)


def _settings(values: dict[str, Any], options: Iterable[Option]) -> Settings:
    core = {name: value for name, value in values.items() if name in table.DEFAULTS}
    own = {o.name: values.get(o.name, o.default) for o in options if o.name not in table.DEFAULTS}
    return Settings(**core, benchmark_options=own)


def results_directory(settings: Settings, config: pytest.Config) -> Path:
    """Return where result files go: relative to the directory that pytest was started in, unless ini says so."""
    return (config.invocation_params.dir / settings.results).absolute()


def usage_text(problems: Iterable[str]) -> str:
    """Put several problems into one usage error's text, without secrets and harmless."""
    return sanitise(KNOWN.hide("; ".join(problems)))


def _find(
    option: Option, config: pytest.Config, environ: Mapping[str, str], problems: list[str]
) -> tuple[str, str, str]:
    given = config.getoption(option.dest, None)
    if given is not None:
        # Several are joined: names, and endpoints, may stand between white space too.
        return "cli", "\n".join(given) if isinstance(given, list) else str(given), option.cli
    # An empty variable counts as unset.
    if environ.get(option.env):
        return "env", environ[option.env], f"environment variable {option.env}"
    try:
        ini = config.getini(option.ini)
    except (TypeError, ValueError) as error:  # a native TOML value of another type
        problems.append(f"ini {option.ini}: {error}; write it as a string")
        ini = None
    if ini:
        return "ini", str(ini), f"ini {option.ini}"
    return "none", "", ""


def _recorded_endpoint(values: Mapping[str, Any], source: str, problems: list[str]) -> dict[str, Any]:
    """Take the agent from the cassettes, where none is named."""
    # Options are resolved in every pytest run of whoever has this plugin installed; cassettes are read in few.
    from pytest_a2a_bench.cassettes import library

    try:
        recorded = library.read_endpoint(Path(values["replay"]))
    except A2ABenchError as error:
        problems.append(f"--a2a-replay: {error}")
        return {}
    return {} if "endpoint" in values else {"endpoint": recorded, "endpoint_source": source}


def _with_implied(settings: Settings) -> Settings:
    # Without the key these agents could answer nothing.
    if not settings.agents and needs_tags(settings.endpoint):
        settings = dataclasses.replace(settings, tag_trials=True)
    if isinstance(settings.trials, AutoTrials):
        settings = dataclasses.replace(settings, trials=int(settings.trials), auto=True)
    return settings


def _contradictions(settings: Settings, config: pytest.Config) -> list[str]:
    problems = []
    if settings.user == "llm" and not settings.user_llm:
        problems.append("--a2a-user=llm needs a model: add --a2a-user-llm MODEL (any LiteLLM name)")
    if settings.user_auth_env and not settings.user_endpoint:
        problems.append("--a2a-user-auth-env is for an agent that plays the user: add --a2a-user a2a:URL")
    others = [("--a2a-user", "user" if settings.user_endpoint else "")]
    others += [("--a2a-colleague", name) for name in settings.colleague]
    for option, name in others:
        if name in settings.agents:
            problems.append(f"{option} and --a2a-endpoint both have an agent {name!r}; give that endpoint another name")
    if settings.colleague_auth_env and not settings.colleague:
        problems.append("--a2a-colleague-auth-env is for an agent that may be asked: add --a2a-colleague NAME=URL")
    if settings.record and settings.replay:
        problems.append("--a2a-record and --a2a-replay exclude each other: what is replayed is recorded already")
    if settings.tools == "mcp" or settings.mcp_bind or settings.mcp_url:
        from pytest_a2a_bench.tool_door import check  # few runs have this option, and all of them this module

        problems += check.problems(settings, bool(config.getoption("tx", None)))
    if settings.agent_model and importlib.util.find_spec("litellm") is None:
        problems.append("--a2a-agent-model needs LiteLLM; run: pip install 'pytest-a2a-bench[tau2]'")
    if settings.agents or settings.transfer:
        from pytest_a2a_bench.plugin.run import several  # few runs have more agents than one

        problems += several.problems(settings)
    problems += _output_problems(settings)
    if settings.ray is not None:
        from pytest_a2a_bench.plugin.run import ray_options  # few runs have this option

        problems += ray_options.problems(settings, config)
    for suite in registry.known():
        problems += suite.check_options(settings, bool(config.getoption("collectonly", False)))
    if settings.max_drop is not None and not settings.baseline and len(settings.under_test) < 2:
        problems.append("--a2a-max-drop is measured from a baseline: add --a2a-baseline FILE (a2a-bench promote)")
    if settings.auto and not (settings.min_pass or settings.min_pass_k or settings.baseline):
        asked = "--a2a-min-pass RATE or --a2a-baseline FILE"
        problems.append(f"--a2a-trials auto needs a gate that can be decided: add {asked}")
    if settings.auto and settings.max_metric:
        problems.append(
            "--a2a-max-metric and --a2a-trials auto exclude each other: the mean of a number is not decided early, and "
            "would be of the trials that had run by then; leave one of them out"
        )
    if settings.otel == "on" and not is_installed():
        problems.append("--a2a-otel=on needs OpenTelemetry; run: pip install 'pytest-a2a-bench[otel]'")
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


def _files_written(settings: Settings) -> Iterator[tuple[str, str | None]]:
    yield from (("--a2a-html", settings.html), ("--a2a-markdown", settings.markdown))
    yield from ((f"--a2a-report {name}", path) for name, path in settings.report.items())


def _output_problems(settings: Settings) -> Iterator[str]:
    """Say which files cannot be written, and what of others cannot be loaded, before anything is paid for."""
    for kind, name in (
        *(("reporters", name) for name in settings.report),
        *own_models.named(settings.user_llm, settings.judge_llm),
    ):
        try:
            extensions.load(kind, name)
        except ConfigurationError as error:
            yield str(error)
    for option, value in _files_written(settings):
        if not value:
            continue
        path = Path(value)
        try:
            # Directories are made by the run; only what stands in the way is told.
            above = next((p for p in path.absolute().parents if p.exists()), path)
            is_folder = option == "--a2a-html" and value.endswith("/")
            if is_folder and path.exists() and not path.is_dir():
                yield f"{option}={value}: it is a file; leave out the slash, or name another directory"
            elif path.is_dir() and not is_folder:
                also = ", or end with a slash for a page with its transcripts in files beside it" * (
                    option == "--a2a-html"
                )
                yield f"{option}={path}: it is a directory; give the name of a file{also}"
            elif not above.is_dir():
                yield f"{option}={path}: {above} is no directory"
        except OSError as error:
            yield f"{option}={path}: {error.strerror}"
