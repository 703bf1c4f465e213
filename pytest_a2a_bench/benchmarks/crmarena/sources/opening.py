"""What a trial needs of a source and collection does not: the mini org, and the local org with a source's rows."""

from __future__ import annotations

from dataclasses import replace

from pytest_a2a_bench.benchmarks.crmarena import MINI, mini
from pytest_a2a_bench.benchmarks.crmarena.org.local import LocalOrg
from pytest_a2a_bench.benchmarks.crmarena.org.standard import standard_schema
from pytest_a2a_bench.benchmarks.crmarena.sources import open_published
from pytest_a2a_bench.benchmarks.crmarena.sources.directory import PublishedSource
from pytest_a2a_bench.benchmarks.crmarena.sources.files import org_of
from pytest_a2a_bench.benchmarks.crmarena.tasks import CrmTask, Provenance
from pytest_a2a_bench.benchmarks.suite import INTERACTIVE
from pytest_a2a_bench.settings import Settings


class MiniSource:
    """The mini org, whose tasks and rows are data of this package."""

    def __init__(self, domain: str) -> None:
        self.domain = domain
        self.schema = standard_schema()

    def tasks(self) -> tuple[CrmTask, ...]:
        """Return the tasks."""
        tasks = mini.read_tasks().tasks
        return tuple(replace(task, interactive=True) for task in tasks) if self.domain.endswith(INTERACTIVE) else tasks

    def task_ids(self) -> tuple[tuple[str, str], ...]:
        """Return ids and categories."""
        return tuple((task.task_id, task.category) for task in self.tasks())

    @property
    def provenance(self) -> Provenance:
        """The version of the data."""
        return Provenance("mini", mini.read_tasks().name)


Source = MiniSource | PublishedSource
"""A domain's tasks, schema and rows; may be asked from several threads at once."""


def open_source(domain: str, settings: Settings) -> Source:
    """Return where a domain's tasks and rows come from. Nothing big is read before it is asked for.

    :raises ConfigurationError: as :func:`~pytest_a2a_bench.benchmarks.crmarena.sources.open_published`.
    """
    if domain in MINI:
        return MiniSource(domain)
    return open_published(domain, settings)


def open_org(source: Source, *, rot: bool = False) -> LocalOrg:
    """Open an org with a source's rows; it is the caller's to close.

    :param rot: whether the mini org has its distractor rows.
    :raises ConfigurationError: if the source has tasks but no rows.
    """
    if isinstance(source, PublishedSource):
        return LocalOrg.open(source.rows_file(), source.schema, name=org_of(source.domain))
    rows = mini.read_rows()
    for name, extra in mini.read_rot().rows.items() if rot else ():
        rows.setdefault(name, []).extend(extra)
    tasks = mini.read_tasks()
    return LocalOrg.from_rows(rows, source.schema, name=tasks.name, today=tasks.today)
