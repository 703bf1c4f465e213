"""Which trial files of a results directory belong to its last run, and which of that run's trials have none."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from pytest_a2a_bench.model import TrialKey, TrialResult
from pytest_a2a_bench.results import manifest
from pytest_a2a_bench.results.manifest import Manifest
from pytest_a2a_bench.results.store import Store, StoreError


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


def load(directory: Path) -> SelectedResults:
    """Read a run's results.

    :raises StoreError: if the directory is no run's, a file cannot be read, or there is no result at all.
    """
    asked = manifest.load(directory)
    store = Store(directory)
    runs = {asked.run_id, *asked.merged}
    results: list[TrialResult] = []
    absent: list[str] = []
    for key in asked.keys:
        found = store.read(TrialKey.parse(key))
        if found is None or found.run_id not in runs:
            absent.append(key)
        else:
            results.append(found)
    if not results:
        raise StoreError(f"{directory} has no result of its run {asked.run_id}: nothing was finished")
    files = sum(1 for _ in store.trials.glob("*.json"))
    return SelectedResults(asked, tuple(results), tuple(absent), files - len(results))
