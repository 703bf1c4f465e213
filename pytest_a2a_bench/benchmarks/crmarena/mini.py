"""Our own small org and its 220 tasks, read from data that ``tools/mini_org`` of the repository makes."""

from __future__ import annotations

import gzip
import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date
from functools import cache
from importlib import resources
from typing import Any

from pytest_a2a_bench.benchmarks.crmarena.tasks import CATEGORIES, CrmTask, Twin

ROWS = "mini_rows.json.gz"
TASKS = "mini_tasks.json.gz"
ROT = "mini_rot.json.gz"

Rows = dict[str, list[dict[str, Any]]]
"""Records by object."""


@dataclass(frozen=True, slots=True)
class MiniTasks:
    """The tasks.

    :param name: the org with the version of its data.
    :param today: the day that relative dates in queries (``LAST_MONTH`` ...) are counted from.
    """

    name: str
    today: date
    tasks: tuple[CrmTask, ...]


@dataclass(frozen=True, slots=True)
class Rot:
    """Distractor rows, none of which changes a right answer.

    :param shortcuts: names of the shortcuts that the rows are made for -> what such an agent does, behind "one who".
    :param traps: by task and shortcut the wrong answer that a shortcut comes to.
    """

    rows: Rows
    shortcuts: Mapping[str, str]
    traps: Mapping[str, Mapping[str, str]]


@cache
def read_tasks() -> MiniTasks:
    """Return the tasks, by category in the order of the categories."""
    data = _load(TASKS)
    return MiniTasks(
        data["name"], date.fromisoformat(data["today"]), tuple(_task(each, data["optional"]) for each in data["tasks"])
    )


def read_rows() -> Rows:
    """Return the org's records."""
    return _records(_load(ROWS))


@cache
def read_rot() -> Rot:
    """Return the distractor rows and what they are made for."""
    data = _load(ROT)
    return Rot(_records(data["rows"]), data["shortcuts"], data["traps"])


def _load(name: str) -> Any:
    return json.loads(gzip.decompress((resources.files(__package__) / "data" / name).read_bytes()))


def _records(objects: Mapping[str, Mapping[str, Any]]) -> Rows:
    return {
        name: [dict(zip(each["columns"], row, strict=True)) for row in each["rows"]] for name, each in objects.items()
    }


def _task(entry: Mapping[str, Any], optional: str) -> CrmTask:
    category = entry["id"].rpartition("-")[0]
    return CrmTask(
        task_id=entry["id"],
        category=category,
        query=entry["query"],
        metric=CATEGORIES[category].metric,
        answers=tuple(entry["answers"]),
        persona=entry["persona"],
        required=entry["required"],
        optional=optional,
        twin=Twin(*entry["twin"]) if "twin" in entry else None,
    )
