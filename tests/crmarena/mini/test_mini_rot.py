"""Distractor rows: as many as asked for, like the others, and without effect on any answer."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from datetime import date
from pathlib import Path

import pytest
from mini_orgs import fingerprint, mini, opened, published, rows_of, wrong_answers

from pytest_a2a_bench.benchmarks.crmarena.mini.rot import add_rot, distractors
from pytest_a2a_bench.benchmarks.crmarena.org.standard import standard_schema

ROT_HASH = "88fb25a0e4a78d55c968b1fbe7487c2c900374a6806752c34f420e2c4c863e9c"


@pytest.mark.parametrize("count", [0, 1, 7, 250])
def test_it_makes_as_many_rows_as_asked_for(count: int) -> None:
    added = distractors(mini().rows, count, seed=5)
    assert sum(len(rows) for rows in added.values()) == count


def test_it_is_the_same_for_the_same_seed_and_another_for_another() -> None:
    rows = mini().rows
    assert distractors(rows, 200, seed=5) == distractors(rows, 200, seed=5)
    assert distractors(rows, 200, seed=5) != distractors(rows, 200, seed=6)
    assert fingerprint(distractors(rows, 200, seed=5)) == ROT_HASH


def test_rows_and_tables_rot_alike() -> None:
    org = mini()
    added = distractors(org.rows, 120, seed=3)
    with closing(org.to_connection()) as connection:
        assert add_rot(connection, 120, seed=3) == 120
        for name, rows in org.rows.items():
            found = connection.execute(f'SELECT * FROM "{name}" ORDER BY rowid').fetchall()
            assert found == [tuple(row.values()) for row in [*rows, *added.get(name, [])]], name


def test_the_old_rows_stay_and_a_second_rot_adds_to_the_first() -> None:
    org = mini()
    with closing(org.to_connection()) as connection:
        add_rot(connection, 60, seed=1)
        add_rot(connection, 60, seed=1)
        total = sum(connection.execute(f'SELECT COUNT(*) FROM "{name}"').fetchone()[0] for name in org.rows)
    assert total == sum(len(rows) for rows in org.rows.values()) + 120


def test_it_is_dated_long_before_the_org() -> None:
    org = mini()
    first = min(value[:10] for value in _dates(org.rows))
    last = max(value[:10] for value in _dates(distractors(org.rows, 500, seed=2)))
    assert date.fromisoformat(first).year - date.fromisoformat(last).year >= 4


def _dates(rows: object) -> Iterator[str]:
    assert isinstance(rows, dict)
    for sobject in standard_schema().objects:
        for field in sobject.fields:
            if field.type in ("date", "datetime"):
                yield from (row[field.name] for row in rows.get(sobject.name, []) if row[field.name])


def test_it_hangs_together_and_never_on_what_tasks_name() -> None:
    """References lead to other distractors or to users; no user joins a territory, and no issue is added."""
    org = mini()
    added = distractors(org.rows, 800, seed=2)
    new = {row["Id"] for rows in added.values() for row in rows}
    users = rows_of(org, "User")
    assert len(new) == 800
    for sobject in standard_schema().objects:
        for field in sobject.fields:
            if field.refers_to:
                values = {row[field.name] for row in added.get(sobject.name, [])} - {None}
                assert all(value in new or value in users for value in values), (sobject.name, field.name)
    assert not {"Issue__c", "Territory2", "UserTerritory2Association", "User"} & set(added)


def test_it_does_not_count_where_no_date_decides() -> None:
    added = distractors(mini().rows, 800, seed=2)
    assert {row["Status"] for row in added["Case"]} == {"Closed"}
    assert {row["IssueId__c"] for row in added["Case"]} == {row["OrderItemId__c"] for row in added["Case"]} == {None}
    assert {row["IsConverted"] for row in added["Lead"]} == {1}
    assert "Accepted" not in {row["Status"] for row in added["Quote"]}
    assert {row["IsActive"] for row in added["Product2"]} == {0}


@pytest.mark.parametrize("count", [25, 600])
def test_every_gold_is_still_found(count: int) -> None:
    org = mini()
    with opened(org, rotten=count) as local:
        assert wrong_answers(org.tasks, local.run) == []


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(1, 21))
def test_every_gold_is_still_found_in_many_orgs(seed: int) -> None:
    org = mini(seed)
    with opened(org, rotten=2000) as local:
        assert wrong_answers(org.tasks, local.run) == []


def test_a_published_org_rots_within_its_own_tables(tmp_path: Path) -> None:
    copy = sqlite3.connect(tmp_path / "copy.db")
    with closing(sqlite3.connect(published("b2b_partial.db").as_uri() + "?mode=ro", uri=True)) as source:
        source.backup(copy)
    before = copy.execute('SELECT COUNT(*), MIN(CreatedDate) FROM "Case"').fetchone()
    assert add_rot(copy, 400, seed=1) == 400
    after = copy.execute('SELECT COUNT(*), MIN(CreatedDate) FROM "Case"').fetchone()
    recent = copy.execute('SELECT COUNT(*) FROM "Case" WHERE CreatedDate >= ?', (before[1],)).fetchone()
    copy.close()
    assert after[0] == before[0] + 20
    assert int(after[1][:4]) <= int(before[1][:4]) - 5
    assert recent == (before[0],)


def test_slips_of_the_pen_do_not_date_the_org() -> None:
    org = mini()
    with closing(org.to_connection()) as connection:
        connection.execute("""UPDATE "Order" SET EffectiveDate = '' WHERE rowid = 1""")
        connection.execute("""UPDATE "Order" SET EffectiveDate = '0001-01-01' WHERE rowid = 2""")
        connection.execute("""UPDATE "Order" SET EffectiveDate = '1001-01-01' WHERE rowid = 3""")
        assert add_rot(connection, 60, seed=1) == 60
        added = connection.execute("""SELECT EffectiveDate FROM "Order" WHERE Id LIKE '801Rt%'""").fetchall()
    assert all("1930-01-01" < day < "1945-01-01" for (day,) in added)
    assert len(added) == 3
