"""What is kept for how long: directories of assessments, and what the database has of their tasks, removed by age.

While the assessor runs, too. Several that share a database each do it, and each finds what the others left.
"""

from __future__ import annotations

import asyncio
import datetime
import logging
from collections.abc import Sequence
from pathlib import Path

from a2a.server.models import PushNotificationConfigModel, TaskEventModel, TaskModel, TaskVersionModel
from a2a.types import TaskState
from sqlalchemy import delete, select
from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.ext.asyncio import AsyncEngine

from pytest_a2a_bench.assessor.executor import ENDED
from pytest_a2a_bench.results import assessments as records

log = logging.getLogger(__name__)

EVERY = 3600.0
"""Seconds between two looks."""

_AT_ONCE = 500


async def keep_removing(results: Path, engine: AsyncEngine, days: float) -> None:
    """Remove what has ended so many days ago, now and each hour, until it is cancelled."""
    while True:
        try:
            for name in await asyncio.to_thread(records.remove_old, results, days):
                log.info("assessment removed for its age", extra={"assessment": name})
            count = await remove_tasks(engine, days)
            if count:
                log.info("tasks removed from the database for their age", extra={"tasks": count})
        except (SQLAlchemyError, OSError) as error:  # a disk or a database that comes back
            log.warning("what is old could not be removed", extra={"reason": type(error).__name__})
        await asyncio.sleep(EVERY)


async def remove_tasks(engine: AsyncEngine, days: float) -> int:
    """Remove tasks that ended so many days ago, with their events and webhooks, and return how many these were."""
    before = datetime.datetime.now(datetime.UTC).replace(tzinfo=None) - datetime.timedelta(days=days)
    has_ended = TaskModel.status["state"].as_string().in_([TaskState.Name(state) for state in ENDED])
    async with engine.connect() as connection:
        found = await connection.scalars(select(TaskModel.id).where(TaskModel.last_updated < before, has_ended))
        gone = list(found)
    for start in range(0, len(gone), _AT_ONCE):
        await _remove(engine, gone[start : start + _AT_ONCE])
    return len(gone)


async def _remove(engine: AsyncEngine, names: Sequence[str]) -> None:
    async with engine.begin() as connection:
        for model in (TaskEventModel, PushNotificationConfigModel, TaskVersionModel):
            await connection.execute(delete(model).where(model.task_id.in_(names)))
        await connection.execute(delete(TaskModel).where(TaskModel.id.in_(names)))
