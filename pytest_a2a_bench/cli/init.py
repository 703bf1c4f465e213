"""``a2a-bench init [URL]``: from an agent to a gated merge: call it, judge it shortly, write its project's files.

Files that are there already stay as they are, so that it may be run again. Exits with 1 where the agent cannot be met;
nothing is written then (``--offline`` writes without meeting it).
"""

from __future__ import annotations

import contextlib
import itertools
import os
import shlex
import subprocess
import sys
from argparse import ArgumentParser, Namespace
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TypeVar

from pytest_a2a_bench.benchmarks import registry
from pytest_a2a_bench.benchmarks.registry import Suite
from pytest_a2a_bench.cli import _settings, _starter
from pytest_a2a_bench.cli._settings import served
from pytest_a2a_bench.cli.doctor import NO_CALL, TURNS, meet
from pytest_a2a_bench.config.load import of_command
from pytest_a2a_bench.config.rates import read_rate
from pytest_a2a_bench.config.settings import BUILTIN_PREFIX, needs_tags
from pytest_a2a_bench.config.values import one_of, read_endpoint, whole
from pytest_a2a_bench.errors import A2ABenchError, ConfigurationError, MissingExtraError
from pytest_a2a_bench.model import BenchTask, TrialResult
from pytest_a2a_bench.reports.summary import aligned, silence
from pytest_a2a_bench.results import compare
from pytest_a2a_bench.results.stats import count, duration
from pytest_a2a_bench.results.store import Store
from pytest_a2a_bench.text import did_you_mean, one_line, refusing

T = TypeVar("T")

_SAMPLE = 3
_RESULTS = "a2a-results/init"
_WITHOUT_TASKS = (
    "or give --domain mini (CRMArena) or --domain conformance (the protocol alone), which need nothing more"
)
_DOMAIN_HELP = "what it has to do (airline), such as retail or telecom; conformance: keep to the protocol, no more"
_TRIALS = (1, 2, 4, 8)
_ABOVE = (0.05, 0.1, 0.2)


def configure(parser: ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument("endpoint", nargs="?", metavar="URL", help="the agent, or builtin:NAME; asked for if left out")
    add = parser.add_argument_group("the gate").add_argument
    add("--domain", metavar="NAME", help=_DOMAIN_HELP)
    add("--min-pass", metavar="RATE", help="lowest success rate (0.5)")
    add("--trials", metavar="N", help="attempts at each task (2)")
    add("--at-once", metavar="N", help="conversations in flight (8)")
    add("--ci", choices=tuple(_starter.WORKFLOWS), help="what runs it (github); a script is written always")
    add = parser.add_argument_group("what is done").add_argument
    add("--directory", type=Path, default=Path(), metavar="DIR", help="the project (here)")
    add("--offline", action="store_true", help="write the files without meeting the agent")
    add("--no-try", action="store_true", help="do not judge its protocol and hold no conversations")
    add("--dry-run", action="store_true", help="say what would be written, and write nothing")
    _settings.add_arguments(parser)


def run(namespace: Namespace) -> int:
    """Write the files, and print the next steps."""
    if not namespace.directory.is_dir():
        raise ConfigurationError(f"--directory: {namespace.directory} is no directory")
    wish = _wish(namespace)
    ci = _answer(namespace.ci, "which CI: github, gitlab or script", "github", one_of(*_starter.WORKFLOWS))
    written = dict(_contents(wish, ci, namespace.directory))
    turn = None
    if not namespace.offline:
        try:
            with served(wish.endpoint) as url:
                turn, silent = _meet(namespace, wish, url)
        except A2ABenchError as error:
            print(f"{'not met':<12}{one_line(of_command(namespace.options).words(str(error)), 1_000)}")
            print("nothing was written; a2a-bench doctor URL says more, --offline writes the files all the same")
            return 1
        except KeyboardInterrupt:
            print("\ninterrupted: nothing was written")
            raise
        if silent:
            print(f"\n{silent}")
            print("nothing was written: a gate would judge tasks that need no call; --offline writes it all the same")
            return 1
    print()
    if isinstance(wish, _starter.TasksWish):
        print("\n".join(_advice(wish, turn)))
        print()
    for path, text in written.items():
        _write(namespace.directory / path, text, dry=namespace.dry_run)
    print()
    print("\n".join(_next_steps(namespace.directory, ci, wish)))
    return 0


def _wish(namespace: Namespace) -> _starter.Wish:
    endpoint = _answer(namespace.endpoint, "the agent's URL (or builtin:oracle, to try)", "", read_endpoint)
    if "?" in endpoint and not endpoint.startswith(BUILTIN_PREFIX):
        # It is written into files that are kept with the project, and a key may stand there.
        raise ConfigurationError("the agent's URL: leave out what follows '?', and put a key into A2A_AUTH_TOKEN")
    domain = _answer(namespace.domain, "what it has to do", "airline", str)
    given = {key: value for key, _, value in (one.partition("=") for one in namespace.set or ())}
    if domain in _starter.PROTOCOL:
        if any(value is not None for value in (namespace.min_pass, namespace.trials, namespace.at_once)):
            raise ConfigurationError(f"--domain {domain} has no trials: leave out --min-pass, --trials and --at-once")
        return _starter.Wish(endpoint=endpoint, domain=domain, given=given)
    suite, tasks = _tasks(domain)
    floor = _answer(namespace.min_pass, "lowest success rate", "0.5", read_rate)
    trials = _answer(namespace.trials, "attempts at each task", "2", whole(1))
    at_once = _answer(namespace.at_once, "conversations in flight", "8", whole(1))
    return _starter.TasksWish(
        endpoint=endpoint,
        domain=domain,
        suite=suite,
        tasks=tasks,
        floor=floor,
        trials=trials,
        concurrency=at_once,
        given=given,
    )


def _answer(given: str | None, question: str, default: str, read: Callable[[str], T]) -> T:
    """Return the given value, else a person's answer, else the default.

    :raises ConfigurationError: if there is none of these, or it cannot be read.
    """
    text = given
    if text is None and sys.stdin.isatty():
        with contextlib.suppress(EOFError):
            text = input(f"{question}{f' [{default}]' if default else ''}: ").strip()
    text = text or default
    try:
        if not text:
            raise ValueError("it is missing")
        return read(text)
    except ValueError as error:
        raise ConfigurationError(f"{question}: {error}") from error


def _tasks(domain: str) -> tuple[Suite, Sequence[BenchTask]]:
    """Return the suite of a domain, and the domain's tasks.

    :raises ConfigurationError: if there is none, or it is not installed.
    """
    # Conversations of a project's own tests are no tasks that there are already.
    suites = [suite for suite in registry.known() if suite.from_test is None]
    for suite in suites:
        if domain in suite.domains:
            try:
                if domain not in suite.available():
                    raise ConfigurationError(f"the domain {domain!r} {suite.absence(domain)}")
                return suite, suite.load_tasks(domain, "base")
            except MissingExtraError as error:
                raise ConfigurationError(f"{error}; {_WITHOUT_TASKS}") from error
    there = [*(name for suite in suites for name in suite.domains), *_starter.PROTOCOL]
    near = did_you_mean(domain, there)
    raise ConfigurationError(f"--domain: there is no {domain!r}; valid are: {', '.join(there)}{near}")


def _contents(wish: _starter.Wish, ci: str, directory: Path) -> Iterator[tuple[str, str | None]]:
    """Yield path and text of each file of the project; None for a file that stays as it is."""
    project = directory / "pyproject.toml"
    try:
        before = project.read_text(encoding="utf-8") if project.is_file() else ""
    except UnicodeDecodeError as error:
        raise ConfigurationError(f"{project}: it is not UTF-8, as TOML is: {error}") from error
    after = _starter.with_section(before, _starter.settings(wish))
    yield project.name, after if after != before else None
    for path, text in _starter.files(wish, ci).items():
        yield path, None if (directory / path).exists() else text


def _write(path: Path, text: str | None, *, dry: bool) -> None:
    if text is None:
        print(f"{path}: it is there already, and stays as it is")
        return
    if not dry:
        with refusing(f"{path} cannot be written"):
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
            if path.suffix == ".sh":
                path.chmod(0o755)
    print(f"{path}: {'would be written' if dry else 'written'}")


def _meet(namespace: Namespace, wish: _starter.Wish, url: str) -> tuple[float | None, str]:
    """Print a description of the agent; return the seconds of a turn, and a sentence about an agent that calls no tool.

    :raises A2ABenchError: if it cannot be met.
    """
    turn, silent = None, ""
    config = _settings.read_config(namespace, url)
    # What a tasks' gate needs, the dialect and the time of a turn, one of the protocol does not.
    talk = isinstance(wish, _starter.TasksWish) and not needs_tags(wish.endpoint)
    for what, found in meet(config, {}, talk=talk):
        print(f"{what:<12}{found}", flush=True)
        if what == "a turn":
            turn = float(found.split()[0])
        if what == NO_CALL:
            silent = "the agent called no tool"
    if not (namespace.no_try or namespace.dry_run):
        trials = _try(namespace, wish, url)
        # One that follows rules of its own may call tools only in the tasks that it was made for.
        silent = silent and silence(trials)
    return turn, silent


def _try(namespace: Namespace, wish: _starter.Wish, url: str) -> Sequence[TrialResult]:
    """Judge the protocol, and run some tasks, as the commands that are shown would; return the tasks' trials."""
    given = [f"{key}={value}" for key, value in wish.given.items()]
    judged = _output("pytest_a2a_bench.cli", "check", url, *(f"--set={one}" for one in given))
    for line in [line for line in judged if line.startswith("A2A ")] or judged[-1:] or ["no answer"]:
        print(f"{'protocol':<12}{line}", flush=True)
    for number, line in enumerate(judged):
        # Its lines are about one requirement each.
        if line.startswith("known of "):
            about = itertools.takewhile(lambda one: one.startswith("  "), judged[number + 1 :])
            requirements = ", ".join(one.partition(":")[0].strip() for one in about)
            print(f"{'':<12}{line.partition(' (')[0]}: {requirements}", flush=True)
    print(f"{'':<12}more: a2a-bench check {wish.endpoint}", flush=True)
    if not isinstance(wish, _starter.TasksWish):
        return ()
    label = f"{wish.suite.node_prefix}{wish.domain}"
    ids = [f"a2a/{label}::test_{label}[{task.key(0).short_id}]" for task in wish.tasks[:_SAMPLE]]
    print(f"{'tasks':<12}{count(len(ids), 'task')} of {len(wish.tasks)}:", flush=True)
    target = wish.endpoint if wish.endpoint.startswith(BUILTIN_PREFIX) else url
    output = _output(
        *("pytest", "-q", "-p", "no:cacheprovider", "--a2a-endpoint", target, f"--a2a-results={_RESULTS}"),
        *(f"--a2a-set={one}" for one in given),
        *ids,
        directory=namespace.directory,
    )
    print("\n".join(f"  {line}" for line in output if line.strip()), flush=True)
    return list(Store(namespace.directory / _RESULTS).read_all())


def _output(module: str, *arguments: str, directory: Path | None = None) -> list[str]:
    command = [sys.executable, "-m", module, *arguments]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False, cwd=directory)
    return done.stdout.splitlines()


def _advice(wish: _starter.TasksWish, turn: float | None) -> Iterator[str]:
    """Describe how often the gate passes agents that are better than its floor, and the gate's cost."""
    tasks = len(wish.tasks)
    rates = sorted({min(1.0, round(wish.floor + above, 4)) for above in _ABOVE})
    yield f"how often agents pass a floor of {wish.floor:g} with {count(tasks, 'task')}, by their true rate:"
    table = [["trials", "conversations", "about", *(f"{rate:.2f}" for rate in rates)]]
    for trials in sorted({*_TRIALS, wish.trials}):
        in_all = tasks * trials
        took = duration(in_all * TURNS * turn / wish.concurrency) if turn is not None else "?"
        chances = [f"{compare.floor_chance(rate, wish.floor, in_all):.0%}" for rate in rates]
        table.append([f"{trials}{' *' if trials == wish.trials else ''}", f"{in_all:,}", took, *chances])
    yield from aligned(table)
    yield f"* as written; the time is that of {TURNS} turns a conversation, {wish.concurrency} at once"
    yield (
        f"doing nothing solves tasks, too, so that a floor has to be above it; how many: pytest --a2a-endpoint "
        f"builtin:noop --a2a-suite {shlex.quote(wish.domain)} --a2a-min-pass 0 --a2a-results a2a-results/noop"
    )


def _next_steps(directory: Path, ci: str, wish: _starter.Wish) -> Iterator[str]:
    at = f"cd {directory} && " if os.fspath(directory) != "." else ""
    yield "next:"
    yield f"  {at}./{_starter.GATE}   the gate: exit code 0 where the agent is good enough"
    if isinstance(wish, _starter.TasksWish):
        yield "  a2a-bench show --results a2a-results   why tasks were missed; a2a-bench show TASK, one conversation"
        yield f"  a2a-bench gate a2a-results --write-baseline {_starter.BASELINE}   from then on it may not get worse"
    else:
        command = f"a2a-bench check {shlex.quote(wish.endpoint)}"
        yield f"  {command} --dry-run   what that sends to the agent"
        yield f"  {command} --waivers {_starter.WAIVERS} --accept REASON   lets pass what fails today, and nothing new"
    if ci == "gitlab":
        yield f"  in .gitlab-ci.yml: include: [{{local: {_starter.WORKFLOWS[ci]}}}]"
    if ci != "script":
        source = ", A2A_BENCH_SOURCE (the workflow says what)" if _starter.needs_source() else ""
        yield f"  in your CI: the agent's URL as variable A2A_ENDPOINT{source}, its token as secret A2A_AUTH_TOKEN"
