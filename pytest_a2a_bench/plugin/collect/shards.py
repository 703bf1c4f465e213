"""The part of the collected items that this run does, and the file that says so."""

from __future__ import annotations

import dataclasses
import hashlib
import json
from collections.abc import Mapping, Sequence

import pytest

from pytest_a2a_bench.config.shards import read as read_shard
from pytest_a2a_bench.plugin.run.modules import judge_protocol
from pytest_a2a_bench.plugin.run.state import TRIAL, BenchRun
from pytest_a2a_bench.results import manifest, sharding
from pytest_a2a_bench.results.gates.files import set_aside
from pytest_a2a_bench.results.manifest import Manifest
from pytest_a2a_bench.results.store import StoreError


def divide(session: pytest.Session, run: BenchRun) -> None:
    """Leave out the trials that belong to other shards, and note what the whole is.

    Checks of the protocol are divided by their node ids; the user's own tests stay, in every shard.
    """
    # Before anything is left out: the whole is what merge compares.
    run.collected.whole = tuple(str(item.stash[TRIAL].key) for item in session.items if TRIAL in item.stash)
    mine = set(part_of(session.items, run))
    others = [item for item in session.items if item not in mine]
    if others:
        session.items[:] = [item for item in session.items if item in mine]
        session.config.hook.pytest_deselected(items=others)


def part_of(items: Sequence[pytest.Item], run: BenchRun) -> list[pytest.Item]:
    """Return those of the items that this shard runs; all of them without shards."""
    if run.settings.shard is None:
        return list(items)
    # What is compared with each other stays together.
    names = {item: str(item.stash[TRIAL].key.of_any_agent) for item in items if TRIAL in item.stash}
    # The user's own tests have no part of the division.
    names |= {i: i.nodeid for i in items if i not in names and judge_protocol((i.nodeid,))}
    each = list(dict.fromkeys(names.values()))
    mine = sharding.members(each, _durations(items, run), read_shard(run.settings.shard, {}))
    return [item for item in items if item not in names or names[item] in mine]


def _durations(items: Sequence[pytest.Item], run: BenchRun) -> Mapping[str, float]:
    """Return what is known of earlier durations: of trials that stay together, their sum."""
    found = dict(run.plan.durations)
    for item in items:
        key = item.stash[TRIAL].key if TRIAL in item.stash else None
        if key is not None and key.agent is not None and str(key) in found:
            found[str(key.of_any_agent)] = found.get(str(key.of_any_agent), 0.0) + found[str(key)]
    return found


def trials_elsewhere(run: BenchRun) -> int:
    """Return how many trials there are, where this shard has none of them; else 0.

    What tells is the file of this run, which under xdist the workers wrote.
    """
    try:
        found = manifest.load(run.plan.results)
    except StoreError:
        return 0
    # A file of an earlier run says nothing about this one.
    return len(found.whole) if found.run_id == run.plan.run_id and not found.keys else 0


def write_manifest(session: pytest.Session, run: BenchRun) -> None:
    """Write what this run is asked to do, if trials were selected, if only for other shards, and there is an agent."""
    if not run.collected.whole or run.plan.endpoint is None or session.config.option.collectonly:
        return
    nodeids = {item.nodeid: str(item.stash[TRIAL].key) for item in session.items if TRIAL in item.stash}
    settings = dataclasses.asdict(run.settings)
    # Flat, as files of the first versions are.
    settings |= settings.pop("benchmark_options")
    # Where they are is told apart from what they are, and two machines have other paths.
    for name in ("endpoint", "agents", "agent", "results"):
        del settings[name]
    if settings["transfer"] is None:
        del settings["transfer"]
    manifest = Manifest(
        run_id=run.plan.run_id,
        endpoint=run.plan.shown_endpoint,
        agent=run.plan.agent_identity,
        whole=run.collected.whole,
        keys=tuple(nodeids.values()),
        shard=run.settings.shard,
        durations=_hash(run.plan.durations) if run.plan.durations and run.settings.shard is not None else None,
        settings=settings,
        nodeids=nodeids,
        order=run.plan.order,
        categories=categories_of(session),
    )
    try:
        # Before run.json, so that no verdict stands beside that of another run.
        set_aside(run.plan.results, run.plan.run_id)
        manifest.write(run.plan.results)
    except (StoreError, OSError) as error:
        raise pytest.UsageError(str(error)) from None


def categories_of(session: pytest.Session) -> dict[str, str]:
    """Return what the tasks of this process's items are about, as far as they have a category."""
    trials = [item.stash[TRIAL] for item in session.items if TRIAL in item.stash]
    return {trial.key.task_key: trial.task.category for trial in trials if trial.task.category}


def _hash(durations: Mapping[str, float]) -> str:
    return hashlib.sha256(json.dumps(durations, sort_keys=True).encode()).hexdigest()[:16]
