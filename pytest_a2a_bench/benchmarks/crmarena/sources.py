"""The sources of a domain's tasks and rows, this package (mini) or a directory of the user's, and their tables.

Collection asks here for domains and task ids, so nothing that opens an org is imported: :mod:`.domains` does that.
"""

from __future__ import annotations

import dataclasses
import functools
import hashlib
import json
import math
import re
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import closing
from pathlib import Path
from typing import Any, Literal, NamedTuple, TypeVar, get_args

from pytest_a2a_bench.benchmarks.crmarena import DOMAINS, MINI
from pytest_a2a_bench.benchmarks.crmarena.options import CrmOptions
from pytest_a2a_bench.benchmarks.crmarena.org import OrgSchema, read_published, standard_schema
from pytest_a2a_bench.benchmarks.crmarena.tasks import CATEGORIES, NONE, CrmTask, Metric, Provenance, read_tasks
from pytest_a2a_bench.benchmarks.registry import INTERACTIVE
from pytest_a2a_bench.config.settings import Settings
from pytest_a2a_bench.errors import ConfigurationError, MissingExtraError
from pytest_a2a_bench.text import listed, refusing

PUBLISHED = tuple(domain for domain in DOMAINS if domain not in MINI)
"""The domains that upstream publishes; their data are the user's to download."""

OFFICIAL = {
    "crmarena_data.db": "86cf4c611eb93e674d3af6047ed1aeb9a7f07416",
    "crmarenapro_b2b_data.db": "6e1978093efd0a7a7c97b65c124d12d098bb917f",
    "crmarenapro_b2c_data.db": "dd0434bfd849dc8212c41d6095e3365ad75a1ce2",
}
"""The databases in upstream's ``local_data/``, by name."""

_FOLDERS = ("", "local_data", "data", "tasks", "CRMArenaPro", "CRMArena")
_SUFFIXES = (".json", ".jsonl", ".parquet")
_ORIGINAL_TASKS = ("original_tasks", "crmarena_tasks", "crmarena_w_metadata", "original", "crmarena", "CRMArena/test")
_ORIGINAL_SCHEMA = ("original_schema", "crmarena_schema", "schema_with_dependencies", "schema/test", "schema")
_ROWS = dict(zip(("original", "b2b", "b2c"), OFFICIAL, strict=True))
_SQLITE = b"SQLite format 3\0"
_POINTER = b"version https://git-lfs"


class MiniSource:
    """The mini org, whose tasks and rows are data of this package."""

    def __init__(self, domain: str) -> None:
        self.domain = domain
        self.schema = standard_schema()

    def tasks(self) -> tuple[CrmTask, ...]:
        """Return the tasks."""
        interactive = self.domain.endswith(INTERACTIVE)
        return tuple(dataclasses.replace(task, interactive=interactive) for task in read_tasks().tasks)

    @property
    def provenance(self) -> Provenance:
        """The version of the data."""
        return Provenance("mini", read_tasks().name)


class PublishedSource:
    """A published domain's tasks, schema and rows; tasks are read once, by the thread that asks first.

    :raises ConfigurationError: if it has no tasks, listing the missing files, and the present ones.
    """

    def __init__(self, domain: str, directory: Path) -> None:
        self.domain = domain
        self._lock = threading.Lock()
        self._tasks: tuple[CrmTask, ...] | None = None
        self._root = root = directory.resolve()
        if not root.is_dir():
            what = "is a file" if root.exists() else "does not exist"
            raise ConfigurationError(f"--a2a-crm-data: {root} {what}; it must be a directory with CRMArena's files")
        self._rows = _find_rows(root, domain)
        if not self._files("tasks"):
            stems = ", ".join(_stems("tasks", domain))
            problem = (
                f"the tasks: none of {stems} (.json, .jsonl or .parquet), there or in data/, tasks/, CRMArena(Pro)/"
            )
            listed = "".join(f"\n  {each}" for each in [problem, *_rows_problems(self._rows, domain)])
            raise ConfigurationError(
                f"{root} does not have what the domain {domain!r} needs:{listed}\n"
                f"  The directory holds {_list_files(root)}"
            )

    def _files(self, kind: Literal["tasks", "schema"]) -> tuple[Path, ...]:
        return _find_table(self._root, _stems(kind, self.domain))

    def _table(self, kind: Literal["tasks", "schema"]) -> tuple[list[TableRow], str]:
        """Return the rows of a table, and its name for messages."""
        paths = self._files(kind)
        return read_table(paths), str(paths[0]) if len(paths) == 1 else f"{paths[0].parent} ({len(paths)} files)"

    def tasks(self) -> tuple[CrmTask, ...]:
        """Return the tasks."""
        with self._lock:
            if self._tasks is None:
                self._tasks = read_task_table(*self._table("tasks"), interactive=self.domain.endswith(INTERACTIVE))
            return self._tasks

    @functools.cached_property
    def schema(self) -> OrgSchema:
        """The published schema; where the directory has none, the tables' own with our descriptions."""
        return read_schema_table(*self._table("schema")) if self._files("schema") else _schema_of_rows(self._rows)

    @functools.cached_property
    def provenance(self) -> Provenance:
        """The blob ids of the files that are used; official where every file is upstream's."""
        paths = [*self._files("tasks"), *self._files("schema"), *([self._rows] if self._rows else [])]
        used = {path.name: blob_id(path) for path in paths}
        official = tuple(name for name, blob in used.items() if blob in OFFICIAL.values())
        return Provenance("directory", self._root.name, used, len(official) == len(used), official)

    def rows_file(self) -> Path:
        """Return the SQLite file of the domain's org; raises ConfigurationError if it is not there, or is none."""
        problems = _rows_problems(self._rows, self.domain)
        if self._rows is None or problems:
            raise ConfigurationError(f"the domain {self.domain!r} cannot be queried; {problems[0]}")
        return self._rows


def org_of(domain: str) -> str:
    """Return the name of a domain's org: interactive domains share one with the plain ones."""
    return domain.removesuffix(INTERACTIVE)


def _stems(kind: Literal["tasks", "schema"], domain: str) -> tuple[str, ...]:
    """Return the names, without suffix, under which a table is looked for."""
    if org_of(domain) == "original":
        return _ORIGINAL_TASKS if kind == "tasks" else _ORIGINAL_SCHEMA
    if kind == "tasks":
        return (f"{domain}_tasks", f"crmarenapro_{domain}_tasks", f"crmarenapro_{domain}", domain)
    org = org_of(domain)
    return (f"{org}_schema", f"crmarenapro_{org}_schema", f"{org}_schema/{org}_schema")


def _find_table(root: Path, stems: tuple[str, ...]) -> tuple[Path, ...]:
    """Return the files of a table, several of a sharded Parquet table; nothing if there are none."""
    for stem in stems:
        for folder in (root / name for name in _FOLDERS):
            whole = [path for suffix in _SUFFIXES if (path := folder / f"{stem}{suffix}").is_file()]
            if whole:
                return (whole[0],)
            if shards := sorted(folder.glob(f"{stem}-*-of-*.parquet")):
                return tuple(shards)
    return ()


def _find_rows(root: Path, domain: str) -> Path | None:
    """Return the SQLite file of a domain's org, or None: by its official name, else the only ``*.db`` that names it."""
    folders = [root / name for name in _FOLDERS]
    org = org_of(domain)
    named = [path for folder in folders if (path := folder / _ROWS[org]).is_file()]
    others = sorted({path for folder in folders if folder.is_dir() for path in folder.glob(f"*{org}*.db")})
    return named[0] if named else others[0] if len(others) == 1 else None


def _rows_problems(rows: Path | None, domain: str) -> list[str]:
    """Describe the problems of the SQLite file of a domain's org; an empty list for none."""
    if rows is None:
        return [
            f"the org's rows: no {_ROWS[org_of(domain)]}, there or in local_data/ (upstream's repository has it in "
            "local_data/); or let a live org answer: --a2a-set crm-org=salesforce"
        ]
    with rows.open("rb") as file:
        start = file.read(len(_POINTER))
    if start.startswith(_SQLITE):
        return []
    if start == _POINTER:
        return [f"the org's rows: {rows} is a Git LFS pointer, not the database itself; run: git lfs pull"]
    return [f"the org's rows: {rows} is no SQLite database; download it again"]


def _list_files(root: Path) -> str:
    names = sorted(p.name + ("/" if p.is_dir() else "") for p in root.iterdir() if not p.name.startswith("."))
    return listed(names, 12) or "nothing"


def _schema_of_rows(rows: Path | None) -> OrgSchema:
    """Make a schema of a SQLite file's own tables and columns, with our descriptions of the known ones.

    Without a file (a live org answers) it has the known facts of the benchmark's objects.

    :raises ConfigurationError: if the file is no database.
    """
    # Only a directory without a schema file needs it, and collection imports this module.
    import sqlite3

    if rows is None:
        return standard_schema()
    try:
        with closing(sqlite3.connect(f"{rows.resolve().as_uri()}?mode=ro", uri=True)) as connection:
            names = [n for (n,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
            tables = {
                n: [c for (c,) in connection.execute("SELECT name FROM pragma_table_info(?)", (n,))] for n in names
            }
    except sqlite3.Error as exc:
        raise ConfigurationError(f"{rows} cannot be read as an SQLite database: {exc}; download it again") from exc
    known = {sobject.name: {f.name: f.description for f in sobject.fields} for sobject in standard_schema().objects}
    order = {name: place for place, name in enumerate(known)}
    published = [
        {"object": name, "fields": {column: known.get(name, {}).get(column, "") for column in tables[name]}}
        for name in sorted(tables, key=lambda n: (order.get(n, len(order)), n))
        if not name.startswith("sqlite_")
    ]
    return read_published(published)


def blob_id(path: Path) -> str:
    """Return the id that git gives a file of this content."""
    return blob_of(path.read_bytes())


def blob_of(content: bytes) -> str:
    """Return the id that git gives to content."""
    return hashlib.sha1(b"blob %d\0%b" % (len(content), content), usedforsecurity=False).hexdigest()


Source = MiniSource | PublishedSource
"""A domain's tasks, schema and rows; may be asked from several threads at once."""


def make_source(domain: str, settings: Settings) -> Source:
    """Return where a domain's tasks and rows come from. Nothing big is read before it is asked for.

    :raises ConfigurationError: if there is no such domain, or its files are missing or damaged.
    """
    if domain in MINI:
        return MiniSource(domain)
    chosen = CrmOptions.of(settings)
    if domain not in PUBLISHED:
        raise ConfigurationError(f"CRMArena has no domain {domain!r}; there are: {', '.join(DOMAINS)}")
    if chosen.data is None:
        raise ConfigurationError(f"the domain {domain!r} {why_absent(settings, domain)}")
    return PublishedSource(domain, Path(chosen.data))


def why_absent(settings: Settings, domain: str) -> str:
    """Return the missing part of a domain without tasks, as the end of a sentence."""
    data = CrmOptions.of(settings).data
    if not data:
        return (
            "is data of CRMArena's, which is not ours to ship; download it and pass --a2a-crm-data DIR; "
            f"without it there are: {', '.join(MINI)}"
        )
    try:
        task_ids(domain, settings)
    except ConfigurationError as error:
        return f"is not there: {error}"
    return f"is not in {data}"


def available_domains(settings: Settings) -> tuple[str, ...]:
    """Return the published domains for which ``--a2a-crm-data`` has tasks. Reads file names only."""
    data = CrmOptions.of(settings).data
    return tuple(domain for domain in PUBLISHED if data and _find_table(Path(data), _stems("tasks", domain)))


def task_ids(domain: str, settings: Settings) -> tuple[tuple[str, str], ...]:
    """Return the ids of a domain's tasks and the category of each, in the order of the source.

    :raises ConfigurationError: as :func:`make_source`, and if a row is no task.
    """
    return tuple((task.task_id, task.category) for task in make_source(domain, settings).tasks())


T = TypeVar("T")
_SHOWN = 10
_METRICS: tuple[str, ...] = get_args(Metric)


class TableRow(NamedTuple):
    """One row of a table: its place (for messages), and its values."""

    place: str
    value: Any


def read_table(paths: tuple[Path, ...]) -> list[TableRow]:
    """Read the rows of a table; raises ConfigurationError if a file cannot be read, saying where."""
    return [row for path in paths for row in (_read_parquet if path.suffix == ".parquet" else _read_json)(path)]


def _read_json(path: Path) -> Iterator[TableRow]:
    with refusing(f"{path} cannot be read", "download it again"):
        text = path.read_text(encoding="utf-8-sig")
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

    return tuple(_read_rows(rows, read, where, "has rows that are no CRMArena tasks"))


def read_schema_table(rows: Iterable[TableRow], where: str) -> OrgSchema:
    """Read an org's schema; fields that are null (tables on the hub have them) do not exist.

    :raises ConfigurationError: naming each row that is no object.
    """
    return read_published(_read_rows(rows, _read_object, where, "is no schema"))


def _read_rows(rows: Iterable[TableRow], read: Callable[[Any, int], T], where: str, what: str) -> list[T]:
    """Return the reading of each row's value and position; a ValueError describes a problem.

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
    if not problems:
        raise ConfigurationError(f"{where} has no rows; download it again")
    more = f"\n  and {len(problems) - _SHOWN} more" if len(problems) > _SHOWN else ""
    listed = "".join(f"\n  {p}" for p in problems[:_SHOWN])
    many = f"({len(problems)} {'problem' if len(problems) == 1 else 'problems'})"
    raise ConfigurationError(f"{where} {what} {many}; check that it is the published file:{listed}{more}")


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
        if isinstance(value, float) and not math.isfinite(value):
            raise ValueError(
                f"answer has {value} in it, which no agent could answer; it must hold texts, numbers or nulls"
            )
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
