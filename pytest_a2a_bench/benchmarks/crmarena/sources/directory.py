"""A directory that the user downloaded: task files, schemas and SQLite files of upstream's."""

from __future__ import annotations

import functools
import hashlib
import threading
from abc import ABC, abstractmethod
from contextlib import closing
from pathlib import Path

from pytest_a2a_bench.benchmarks.crmarena.org.schema import OrgSchema
from pytest_a2a_bench.benchmarks.crmarena.org.standard import read_published, standard_schema
from pytest_a2a_bench.benchmarks.crmarena.sources import files
from pytest_a2a_bench.benchmarks.crmarena.sources.rows import read_schema, read_tasks
from pytest_a2a_bench.benchmarks.crmarena.tasks import CrmTask, Provenance
from pytest_a2a_bench.benchmarks.suite import INTERACTIVE
from pytest_a2a_bench.errors import ConfigurationError

OFFICIAL = {
    "crmarena_data.db": "86cf4c611eb93e674d3af6047ed1aeb9a7f07416",
    "crmarenapro_b2b_data.db": "6e1978093efd0a7a7c97b65c124d12d098bb917f",
    "crmarenapro_b2c_data.db": "dd0434bfd849dc8212c41d6095e3365ad75a1ce2",
}
"""The databases in upstream's ``local_data/``, by name."""

_CHUNK = 1 << 20


class PublishedSource(ABC):
    """What the sources of upstream's files have in common: tasks are read once, whichever thread asks first.

    :param rows: the SQLite file of the domain's org, or None.
    """

    def __init__(self, domain: str, rows: Path | None) -> None:
        self.domain = domain
        self._rows = rows
        self._lock = threading.RLock()

    @abstractmethod
    def _read_tasks(self) -> tuple[CrmTask, ...]: ...

    @property
    @abstractmethod
    def schema(self) -> OrgSchema:
        """What the agent may know of the org."""

    @property
    @abstractmethod
    def provenance(self) -> Provenance:
        """Where it all came from; files that were not read yet are read for it."""

    @functools.cached_property
    def _loaded(self) -> tuple[CrmTask, ...]:
        return self._read_tasks()

    def tasks(self) -> tuple[CrmTask, ...]:
        """Return the tasks."""
        with self._lock:
            return self._loaded

    def task_ids(self) -> tuple[tuple[str, str], ...]:
        """Return ids and categories."""
        return tuple((task.task_id, task.category) for task in self.tasks())

    def rows_file(self) -> Path:
        """Return the SQLite file of the domain's org.

        :raises ConfigurationError: if it is not there, or is none.
        """
        return check_rows(self._rows, self.domain)


class DirectorySource(PublishedSource):
    """One domain in a directory.

    :param needs_rows: whether the SQLite file must be there (it need not where a live org answers queries).
    :raises ConfigurationError: listing everything that is not there, and what is there instead.
    """

    def __init__(self, domain: str, root: Path | None, *, needs_rows: bool = True) -> None:
        self.root = check_directory(root)
        super().__init__(domain, files.find_rows(root, domain))
        self._tasks = files.find_tasks(root, domain)
        self._schema = files.find_schema(root, domain)
        problems = [] if self._tasks else [_missing_tasks(domain)]
        problems += rows_problems(self._rows, domain) if needs_rows else []
        if problems:
            listed = "".join(f"\n  {p}" for p in problems)
            raise ConfigurationError(
                f"{self.root} does not have what the domain {domain!r} needs:{listed}\n"
                f"  The directory holds {files.list_files(self.root)}"
            )

    def _read_tasks(self) -> tuple[CrmTask, ...]:
        interactive = self.domain.endswith(INTERACTIVE)
        return read_tasks(files.read_table(self._tasks), self._name(self._tasks), interactive=interactive)

    @functools.cached_property
    def schema(self) -> OrgSchema:
        """The schema file's, or where there is none, the tables' own with our descriptions."""
        if self._schema:
            return read_schema(files.read_table(self._schema), self._name(self._schema))
        return schema_of_rows(self._rows)

    @functools.cached_property
    def provenance(self) -> Provenance:
        """The directory's name and the blob ids of the files that are used."""
        return provenance_of("directory", self.root.name, [*self._tasks, *self._schema, self._rows])

    def _name(self, paths: tuple[Path, ...]) -> str:
        return str(paths[0]) if len(paths) == 1 else f"{paths[0].parent} ({len(paths)} files)"


def check_directory(root: Path | None) -> Path:
    """Return a directory that is there.

    :raises ConfigurationError: if it is not.
    """
    if root is None or not root.is_dir():
        what = "is a file" if root is not None and root.exists() else "does not exist"
        raise ConfigurationError(f"--a2a-crm-data: {root} {what}; it must be a directory with CRMArena's files")
    return root.resolve()


def rows_problems(rows: Path | None, domain: str) -> list[str]:
    """Say what is wrong with the SQLite file of a domain's org; an empty list where nothing is."""
    if rows is None:
        names = " or ".join(files.row_names(domain))
        return [
            f"the org's rows: no {names}, there or in local_data/ (upstream's repository has it in local_data/); "
            "or let a live org answer: --a2a-crm-org salesforce"
        ]
    problem = files.check_sqlite(rows)
    return [f"the org's rows: {problem}"] if problem else []


def _missing_tasks(domain: str) -> str:
    stems = ", ".join(files.task_stems(domain))
    return f"the tasks: none of {stems} (.json, .jsonl or .parquet), there or in data/, tasks/, CRMArena(Pro)/"


def check_rows(rows: Path | None, domain: str) -> Path:
    """Return the SQLite file of a domain's org.

    :raises ConfigurationError: if it is not there, or is none.
    """
    problems = rows_problems(rows, domain)
    if rows is None or problems:
        raise ConfigurationError(f"the domain {domain!r} cannot be queried; {problems[0]}")
    return rows


def schema_of_rows(rows: Path | None) -> OrgSchema:
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


def provenance_of(source: str, name: str, paths: list[Path | None], revision: str | None = None) -> Provenance:
    """Name the files of a source by their blob ids."""
    used = {path.name: blob_id(path) for path in paths if path is not None}
    official = tuple(name for name, blob in used.items() if is_official(blob))
    return Provenance(source, name, revision, used, bool(used) and len(official) == len(used), official)


def blob_id(path: Path) -> str:
    """Return the id that git gives a file of this content."""
    digest = hashlib.sha1(b"blob %d\0" % path.stat().st_size, usedforsecurity=False)
    with path.open("rb") as file:
        while chunk := file.read(_CHUNK):
            digest.update(chunk)
    return digest.hexdigest()


def blob_of(content: bytes) -> str:
    """Return the id that git gives to content."""
    return hashlib.sha1(b"blob %d\0%b" % (len(content), content), usedforsecurity=False).hexdigest()


def is_official(blob: str) -> bool:
    """Tell whether a blob is one that upstream published, under whichever name it is kept."""
    return blob in OFFICIAL.values()
