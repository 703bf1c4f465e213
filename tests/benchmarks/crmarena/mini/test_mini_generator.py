"""The generator: the same everywhere, valid as an org, and of the size that it says."""

from __future__ import annotations

import gzip
import re
import sqlite3
import subprocess
import sys
from datetime import date
from importlib import resources
from pathlib import Path

import pytest
from mini_org.building import key_prefixes
from mini_org.files import make_files
from mini_org.org import MiniOrg
from mini_orgs import fingerprint, mini

from pytest_a2a_bench.benchmarks.crmarena.org.schema import standard_schema
from pytest_a2a_bench.benchmarks.crmarena.tasks import ROT, ROWS, TASKS, read_rot, read_rows, read_tasks

ROWS_HASH = "6f1cd10c8a65e0f0fe04d1a2919ca89e5ca983c0463178cd69033f5acc5ef6cd"
TASKS_HASH = "cfdcb402231cd5095585f233a583bf6510dcb1eff1d9c1c9ef753b277fe25c20"

IN_ANOTHER_PROCESS = """
import sys
sys.path[:0] = ["tests/support", "tools"]
from mini_orgs import fingerprint, mini
org = mini()
print(fingerprint(org.rows), fingerprint([task.to_json() for task in org.tasks]))
"""

# References to objects that the benchmark's orgs do not have.
OUTSIDE = {("User", "ProfileId"), ("ProductCategory", "CatalogId"), ("LiveChatTranscript", "LiveChatVisitorId")}


def test_the_default_org_is_pinned() -> None:
    org = mini()
    assert fingerprint(org.rows) == ROWS_HASH, "the rows changed: raise VERSION if that is meant, then pin this"
    assert fingerprint([task.to_json() for task in org.tasks]) == TASKS_HASH


@pytest.mark.parametrize("hash_seed", ["0", "4711"])
def test_another_process_builds_the_same(hash_seed: str) -> None:
    found = subprocess.run(
        [sys.executable, "-c", IN_ANOTHER_PROCESS],
        capture_output=True,
        text=True,
        check=True,
        cwd=Path(__file__).parents[4],
        env={"PYTHONHASHSEED": hash_seed, "PYTHONPATH": "."},
    )
    assert found.stdout.split() == [ROWS_HASH, TASKS_HASH]


def test_the_org_is_small_and_has_every_object(tmp_path: Path) -> None:
    org = mini()
    assert sum(len(rows) for rows in org.rows.values()) in range(2800, 3800)
    assert {name: bool(rows) for name, rows in org.rows.items()} == {name: True for name in key_prefixes()}
    org.write_sqlite(tmp_path / "mini.db")
    assert (tmp_path / "mini.db").stat().st_size < 1_200_000


@pytest.mark.parametrize("seed", [1, 2])
def test_ids_are_unique_and_carry_their_checksum(seed: int) -> None:
    for name, rows in mini(seed).rows.items():
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


@pytest.mark.parametrize("seed", [1, 2])
def test_every_reference_resolves(seed: int) -> None:
    _check_references(mini(seed))


def _check_references(org: MiniOrg) -> None:
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


@pytest.mark.parametrize("seed", [1, 2])
def test_values_have_the_shape_of_the_official_tables(seed: int) -> None:
    shapes = {
        "datetime": re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.000\+0000"),
        "date": re.compile(r"\d{4}-\d\d-\d\d"),
    }
    for sobject in standard_schema().objects:
        for field in sobject.fields:
            values = [row[field.name] for row in mini(seed).rows[sobject.name] if row[field.name] is not None]
            if shape := shapes.get(field.type):
                assert all(shape.fullmatch(value) for value in values), field
            if field.type == "boolean":
                assert set(values) <= {0, 1}


def test_nothing_that_is_counted_happens_at_a_weekend() -> None:
    org = mini()
    counted = [("Case", "CreatedDate"), ("Lead", "CreatedDate"), ("Lead", "ConvertedDate")]
    counted += [("Order", "EffectiveDate"), ("Contract", "CompanySignedDate")]
    for name, field in counted:
        days = [date.fromisoformat(row[field][:10]) for row in org.rows[name] if row[field]]
        assert days
        assert max(day.weekday() for day in days) <= 4, (name, field)


def test_the_tables_hold_the_rows(tmp_path: Path) -> None:
    org = mini()
    org.write_sqlite(tmp_path / "mini.db")
    connection = sqlite3.connect(tmp_path / "mini.db")
    connection.row_factory = sqlite3.Row
    for name, rows in org.rows.items():
        assert [dict(row) for row in connection.execute(f'SELECT * FROM "{name}" ORDER BY rowid')] == list(rows)
    connection.close()


@pytest.fixture(scope="module")
def files() -> dict[str, bytes]:
    return make_files()


@pytest.mark.parametrize("name", [ROWS, TASKS, ROT])
def test_the_package_has_what_the_generator_makes(files: dict[str, bytes], name: str) -> None:
    """After a change: ``PYTHONPATH=tools python -m mini_org``."""
    stored = gzip.decompress((resources.files("pytest_a2a_bench.benchmarks.crmarena") / "data" / name).read_bytes())
    assert stored == files[name]


def test_what_is_read_is_what_was_made() -> None:
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
