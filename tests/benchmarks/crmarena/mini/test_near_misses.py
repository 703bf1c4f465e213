"""Rot that hurts shortcuts and nobody else, and drift that an attentive agent sees through."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import closing, contextmanager

import pytest
from mini_org.near_makers import MAKERS
from mini_org.near_misses import chosen_rows, near_misses, traps
from mini_org.near_rows import NearMiss
from mini_org.org import MiniOrg
from mini_org.solve import choose_steps
from mini_org.solve.attentive import attentive
from mini_org.solve.shortcuts import SHORTCUTS
from mini_org.solve.task import AgentTask
from mini_orgs import matches, mini, opened, wrong_answers

from pytest_a2a_bench.benchmarks.crmarena.org.base import OrgError
from pytest_a2a_bench.benchmarks.crmarena.org.drift import DriftLevel, drift_text, drifted
from pytest_a2a_bench.benchmarks.crmarena.org.local import LocalOrg


@pytest.fixture(scope="module")
def misses() -> list[NearMiss]:
    org = mini()
    return near_misses(org.rows, org.tasks, org.schema, org.seed)


@contextmanager
def aged(misses: list[NearMiss], rows: int) -> Iterator[LocalOrg]:
    with closing(rotted(mini(), misses, rows)) as org:
        yield org


def rotted(org: MiniOrg, misses: list[NearMiss], most: int) -> LocalOrg:
    """Open an org with as many of the rows as there may be."""
    extra = chosen_rows(misses, most)
    rows = {name: [*made, *extra.get(name, ())] for name, made in org.rows.items()}
    return LocalOrg.from_rows(rows, org.schema, name=org.name, today=org.today)


@pytest.mark.slow
def test_every_shortcut_that_rows_are_made_for_falls_and_no_gold_does(misses: list[NearMiss]) -> None:
    org = mini()
    with aged(misses, 2_000) as local:
        assert wrong_answers(org.tasks, local.run) == []
        caught = traps(org.tasks, local.run)
    assert all(miss.shortcut in caught[miss.task_id] for miss in misses)
    kinds = Counter((miss.task_id.rpartition("-")[0], miss.shortcut) for miss in misses)
    assert {category for category, _ in kinds} == set(MAKERS)
    assert {shortcut for _, shortcut in kinds} == set(SHORTCUTS) - {"first-article"}
    assert len(misses) > 150


@pytest.mark.slow
def test_severity_is_a_dial(misses: list[NearMiss]) -> None:
    """More rows hold those of fewer, and more tasks are lost to who looks at no status."""
    few, many = chosen_rows(misses, 100), chosen_rows(misses, 400)
    assert sum(map(len, few.values())) <= 100 < sum(map(len, many.values())) <= 400
    lost = []
    for rows in (0, 400, 1_500):
        with aged(misses, rows) as local:
            caught = traps(mini().tasks, local.run)
        lost.append(sum("ignores-status" in each for each in caught.values()))
    assert lost[0] + 20 < lost[1]
    assert lost[1] + 20 < lost[2]


@pytest.mark.parametrize(
    ("level", "most"),
    [
        pytest.param("low", 0.95, marks=pytest.mark.slow),
        pytest.param("medium", 0.6, marks=pytest.mark.slow),
        ("high", 0.1),
    ],
)
def test_who_reads_the_schema_keeps_its_tasks_under_drift(level: DriftLevel, most: float) -> None:
    org = mini()
    tasks = [task for task in org.tasks if task.answers]
    with opened(org) as plain:
        local = drifted(plain, level, seed=1)
        reads = attentive(local.run, local.schema.to_json(), org.schema.to_json())
        kept = remembered = 0
        for task in tasks:
            seen = AgentTask(*(drift_text(text, org.schema, local.schema) for text in (task.query, task.required)))
            for attention in (True, False):
                steps = choose_steps(seen)
                try:
                    query = next(steps)
                    while True:
                        query = steps.send(list(reads(query) if attention else local.run(query).records))
                except StopIteration as end:
                    right = matches(str(end.value), task)
                except (OrgError, ValueError, KeyError):
                    right = False
                kept += attention and right
                remembered += not attention and right
        local.close()
    assert kept >= 0.95 * len(tasks)
    assert remembered <= most * len(tasks)
