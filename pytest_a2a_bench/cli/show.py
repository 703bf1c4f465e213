"""``a2a-bench show [WHAT]``: one conversation in a terminal, or why the trials of a run failed, or the page of a run.

WHAT is a trial's file, its key, its node id, or a part of its key, such as ``airline/12``; of a task with several
trials it is the first that failed. Without WHAT the failed trials are grouped by cause;
``--why`` does so for those that WHAT names; for one that was lost to noise it is run again to find the noise that did
it. ``--browser`` serves the page of a run, while it goes on and after it.
"""

from __future__ import annotations

import os
import shutil
from argparse import ArgumentParser, Namespace
from collections.abc import Sequence
from pathlib import Path

from pytest_a2a_bench.cli import _browser, _noise, _settings, _why
from pytest_a2a_bench.cli._results import configured_results, results_directory
from pytest_a2a_bench.cli.controller import port
from pytest_a2a_bench.errors import ConfigurationError
from pytest_a2a_bench.model import TrialKey, TrialResult
from pytest_a2a_bench.reports.trial_text import conversation, rerun_command
from pytest_a2a_bench.results import manifest
from pytest_a2a_bench.results.store import Store, load_trial
from pytest_a2a_bench.text import nearest, one_line

_LISTED = 20
_NEAREST = 5


def configure(parser: ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument("what", metavar="WHAT", nargs="?", help="a trial's file, key, node id, or a part of its key")
    parser.add_argument(
        "--results", type=results_directory, metavar="DIR", help="results directory (the configured one)"
    )
    parser.add_argument("--whole", action="store_true", help="show long messages to their end")
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
    directory: Path = namespace.results or configured_results(namespace)
    if namespace.browser:
        if namespace.what is not None:
            raise ConfigurationError(f"--browser shows a whole run; leave out {namespace.what}")
        return _browser.run(namespace, directory)
    if namespace.what is None or namespace.why or namespace.ids is not None:
        return _explain(namespace, directory)
    return _show(namespace, directory)


def _explain(namespace: Namespace, directory: Path) -> int:
    found = manifest.load_selected(directory)
    results = list(found.results)
    if namespace.what is not None:
        results = [one for one in results if namespace.what == str(one.key) or _is_part(namespace.what, str(one.key))]
        if not results:
            raise ConfigurationError(f"{directory} has no trial {one_line(namespace.what, 200)}")
    code = _why.run(namespace, directory, found, results)
    lost = _noise.is_lost(results) if namespace.why and namespace.what is not None else None
    if lost is not None and namespace.format == "text" and namespace.ids is None:
        options = _settings.moved_places(_settings.load_settings(namespace), found.manifest.settings)
        return _noise.run(lost, found.manifest, options)
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
        print(f"hold it again: {rerun_command(nodeid)}")
    if result.path:
        print(f"file: {os.path.relpath(result.path)}")
    return 0


def _find(what: str, directory: Path, asked: manifest.Manifest) -> TrialResult:
    """Return the trial that is meant; of several trials of one task the one that is worth looking at.

    :raises ConfigurationError: if it is none, or could be of several tasks, of which the message names some trials.
    """
    keys = [asked.nodeids[what]] if what in asked.nodeids else [key for key in asked.keys if key == what]
    keys = keys or [key for key in asked.keys if _is_part(what, key)]
    parsed = [TrialKey.parse(key) for key in keys]
    if len({(key.task_key, key.label, key.agent) for key in parsed}) == 1:
        return _one_of(parsed, directory)
    some = keys[:_LISTED] or _near(what, asked.keys)
    more = len(keys) - len(some) if keys else 0
    raise ConfigurationError(
        f"{f'{len(keys)} trials are' if keys else 'no trial is'} called {one_line(what, 200)!r} in {directory}; "
        f"name one, such as {', '.join(one_line(key, 120) for key in some)}" + (f" (and {more} more)" if more else "")
    )


def _near(what: str, keys: Sequence[str]) -> list[str]:
    """Return the tasks whose names, with or without their suite and domain, are most like what was asked for."""
    tasks = dict.fromkeys(key.partition("#")[0] for key in keys)
    names = {name: task for task in tasks for name in (task, task.partition("/")[2], task.rpartition("/")[2])}
    return list(dict.fromkeys(names[name] for name in nearest(what, names, _NEAREST))) or list(tasks)[:_NEAREST]


def _one_of(keys: Sequence[TrialKey], directory: Path) -> TrialResult:
    """Return the trial of a task that is worth looking at: the first that did not succeed, else the first.

    :raises ConfigurationError: if none of them has a file.
    """
    stored = [result for key in keys if (result := Store(directory).read(key)) is not None]
    if not stored:
        raise ConfigurationError(f"{keys[0]} has no file in {directory}: it did not run, or was stopped before its end")
    chosen = next((result for result in stored if not result.success), stored[0])
    if others := [str(key) for key in keys if key != chosen.key]:
        print(f"{len(keys)} trials of this task; the others: {one_line(', '.join(others), 400)}\n")
    return chosen


def _is_part(what: str, key: str) -> bool:
    """Say whether these are whole words of the key: ``12`` is in ``tau2/airline/12#0`` and not in ``.../112#0``."""
    begin = key.find(what)
    while begin >= 0:
        before, behind = key[begin - 1 : begin], key[begin + len(what) : begin + len(what) + 1]
        if not (before.isalnum() and what[:1].isalnum()) and not (behind.isalnum() and what[-1:].isalnum()):
            return True
        begin = key.find(what, begin + 1)
    return False
