"""Where a published domain's tasks and rows come from: a directory of the user's, or the Hugging Face hub.

Collection asks here for domains and task ids, so nothing that opens an org is imported: :mod:`.domains` does that.
"""

from __future__ import annotations

import dataclasses
import functools
import hashlib
import os
import threading
from abc import ABC, abstractmethod
from contextlib import closing
from pathlib import Path
from typing import Any, NamedTuple

from pytest_a2a_bench.benchmarks.crmarena import DOMAINS, MINI, files
from pytest_a2a_bench.benchmarks.crmarena.files import TableRow, read_schema, read_tasks
from pytest_a2a_bench.benchmarks.crmarena.mini import read_tasks as read_mini
from pytest_a2a_bench.benchmarks.crmarena.options import CrmOptions, parse_data
from pytest_a2a_bench.benchmarks.crmarena.org.schema import OrgSchema
from pytest_a2a_bench.benchmarks.crmarena.org.standard import read_published, standard_schema
from pytest_a2a_bench.benchmarks.crmarena.tasks import CrmTask, Provenance
from pytest_a2a_bench.benchmarks.suite import INTERACTIVE
from pytest_a2a_bench.errors import ConfigurationError, MissingExtraError
from pytest_a2a_bench.language_models import describe_failure
from pytest_a2a_bench.settings import Settings

PUBLISHED = tuple(domain for domain in DOMAINS if domain not in MINI)
"""The domains that upstream publishes; what they hold is the user's to download."""

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


_HOME = "https://huggingface.co"


class Table(NamedTuple):
    """A table on the hub."""

    dataset: str
    config: str
    split: str

    def __str__(self) -> str:
        return f"{self.dataset} {self.config}/{self.split}"


def tasks_table(domain: str) -> Table:
    """Return where a domain's tasks are."""
    if domain == "original":
        return Table("Salesforce/CRMArena", "CRMArena", "test")
    return Table("Salesforce/CRMArenaPro", "CRMArenaPro", domain)


def schema_table(domain: str) -> Table:
    """Return where the schema of a domain's org is."""
    org = files.org_of(domain)
    if org == "original":
        return Table("Salesforce/CRMArena", "schema", "test")
    return Table("Salesforce/CRMArenaPro", f"{org}_schema", f"{org}_schema")


class HubSource(PublishedSource):
    """One domain on the Hugging Face hub, where upstream publishes tasks and schemas, but no rows.

    Downloads are kept in the library's own cache, by revision.

    :param revision: commit, tag or branch of the data set; None for its newest.
    :param rows: directory that has the org's SQLite file, or None.
    :raises ConfigurationError: if rows are needed and not there.
    """

    def __init__(self, domain: str, *, revision: str | None, rows: Path | None, needs_rows: bool = True) -> None:
        super().__init__(domain, files.find_rows(check_directory(rows), domain) if rows is not None else None)
        self._revision = revision
        if needs_rows and rows is None:
            raise ConfigurationError(
                f"the hub has the tasks and the schema of {domain!r}, but no rows of its org; download "
                f"{files.row_names(domain)[0]} from local_data/ of upstream's repository and pass "
                "--a2a-crm-data hub:DIR, or let a live org answer: --a2a-crm-org salesforce"
            )
        problems = rows_problems(self._rows, domain) if needs_rows else []
        if problems:
            raise ConfigurationError(f"{rows} does not have what the domain {domain!r} needs; {problems[0]}")

    def _read_tasks(self) -> tuple[CrmTask, ...]:
        table = tasks_table(self.domain)
        rows = load(table, self._revision)
        return read_tasks(rows, str(table), interactive=self.domain.endswith(INTERACTIVE))

    @functools.cached_property
    def schema(self) -> OrgSchema:
        """The schema on the hub."""
        table = schema_table(self.domain)
        return read_schema(load(table, self._revision), str(table))

    @functools.cached_property
    def provenance(self) -> Provenance:
        """The data set with its commit, and the blob id of the rows.

        Official where the hub is Hugging Face's own and the rows, if any are used, are upstream's.
        """
        table = tasks_table(self.domain)
        rows = provenance_of("hub", table.dataset, [self._rows], resolve(table.dataset, self._revision))
        home = os.environ.get("HF_ENDPOINT", _HOME).rstrip("/") == _HOME
        tables = tuple(f"{t.config}/{t.split}" for t in (table, schema_table(self.domain))) if home else ()
        return Provenance(
            rows.source,
            rows.name,
            rows.revision,
            rows.files,
            home and (self._rows is None or rows.official),
            (*tables, *rows.official_files),
        )


def load(table: Table, revision: str | None) -> list[TableRow]:
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
        raise ConfigurationError(_explain(table, revision, exc)) from exc


def _explain(table: Table, revision: str | None, exc: Exception) -> str:
    at = f" at revision {revision}" if revision else ""
    return (
        f"{table}{at} cannot be loaded from the hub: {describe_failure(exc)}; check the network, "
        "HF_ENDPOINT, HF_TOKEN, HF_HUB_OFFLINE and the revision, or download the data set yourself and pass "
        "--a2a-crm-data DIR"
    )


def resolve(dataset: str, revision: str | None) -> str | None:
    """Return the commit that a revision stands for; what was asked for where the hub cannot be asked now."""
    try:
        import huggingface_hub

        sha = huggingface_hub.HfApi().dataset_info(dataset, revision=revision).sha
    except Exception:  # the tables themselves may be in the cache
        return revision
    return sha or revision


def open_published(domain: str, settings: Settings) -> PublishedSource:
    """Return where a published domain's tasks and rows come from. Nothing big is read before it is asked for.

    :raises ConfigurationError: if there is no such domain, its files are not there, or are not what they should be.
    """
    chosen = CrmOptions.of(settings)
    if domain not in PUBLISHED:
        raise ConfigurationError(f"CRMArena has no domain {domain!r}; there are: {', '.join(DOMAINS)}")
    where = parse_data(chosen.data)
    if where is None:
        raise ConfigurationError(
            f"the domain {domain!r} needs CRMArena's data, which is not ours to ship (CC BY-NC 4.0); download it and "
            "pass --a2a-crm-data DIR, or --a2a-crm-data hub"
        )
    needs_rows = chosen.org == "local"
    if where.hub:
        return HubSource(domain, revision=where.revision, rows=where.directory, needs_rows=needs_rows)
    return DirectorySource(domain, where.directory, needs_rows=needs_rows)


def available_domains(settings: Settings) -> tuple[str, ...]:
    """Return the published domains for which ``--a2a-crm-data`` has tasks. Looks at file names only.

    On the hub there are all of them.
    """
    where = parse_data(CrmOptions.of(settings).data)
    if where is None:
        return ()
    if where.hub:
        return PUBLISHED
    return tuple(domain for domain in PUBLISHED if files.find_tasks(where.directory, domain))


def task_ids(domain: str, settings: Settings) -> tuple[tuple[str, str], ...]:
    """Return the ids of a domain's tasks and the category of each, in the order of the source.

    :raises ConfigurationError: as :func:`open_published`, and if a row is no task.
    """
    if domain in MINI:
        return tuple((task.task_id, task.category) for task in read_mini().tasks)
    # Ids need no rows of an org, so that their file may be missing here.
    return open_published(
        domain, dataclasses.replace(settings, benchmark_options={**settings.benchmark_options, "crm_org": "salesforce"})
    ).task_ids()
