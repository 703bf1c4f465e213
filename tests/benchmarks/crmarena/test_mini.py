"""The generator: the same everywhere, valid as an org, and of the size that it says."""

import gzip
from collections import Counter
from contextlib import closing
from importlib import resources
from pathlib import Path

import pytest
from crm import matches, mini, opened, wrong_answers
from mini_org.building import key_prefixes
from mini_org.files import make_files
from mini_org.near_makers import MAKERS
from mini_org.near_misses import chosen_rows, near_misses, traps
from mini_org.org import schema_rows
from mini_org.solve import choose_steps
from mini_org.solve.attentive import attentive
from mini_org.solve.shortcuts import SHORTCUTS
from mini_org.solve.task import AgentTask
from mini_org.words import TERRITORIES

from pytest_a2a_bench.benchmarks.crmarena.org import OrgError, standard_schema
from pytest_a2a_bench.benchmarks.crmarena.org.drift import DriftLevel, drift_text, drifted
from pytest_a2a_bench.benchmarks.crmarena.org.local import LocalOrg
from pytest_a2a_bench.benchmarks.crmarena.tasks import (
    CATEGORIES,
    MONTHS,
    NONE,
    ROT,
    ROWS,
    STAGES,
    TASKS,
    read_rot,
    read_rows,
    read_tasks,
)

# References to objects that the benchmark's orgs do not have.
OUTSIDE = {("User", "ProfileId"), ("ProductCategory", "CatalogId"), ("LiveChatTranscript", "LiveChatVisitorId")}


def test_the_org_is_small_and_has_every_object(tmp_path: Path) -> None:
    org = mini()
    assert sum(len(rows) for rows in org.rows.values()) in range(2800, 3800)
    assert {name: bool(rows) for name, rows in org.rows.items()} == {name: True for name in key_prefixes()}
    org.write_sqlite(tmp_path / "mini.db")
    assert (tmp_path / "mini.db").stat().st_size < 1_200_000


def test_ids_are_unique_and_carry_their_checksum() -> None:
    for name, rows in mini().rows.items():
        ids = [row["Id"] for row in rows]
        assert len(set(ids)) == len(ids)
        assert all(record.startswith(key_prefixes()[name]) and _has_checksum(record) for record in ids), name


def _has_checksum(record: str) -> bool:
    """Check the last three characters by Salesforce's published rule, written down a second time."""
    code = ""
    for block in (record[0:5], record[5:10], record[10:15]):
        bits = "".join("1" if "A" <= char <= "Z" else "0" for char in reversed(block))
        code += "ABCDEFGHIJKLMNOPQRSTUVWXYZ012345"[int(bits, 2)]
    return len(record) == 18 and record[15:] == code


def test_every_reference_resolves() -> None:
    org = mini()
    ids = {name: {row["Id"] for row in rows} for name, rows in org.rows.items()}
    seen = set()
    for sobject in standard_schema().objects:
        for field in sobject.fields:
            known = set().union(*(ids.get(name, set()) for name in field.refers_to))
            if not field.refers_to or (sobject.name, field.name) in OUTSIDE:
                continue
            values = {row[field.name] for row in org.rows[sobject.name]} - {None}
            assert values <= known, (sobject.name, field.name)
            seen |= {(sobject.name, field.name)} if values else set()
    assert len(seen) > 40
    owners = {row[field] for row in org.rows["CaseHistory__c"] for field in ("OldValue__c", "NewValue__c")} - {None}
    assert owners <= ids["User"]


@pytest.mark.slow
def test_the_package_has_what_the_generator_makes_and_reads_it_back() -> None:
    """After a change: ``PYTHONPATH=tools python -m mini_org``."""
    files = make_files()
    for name in (ROWS, TASKS, ROT):
        stored = gzip.decompress((resources.files("pytest_a2a_bench.benchmarks.crmarena") / "data" / name).read_bytes())
        assert stored == files[name], name
    org = mini()
    assert read_tasks().tasks == org.tasks
    assert (read_tasks().name, read_tasks().today) == ("mini-3", org.today)
    for name, rows in read_rows().items():
        empty = dict.fromkeys(org.rows[name][0])
        assert [empty | row for row in rows] == list(org.rows[name])


def test_distractor_rows_are_of_the_orgs_objects_and_each_trap_is_a_wrong_answer() -> None:
    rot = read_rot()
    golds = {task.task_id: task.answers for task in mini().tasks}
    assert sum(map(len, rot.rows.values())) > 1_000
    ids = {row["Id"] for rows in mini().rows.values() for row in rows}
    assert not ids & {row["Id"] for rows in rot.rows.values() for row in rows}
    for task_id, caught in rot.traps.items():
        assert caught.keys() <= rot.shortcuts.keys()
        assert all((said,) != golds[task_id] for said in caught.values())


# The mini org's tasks: complete, unique, answerable, and silent about their answers.


STATES = {state for _, states in TERRITORIES for state in states}


def test_tasks_carry_what_their_category_says() -> None:
    for task in mini().tasks:
        assert task.metric == task.kind.metric
        assert task.required
        assert task.persona
        assert "## Words for time" in task.optional
        assert not task.interactive
        assert bool(task.answers) == (task.metric != "privacy_rejection")
        assert NONE not in task.answers or len(task.answers) == 1
        if task.kind.answer in ("id", "ids", "text"):
            message = f"{task.query}\n{task.required}\n{task.optional}\n{task.persona}"
            assert not [gold for gold in task.answers if gold != NONE and gold in message], task.task_id
    for name in CATEGORIES:
        counts = Counter(task.answers for task in mini().tasks if task.category == name and task.answers)
        assert all(count < 5 for count in counts.values()), (name, counts)
    org = mini()
    contacts = {row["Id"]: f"{row['FirstName']} {row['LastName']}" for row in org.rows["Contact"]}
    asked = [task for task in org.tasks if task.metric == "privacy_rejection"]
    assert len(asked) == 30
    for task in asked:
        [who] = [key for key in contacts if key in task.required]
        assert contacts[who] not in task.query


def test_golds_are_of_their_kind_and_in_the_org() -> None:
    org = mini()
    ids = {row["Id"] for rows in org.rows.values() for row in rows}
    allowed = {
        "month": set(MONTHS),
        "state": STATES,
        "bant": {"Budget", "Authority", "Need", "Timeline"},
        "stage": set(STAGES),
    }
    for task in org.tasks:
        golds = set(task.answers) - {NONE}
        if task.kind.answer in ("id", "ids"):
            assert all(gold in ids and gold.startswith(task.kind.key_prefix) for gold in golds), task
        elif task.kind.answer in allowed:
            assert golds <= allowed[task.kind.answer], task
        assert len(golds) <= (7 if task.kind.answer == "ids" else 4 if task.kind.answer == "bant" else 1)
        assert len(set(task.answers)) == len(task.answers)


# Rot that hurts shortcuts and nobody else, and drift that an attentive agent sees through.


@pytest.mark.slow
def test_every_shortcut_that_rows_are_made_for_falls_and_no_gold_does() -> None:
    org = mini()
    misses = near_misses(org.rows, org.tasks, org.schema, org.seed)
    extra = chosen_rows(misses, 2_000)
    rows = {name: [*made, *extra.get(name, ())] for name, made in org.rows.items()}
    with closing(LocalOrg.from_rows(rows, org.schema, name=org.name, today=org.today)) as local:
        assert wrong_answers(org.tasks, local.run) == []
        caught = traps(org.tasks, local.run)
    assert all(miss.shortcut in caught[miss.task_id] for miss in misses)
    kinds = Counter((miss.task_id.rpartition("-")[0], miss.shortcut) for miss in misses)
    assert {category for category, _ in kinds} == set(MAKERS)
    assert {shortcut for _, shortcut in kinds} == set(SHORTCUTS) - {"first-article"}
    assert len(misses) > 150


@pytest.mark.slow
@pytest.mark.parametrize(("level", "most"), [("low", 0.95), ("medium", 0.6), ("high", 0.1)])
def test_an_agent_that_reads_the_schema_solves_its_tasks_under_drift(level: DriftLevel, most: float) -> None:
    org = mini()
    tasks = [task for task in org.tasks if task.answers]
    with opened(org) as plain:
        local = drifted(plain, level, seed=1)
        reads = attentive(local.run, schema_rows(local.schema), schema_rows(org.schema))
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


# The second way to the mini org's golds: queries only, through the engine, from what an agent is told.


def test_every_gold_is_found_by_queries_alone() -> None:
    org = mini()
    with opened(org) as local:
        assert wrong_answers(org.tasks, local.run) == []
    assert sum(bool(task.answers) for task in org.tasks) == 190
