"""``run.json``: the trials and settings of a run, beside the files with its results.

Each process that knows the selection writes it once, all of them the same. It tells a trial that was never selected
from one that is missing.
"""

from __future__ import annotations

import dataclasses
import functools
import json
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, get_args

from pytest_a2a_bench.config.load import CORE
from pytest_a2a_bench.model import TrialKey, TrialResult
from pytest_a2a_bench.model.keys import KeyText
from pytest_a2a_bench.results.store import Store, StoredForm, StoreError, explain, save
from pytest_a2a_bench.secret import dump_json

SCHEMA_VERSION = 1
NAME = "run.json"


@dataclass(frozen=True, slots=True)
class Manifest:
    """What a run was asked to do.

    :param agent: name, version and interface of the agent; ``endpoint`` is where it is, without query.
    :param settings: every setting, secrets excepted (they are never settings).
    :param whole: keys of all selected trials, before they were divided among shards.
    :param keys: keys of this run's part of them.
    :param shard: ``I/N``, or None for the whole.
    :param durations: hash of the durations that the parts were balanced by.
    :param merged: run ids of the runs that were joined.
    :param order: what the order of the trials was drawn from, where gates may be decided early.
    :param categories: of tasks that have one: a trial that has no result counts in its category's rates.
    :param nodeids: the item of each trial -> its key, so that a controller knows what a crashed worker was doing.
    """

    run_id: str
    endpoint: str
    agent: str
    whole: tuple[KeyText, ...]
    keys: tuple[KeyText, ...]
    shard: str | None = None
    durations: str | None = None
    settings: Mapping[str, Any] = field(default_factory=dict)
    merged: tuple[str, ...] = ()
    nodeids: Mapping[str, KeyText] = field(default_factory=dict)
    order: str = ""
    categories: Mapping[str, str] = field(default_factory=dict)

    @property
    def runs(self) -> frozenset[str]:
        """Ids of all runs whose trials are this one's: its own and those that were joined."""
        return frozenset({self.run_id, *self.merged})

    def to_json(self) -> dict[str, Any]:
        """Return the file's content."""
        return {"schema_version": SCHEMA_VERSION, **dataclasses.asdict(self)}

    def write(self, directory: Path) -> Path:
        """Write the file, and return its path.

        :raises StoreError: if it cannot be written.
        """
        path = directory / NAME
        save(path, dump_json(self.to_json()))
        return path


def _wrong(run: Manifest) -> str | None:
    """Say what no run wrote: a trial asked for twice, which rates would count twice, or a setting's value.

    Settings of other versions, which this one has not, are kept.
    """
    from pydantic import ValidationError

    twice = [key for key, number in Counter(run.keys).items() if number > 1]
    if twice:
        return f"keys: {twice[0]} is there more than once"
    try:
        _settings_model().model_validate_json(json.dumps(run.settings), strict=True)
    except ValidationError as error:
        return f"settings.{explain(error)}"
    return None


@functools.cache
def _settings_model() -> Any:
    """Return a model of the settings' types; their readers look at this machine, and a run may be of another one."""
    from pydantic import create_model

    types: dict[str, Any] = {name: (get_args(one.annotation)[0], one.default) for name, one in CORE.items()}
    return create_model("Settings", **types)


RUN = StoredForm(
    Manifest,
    " is not a run file that this version reads",
    "run again, or name another results directory",
    StoreError,
    version=SCHEMA_VERSION,
    check=_wrong,
)


def load(directory: Path) -> Manifest:
    """Read a results directory's manifest.

    :raises StoreError: if there is none, or it cannot be read.
    """
    path = directory / NAME
    try:
        return RUN.read(path)
    except FileNotFoundError:
        there = "no such directory" if not directory.is_dir() else "it has no run.json"
        raise StoreError(f"{directory} is not the results directory of a run: {there}") from None


@dataclass(frozen=True, slots=True)
class SelectedResults:
    """A run as it is on disk.

    :param results: of the run's trials, in the order of its keys.
    :param absent: keys of trials that have no file of this run.
    :param others: how many trial files there are beside them, of other selections or runs.
    """

    manifest: Manifest
    results: tuple[TrialResult, ...]
    absent: tuple[str, ...] = ()
    others: int = 0


def load_selected(directory: Path) -> SelectedResults:
    """Read a run's results.

    :raises StoreError: if the directory is no run's, a file cannot be read, or there is no result at all.
    """
    asked = load(directory)
    results, absent = read_own(asked, directory)
    if not results:
        raise StoreError(f"{directory} has no result of its run {asked.run_id}: nothing was finished")
    files = sum(1 for _ in Store(directory).trials.glob("*.json"))
    return SelectedResults(asked, tuple(results), tuple(absent), files - len(results))


def read_own(asked: Manifest, directory: Path) -> tuple[list[TrialResult], list[str]]:
    """Return the results of a run's trials, and the keys of those without one; files of earlier runs are no results.

    :raises StoreError: if a file cannot be read.
    """
    store = Store(directory)
    found = {key: store.read(TrialKey.parse(key)) for key in asked.keys}
    own = {key: result for key, result in found.items() if result is not None and result.run_id in asked.runs}
    return list(own.values()), [key for key in found if key not in own]
