"""Read tables of JSON, JSON lines and Parquet, and the tasks and schemas in them."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple, TypeVar, get_args

from pytest_a2a_bench.benchmarks.crmarena.org.schema import OrgSchema, read_published
from pytest_a2a_bench.benchmarks.crmarena.tasks import CATEGORIES, NONE, CrmTask, Metric
from pytest_a2a_bench.errors import ConfigurationError, MissingExtraError

T = TypeVar("T")
_SHOWN = 10
_METRICS: tuple[str, ...] = get_args(Metric)


class TableRow(NamedTuple):
    """One row of a table: where it stands (for messages), and what it says."""

    place: str
    value: Any


def read_table(paths: tuple[Path, ...]) -> list[TableRow]:
    """Read the rows of a table.

    :raises ConfigurationError: if a file cannot be read, saying where.
    """
    return [row for path in paths for row in (_read_parquet if path.suffix == ".parquet" else _read_json)(path)]


def _read_json(path: Path) -> Iterator[TableRow]:
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as exc:
        raise ConfigurationError(f"{path} cannot be read as UTF-8 text: {exc}; download it again") from exc
    # A .json file may have an object on each line, as data sets on the hub often do.
    if path.suffix == ".jsonl" or re.match(r"\s*\{[^\n]*\}\s*\n\s*\{", text):
        # Not splitlines(): JSON strings may hold U+2028 and its like as they are.
        lines = ((number, line) for number, line in enumerate(text.split("\n"), start=1) if line.strip())
        yield from (TableRow(f"{path.name} line {number}", _parse(path, line, number)) for number, line in lines)
        return
    value = _parse(path, text)
    if not isinstance(value, list):
        found = "a JSON object" if isinstance(value, dict) else "a single JSON value"
        raise ConfigurationError(f"{path} holds {found}; it must be a JSON list with one object per row")
    yield from (TableRow(f"{path.name}[{index}]", item) for index, item in enumerate(value))


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
        raise MissingExtraError("pyarrow", "parquet", f"{path.name} is a Parquet file") from exc
    try:
        rows = pyarrow.parquet.read_table(path).to_pylist()
    except Exception as exc:
        reason = str(exc).splitlines()[0] if str(exc) else ""
        raise ConfigurationError(f"{path} cannot be read as Parquet: {reason}; download it again") from exc
    yield from (TableRow(f"{path.name}[{index}]", item) for index, item in enumerate(rows))


def read_task_table(rows: Iterable[TableRow], where: str, *, interactive: bool) -> tuple[CrmTask, ...]:
    """Read all tasks of a domain.

    Golds are kept as they are, apart from their shape: the original split's scalars become lists of one, and null
    becomes ``None``. A gold such as ``"Authority, Need"`` stays one text here; only fixed scoring takes it apart.

    :param where: the file or data set, for messages.
    :raises ConfigurationError: naming each row that is no task (the first ten) and the field.
    """
    known: set[str] = set()

    def read(row: Any, position: int) -> CrmTask:
        task = _read_task(row, position, interactive)
        if task.task_id in known:
            raise ValueError(f"idx {task.task_id} is there twice")
        known.add(task.task_id)
        return task

    return tuple(_read_rows(rows, read, f"{where} has rows that are no CRMArena tasks"))


def read_schema_table(rows: Iterable[TableRow], where: str) -> OrgSchema:
    """Read an org's schema; fields that are null (tables on the hub have them) do not exist.

    :raises ConfigurationError: naming each row that is no object.
    """
    return read_published(_read_rows(rows, _read_object, f"{where} is no schema"))


def _read_rows(rows: Iterable[TableRow], read: Callable[[Any, int], T], what: str) -> list[T]:
    """Return what is read of each row's value and position; a ValueError says what is wrong with it.

    :raises ConfigurationError: naming each row with which something is wrong, or saying that there is none.
    """
    found: list[T] = []
    problems: list[str] = []
    for position, row in enumerate(rows):
        try:
            found.append(read(row.value, position))
        except ValueError as problem:
            problems.append(f"{row.place}: {problem}")
    if found and not problems:
        return found
    problems = problems or ["it has no rows"]
    more = f"\n  and {len(problems) - _SHOWN} more" if len(problems) > _SHOWN else ""
    listed = "".join(f"\n  {p}" for p in problems[:_SHOWN])
    raise ConfigurationError(f"{what} ({len(problems)} problems); check that it is the published file:{listed}{more}")


def _read_object(row: Any, position: int) -> Mapping[str, Any]:
    name, fields = (row.get("object"), row.get("fields")) if isinstance(row, Mapping) else (None, None)
    if not isinstance(name, str) or not name:
        raise ValueError(f"it has no object name (object: {_show(name)})")
    if not isinstance(fields, Mapping):
        raise ValueError(f"({name}): fields is {_show(fields)}, not an object of names and descriptions")
    return {"object": name, "fields": {k: str(v) for k, v in fields.items() if v is not None}}


def _read_task(row: Any, position: int, interactive: bool) -> CrmTask:
    if not isinstance(row, Mapping):
        raise ValueError(f"it is {_show(row)}, not an object")
    category = row.get("task")
    if not isinstance(category, str) or category not in CATEGORIES:
        raise ValueError(f"task is {_show(category)}; the categories are: {', '.join(CATEGORIES)}")
    metric = row.get("reward_metric") or CATEGORIES[category].metric
    if metric not in _METRICS:
        raise ValueError(f"reward_metric is {_show(metric)}; it must be one of {', '.join(_METRICS)}")
    query = row.get("query")
    if not isinstance(query, str) or not query.strip():
        raise ValueError(f"query is {_show(query)}, not a question")
    metadata = row.get("metadata") or {}
    if not isinstance(metadata, Mapping):
        raise ValueError(f"metadata is {_show(metadata)}, not an object")
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
    number = position if idx is None else idx
    if (isinstance(idx, str) and idx.strip().isdigit()) or (isinstance(idx, float) and idx.is_integer()):
        number = int(idx)
    if isinstance(number, bool) or not isinstance(number, int) or number < 0:
        raise ValueError(f"idx is {_show(idx)}, not a number")
    return f"{number:04d}"


def _answers(row: Mapping[str, Any]) -> tuple[str, ...]:
    if "answer" not in row:
        raise ValueError("it has no answer")
    values = row["answer"] if isinstance(row["answer"], list) else [row["answer"]]
    if not values:
        raise ValueError("answer is an empty list")
    for value in values:
        if isinstance(value, bool) or not isinstance(value, str | int | float | None):
            raise ValueError(f"answer has {type(value).__name__} in it; it must hold texts, numbers or nulls")
    return tuple(NONE if v is None else f"{v:g}" if isinstance(v, float) else str(v) for v in values)


def _text(place: Mapping[str, Any], key: str) -> str:
    value = place.get(key)
    if not isinstance(value, str | None):
        raise ValueError(f"{key} is {_show(value)}, not text")
    return value or ""


def _show(value: Any) -> str:
    """Show a bad value, shortened. Golds never pass here."""
    text = "missing" if value is None else repr(value)
    return text if len(text) <= 60 else text[:57] + "..."
