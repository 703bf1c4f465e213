"""What a trial needs of a source and collection does not: the mini org, and the local org with a source's rows."""

from __future__ import annotations

import functools
from contextlib import closing

from pytest_a2a_bench.benchmarks.crmarena import MINI
from pytest_a2a_bench.benchmarks.crmarena.mini.ids import task_ids_with_category
from pytest_a2a_bench.benchmarks.crmarena.mini.org import MiniOrg, build
from pytest_a2a_bench.benchmarks.crmarena.options import CrmOptions
from pytest_a2a_bench.benchmarks.crmarena.org.local import LocalOrg
from pytest_a2a_bench.benchmarks.crmarena.org.schema import OrgSchema
from pytest_a2a_bench.benchmarks.crmarena.sources import open_published
from pytest_a2a_bench.benchmarks.crmarena.sources.directory import PublishedSource
from pytest_a2a_bench.benchmarks.crmarena.sources.files import org_of
from pytest_a2a_bench.benchmarks.crmarena.tasks import CrmTask, Provenance
from pytest_a2a_bench.benchmarks.suite import INTERACTIVE
from pytest_a2a_bench.settings import Settings


class MiniSource:
    """The mini org of a seed and size; it is built when its tasks or rows are first asked for."""

    def __init__(self, domain: str, *, seed: int, tasks_per_category: int) -> None:
        self.domain = domain
        self.seed = seed
        self._size = tasks_per_category

    @functools.cached_property
    def built(self) -> MiniOrg:
        """The org that the generator made, with its rows."""
        return build(seed=self.seed, tasks_per_category=self._size)

    def tasks(self) -> tuple[CrmTask, ...]:
        """Return the tasks."""
        return self.built.interactive_tasks if self.domain.endswith(INTERACTIVE) else self.built.tasks

    def task_ids(self) -> tuple[tuple[str, str], ...]:
        """Return ids and categories without building anything."""
        return task_ids_with_category(self._size)

    @property
    def schema(self) -> OrgSchema:
        """The schema of the mini org."""
        return self.built.schema

    @property
    def provenance(self) -> Provenance:
        """The generator, its version and seed."""
        return Provenance("mini", f"{self.built.name}, {self._size} tasks per category")


Source = MiniSource | PublishedSource
"""A domain's tasks, schema and rows; may be asked from several threads at once."""


def open_source(domain: str, settings: Settings) -> Source:
    """Return where a domain's tasks and rows come from. Nothing big is read before it is asked for.

    :raises ConfigurationError: as :func:`~pytest_a2a_bench.benchmarks.crmarena.sources.open_published`.
    """
    chosen = CrmOptions.of(settings)
    if domain in MINI:
        return MiniSource(domain, seed=chosen.seed, tasks_per_category=chosen.tasks)
    return open_published(domain, settings)


def open_org(source: Source) -> LocalOrg:
    """Open an org with a source's rows; it is the caller's to close.

    :raises ConfigurationError: if the source has tasks but no rows.
    """
    if isinstance(source, PublishedSource):
        return LocalOrg.open(source.rows_file(), source.schema, name=org_of(source.domain))
    with closing(source.built.to_connection()) as connection:
        return LocalOrg.from_connection(connection, source.schema, name=source.built.name, today=source.built.today)
