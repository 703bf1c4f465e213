"""Several assessors with one database and one results directory: whichever is asked answers for all."""

import asyncio
import datetime
import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from a2a.server.models import PushNotificationConfigModel, TaskEventModel, TaskModel, TaskVersionModel
from a2a.types import SubscribeToTaskRequest, TaskPushNotificationConfig
from assessor_server import LOCAL, Caller, Received, asking, gen3, message, program, served, wait_for_end
from builtin_server import served as agent_served
from google.protobuf.json_format import MessageToDict
from span_receiver import span_receiver
from sqlalchemy import CursorResult, Executable, func, select, update
from sqlalchemy.ext.asyncio import create_async_engine

from pytest_a2a_bench.assessor import store
from pytest_a2a_bench.assessor.server import ServerOptions
from pytest_a2a_bench.assessor.terms import Terms
from pytest_a2a_bench.results.assessments import Record, remove_old


@pytest.fixture
def pair(database: str, tmp_path: Path) -> Iterator[tuple[Caller, Caller]]:
    terms, place = Terms(tmp_path / "results", guard=LOCAL), ServerOptions(database=database)
    with served(terms, place=place) as first, served(terms, place=place) as second:
        yield Caller(first), Caller(second)


async def _subscribe(caller: Caller, received: Received) -> None:
    async with caller.client() as client:
        async for event in client.subscribe(SubscribeToTaskRequest(id=received.task)):
            received.take(MessageToDict(event))


def test_one_tells_of_what_the_other_does_and_cancels_it(pair: tuple[Caller, Caller], tmp_path: Path) -> None:
    first, second = pair
    with agent_served("oracle?latency=0.1") as agent:
        request = gen3(agent.url, domain="mock", num_tasks=3, tag_trials=True, concurrency=1)
        with asking(first, request) as asked:
            followed = Received(task=asked.task)
            asyncio.run(_subscribe(second, followed))
    assert followed.state == "completed"
    assert followed.result == asked.result
    assert second.get(asked.task).result["score"] == 3

    with agent_served("oracle?latency=30") as agent:
        request = gen3(agent.url, domain="mock", num_tasks=1, tag_trials=True)
        with asking(first, request) as asked:
            more = message(request)
            more.task_id = asked.task
            for caller in pair:
                with pytest.raises(Exception, match="no further messages"):
                    asyncio.run(caller._ask(more, Received()))
            assert second.get(asked.task).state == "working"
            assert second.cancel(asked.task) == "TASK_STATE_CANCELED"
    assert first.get(asked.task).state == "canceled"
    assert wait_for_end(tmp_path / "results", asked)["state"] == "canceled"


@pytest.mark.slow
def test_one_takes_up_what_the_other_left_when_it_was_killed(database: str, tmp_path: Path) -> None:
    results, shared = tmp_path / "results", ("--database-env", "SHARED")
    with agent_served("oracle?latency=0.2") as agent, span_receiver() as spans:
        env = {"SHARED": database, "OTEL_EXPORTER_OTLP_ENDPOINT": spans.url, "OTEL_BSP_SCHEDULE_DELAY": "20"}
        request = gen3(agent.url, domain="mock", num_tasks=5, tag_trials=True, concurrency=1)
        with program(results, *shared, env=env) as second:
            with program(results, *shared, env=env) as first, asking(Caller(first.url), request) as asked:
                while not (spans.named("trial ") and list(results.glob("*/trials/*.json"))):
                    time.sleep(0.02)
                first.kill()
            held = {path: path.read_bytes() for path in results.glob("*/trials/*.json")}
            before = {span.trace_id for span in spans.spans}
            found = Caller(second.url).poll(asked.task)
            assert second.stop() == 0
    assert (found.state, found.result["score"]) == ("completed", 5)
    assert {path: path.read_bytes() for path in held} == held, "run again"
    # The one that was killed could not tell of the assessment; the other one's is in the same trace.
    assert len(before) == 1
    assert {span.trace_id for span in spans.named("assess mock")} == before
    assert {span.trace_id for span in spans.named("trial ")} == before
    assert len({span.name for span in spans.named("trial ")}) == 5


# What is kept no longer than it may be: directories and rows of the database, while the assessor runs.


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


def last_written(url: str, received: Received, days: float) -> None:
    """Let the database have heard last of an assessment so many days ago."""
    then = datetime.datetime.now(datetime.UTC).replace(tzinfo=None) - datetime.timedelta(days=days)
    changed = in_database(url, update(TaskModel).where(TaskModel.id == received.task).values(last_updated=then))
    assert changed.rowcount == 1


def age(results: Path, url: str, received: Received, days: float) -> None:
    wait_for_end(results, received)
    file = results / received.task / "assessment.json"
    kept = json.loads(file.read_text())
    file.write_text(json.dumps({**kept, "ended": kept["ended"] - days * DAY}))
    last_written(url, received, days)


def rows(url: str, received: Received) -> list[int]:
    """Return how many rows each table has of an assessment."""
    columns = TaskModel.id, TaskEventModel.task_id, TaskVersionModel.task_id, PushNotificationConfigModel.task_id
    counts = [select(func.count()).where(column == received.task).scalar_subquery() for column in columns]
    return list(in_database(url, select(*counts)).one())


async def subscribe_webhook(caller: Caller, received: Received) -> None:
    async with caller.client() as client:
        await client.create_task_push_notification_config(
            TaskPushNotificationConfig(task_id=received.task, id="hook", url="http://127.0.0.1:9/")
        )


@pytest.mark.slow
def test_old_assessments_are_removed_while_the_server_runs(
    tmp_path: Path, database: str, oracle_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(store, "EVERY", 0.05)
    results = tmp_path / "results"
    with served(Terms(results, guard=LOCAL, keep=7), place=ServerOptions(database=database)) as url:
        caller = Caller(url)
        request = gen3(oracle_url, domain="mock", num_tasks=1, tag_trials=True)
        old, new, refused = caller.ask(request), caller.ask(request), caller.ask({"participants": {}})
        assert refused.state == "rejected"
        for received in (old, new):
            asyncio.run(subscribe_webhook(caller, received))
            assert all(rows(database, received))
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


def test_a_running_assessment_is_never_removed(tmp_path: Path) -> None:
    long_ago = time.time() - 90 * DAY
    Record("running", "", {}, {}, state="running", submitted=long_ago).write(tmp_path / "running")
    Record("ended", "", {}, {}, state="failed", submitted=long_ago, ended=long_ago).write(tmp_path / "ended")
    assert remove_old(tmp_path, 7) == ["ended"]
    assert [path.name for path in tmp_path.iterdir()] == ["running"]
