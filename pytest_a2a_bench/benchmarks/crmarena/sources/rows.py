"""From rows as upstream publishes them to tasks, and to a schema; every row that is none is named."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, get_args

from pytest_a2a_bench.benchmarks.crmarena.org.schema import OrgSchema
from pytest_a2a_bench.benchmarks.crmarena.org.standard import read_published
from pytest_a2a_bench.benchmarks.crmarena.sources.files import TableRow
from pytest_a2a_bench.benchmarks.crmarena.tasks import CATEGORIES, NONE, CrmTask, Metric
from pytest_a2a_bench.errors import ConfigurationError

_SHOWN = 10
_METRICS: tuple[str, ...] = get_args(Metric)


class _RowError(Exception):
    """A row that is no task; the message says which field, and what is in it."""


def read_tasks(rows: Iterable[TableRow], where: str, *, interactive: bool) -> tuple[CrmTask, ...]:
    """Read all tasks of a domain.

    Golds are kept as they are, apart from their shape: the original split's scalars become lists of one, and null
    becomes ``None``. A gold such as ``"Authority, Need"`` stays one text here; only fixed scoring takes it apart.

    :param where: the file or data set, for messages.
    :raises ConfigurationError: naming each row that is no task (the first ten) and the field.
    """
    tasks, problems = try_tasks(rows, interactive=interactive)
    if not tasks and not problems:
        problems.append(("", "it has no rows"))
    listed = [f"{place}: {problem}" if place else problem for place, problem in problems]
    _raise(listed, f"{where} has rows that are no CRMArena tasks")
    return tasks


def try_tasks(rows: Iterable[TableRow], *, interactive: bool) -> tuple[tuple[CrmTask, ...], list[tuple[str, str]]]:
    """Read the rows that are tasks, and say of each other one where it is and what is wrong with it."""
    tasks: dict[str, CrmTask] = {}
    problems: list[tuple[str, str]] = []
    for position, row in enumerate(rows):
        try:
            task = _read_task(row.value, position, interactive)
            if task.task_id in tasks:
                raise _RowError(f"idx {task.task_id} is there twice")
            tasks[task.task_id] = task
        except _RowError as problem:
            problems.append((row.place, str(problem)))
    return tuple(tasks.values()), problems


def read_schema(rows: Iterable[TableRow], where: str) -> OrgSchema:
    """Read an org's schema; fields that are null (tables on the hub have them) do not exist.

    :raises ConfigurationError: naming each row that is no object.
    """
    objects: list[dict[str, Any]] = []
    problems: list[str] = []
    for place, value in rows:
        fields = value.get("fields") if isinstance(value, Mapping) else None
        name = value.get("object") if isinstance(value, Mapping) else None
        if not isinstance(name, str) or not name:
            problems.append(f"{place}: it has no object name (object: {_show(name)})")
        elif not isinstance(fields, Mapping):
            problems.append(f"{place} ({name}): fields is {_show(fields)}, not an object of names and descriptions")
        else:
            objects.append({"object": name, "fields": {k: str(v) for k, v in fields.items() if v is not None}})
    if not objects and not problems:
        problems.append("it has no rows")
    _raise(problems, f"{where} is no schema")
    return read_published(objects)


def _raise(problems: list[str], what: str) -> None:
    if not problems:
        return
    more = f"\n  and {len(problems) - _SHOWN} more" if len(problems) > _SHOWN else ""
    listed = "".join(f"\n  {p}" for p in problems[:_SHOWN])
    raise ConfigurationError(f"{what} ({len(problems)} problems); check that it is the published file:{listed}{more}")


def _read_task(row: Any, position: int, interactive: bool) -> CrmTask:
    if not isinstance(row, Mapping):
        raise _RowError(f"it is {_show(row)}, not an object")
    category = row.get("task")
    if not isinstance(category, str) or category not in CATEGORIES:
        raise _RowError(f"task is {_show(category)}; the categories are: {', '.join(CATEGORIES)}")
    metric = row.get("reward_metric") or CATEGORIES[category].metric
    if metric not in _METRICS:
        raise _RowError(f"reward_metric is {_show(metric)}; it must be one of {', '.join(_METRICS)}")
    query = row.get("query")
    if not isinstance(query, str) or not query.strip():
        raise _RowError(f"query is {_show(query)}, not a question")
    metadata = row.get("metadata") or {}
    if not isinstance(metadata, Mapping):
        raise _RowError(f"metadata is {_show(metadata)}, not an object")
    return CrmTask(
        task_id=_task_id(row.get("idx"), position),
        category=category,
        query=query,
        metric=metric,
        answers=() if metric == "privacy_rejection" else _answers(row),
        persona=_text(row, "persona"),
        required=_text(metadata, "required"),
        optional=_text(metadata, "optional"),
        interactive=interactive,
    )


def _task_id(idx: Any, position: int) -> str:
    """Write the number with four digits; the original split's rows that have none are numbered by position."""
    if idx is None:
        return f"{position:04d}"
    if isinstance(idx, str) and idx.strip().isdigit():
        idx = int(idx)
    if isinstance(idx, float) and idx.is_integer():
        idx = int(idx)
    if isinstance(idx, bool) or not isinstance(idx, int) or idx < 0:
        raise _RowError(f"idx is {_show(idx)}, not a number")
    return f"{idx:04d}"


def _answers(row: Mapping[str, Any]) -> tuple[str, ...]:
    if "answer" not in row:
        raise _RowError("it has no answer")
    answer = row["answer"]
    values = answer if isinstance(answer, list) else [answer]
    if not values:
        raise _RowError("answer is an empty list")
    return tuple(_answer(value) for value in values)


def _answer(value: Any) -> str:
    if value is None:
        return NONE
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        raise _RowError(f"answer has {type(value).__name__} in it; it must hold texts, numbers or nulls")
    return value if isinstance(value, str) else f"{value:g}" if isinstance(value, float) else str(value)


def _text(place: Mapping[str, Any], key: str) -> str:
    value = place.get(key)
    if value is None:
        return ""
    if not isinstance(value, str):
        raise _RowError(f"{key} is {_show(value)}, not text")
    return value


def _show(value: Any) -> str:
    """Show a bad value, shortened. Golds never pass here."""
    text = "missing" if value is None else repr(value)
    return text if len(text) <= 60 else text[:57] + "..."
