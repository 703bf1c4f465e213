"""The part of the collected items that this run does, and the file that says so."""

from __future__ import annotations

import dataclasses
import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from pytest_a2a_bench import options
from pytest_a2a_bench.errors import A2ABenchError, ConfigurationError
from pytest_a2a_bench.run_state import TRIAL, BenchRun

if TYPE_CHECKING:
    from pytest_a2a_bench.results.sharding import Shard


def load_durations(run: BenchRun) -> None:
    """Read the durations that shards are balanced by, once, for this process and its workers.

    :raises pytest.UsageError: if they cannot be read.
    """
    source = run.settings.durations
    if source is None or run.settings.shard is None:
        return
    try:
        run.durations = durations_in(Path(source))
    except A2ABenchError as error:
        raise pytest.UsageError(f"--a2a-durations={source}: {error}") from None


def durations_in(path: Path) -> dict[str, float]:
    """Return the seconds of each trial by key: from a results directory, or from a JSON object.

    :raises ConfigurationError: if there are none.
    """
    from pytest_a2a_bench.results import sharding
    from pytest_a2a_bench.results.store import Store

    if path.is_dir():
        found = {str(r.key): r.duration for r in Store(path).read_all() if r.status == "evaluated"}
        if not found:
            raise ConfigurationError(f"no evaluated trial is in {path}; expected a results directory")
        return found
    try:
        values = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise ConfigurationError("no such file or directory") from None
    except (OSError, ValueError) as error:
        raise ConfigurationError(f"cannot be read as JSON: {error}") from None
    return sharding.check_durations(values, str(path))


def divide(session: pytest.Session, run: BenchRun) -> None:
    """Leave out the trials that belong to other shards, and note what the whole is.

    Checks of the protocol are divided by their node ids; the user's own tests stay, in every shard.
    """
    names = {item: str(item.stash[TRIAL].key) for item in session.items if TRIAL in item.stash}
    run.whole = tuple(names.values())
    shard = run.settings.shard
    if shard is None:
        return
    from pytest_a2a_bench import conformance_items
    from pytest_a2a_bench.results import sharding

    names |= {i: i.nodeid for i in session.items if i not in names and conformance_items.is_among((i.nodeid,))}
    mine = sharding.members(list(names.values()), run.durations, _parsed(shard))
    others = [item for item, name in names.items() if name not in mine]
    if others:
        dropped = set(others)
        session.items[:] = [item for item in session.items if item not in dropped]
        session.config.hook.pytest_deselected(items=others)


def write_manifest(session: pytest.Session, run: BenchRun) -> None:
    """Write what this run is asked to do, if trials are among it and the results directory is there."""
    keys = tuple(str(item.stash[TRIAL].key) for item in session.items if TRIAL in item.stash)
    if not keys or run.endpoint is None or session.config.option.collectonly:
        return
    from pytest_a2a_bench.results.manifest import Manifest
    from pytest_a2a_bench.results.store import StoreError

    settings = dataclasses.asdict(run.settings)
    for name in ("endpoint", "results"):
        del settings[name]
    manifest = Manifest(
        run_id=run.run_id,
        endpoint=options.without_query(str(run.settings.endpoint), run.settings.endpoint),
        agent=run.agent_identity,
        whole=run.whole,
        keys=keys,
        shard=run.settings.shard,
        durations=_hash(run.durations) if run.durations else None,
        settings=settings,
        nodeids={item.nodeid: str(item.stash[TRIAL].key) for item in session.items if TRIAL in item.stash},
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
