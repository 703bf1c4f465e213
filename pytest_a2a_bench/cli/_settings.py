"""Parts that commands share: their settings, the environment and the table ``[tool.a2a-bench]``, as in pytest, and
``--set``; results directories, by a name, an fsspec URL, or as a benchmark's own tools have written them; built-in
agents, ``builtin:NAME`` in the place of a URL; and the report of ``a2a-bench check``.
"""

from __future__ import annotations

import atexit
import contextlib
import gc
import math
import os
import shutil
import signal
import sys
import tempfile
import threading
from argparse import SUPPRESS, ArgumentParser, ArgumentTypeError, Namespace
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any, NoReturn

from pytest_a2a_bench.a2a.config import ClientConfig, connection_problems
from pytest_a2a_bench.agents.options import start_builtin
from pytest_a2a_bench.benchmarks import registry
from pytest_a2a_bench.config.load import CORE, Loaded, Table, read_table
from pytest_a2a_bench.config.settings import BUILTIN_PREFIX, Settings
from pytest_a2a_bench.config.values import read_endpoint
from pytest_a2a_bench.errors import A2ABenchError, ConfigurationError, Terminated
from pytest_a2a_bench.redact import KNOWN, in_environment
from pytest_a2a_bench.results import manifest, remote
from pytest_a2a_bench.results.store import Store
from pytest_a2a_bench.text import refusing

if TYPE_CHECKING:
    from pytest_a2a_bench.conformance.report import Report

INCOMPLETE = 2
"""Exit code of commands that leave out a trial whose file cannot be read."""

FORGET: list[Callable[[], None]] = []
"""Functions that end the hiding of a command's secrets, to be called when the command has ended."""


def add_arguments(
    parser: ArgumentParser,
    names: Iterable[str] = (),
    *,
    prefix: str = "--",
    dest: str = "",
    about: str = "",
    shown: bool = True,
) -> None:
    """Declare ``--config`` and ``--set``, and an option for each of some settings.

    :param names: the settings that have an option of their own.
    :param prefix: precedes the names of the options.
    :param dest: precedes the names of the namespace's attributes.
    :param about: the description of the group.
    :param shown: whether ``--help`` lists the options, or the description alone.
    """
    group = parser.add_argument_group("settings", about or "As in pytest: A2A_* variables and [tool.a2a-bench]")
    for name in names:
        setting = CORE[name]
        text = setting.help.replace("%", "%%")
        # A switch may stand alone.
        bare: dict[str, Any] = {"nargs": "?", "const": "on"} if isinstance(setting.default, bool) else {}
        option = f"{prefix}{setting.key.removeprefix('conformance-')}"
        text = text if shown else SUPPRESS
        group.add_argument(option, dest=f"{dest}{name}", metavar=setting.metavar, help=text, **bare)
    text = "Set any setting; repeatable" if shown else SUPPRESS
    group.add_argument(f"{prefix}set", dest=f"{dest}set", action="append", metavar="KEY=VALUE", help=text)
    text = "TOML file of settings (pyproject.toml)" if shown else SUPPRESS
    group.add_argument(f"{prefix}config", dest=f"{dest}config", metavar="FILE", help=text)


def load_settings(
    namespace: Namespace,
    environ: Mapping[str, str] = os.environ,
    names: Iterable[str] = (),
    *,
    prefix: str = "--",
    dest: str = "",
    own_table: bool = True,
) -> Loaded:
    """Load the settings of a command.

    :param own_table: whether the table is about this agent, too; a file that ``--config`` names always is.
    :raises ConfigurationError: if the table cannot be read.
    """
    given = {name: getattr(namespace, f"{dest}{name}") for name in names}
    config = getattr(namespace, f"{dest}config")
    named = config or (environ.get("A2A_CONFIG") if own_table else None)
    loaded = registry.load_settings(
        options={name: value for name, value in given.items() if value is not None},
        assignments=getattr(namespace, f"{dest}set") or (),
        environ=environ,
        table=read_table(Path.cwd(), Path(named) if named else None) if named or own_table else Table(),
        directory=Path.cwd(),
        prefix=prefix,
    )
    # No output of the command shows them.
    secrets = [*in_environment(environ, *loaded.settings.secret_variables), *loaded.settings.secrets]
    FORGET.append(KNOWN.remember(secrets))
    return loaded


def checked(loaded: Loaded) -> Settings:
    """Return loaded settings; raises ConfigurationError naming every wrong name and value."""
    if loaded.problems:
        raise ConfigurationError(*loaded.problems)
    return loaded.settings


def read_settings(namespace: Namespace, endpoint: str, environ: Mapping[str, str] = os.environ) -> Settings:
    """Return the settings of a command that talks to an agent.

    :raises ConfigurationError: naming everything that is wrong.
    """
    loaded = load_settings(namespace, environ)
    return for_endpoint(loaded, endpoint, environ)


def for_endpoint(loaded: Loaded, endpoint: str, environ: Mapping[str, str]) -> Settings:
    """Return settings for the agent that a command names in place of the configured one.

    :raises ConfigurationError: naming everything that is wrong.
    """
    settings = replace(loaded.settings, endpoint=endpoint, agents={})
    problems = [*loaded.problems, *connection_problems(settings, environ)]
    if problems:
        raise ConfigurationError(*problems)
    return settings


def read_config(namespace: Namespace, endpoint: str, environ: Mapping[str, str] = os.environ) -> ClientConfig:
    """Return how to reach an agent; raises ConfigurationError naming everything that is wrong."""
    return ClientConfig.from_settings(read_settings(namespace, endpoint, environ), environ)


def moved_places(loaded: Loaded, stored: Mapping[str, Any]) -> dict[str, Any]:
    """Return the benchmarks' settings of a stored run, with the paths of data that are set now.

    :param stored: the run's settings, as its run.json has them.
    """
    own = {setting.name for suite in registry.known() for setting in suite.options}
    places = {setting.name for setting in registry.places() if setting.name in loaded.sources}
    moved = {name: loaded.settings.benchmark_options[name] for name in places}
    return {name: value for name, value in stored.items() if name in own} | moved


def results_directory(text: str) -> Path:
    """Return a results directory; one at a URL is copied here, and new files are copied back.

    :raises ArgumentTypeError: if the URL or the file cannot be read.
    """
    try:
        return imported(remote.located(text))
    except A2ABenchError as error:
        raise ArgumentTypeError(str(error)) from None


def imported(path: Path) -> Path:
    """Return a results directory as it is; a run that a benchmark's own tools have written is read into a new one.

    :raises ConfigurationError: if it is such a run, and cannot be read.
    """
    if (path / manifest.NAME).exists() or not path.exists():
        return path
    for suite in registry.known():
        found = import_module(suite.importer).IMPORT(path) if suite.importer else None
        if found is not None:
            directory = Path(tempfile.mkdtemp(prefix="a2a-imported-"))
            atexit.register(shutil.rmtree, directory, ignore_errors=True)
            store = Store(directory)
            store.prepare()
            for result in found.results:
                store.write(result, sync=False)
            found.manifest.write(directory)
            return directory
    return path


def configured_results(namespace: Namespace) -> Path:
    """Return the results directory of the settings, for commands to which none is given.

    :raises ConfigurationError: if it is at a URL that cannot be read.
    """
    return remote.located(load_settings(namespace).settings.results)


@contextlib.contextmanager
def terminable() -> Iterator[None]:
    """Let SIGTERM do as Ctrl-C does: end the processes that were started, and remove the tasks made on the agent."""

    def stop(number: int, frame: FrameType | None) -> NoReturn:
        # What is garbage now is the system's: the interpreter would look through all of it at its end.
        gc.freeze()
        raise Terminated

    # Python lets only the main thread set handlers, and tests run this in others.
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGTERM, stop)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


@contextlib.contextmanager
def served(endpoint: str) -> Iterator[str]:
    """Yield an agent's URL; a built-in one runs until this is left.

    :raises ConfigurationError: if there is no such built-in agent, or it does not start.
    """
    if not endpoint.startswith(BUILTIN_PREFIX):
        with terminable():
            yield endpoint
        return
    try:
        read_endpoint(endpoint)
    except ValueError as error:
        raise ConfigurationError(str(error)) from error
    with terminable(), start_builtin(endpoint) as agent:
        yield agent.url


_BOUNDS: Mapping[str, tuple[Callable[[float], bool], str]] = {
    "timeout": (lambda n: 0 < n < math.inf, "give a number of seconds above 0"),
    "concurrency": (lambda n: n >= 1, "give a whole number of 1 or more"),
    "count": (lambda n: n >= 0, "give a whole number, 0 for no end"),
    "status": (lambda n: 200 <= n <= 599, "give a status of HTTP from 200 to 599"),
    "delay": (lambda n: 0 <= n < math.inf, "give a number of seconds"),
}


def check_numbers(namespace: Namespace, *names: str) -> None:
    """Check the numbers of some options; raises ConfigurationError naming each that is out of bounds."""
    wrong = []
    for name in names:
        value = getattr(namespace, name)
        is_good, advice = _BOUNDS[name]
        if not is_good(value):
            wrong.append(f"--{name} is {value}; {advice}")
    if wrong:
        raise ConfigurationError(*wrong)


def check_output(path: Path, option: str = "-o") -> None:
    """Check before a run that its report can be written; raises ConfigurationError if it cannot."""
    # The nearest directory that exists, since the missing ones below it are made.
    above = next((folder for folder in path.absolute().parents if folder.exists()), path)
    if path.is_dir() or not above.is_dir() or not os.access(path if path.exists() else above, os.W_OK):
        raise ConfigurationError(f"{option} {path}: cannot be written; name a file in a directory that is yours")


def write_report(path: Path, text: str, option: str = "-o") -> None:
    """Write a report without secrets, with the directories that it needs.

    :param option: that named the file.
    :raises ConfigurationError: if it cannot be written.
    """
    with refusing(f"{option} {path}: cannot be written"):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(KNOWN.hide(text), encoding="utf-8")


def deliver(namespace: Namespace, report: Report) -> None:
    """Print a report, or write it to the file of ``-o``."""
    from pytest_a2a_bench.config.load import of_command  # other commands need none of these
    from pytest_a2a_bench.reports.findings import render

    text = of_command(namespace.options).words(render(report, namespace.format))
    if namespace.output:
        write_report(Path(namespace.output), text)
    else:
        sys.stdout.write(text)
