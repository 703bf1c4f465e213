"""The order of trials that gates are decided early from: drawn anew for each run, and continued by a resumed one."""

from __future__ import annotations

import pytest

from pytest_a2a_bench.plugin.run.state import TRIAL, BenchRun
from pytest_a2a_bench.results import manifest
from pytest_a2a_bench.results.gates.early import draw_order
from pytest_a2a_bench.results.store import StoreError


def decides_early(run: BenchRun) -> bool:
    """Return whether this run may end before all of its trials had run; trials that somebody named all run."""
    return run.settings.auto and not run.plan.named


def seed_of(run: BenchRun) -> str:
    """Return what the order is drawn from.

    No fixed seed: where an unlucky order puts the easy tasks first, every run of an agent would be judged wrongly.
    """
    if run.settings.resume:
        try:
            return manifest.load(run.plan.results).order or run.plan.run_id
        except StoreError:  # nothing to go on with
            pass
    return run.plan.run_id


def draw(session: pytest.Session, run: BenchRun) -> None:
    """Put this run's trials into the drawn order; other items keep their places."""
    if not decides_early(run):
        return
    items = {item.stash[TRIAL].key: item for item in session.items if TRIAL in item.stash}
    drawn = iter(draw_order(items, run.plan.order))
    session.items[:] = [items[next(drawn)] if TRIAL in item.stash else item for item in session.items]
