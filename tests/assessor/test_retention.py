"""What is kept no longer than it may be: directories and rows of the database, while the assessor runs."""

from __future__ import annotations

import json
import sqlite3
import time
from pathlib import Path

import pytest
from assessor_server import LOCAL, Caller, Told, gen3, program, served, wait_for_end

from pytest_a2a_bench.assessor import retention
from pytest_a2a_bench.assessor.terms import Terms
from pytest_a2a_bench.results.assessments import Record, remove_old

TABLES = {"tasks": "id", "task_events": "task_id", "task_versions": "task_id"}
DAY = 86_400


def age(results: Path, told: Told, days: float) -> None:
    """Let an assessment have ended so many days ago."""
    wait_for_end(results, told)
    file = results / told.task / "assessment.json"
    kept = json.loads(file.read_text())
    file.write_text(json.dumps({**kept, "ended": kept["ended"] - days * DAY}))
    with sqlite3.connect(results / "tasks.db") as database:
        changed = database.execute(
            "UPDATE tasks SET last_updated = datetime(last_updated, ?) WHERE id = ?", (f"-{days} days", told.task)
        )
        assert changed.rowcount == 1
    database.close()


def rows(results: Path, told: Told) -> list[int]:
    with sqlite3.connect(results / "tasks.db") as database:
        found = [
            database.execute(f"SELECT count(*) FROM {table} WHERE {column} = ?", (told.task,)).fetchone()[0]
            for table, column in TABLES.items()
        ]
    database.close()
    return found


def test_what_is_old_is_removed_while_it_runs(tmp_path: Path, oracle_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(retention, "EVERY", 0.05)
    results = tmp_path / "results"
    with served(Terms(results, guard=LOCAL, keep=7)) as url:
        caller = Caller(url)
        request = gen3(oracle_url, domain="mock", num_tasks=1, tag_trials=True)
        old, new, refused = caller.ask(request), caller.ask(request), caller.ask({"participants": {}})
        assert refused.state == "rejected"
        age(results, new, 6)
        with sqlite3.connect(results / "tasks.db") as database:
            database.execute("UPDATE tasks SET last_updated = '2020-01-01' WHERE id = ?", (refused.task,))
        database.close()
        age(results, old, 8)
        while (results / old.task).exists() or any(rows(results, old)) or any(rows(results, refused)):
            time.sleep(0.05)
        assert caller.get(new.task).result["score"] == 1
        with pytest.raises(Exception, match="not found"):
            caller.get(old.task)
    assert (results / new.task / "assessment.json").exists()
    assert all(rows(results, new))


def test_what_has_not_ended_is_never_old(tmp_path: Path) -> None:
    long_ago = time.time() - 90 * DAY
    Record("running", "", {}, {}, state="running", submitted=long_ago).write(tmp_path / "running")
    Record("ended", "", {}, {}, state="failed", submitted=long_ago, ended=long_ago).write(tmp_path / "ended")
    assert remove_old(tmp_path, 7) == ["ended"]
    assert [path.name for path in tmp_path.iterdir()] == ["running"]


@pytest.mark.slow
def test_everything_is_its_owners_alone(tmp_path: Path, oracle_url: str) -> None:
    results = tmp_path / "kept" / "results"
    results.parent.mkdir()
    with program(results) as running:
        told = Caller(running.url).ask(gen3(oracle_url, domain="mock", num_tasks=1, tag_trials=True))
        wait_for_end(results, told)
        found = {path.relative_to(results).as_posix(): path.stat().st_mode & 0o777 for path in results.rglob("*")}
    assert results.stat().st_mode & 0o777 == 0o700
    assert len(found) > 8
    assert {name: oct(mode) for name, mode in found.items() if mode & 0o077} == {}
