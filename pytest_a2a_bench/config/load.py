"""Load settings: command line over environment over the table ``[tool.a2a-bench]`` over defaults; and the names by
which users of each door set what a message advises, as messages are written with pytest's options.
"""

from __future__ import annotations

import contextlib
import dataclasses
import itertools
import re
import tomllib
from collections.abc import Callable, Collection, Iterator, Mapping, MutableMapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from pytest_a2a_bench.config.setting import Setting, settings_of
from pytest_a2a_bench.config.settings import AUTH_ENV, NOISY, PLAIN, Settings, with_endpoint
from pytest_a2a_bench.config.values import AutoTrials
from pytest_a2a_bench.errors import A2ABenchError, ConfigurationError
from pytest_a2a_bench.text import did_you_mean, nearest, refusing

CORE = settings_of(Settings)
"""The settings that do not belong to a benchmark, by name."""

SECTION = "a2a-bench"
"""The table's name in ``[tool]``."""


@dataclass(frozen=True, slots=True)
class Table:
    """The settings of a TOML file.

    :param path: the file; relative paths among the values start from its directory. None for no file.
    """

    path: Path | None = None
    values: Mapping[str, Any] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """The file as messages name it."""
        return self.path.name if self.path is not None else "no file"


@dataclass(frozen=True, slots=True)
class Source:
    """Where the value of a setting came from.

    :param name: the option, the variable, or the file with its key.
    :param base: the directory that relative paths start from.
    """

    kind: Literal["cli", "env", "table"]
    name: str
    base: Path


@dataclass(frozen=True, slots=True)
class Loaded:
    """Settings with the sources of those that are not defaults.

    :param problems: one line for each wrong name or value; where there are any, the settings must not be used.
    """

    settings: Settings
    sources: Mapping[str, Source] = field(default_factory=dict)
    problems: tuple[str, ...] = ()

    def source(self, name: str) -> str:
        """Return the kind of a setting's source: ``cli``, ``env``, ``table``, or ``none`` for a default."""
        return self.sources[name].kind if name in self.sources else "none"


def read_table(directory: Path, named: Path | None = None) -> Table:
    """Return the table of ``pyproject.toml`` in a directory, or of a file that ``--a2a-config`` names.

    In a file of another name, the settings may also be at the top level.

    :raises ConfigurationError: if the file cannot be read, or has no table of settings.
    """
    path = directory / "pyproject.toml" if named is None else named
    try:
        data = tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        if named is None:
            return Table()
        raise ConfigurationError(f"{path}: no such file") from None
    except (OSError, ValueError, RecursionError) as error:
        raise ConfigurationError(f"{path}: not a readable TOML file ({error})") from None
    tool = data.get("tool")
    found = tool.get(SECTION) if isinstance(tool, dict) else None
    if found is None and named is not None and path.name != "pyproject.toml":
        found = data
    if found is None:
        if near := _misspelt_table(data):
            raise ConfigurationError(f"{path}: [{near}] is no table of settings; write [tool.{SECTION}]")
        return Table()
    if not isinstance(found, dict):
        raise ConfigurationError(f"{path}: [tool.{SECTION}] is not a table")
    return Table(path, found)


def _misspelt_table(data: Mapping[str, Any]) -> str:
    """Return the name of a table that is nearly ours, whose gates would be none; of other programs' tables nothing."""
    tool = data.get("tool")
    for name in tool if isinstance(tool, dict) else ():
        if nearest(SECTION, [re.sub("^pytest[-_]", "", name)], 1, _TABLE_LIKENESS):
            return f"tool.{name}"
    return SECTION if SECTION in data else ""


def load(
    *,
    options: Mapping[str, str],
    assignments: Sequence[str],
    environ: Mapping[str, str],
    table: Table,
    directory: Path,
    known: Mapping[str, Setting],
    prefix: str = "--a2a-",
) -> Loaded:
    """Read and validate every setting that some source names.

    :param options: text of options of the command line by the settings' names; they go before assignments.
    :param assignments: ``KEY=VALUE`` of ``--a2a-set``; the last one for a key wins, unless its value
        is a collection.
    :param directory: the directory that relative paths of the command line and the environment start from.
    :param known: every setting by name, with those of benchmarks.
    :param prefix: precedes the names of options, for messages.
    """
    found: dict[str, tuple[Any, Source]] = {}
    problems: list[str] = []
    for key, value in table.values.items():
        where = f"{table.name}: {key}"
        if twice := found.get(key.strip().replace("-", "_")):
            problems.append(f"{where}: it is also given as {twice[1].name.removeprefix(f'{table.name}: ')}; remove one")
            continue
        _put(found, problems, known, key, value, Source("table", where, (table.path or directory).parent))
    for name, setting in known.items():
        if environ.get(setting.variable):  # an empty variable counts as unset
            found[name] = environ[setting.variable], Source("env", setting.variable, directory)
    problems += misspelt(environ, known)
    for assignment in assignments:
        key, equals, value = assignment.partition("=")
        source = Source("cli", f"{prefix}set {key}", directory)
        if not equals or not key.strip():
            problems.append(f"{prefix}set {key or assignment}: expected KEY=VALUE, such as {prefix}set max-steps=50")
        else:
            _put(found, problems, known, key, value, source)
    for name, value in options.items():
        found[name] = value, Source("cli", f"{prefix}{known[name].key}", directory)
    values: dict[str, Any] = {}
    for name, (value, source) in found.items():
        try:
            values[name] = _value(known[name], value, source)
        except ValueError as error:
            problems.append(f"{source.name}: {error}")
    sources = {name: source for name, (_, source) in found.items()}
    return Loaded(_settings(values, sources, known), sources, tuple(problems))


def misspelt(environ: Mapping[str, str], known: Mapping[str, Setting]) -> list[str]:
    """Return a line for each variable whose name is nearly that of a setting; other names are other programs'."""
    valid = [setting.variable for setting in known.values()]
    # Other names that settings have as their defaults, such as A2A_OAUTH_CLIENT_ID.
    taken = {*valid, AUTH_ENV, "A2A_CONFIG", *(str(setting.default) for setting in known.values())}
    found = []
    for name in environ:
        if name.startswith("A2A_") and name not in taken and environ[name]:
            near = nearest(name.removeprefix("A2A_"), [one.removeprefix("A2A_") for one in valid], 1, _LIKENESS)
            if near and abs(len(near[0]) + len("A2A_") - len(name)) <= _LENGTHS:
                found.append(f"{name}: there is no such setting; did you mean 'A2A_{near[0]}'?")
    return found


_LIKENESS = 0.8
"""Least likeness (difflib's ratio) of a misspelt variable to the right one; two letters of six may be exchanged."""
_TABLE_LIKENESS = 0.85
"""That of the name of a table: ``a2a_bench`` is ours, and ``asv-bench`` may be another program's."""
_LENGTHS = 2
"""Most letters that a misspelt variable has more or less; ``A2A_ADK_CONCURRENCY`` is another program's own name."""


def _put(
    found: dict[str, tuple[Any, Source]],
    problems: list[str],
    known: Mapping[str, Setting],
    key: str,
    value: Any,
    source: Source,
) -> None:
    name = key.strip().replace("-", "_")
    if name in known:
        before = found.get(name)
        if before is not None and before[1].kind == source.kind and isinstance(known[name].default, dict | tuple):
            value = f"{before[0]}\n{value}"  # members of a collection, each in an assignment of its own
        found[name] = value, source
    else:
        # The value is not shown: it may be a token.
        near = did_you_mean(name.replace("_", "-"), [setting.key for setting in known.values()])
        if name.endswith("token"):
            near = f"; a token belongs into the environment variable {AUTH_ENV}, or into one that auth-env names"
        problems.append(f"{source.name}: there is no such setting{near}")


def _value(setting: Setting, value: Any, source: Source) -> Any:
    read = setting.read(value)
    # Messages name the results directory as it was given, relative to where pytest was started.
    if setting.locate is None or read is None or (setting.name == "results" and source.kind != "table"):
        return read
    return setting.locate(read, source.base)


def _settings(values: Mapping[str, Any], sources: Mapping[str, Source], known: Mapping[str, Setting]) -> Settings:
    """Return the settings, with the fields that follow from others."""
    core = {name: value for name, value in values.items() if name in CORE}
    own = {name: values.get(name, setting.default) for name, setting in known.items() if name not in CORE}
    if "endpoint" in core:
        core["endpoint_source"] = sources["endpoint"].kind
        if isinstance(core["endpoint"], dict):
            core["agents"] = core["endpoint"]
            core["endpoint"] = next(iter(core["agents"].values()))
    if core.get("noise") and core.get("endpoint") and "agents" not in core:
        core["agents"] = {PLAIN: core["endpoint"], NOISY: core["endpoint"]}
    if "acts" in core:
        core["acts_source"] = sources["acts"].kind
    settings = Settings(**core, benchmark_options=own)
    if not settings.agents or settings.is_noise_pair:
        settings = with_endpoint(settings, settings.endpoint)
    if isinstance(settings.trials, AutoTrials):
        settings = dataclasses.replace(settings, trials=int(settings.trials), auto=True)
    return settings


def not_default(loaded: Loaded, known: Mapping[str, Setting] = CORE) -> Iterator[tuple[Setting, Any, Source]]:
    """Yield each setting that some source names, with its value and its source, in the order of the reference."""
    for name, setting in known.items():
        if name in loaded.sources:
            if name in CORE:
                named = loaded.settings.agents if name == "endpoint" else None
                value = named or getattr(loaded.settings, name)
            else:
                value = loaded.settings.benchmark_options[name]
            yield setting, value, loaded.sources[name]


# --- the file that ``env-file`` names ---
# Lines are NAME=VALUE, with "export" before and quotes around the value where wanted; "#" begins a comment. No other
# ``.env`` is ever read, and nothing is expanded in values.

_LINE = re.compile(r"(?:export\s+)?([A-Za-z_][A-Za-z0-9_]*)\s*=\s*(.*)", re.ASCII)
_VALUES = (
    re.compile(r"'([^']*)'\s*(?:#.*)?"),
    re.compile(r'"((?:[^"\\]|\\.)*)"\s*(?:#.*)?'),
    re.compile(r"([^'\"].*?)??(?:(?:^|\s+)#.*)?"),
)
_ESCAPES = {"n": "\n", "t": "\t", "r": "\r"}


def read_env_file(path: Path) -> dict[str, str]:
    """Return the variables of a file.

    :raises ConfigurationError: if it cannot be read, or a line of it is not ``NAME=VALUE``; no value is repeated.
    """
    with refusing(f"{path}"):
        text = path.read_text(encoding="utf-8-sig")
    found: dict[str, str] = {}
    for number, line in enumerate(text.splitlines(), 1):
        if line.strip() and not line.lstrip().startswith("#"):
            name, value = _read_line(line.strip(), f"{path}, line {number}")
            found[name] = value
    return found


def _read_line(line: str, where: str) -> tuple[str, str]:
    match = _LINE.fullmatch(line)
    if match is None or "\0" in line:
        raise ConfigurationError(f"{where}: expected NAME=VALUE, as OPENAI_API_KEY=...")
    kind = {"'": 0, '"': 1}.get(match[2][:1], 2)
    value = _VALUES[kind].fullmatch(match[2])
    if value is None:
        raise ConfigurationError(f"{where}: the quote around the value of {match[1]} is not closed, or text follows it")
    plain = value[1] or ""
    return match[1], re.sub(r"\\(.)", lambda m: _ESCAPES.get(m[1], m[1]), plain) if kind == 1 else plain


def lend_variables(variables: Mapping[str, str], environ: MutableMapping[str, str]) -> Callable[[], None]:
    """Set variables that the environment does not have, and return a function that removes them again."""
    lent = {name: value for name, value in variables.items() if name not in environ}
    environ.update(lent)

    def take_back() -> None:
        for name, value in lent.items():
            if environ.get(name) == value:
                del environ[name]

    return take_back


_KEYS = tuple(setting.key for setting in CORE.values())
_OF_AGENT = frozenset(itertools.takewhile(lambda key: key != "suite", _KEYS))
# After a blank only a placeholder or a kind of value is one: other words go on with the sentence.
_VALUE = r"(?P<value>=[^\s,;()]+| (?:[A-Z][A-Z|:/.]*\b|(?:llm|a2a|builtin):\w+))?"
_NAMED = re.compile(rf"--a2a-(?P<set>set )?(?P<key>[a-z](?:[a-z0-9-]*[a-z0-9])?)(?![\w-]){_VALUE}")

_ASIDE = re.compile(r" \([^()]*--a2a-[^()]*\)")


@dataclass(frozen=True)
class Door:
    """A way to use the package.

    :param name: takes a match of a setting's name in a message, and returns what a user writes here.
    :param has: whether users set a setting here, by its key; advice in brackets about others is left out.
    """

    name: Callable[[re.Match[str]], str]
    has: Callable[[str], bool] = lambda key: True

    def words(self, text: str) -> str:
        """Return a message with the names that this door has for settings."""
        kept = _ASIDE.sub(
            lambda aside: aside[0] if all(self.has(m["key"]) for m in _NAMED.finditer(aside[0])) else "", text
        )
        return _NAMED.sub(self.name, kept)

    @contextlib.contextmanager
    def errors(self) -> Iterator[None]:
        """Let errors that leave the block name settings so."""
        try:
            yield
        except A2ABenchError as error:
            error.args = tuple(self.words(arg) if isinstance(arg, str) else arg for arg in error.args)
            raise


def of_command(options: Collection[str]) -> Door:
    """Return the door of a command: its own options, and ``--set KEY=VALUE`` for other settings of the agent.

    What else a message names is an option of pytest, whose runs the command is about.

    :param options: the command's, such as ``--scenarios``.
    """
    return _prefixed("--agent-a2a-" if "--agent-a2a-set" in options else "--", options)


def of_tau2(prefix: str, names: Collection[str]) -> Door:
    """Return the door of an agent in tau2's runner.

    :param prefix: of its options, such as ``--agent-a2a-``.
    :param names: of the settings that have an option.
    """
    return _prefixed(prefix, [f"{prefix}{name.replace('_', '-')}" for name in names])


def _prefixed(prefix: str, options: Collection[str]) -> Door:
    def name(match: re.Match[str]) -> str:
        key, value = match["key"], match["value"] or ""
        option = f"{prefix}{key.removeprefix('conformance-')}"
        if match["set"]:
            return f"{prefix}set {key}{value}"
        if option in options or key == "config":
            return f"{option}{value}"
        if key not in _OF_AGENT:
            return match[0]
        return f"{prefix}set {key}={value[1:]}" if value else key

    return Door(name)


def _naming(names: Mapping[str, str], otherwise: str) -> Door:
    """Return a door by its names, and what it says of a setting that has none here."""

    def name(match: re.Match[str]) -> str:
        value = match["value"] or ""
        return f"{names.get(match['key']) or otherwise.format(key=match['key'])}{' ' if value else ''}{value[1:]}"

    return Door(name, lambda key: key in names)


def _argument(match: re.Match[str]) -> str:
    value = match["value"] or ""
    return f"{match['key'].replace('-', '_')}{'=' if value else ''}{value[1:]}"


SCRIPT = Door(_argument)
"""Scripts that use tau2 as a library: settings are keyword arguments."""

_MEMBERS = (
    *("seed", "split", "max_steps", "max_errors", "concurrency", "timeout", "dialect", "tools", "tag_trials"),
    *("history", "protocol", "transport", "streaming", "user_retry", "retrieval", "strict", "wait", "redeliver"),
)
IN_REQUEST: Mapping[str, str] = {
    **{name.replace("_", "-"): name for name in _MEMBERS},
    **{f"crm-{name.replace('_', '-')}": name for name in ("scoring", "aided", "drift", "rot", "max_turns")},
    "crm-max-user-turns": "max_user_turns",
    "trials": "num_trials",
    "user": "user_llm",
    "auth-env": "agent_token",
    "shard": "shard_index",
}
"""Settings that callers of an assessor have -> members of their requests."""

OF_OPERATOR: Mapping[str, str] = {
    **{name: f"setting {name}" for name in ("tau2-data", "crm-data", "crm-org", "judge-llm", "mcp-bind", "mcp-url")},
    "results": "--results",
    "run-timeout": "--max-seconds",
    "trial-timeout": "--max-seconds",
}
"""Settings that the operator of an assessor has -> options and settings of ``a2a-bench assess``."""

REQUEST = _naming(
    {
        "resume": "the same request",
        **{key: f"the assessor's {option}" for key, option in OF_OPERATOR.items()},
        **{key: f"the request's {member}" for key, member in IN_REQUEST.items()},
    },
    "{key} (no setting of an assessor)",
)
"""Requests to an assessor."""

OF_TOOL: Mapping[str, str] = {"max-steps": "max_steps", "trials": "trials", "auth-env": "auth_token"}
"""Settings that the tools of the ADK agent take -> their arguments."""

OF_ADK: Mapping[str, str] = {
    **{name: name for name in ("crm-data", "crm-org", "judge-llm", "timeout", "concurrency", "results", "tag-trials")},
    "user": "user-llm",
}
"""Settings that the operator of the ADK agent has -> options of ``a2a-bench adk``, each with a variable."""

ADK = _naming(
    {
        "resume": "run_evaluation",
        **{key: f"A2A_ADK_{name.upper().replace('-', '_')}" for key, name in OF_ADK.items()},
        **{key: f"{argument} of run_evaluation" for key, argument in OF_TOOL.items()},
    },
    "{key} (no setting of this agent)",
)
"""People and agents that talk to the ADK agent."""
