from __future__ import annotations

import asyncio
from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any

import pytest

from pytest_a2a_bench.conformance.checks import list_tasks

Tasks = Mapping[str, str]


def judge(monkeypatch: pytest.MonkeyPatch, lists: list[Tasks], completed: Tasks) -> list[str]:
    """Return the findings of the filter by status, where the whole context is listed several times.

    :param lists: tasks of the context with their states, at each listing; the last one stays.
    :param completed: tasks that the list of those that are COMPLETED has.
    """
    found: list[str] = []

    async def walk(_: Any, size: int, status: str = "", **__: Any) -> list[Any]:
        tasks = completed if status == "TASK_STATE_COMPLETED" else {} if status else lists.pop(0)
        if not status and not lists:
            lists.append(tasks)
        listed = [{"id": key, "status": {"state": f"TASK_STATE_{state}"}} for key, state in tasks.items()]
        return [SimpleNamespace(result={"tasks": listed})]

    async def own(_: Any) -> tuple[str, list[str]]:
        return "c", []

    monkeypatch.setattr(list_tasks, "walk", walk)
    monkeypatch.setattr(list_tasks, "own", own)
    context: Any = SimpleNamespace(has_prompt=lambda _: False, fail=lambda text, *_, **__: found.append(text))
    asyncio.run(list_tasks.status_filters(context))
    return found


DONE = {"a": "COMPLETED"}


def test_a_task_that_another_check_made_between_two_lists_is_no_finding(monkeypatch: pytest.MonkeyPatch) -> None:
    assert judge(monkeypatch, [DONE, DONE | {"b": "COMPLETED"}], DONE | {"b": "COMPLETED"}) == []


@pytest.mark.parametrize("completed", [{}, DONE | {"of another context": "COMPLETED"}], ids=["missing", "surplus"])
def test_a_filter_that_does_not_filter_is_a_finding(monkeypatch: pytest.MonkeyPatch, completed: Tasks) -> None:
    assert len(judge(monkeypatch, [DONE], completed)) == 1
