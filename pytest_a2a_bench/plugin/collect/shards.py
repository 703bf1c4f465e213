"""The part of the collected items that this run does, and the file that says so."""

from __future__ import annotations

import dataclasses
import hashlib
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from pytest_a2a_bench.errors import A2ABenchError, ConfigurationError
from pytest_a2a_bench.plugin.run import options
from pytest_a2a_bench.plugin.run.state import TRIAL, BenchRun
from pytest_a2a_bench.settings import Settings

if TYPE_CHECKING:
    from pytest_a2a_bench.results.sharding import Shard


def read_durations(settings: Settings) -> tuple[dict[str, float], tuple[str, ...]]:
    """Read the durations that shards are balanced by, once, for this process and its workers.

    :return: the durations, none without shards, and what is wrong with them.
    """
    if settings.durations is None:
        return {}, ()
    try:
        found = durations_in(Path(settings.durations))
    except A2ABenchError as error:
        return {}, (f"--a2a-durations={error}",)
    return (found if settings.shard is not None else {}), ()


def durations_in(path: Path) -> dict[str, float]:
    """Return the seconds of each trial by key: from a results directory, or from a JSON object.

    :raises ConfigurationError: if there are none.
    """
    from pytest_a2a_bench.results import sharding
    from pytest_a2a_bench.results.store import Store

    if path.is_dir():
        found = {str(r.key): r.duration for r in Store(path).read_all() if r.status == "evaluated"}
        if not found:
            raise ConfigurationError(f"{path}: no evaluated trial is in {path}; expected a results directory")
        return found
    try:
        return sharding.DURATIONS.read(path)
    except FileNotFoundError:
        raise ConfigurationError(f"{path}: no such file or directory") from None


def divide(session: pytest.Session, run: BenchRun) -> None:
    """Leave out the trials that belong to other shards, and note what the whole is.

    Checks of the protocol are divided by their node ids; the user's own tests stay, in every shard.
    """
    run.whole = tuple(str(item.stash[TRIAL].key) for item in session.items if TRIAL in item.stash)
    mine = set(part_of(session.items, run))
    others = [item for item in session.items if item not in mine]
    if others:
        session.items[:] = [item for item in session.items if item in mine]
        session.config.hook.pytest_deselected(items=others)


def part_of(items: Sequence[pytest.Item], run: BenchRun) -> list[pytest.Item]:
    """Return those of the items that this shard runs; all of them without shards."""
    if run.settings.shard is None:
        return list(items)
    from pytest_a2a_bench.plugin.conformance import check_items
    from pytest_a2a_bench.results import sharding

    names = {item: str(item.stash[TRIAL].key) for item in items if TRIAL in item.stash}
    names |= {i: i.nodeid for i in items if i not in names and check_items.is_among((i.nodeid,))}
    mine = sharding.members(list(names.values()), run.durations, _parsed(run.settings.shard))
    return [item for item in items if item not in names or names[item] in mine]


def trials_elsewhere(run: BenchRun) -> int:
    """Return how many trials there are, where this shard has none of them; else 0.

    What tells is the file of this run, which under xdist the workers wrote.
    """
    from pytest_a2a_bench.results import manifest
    from pytest_a2a_bench.results.store import StoreError

    try:
        found = manifest.load(run.results)
    except StoreError:
        return 0
    return len(found.whole) if found.run_id == run.run_id and not found.keys else 0


def write_manifest(session: pytest.Session, run: BenchRun) -> None:
    """Write what this run is asked to do, if trials were selected, if only for other shards, and there is an agent."""
    if not run.whole or run.endpoint is None or session.config.option.collectonly:
        return
    from pytest_a2a_bench.results.manifest import Manifest
    from pytest_a2a_bench.results.store import StoreError

    nodeids = {item.nodeid: str(item.stash[TRIAL].key) for item in session.items if TRIAL in item.stash}
    settings = dataclasses.asdict(run.settings)
    for name in ("endpoint", "results"):
        del settings[name]
    manifest = Manifest(
        run_id=run.run_id,
        endpoint=options.without_query(str(run.settings.endpoint), run.settings.endpoint),
        agent=run.agent_identity,
        whole=run.whole,
        keys=tuple(nodeids.values()),
        shard=run.settings.shard,
        durations=_hash(run.durations) if run.durations else None,
        settings=settings,
        nodeids=nodeids,
    )
    try:
        manifest.write(run.results)
    except StoreError as error:
        raise pytest.UsageError(str(error)) from None


def _parsed(shard: str) -> Shard:
    from pytest_a2a_bench.results import sharding

    return sharding.read(shard, {})


def _hash(durations: Mapping[str, float]) -> str:
    return hashlib.sha256(json.dumps(durations, sort_keys=True).encode()).hexdigest()[:16]
