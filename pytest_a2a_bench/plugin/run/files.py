"""Files that options name, read on the controller before anything runs and is paid for."""

from __future__ import annotations

import os
from pathlib import Path

from pytest_a2a_bench import env_file
from pytest_a2a_bench.a2a.config import connection_problems
from pytest_a2a_bench.config.settings import Settings
from pytest_a2a_bench.errors import A2ABenchError, ConfigurationError
from pytest_a2a_bench.plugin.run.state import BenchRun
from pytest_a2a_bench.results import remote, sharding
from pytest_a2a_bench.results.gates import files
from pytest_a2a_bench.results.store import Store


def read_files(run: BenchRun, directory: Path) -> None:
    """Read baseline, quarantine, the last run's misses and durations into the run; problems go into its plan.

    :param directory: what relative names are relative to.
    """
    found = files.read(run.settings, directory, run.plan.results)
    run.services.baseline = found.baseline
    durations, wrong = read_durations(run.settings)
    run.services.variables, unread = read_variables(run.settings)
    if run.settings.endpoint_source == "cli" and not run.settings.replay:
        # One that environment or table name matters once an item uses it, and is looked at then.
        given = {**run.services.variables, **os.environ}
        each = (run.settings.of_agent(name) for name in run.settings.agents or (None,))
        wrong = (*wrong, *dict.fromkeys(p for settings in each for p in connection_problems(settings, given)))
    run.decide(
        quarantine=found.quarantine,
        missed=found.missed,
        durations=durations,
        problems=(*run.plan.problems, *found.problems, *wrong, *unread),
    )


def read_variables(settings: Settings) -> tuple[dict[str, str], tuple[str, ...]]:
    """Read the environment variables of ``env-file``.

    :return: the variables, and what is wrong with the file.
    """
    if settings.env_file is None:
        return {}, ()
    try:
        return env_file.read(Path(settings.env_file)), ()
    except ConfigurationError as error:
        return {}, (f"--a2a-set env-file={error}",)


def read_durations(settings: Settings) -> tuple[dict[str, float], tuple[str, ...]]:
    """Read how long trials took, to balance shards and begin with the longest: once, for all processes.

    :return: the durations, and what is wrong with them.
    """
    if settings.durations is None:
        return {}, ()
    try:
        found = durations_in(remote.located(settings.durations))
    except A2ABenchError as error:
        return {}, (f"--a2a-set durations={error}",)
    return found, ()


def durations_in(path: Path) -> dict[str, float]:
    """Return the seconds of each trial by key: from a results directory, or from a JSON object.

    :raises ConfigurationError: if there are none.
    """
    if path.is_dir():
        found = {str(r.key): r.duration for r in Store(path).read_all() if r.status == "evaluated"}
        if not found:
            raise ConfigurationError(f"{path}: no evaluated trial is in {path}; expected a results directory")
        return found
    try:
        return sharding.DURATIONS.read(path)
    except FileNotFoundError:
        raise ConfigurationError(f"{path}: no such file or directory") from None
