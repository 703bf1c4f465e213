"""``a2a-bench show WHAT``: one conversation in a terminal, message by message, and why its reward is what it is.

WHAT is a trial's file, its key, its node id, or a part of its key, such as ``airline/12``. Of a task with several
trials it is the first that did not succeed.
"""

from __future__ import annotations

import os
import shutil
from argparse import ArgumentParser, Namespace
from collections.abc import Sequence
from pathlib import Path

from pytest_a2a_bench.cli._results import results_directory
from pytest_a2a_bench.errors import ConfigurationError
from pytest_a2a_bench.model import TrialKey, TrialResult
from pytest_a2a_bench.redact import one_line
from pytest_a2a_bench.reports.trial_text import conversation, rerun_command
from pytest_a2a_bench.results import manifest
from pytest_a2a_bench.results.store import Store, load_trial

_LISTED = 20


def configure(parser: ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument("what", metavar="WHAT", help="a trial's file, key, node id, or a part of its key")
    parser.add_argument(
        "--results", type=results_directory, metavar="DIR", default=Path("a2a-results"), help="results (%(default)s)"
    )
    parser.add_argument("--whole", action="store_true", help="show long messages to their end")


def run(namespace: Namespace) -> int:
    """Print the conversation, and the command that holds it again."""
    path = Path(namespace.what)
    nodeids: dict[str, str] = {}
    if path.suffix == ".json" and path.is_file():
        result = load_trial(path)
    else:
        asked = manifest.load(namespace.results)
        nodeids = {key: nodeid for nodeid, key in asked.nodeids.items()}
        result = _find(namespace.what, namespace.results, asked)
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
    some = ", ".join(one_line(key, 120) for key in (keys or asked.keys)[:_LISTED])
    more = max(0, len(keys or asked.keys) - _LISTED)
    found = f"{len(keys)} trials are" if keys else "no trial is"
    raise ConfigurationError(
        f"{found} called {one_line(what, 200)!r} in {directory}; name one of: {some}"
        + (f" and {more} more" if more else "")
    )


def _one_of(keys: Sequence[TrialKey], directory: Path) -> TrialResult:
    """Return the trial of a task that is worth looking at: the first that did not succeed, else the first.

    :raises ConfigurationError: if none of them has a file.
    """
    held = [result for key in keys if (result := Store(directory).read(key)) is not None]
    if not held:
        raise ConfigurationError(
            f"{keys[0]} has no file in {directory}: it was not held, or was stopped before its end"
        )
    chosen = next((result for result in held if not result.success), held[0])
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
