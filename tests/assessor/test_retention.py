"""What is kept no longer than it may be: directories and rows of the database, while the assessor runs."""

from __future__ import annotations

import asyncio
import datetime
import json
import time
from pathlib import Path
from typing import Any

import pytest
from a2a.server.models import PushNotificationConfigModel, TaskEventModel, TaskModel, TaskVersionModel
from a2a.types import TaskPushNotificationConfig
from assessor_server import LOCAL, Caller, Told, gen3, program, served, wait_for_end
from sqlalchemy import CursorResult, Executable, func, select, update
from sqlalchemy.ext.asyncio import create_async_engine

from pytest_a2a_bench.assessor import store
from pytest_a2a_bench.assessor.server import ServerOptions
from pytest_a2a_bench.assessor.terms import Terms
from pytest_a2a_bench.results.assessments import Record, remove_old

DAY = 86_400


def in_database(url: str, statement: Executable) -> CursorResult[Any]:
    async def execute() -> CursorResult[Any]:
        engine = create_async_engine(url)
        try:
            async with engine.begin() as connection:
                return await connection.execute(statement)
        finally:
            await engine.dispose()

    return asyncio.run(execute())


def last_written(url: str, told: Told, days: float) -> None:
    """Let the database have heard last of an assessment so many days ago."""
    then = datetime.datetime.now(datetime.UTC).replace(tzinfo=None) - datetime.timedelta(days=days)
    changed = in_database(url, update(TaskModel).where(TaskModel.id == told.task).values(last_updated=then))
    assert changed.rowcount == 1


def age(results: Path, url: str, told: Told, days: float) -> None:
    """Let an assessment have ended so many days ago."""
    wait_for_end(results, told)
    file = results / told.task / "assessment.json"
    kept = json.loads(file.read_text())
    file.write_text(json.dumps({**kept, "ended": kept["ended"] - days * DAY}))
    last_written(url, told, days)


def rows(url: str, told: Told) -> list[int]:
    """Return how many rows each table has of an assessment."""
    columns = TaskModel.id, TaskEventModel.task_id, TaskVersionModel.task_id, PushNotificationConfigModel.task_id
    counts = [select(func.count()).where(column == told.task).scalar_subquery() for column in columns]
    return list(in_database(url, select(*counts)).one())


async def be_told(caller: Caller, told: Told) -> None:
    """Have a webhook told of an assessment."""
    async with caller.client() as client:
        await client.create_task_push_notification_config(
            TaskPushNotificationConfig(task_id=told.task, id="hook", url="http://127.0.0.1:9/")
        )


def test_what_is_old_is_removed_while_it_runs(
    tmp_path: Path, database: str, oracle_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(store, "EVERY", 0.05)
    results = tmp_path / "results"
    with served(Terms(results, guard=LOCAL, keep=7), place=ServerOptions(database=database)) as url:
        caller = Caller(url)
        request = gen3(oracle_url, domain="mock", num_tasks=1, tag_trials=True)
        old, new, refused = caller.ask(request), caller.ask(request), caller.ask({"participants": {}})
        assert refused.state == "rejected"
        for told in (old, new):
            asyncio.run(be_told(caller, told))
            assert all(rows(database, told))
        age(results, database, new, 6)
        last_written(database, refused, 1000)
        age(results, database, old, 8)
        while (results / old.task).exists() or any(rows(database, old)) or any(rows(database, refused)):
            time.sleep(0.05)
        assert caller.get(new.task).result["score"] == 1
        with pytest.raises(Exception, match="not found"):
            caller.get(old.task)
    assert (results / new.task / "assessment.json").exists()
    assert all(rows(database, new))


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
