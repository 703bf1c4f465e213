"""The sources of a domain's tasks and rows: this package (mini), a directory of the user's, or the Hugging Face hub.

Collection asks here for domains and task ids, so nothing that opens an org is imported: :mod:`.domains` does that.
"""

from __future__ import annotations

import dataclasses
import functools
import hashlib
import os
import threading
from contextlib import closing
from pathlib import Path
from typing import Any, Literal, NamedTuple

from pytest_a2a_bench.benchmarks.crmarena import DOMAINS, MINI
from pytest_a2a_bench.benchmarks.crmarena.files import TableRow, read_schema_table, read_table, read_task_table
from pytest_a2a_bench.benchmarks.crmarena.options import CrmOptions, DataSpec, parse_data
from pytest_a2a_bench.benchmarks.crmarena.org.schema import OrgSchema, read_published, standard_schema
from pytest_a2a_bench.benchmarks.crmarena.tasks import CrmTask, Provenance, read_tasks
from pytest_a2a_bench.benchmarks.registry import INTERACTIVE
from pytest_a2a_bench.config.settings import Settings
from pytest_a2a_bench.errors import ConfigurationError, MissingExtraError
from pytest_a2a_bench.language_models import describe_failure
from pytest_a2a_bench.text import listed

PUBLISHED = tuple(domain for domain in DOMAINS if domain not in MINI)
"""The domains that upstream publishes; what they hold is the user's to download."""

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
_ROWS = {
    "original": ("crmarena_data.db", "original_data.db", "original.db"),
    "b2b": ("crmarenapro_b2b_data.db", "b2b_data.db", "b2b.db"),
    "b2c": ("crmarenapro_b2c_data.db", "b2c_data.db", "b2c.db"),
}
_SQLITE = b"SQLite format 3\0"
_POINTER = b"version https://git-lfs"
_HOME = "https://huggingface.co"


class HubTable(NamedTuple):
    """A table on the hub."""

    dataset: str
    config: str
    split: str

    def __str__(self) -> str:
        return f"{self.dataset} {self.config}/{self.split}"


class MiniSource:
    """The mini org, whose tasks and rows are data of this package."""

    def __init__(self, domain: str) -> None:
        self.domain = domain
        self.schema = standard_schema()

    def tasks(self) -> tuple[CrmTask, ...]:
        """Return the tasks."""
        interactive = self.domain.endswith(INTERACTIVE)
        return tuple(dataclasses.replace(task, interactive=interactive) for task in read_tasks().tasks)

    def task_ids(self) -> tuple[tuple[str, str], ...]:
        """Return ids and categories."""
        return tuple((task.task_id, task.category) for task in read_tasks().tasks)

    @property
    def provenance(self) -> Provenance:
        """The version of the data."""
        return Provenance("mini", read_tasks().name)


class PublishedSource:
    """A published domain's tasks, schema and rows; tasks are read once, by the thread that asks first.

    The hub has tasks and schemas, but no rows: these are in the directory that is named beside it.

    :param needs_rows: whether the SQLite file must be there (it need not where a live org answers queries).
    :raises ConfigurationError: listing everything that is not there, and what is there instead.
    """

    def __init__(self, domain: str, where: DataSpec, *, needs_rows: bool = True) -> None:
        self.domain = domain
        self._where = where
        self._lock = threading.Lock()
        self._tasks: tuple[CrmTask, ...] | None = None
        root = where.directory.resolve() if where.directory is not None else None
        if root is not None and not root.is_dir():
            what = "is a file" if root.exists() else "does not exist"
            raise ConfigurationError(f"--a2a-crm-data: {root} {what}; it must be a directory with CRMArena's files")
        if root is None and needs_rows:
            raise ConfigurationError(
                f"the hub has the tasks and the schema of {domain!r}, but no rows of its org; download "
                f"{_ROWS[org_of(domain)][0]} from local_data/ of upstream's repository and pass "
                "--a2a-crm-data hub:DIR, or let a live org answer: --a2a-set crm-org=salesforce"
            )
        self._root = root
        self._rows = None if root is None else _find_rows(root, domain)
        problems = _rows_problems(self._rows, domain) if needs_rows else []
        if root is not None and not where.hub and not self._files("tasks"):
            stems = ", ".join(_stems("tasks", domain))
            where_ = "there or in data/, tasks/, CRMArena(Pro)/"
            problems.insert(0, f"the tasks: none of {stems} (.json, .jsonl or .parquet), {where_}")
        if root is not None and problems:
            listed = "".join(f"\n  {problem}" for problem in problems)
            raise ConfigurationError(
                f"{root} does not have what the domain {domain!r} needs:{listed}\n"
                f"  The directory holds {_list_files(root)}"
            )

    def _files(self, kind: Literal["tasks", "schema"]) -> tuple[Path, ...]:
        return () if self._root is None or self._where.hub else _find_table(self._root, _stems(kind, self.domain))

    def _table(self, kind: Literal["tasks", "schema"]) -> tuple[list[TableRow], str]:
        """Return the rows of a table, and its name for messages."""
        if self._where.hub:
            table = _hub_table(kind, self.domain)
            return _load(table, self._where.revision), str(table)
        paths = self._files(kind)
        return read_table(paths), str(paths[0]) if len(paths) == 1 else f"{paths[0].parent} ({len(paths)} files)"

    def tasks(self) -> tuple[CrmTask, ...]:
        """Return the tasks."""
        with self._lock:
            if self._tasks is None:
                self._tasks = read_task_table(*self._table("tasks"), interactive=self.domain.endswith(INTERACTIVE))
            return self._tasks

    def task_ids(self) -> tuple[tuple[str, str], ...]:
        """Return ids and categories."""
        return tuple((task.task_id, task.category) for task in self.tasks())

    @functools.cached_property
    def schema(self) -> OrgSchema:
        """The published schema; where a directory has none, the tables' own with our descriptions."""
        if self._where.hub or self._files("schema"):
            return read_schema_table(*self._table("schema"))
        return _schema_of_rows(self._rows)

    @functools.cached_property
    def provenance(self) -> Provenance:
        """The blob ids of the files that are used, and the data set with its commit where it is on the hub.

        Official where every file is upstream's, and the hub is Hugging Face's own.
        """
        paths = [*self._files("tasks"), *self._files("schema"), *([self._rows] if self._rows else [])]
        used = {path.name: blob_id(path) for path in paths}
        official = tuple(name for name, blob in used.items() if blob in OFFICIAL.values())
        is_official = len(official) == len(used)
        if not self._where.hub:
            name = "" if self._root is None else self._root.name
            return Provenance("directory", name, None, used, bool(used) and is_official, official)
        tables = _hub_table("tasks", self.domain), _hub_table("schema", self.domain)
        home = os.environ.get("HF_ENDPOINT", _HOME).rstrip("/") == _HOME
        named = tuple(f"{table.config}/{table.split}" for table in tables) if home else ()
        revision = _resolve(tables[0].dataset, self._where.revision)
        return Provenance("hub", tables[0].dataset, revision, used, home and is_official, (*named, *official))

    def rows_file(self) -> Path:
        """Return the SQLite file of the domain's org.

        :raises ConfigurationError: if it is not there, or is none.
        """
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
    """Return the SQLite file of a domain's org, or None: by its known names, else the only ``*.db`` that names it."""
    folders = [root / name for name in _FOLDERS]
    org = org_of(domain)
    named = [path for name in _ROWS[org] for folder in folders if (path := folder / name).is_file()]
    others = sorted({path for folder in folders if folder.is_dir() for path in folder.glob(f"*{org}*.db")})
    return named[0] if named else others[0] if len(others) == 1 else None


def _rows_problems(rows: Path | None, domain: str) -> list[str]:
    """Say what is wrong with the SQLite file of a domain's org; an empty list where nothing is."""
    if rows is None:
        return [
            f"the org's rows: no {' or '.join(_ROWS[org_of(domain)])}, there or in local_data/ (upstream's repository "
            "has it in local_data/); or let a live org answer: --a2a-set crm-org=salesforce"
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
    """Make a schema of a SQLite file's own tables and columns, with our descriptions of those that we know.

    Without a file (a live org answers) it is what we know of the benchmark's objects.

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


def _hub_table(kind: Literal["tasks", "schema"], domain: str) -> HubTable:
    if org_of(domain) == "original":
        return HubTable("Salesforce/CRMArena", "CRMArena" if kind == "tasks" else "schema", "test")
    if kind == "tasks":
        return HubTable("Salesforce/CRMArenaPro", "CRMArenaPro", domain)
    return HubTable("Salesforce/CRMArenaPro", f"{org_of(domain)}_schema", f"{org_of(domain)}_schema")


def _load(table: HubTable, revision: str | None) -> list[TableRow]:
    """Load a table, from the library's cache where it has it.

    :raises MissingExtraError: without the extra ``hub``.
    :raises ConfigurationError: if the hub cannot be reached or refuses.
    """
    try:
        import datasets
    except ImportError as exc:
        raise MissingExtraError("datasets", "hub", "tasks from the hub need it") from exc
    datasets.disable_progress_bars()
    try:
        loaded: Any = datasets.load_dataset(table.dataset, table.config, split=table.split, revision=revision)
        return [TableRow(f"{table}[{index}]", dict(row)) for index, row in enumerate(loaded)]
    except Exception as exc:
        at = f" at revision {revision}" if revision else ""
        raise ConfigurationError(
            f"{table}{at} cannot be loaded from the hub: {describe_failure(exc)}; check the network, HF_ENDPOINT, "
            "HF_TOKEN, HF_HUB_OFFLINE and the revision, or download the data set yourself and pass --a2a-crm-data DIR"
        ) from exc


def _resolve(dataset: str, revision: str | None) -> str | None:
    """Return the commit that a revision stands for; what was asked for where the hub cannot be asked now."""
    try:
        import huggingface_hub

        sha = huggingface_hub.HfApi().dataset_info(dataset, revision=revision).sha
    except Exception:  # the tables themselves may be in the cache
        return revision
    return sha or revision


Source = MiniSource | PublishedSource
"""A domain's tasks, schema and rows; may be asked from several threads at once."""


def make_source(domain: str, settings: Settings, *, needs_rows: bool = True) -> Source:
    """Return where a domain's tasks and rows come from. Nothing big is read before it is asked for.

    :param needs_rows: whether the rows must be there, unless a live org has them.
    :raises ConfigurationError: if there is no such domain, its files are not there, or are not what they should be.
    """
    if domain in MINI:
        return MiniSource(domain)
    chosen = CrmOptions.of(settings)
    if domain not in PUBLISHED:
        raise ConfigurationError(f"CRMArena has no domain {domain!r}; there are: {', '.join(DOMAINS)}")
    where = parse_data(chosen.data)
    if where is None:
        raise ConfigurationError(f"the domain {domain!r} {why_absent(settings, domain)}")
    return PublishedSource(domain, where, needs_rows=needs_rows and chosen.org == "local")


def why_absent(settings: Settings, domain: str) -> str:
    """Say what a domain lacks that has no tasks here: the end of a sentence."""
    data = CrmOptions.of(settings).data
    if not data:
        return (
            "is data of CRMArena's, which is not ours to ship; download it and pass --a2a-crm-data DIR (or hub); "
            f"without it there are: {', '.join(MINI)}"
        )
    try:
        task_ids(domain, settings)
    except ConfigurationError as error:
        return f"is not there: {error}"
    return f"is not in {data}"


def available_domains(settings: Settings) -> tuple[str, ...]:
    """Return the published domains for which ``--a2a-crm-data`` has tasks; the hub has all. Reads file names only."""
    where = parse_data(CrmOptions.of(settings).data)
    if where is not None and where.hub:
        return PUBLISHED
    root = where.directory if where is not None else None
    if root is None or not root.is_dir():
        return ()
    return tuple(domain for domain in PUBLISHED if _find_table(root, _stems("tasks", domain)))


def task_ids(domain: str, settings: Settings) -> tuple[tuple[str, str], ...]:
    """Return the ids of a domain's tasks and the category of each, in the order of the source.

    :raises ConfigurationError: as :func:`make_source`, and if a row is no task.
    """
    # Ids need no rows of an org, so that their file may be missing here.
    return make_source(domain, settings, needs_rows=False).task_ids()
