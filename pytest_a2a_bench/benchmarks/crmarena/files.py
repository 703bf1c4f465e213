"""Read tables of JSON, JSON lines and Parquet, and the tasks and schemas in them."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple, get_args

from pytest_a2a_bench.benchmarks.crmarena.org.schema import OrgSchema
from pytest_a2a_bench.benchmarks.crmarena.org.standard import read_published
from pytest_a2a_bench.benchmarks.crmarena.tasks import CATEGORIES, NONE, CrmTask, Metric
from pytest_a2a_bench.errors import ConfigurationError, MissingExtraError


class TableRow(NamedTuple):
    """One row of a table: where it stands (for messages), and what it says."""

    place: str
    value: Any


def read_table(paths: tuple[Path, ...]) -> list[TableRow]:
    """Read the rows of a table.

    :raises ConfigurationError: if a file cannot be read, saying where.
    """
    return [row for path in paths for row in _read_file(path)]


def _read_file(path: Path) -> Iterator[TableRow]:
    if path.suffix == ".parquet":
        yield from _read_parquet(path)
        return
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as exc:
        raise ConfigurationError(f"{path} cannot be read as UTF-8 text: {exc}; download it again") from exc
    # A .json file may have an object on each line, as data sets on the hub often do.
    if path.suffix == ".jsonl" or re.match(r"\s*\{[^\n]*\}\s*\n\s*\{", text):
        yield from _read_lines(path, text)
        return
    value = _parse(path, text)
    if not isinstance(value, list):
        found = "a JSON object" if isinstance(value, dict) else "a single JSON value"
        raise ConfigurationError(f"{path} holds {found}; it must be a JSON list with one object per row")
    for index, item in enumerate(value):
        yield TableRow(f"{path.name}[{index}]", item)


def _read_lines(path: Path, text: str) -> Iterator[TableRow]:
    # Not splitlines(): JSON strings may hold U+2028 and its like as they are.
    for number, line in enumerate(text.split("\n"), start=1):
        if line.strip():
            yield TableRow(f"{path.name} line {number}", _parse(path, line, number))


def _parse(path: Path, text: str, line: int | None = None) -> Any:
    try:
        return json.loads(text)
    except json.JSONDecodeError as exc:
        where = f"line {line or exc.lineno}, column {exc.colno}"
        raise ConfigurationError(f"{path} is not JSON ({where}: {exc.msg}); download it again") from exc
    except RecursionError as exc:
        raise ConfigurationError(f"{path} is nested too deeply to be a table") from exc


def _read_parquet(path: Path) -> Iterator[TableRow]:
    try:
        import pyarrow.parquet
    except ImportError as exc:
        raise MissingExtraError("pyarrow", "hub", f"{path.name} is a Parquet file") from exc
    try:
        rows = pyarrow.parquet.read_table(path).to_pylist()
    except Exception as exc:
        reason = str(exc).splitlines()[0] if str(exc) else ""
        raise ConfigurationError(f"{path} cannot be read as Parquet: {reason}; download it again") from exc
    for index, item in enumerate(rows):
        yield TableRow(f"{path.name}[{index}]", item)


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
    tasks: dict[str, CrmTask] = {}
    problems: list[str] = []
    for position, row in enumerate(rows):
        try:
            task = _read_task(row.value, position, interactive)
            if task.task_id in tasks:
                raise _RowError(f"idx {task.task_id} is there twice")
            tasks[task.task_id] = task
        except _RowError as problem:
            problems.append(f"{row.place}: {problem}")
    _check(problems, bool(tasks), f"{where} has rows that are no CRMArena tasks")
    return tuple(tasks.values())


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
    _check(problems, bool(objects), f"{where} is no schema")
    return read_published(objects)


def _check(problems: list[str], has_rows: bool, what: str) -> None:
    if not problems and has_rows:
        return
    problems = problems or ["it has no rows"]
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
