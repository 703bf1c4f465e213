"""``a2a-bench show [WHAT]``: one conversation in a terminal, or why the trials of a run failed, or the page of a run.

WHAT is a trial's file, its key, its node id, or a part of its key, such as ``airline/12``; of a task with several
trials it is the first that failed. Without WHAT, or with a results directory, the failed trials are grouped by cause;
``--why`` does so for those that WHAT names; for one that was lost to noise it is run again to find the noise that did
it. ``--browser`` serves the page of a run, while it goes on and after it.
"""

from __future__ import annotations

import dataclasses
import json
import os
import shlex
import shutil
import sys
import tempfile
import threading
import webbrowser
from argparse import ArgumentParser, Namespace
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from pytest_a2a_bench.a2a.client import AgentConnection
from pytest_a2a_bench.a2a.config import ClientConfig
from pytest_a2a_bench.agents.options import start_builtin
from pytest_a2a_bench.benchmarks import registry
from pytest_a2a_bench.cli import _settings
from pytest_a2a_bench.cli._settings import INCOMPLETE, configured_results, results_directory
from pytest_a2a_bench.cli.controller import port
from pytest_a2a_bench.config.load import CORE
from pytest_a2a_bench.config.settings import NOISY, PLAIN, Settings, with_endpoint
from pytest_a2a_bench.errors import ConfigurationError
from pytest_a2a_bench.model import TrialKey, TrialResult
from pytest_a2a_bench.reports import trial_text
from pytest_a2a_bench.reports.live import Server, Watched
from pytest_a2a_bench.reports.trial_text import conversation, noise_text, rerun_command
from pytest_a2a_bench.results import lock, manifest
from pytest_a2a_bench.results.gates.noise import events_of
from pytest_a2a_bench.results.manifest import Manifest
from pytest_a2a_bench.results.stats import count
from pytest_a2a_bench.results.store import Store, StoreError, load_trial
from pytest_a2a_bench.text import counted, nearest, one_line
from pytest_a2a_bench.trials.runner import Runner
from pytest_a2a_bench.trials.trial import Client

_LISTED = 20
_NEAREST = 5


def configure(parser: ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument("what", metavar="WHAT", nargs="?", help="a trial's file, key, node id, or a part of its key")
    parser.add_argument(
        "--results", type=results_directory, metavar="DIR", help="results directory (the configured one)"
    )
    parser.add_argument("--whole", action="store_true", help="show long messages to their end, and explain every cause")
    why = parser.add_argument_group("why trials failed")
    why.add_argument("--why", action="store_true", help="group the trials that WHAT names by cause")
    why.add_argument("--ids", type=int, metavar="N", help="print the node ids of the Nth cause, for pytest")
    why.add_argument("--format", choices=("text", "json"), default="text", help="output (text)")
    page = parser.add_argument_group("in a browser")
    page.add_argument("--browser", action="store_true", help="serve the page of the run until Ctrl-C")
    page.add_argument("--open", action="store_true", help="open it in a browser")
    page.add_argument("--baseline", metavar="FILE|DIR", type=results_directory, help="earlier run to compare with")
    page.add_argument("--history", metavar="PATH", type=Path, help="runs of --a2a-history-file, to show over time")
    page.add_argument("--port", type=port, default=0, metavar="N", help="where to listen (any free port)")
    _settings.add_arguments(parser)


def run(namespace: Namespace) -> int:
    """Print a conversation or the causes of failures, or serve the page."""
    # A name alone is a part of a key, such as airline, though a directory of tests may have it.
    named = Path(namespace.what or "")
    if namespace.what and named.is_dir() and ("/" in namespace.what or (named / manifest.NAME).exists()):
        namespace.results, namespace.what = named, None
    directory: Path = namespace.results or configured_results(namespace)
    if namespace.browser:
        if namespace.what is not None:
            raise ConfigurationError(f"--browser shows a whole run; leave out {namespace.what}")
        return _open_browser(namespace, directory)
    if namespace.what is None or namespace.why or namespace.ids is not None:
        return _explain(namespace, directory)
    return _show(namespace, directory)


def _explain(namespace: Namespace, directory: Path) -> int:
    found = manifest.load_selected(directory)
    results = list(found.every)
    if namespace.what is not None:
        what = found.manifest.nodeids.get(namespace.what, namespace.what)
        results = [r for r in results if _is_meant(what, str(r.key))]
        if not results:
            raise ConfigurationError(f"{directory} has no trial {one_line(namespace.what, 200)}")
    code = _print_reasons(namespace, directory, found, results)
    if wrong := [str(r.error) for r in results if r.error in found.unreadable]:
        print("\n".join(wrong), file=sys.stderr)
        code = INCOMPLETE
    lost = _is_lost(results) if namespace.why and namespace.what is not None else None
    if lost is not None and namespace.format == "text" and namespace.ids is None:
        loaded = _settings.load_settings(namespace)
        settings = _settings_of(found.manifest, _settings.moved_places(loaded, found.manifest.settings))
        # An agent may be elsewhere by now.
        if loaded.source("endpoint") in ("cli", "env"):
            settings = dataclasses.replace(settings, endpoint=loaded.settings.endpoint)
        _explain_noise(lost, settings)
    return code


def _show(namespace: Namespace, directory: Path) -> int:
    path = Path(namespace.what)
    nodeids: dict[str, str] = {}
    if path.suffix == ".json" and path.is_file():
        result = load_trial(path)
    else:
        asked = manifest.load(directory)
        nodeids = {key: nodeid for nodeid, key in asked.nodeids.items()}
        result = _find(namespace.what, directory, asked)
        if result.run_id not in asked.runs:
            last = f"the last run here, {asked.run_id}, has no result of this trial"
            print(f"of run {one_line(result.run_id)}: {one_line(last)}\n")
    width = shutil.get_terminal_size((100, 24)).columns
    print("\n".join(conversation(result, width, whole=namespace.whole)))
    if nodeid := nodeids.get(str(result.key)):
        print(f"run it again: {rerun_command(nodeid, result)}")
    if result.path:
        print(f"file: {os.path.relpath(result.path)}")
    return 0


def _find(what: str, directory: Path, asked: manifest.Manifest) -> TrialResult:
    """Return the trial that is meant; of several trials of one task the one that is worth looking at.

    :raises ConfigurationError: if it is none, or could be of several tasks, of which the message names some trials.
    """
    keys = [asked.nodeids[what]] if what in asked.nodeids else [key for key in asked.keys if key == what]
    keys = keys or [key for key in asked.keys if _is_meant(what, key)]
    parsed = [TrialKey.parse(key) for key in keys]
    if len({(key.task_key, key.label) for key in parsed}) == 1:
        return _one_of(parsed, directory)
    some = keys[:_LISTED] or _near(what, asked.keys)
    more = len(keys) - len(some) if keys else 0
    raise ConfigurationError(
        f"{f'{len(keys)} trials are' if keys else 'no trial is'} called {one_line(what, 200)!r} in {directory}; "
        f"name one, such as {', '.join(one_line(registry.shown_name(key), 120) for key in some)}"
        + (f" (and {more} more)" if more else "")
    )


def _near(what: str, keys: Sequence[str]) -> list[str]:
    """Return the tasks whose names, with or without their suite and domain, are nearest to the given one."""
    tasks = dict.fromkeys(key.partition("#")[0] for key in keys)
    names = {name: task for task in tasks for name in (task, task.partition("/")[2], task.rpartition("/")[2])}
    return list(dict.fromkeys(names[name] for name in nearest(what, names, _NEAREST))) or list(tasks)[:_NEAREST]


def _one_of(keys: Sequence[TrialKey], directory: Path) -> TrialResult:
    """Return the trial of a task that is worth looking at: the first that did not succeed, else the first.

    :raises ConfigurationError: if none of them has a file.
    """
    stored: list[TrialResult] = []
    problem = f"{keys[0]} has no file in {directory}: it did not run, or was stopped before its end"
    for key in keys:
        try:
            stored += filter(None, [Store(directory).read(key)])
        except StoreError as error:
            problem = str(error)
    if not stored:
        raise ConfigurationError(problem)
    chosen = next((result for result in stored if not result.success), stored[0])
    if others := [str(key) for key in keys if key != chosen.key]:
        print(f"{len(keys)} trials of this task; the others: {one_line(', '.join(others), 400)}\n")
    return chosen


def _is_part(what: str, key: str) -> bool:
    """Return whether these are whole words of the key: ``12`` is in ``tau2/airline/12#0`` and not in ``.../112#0``."""
    begin = key.find(what)
    while begin >= 0:
        before, behind = key[begin - 1 : begin], key[begin + len(what) : begin + len(what) + 1]
        if not (before.isalnum() and what[:1].isalnum()) and not (behind.isalnum() and what[-1:].isalnum()):
            return True
        begin = key.find(what, begin + 1)
    return False


def _is_meant(what: str, key: str) -> bool:
    """Return whether this is a key, a part of it, or its short name: ``telecom/17``, ``telecom/17#0``."""
    short = registry.short_name(key)
    return what == key or _is_part(what, key) or (bool(what) and what in (short, short.partition("#")[0]))


def _open_browser(namespace: Namespace, directory: Path) -> int:
    """Serve until Ctrl-C."""
    if not (directory / manifest.NAME).exists() and not directory.is_dir():
        raise ConfigurationError(f"{directory}: no such directory; give a run's --a2a-results")
    baseline = namespace.baseline
    with Server(Watched(directory, baseline, past=namespace.history), namespace.port) as server:
        beside = f" beside {baseline}" if baseline else ""
        print(f"{server.url} shows {directory}{beside}; Ctrl-C ends it", flush=True)
        if namespace.open:
            webbrowser.open(server.url)
        try:
            threading.Event().wait()
        except KeyboardInterrupt:
            return 0
    return 0


def _print_reasons(
    namespace: Namespace, directory: Path, found: manifest.SelectedResults, results: list[TrialResult]
) -> int:
    """Print the reasons.

    :param results: the trials to explain, of all that were found.
    """
    reasons = trial_text.clusters(results)
    items = {key: nodeid for nodeid, key in found.manifest.nodeids.items()}
    if namespace.ids is not None:
        return _print_ids(reasons, namespace.ids, items)
    if namespace.format == "json":
        print(json.dumps([*map(asdict, trial_text.stored_reasons(reasons))], indent=1, ensure_ascii=False))
        return 0
    missed = sum(len(c.trials) for c in reasons)
    counted = [r for r in results if r.status not in ("skipped", "not_run")]
    print(
        f"{missed:,} of {count(len(counted), 'trial')} did not pass"
        + (f", for {count(len(reasons), 'reason')}" if missed else "")
    )
    if absent := sum(r.status == "not_run" for r in results):
        again = "the run goes on" if lock.is_in_use(directory) else "run the same command with --a2a-resume"
        print(f"{count(absent, 'more trial')} without a result: {again}")
    command = f"a2a-bench show --results {shlex.quote(str(directory))}"
    whole = namespace.whole or namespace.what is not None
    for line in trial_text.lines(reasons, items, command, whole=whole):
        print(line)
    if not whole and len(reasons) > trial_text.EXPLAINED:
        print(f"{command} --why --whole explains each")
    return 0


def _print_ids(reasons: list[trial_text.Cluster], number: int, nodeids: dict[str, str]) -> int:
    if not 1 <= number <= len(reasons):
        raise ConfigurationError(f"--ids: there is no reason {number}; there are {count(len(reasons), 'reason')}")
    ids = [nodeids[str(r.key)] for r, _ in reasons[number - 1].trials if str(r.key) in nodeids]
    print("\n".join(ids))
    return 0


_MOST = 10
"""Highest number of conversations to find the events."""


def _is_lost(results: Sequence[TrialResult]) -> TrialResult | None:
    """Return the trial with noise that is to be explained: the only one among some, which was evaluated and missed."""
    lost = [r for r in results if r.key.agent == NOISY and r.status == "evaluated" and not r.success and events_of(r)]
    return lost[0] if len(lost) == 1 else None


def _explain_noise(result: TrialResult, settings: Settings) -> None:
    """Run the trial again with subsets of its events, and print the smallest that loses it.

    :param settings: of the plain trials of its run.
    """
    events = {str(event["id"]): event for event in events_of(result)}
    print(f"\nwhich noise did it: the trial runs again, at most {_MOST} times, with fewer of its {len(events)} events")
    settings = dataclasses.replace(settings, noise=result.provenance["noise"]["rates"])
    builtin = start_builtin(settings.builtin, settings) if settings.builtin else None
    try:
        settings = with_endpoint(settings, builtin.url if builtin is not None else settings.endpoint, agents={})
        with AgentConnection(ClientConfig.from_settings(settings, os.environ)) as connection:
            steps = counted(range(_MOST), "conversations at most")

            def loses(some: Sequence[str]) -> bool:
                next(steps)
                return _is_lost_with(some, result, settings, connection)

            smallest, tried = reduce(list(events), loses)
    finally:
        if builtin is not None:
            builtin.stop()
    if smallest is None:
        print(f"with all of them it succeeds now ({count(tried, 'conversation')} run): the agent varies by itself")
        return
    print(f"{count(tried, 'conversation')} run; {count(len(smallest), 'event')} suffices to lose it:")
    for name in smallest:
        print(f"  {noise_text(events[name])}")


def _settings_of(found: Manifest, options: Mapping[str, Any]) -> Settings:
    """Return the settings of the plain trials of a run, and where its agent is."""
    endpoints = dict(each.partition("=")[::2] for each in found.endpoint.split())
    stored: dict[str, Any] = {
        name: tuple(v) if isinstance(v, list) else v for name, v in found.settings.items() if name in CORE
    }
    return Settings(**stored | {"endpoint": endpoints.get(PLAIN)}, benchmark_options=dict(options))


def reduce(
    events: Sequence[str], loses: Callable[[Sequence[str]], bool], most: int = _MOST
) -> tuple[list[str] | None, int]:
    """Return the smallest set of events found that loses the trial, and the number of conversations.

    :param loses: holds a conversation with some events only, and returns whether it misses.
    :returns: None in place of the set where all of them do not lose it.
    """
    tried = 1
    if not loses(events):
        return None, tried
    smallest, parts = list(events), 2
    while len(smallest) > 1 and tried < most:
        size = -(-len(smallest) // parts)
        pieces = [smallest[at : at + size] for at in range(0, len(smallest), size)]
        others = [[e for e in smallest if e not in piece] for piece in pieces] if len(pieces) > 2 else []
        for some in [*pieces, *others]:
            if tried >= most:
                break
            tried += 1
            if loses(some):
                smallest, parts = some, 2
                break
        else:
            if size == 1:
                break
            parts = min(len(smallest), parts * 2)
    return smallest, tried


def _is_lost_with(events: Sequence[str], result: TrialResult, settings: Settings, connection: AgentConnection) -> bool:
    with tempfile.TemporaryDirectory() as directory:
        chosen = dataclasses.replace(settings, noise_events=tuple(events), agent=NOISY, resume=False)
        runner = Runner(chosen, Client(connection), Store(Path(directory)), "noise")
        again = runner.run(result.key)
    if again.status != "evaluated":
        raise ConfigurationError(f"the trial could not be run again: {again.error}")
    return not again.success
