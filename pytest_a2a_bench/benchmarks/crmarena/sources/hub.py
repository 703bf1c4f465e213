"""The Hugging Face hub: upstream publishes tasks and schemas there, but no rows.

So a local org needs ``hub:DIR`` with the SQLite file of upstream's repository in DIR; with ``--a2a-crm-org salesforce``
a live org answers and ``hub`` alone will do. Downloads are kept in the library's own cache, by revision.
"""

from __future__ import annotations

import functools
import os
from pathlib import Path
from typing import Any, NamedTuple

from pytest_a2a_bench.benchmarks.crmarena.org.schema import OrgSchema
from pytest_a2a_bench.benchmarks.crmarena.sources import files
from pytest_a2a_bench.benchmarks.crmarena.sources.directory import (
    PublishedSource,
    check_directory,
    provenance_of,
    rows_problems,
)
from pytest_a2a_bench.benchmarks.crmarena.sources.files import TableRow
from pytest_a2a_bench.benchmarks.crmarena.sources.rows import read_schema, read_tasks
from pytest_a2a_bench.benchmarks.crmarena.tasks import CrmTask, Provenance
from pytest_a2a_bench.benchmarks.suite import INTERACTIVE
from pytest_a2a_bench.errors import ConfigurationError, MissingExtraError
from pytest_a2a_bench.language_models import describe_failure

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
    """One domain on the hub.

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
