"""The built-in mini org as a source."""

from __future__ import annotations

import functools
import threading
from typing import TYPE_CHECKING

from pytest_a2a_bench.benchmarks.crmarena.mini import MiniOrg, build
from pytest_a2a_bench.benchmarks.crmarena.mini import task_ids as mini_task_ids
from pytest_a2a_bench.benchmarks.crmarena.tasks import CrmTask, Provenance

if TYPE_CHECKING:
    from pytest_a2a_bench.benchmarks.crmarena.org.local import LocalOrg
    from pytest_a2a_bench.benchmarks.crmarena.org.schema import OrgSchema


class MiniSource:
    """The mini org of a seed and size; it is built when its tasks or rows are first asked for."""

    def __init__(self, domain: str, *, seed: int, tasks_per_category: int) -> None:
        self.domain = domain
        self.seed = seed
        self._size = tasks_per_category
        self._lock = threading.RLock()
        self._org: LocalOrg | None = None

    @functools.cached_property
    def built(self) -> MiniOrg:
        """The org that the generator made, with its rows."""
        return build(seed=self.seed, tasks_per_category=self._size)

    def tasks(self) -> tuple[CrmTask, ...]:
        """Return the tasks."""
        return self.built.interactive_tasks if self.domain.endswith("_interactive") else self.built.tasks

    def task_ids(self) -> tuple[tuple[str, str], ...]:
        """Return ids and categories without building anything."""
        return tuple((task_id, task_id.rpartition("-")[0]) for task_id in mini_task_ids(self._size))

    def org(self) -> LocalOrg:
        """Return the org."""
        from pytest_a2a_bench.benchmarks.crmarena.org.local import LocalOrg

        with self._lock:
            if self._org is None:
                connection = self.built.to_connection()
                try:
                    self._org = LocalOrg.from_connection(
                        connection, self.schema, name=self.built.name, today=self.built.today
                    )
                finally:
                    connection.close()
            return self._org

    @property
    def schema(self) -> OrgSchema:
        """The schema of the mini org."""
        return self.built.schema

    @property
    def provenance(self) -> Provenance:
        """The generator, its version and seed."""
        return Provenance("mini", f"{self.built.name}, {self._size} tasks per category")

    def close(self) -> None:
        """Close the org."""
        with self._lock:
            if self._org is not None:
                self._org.close()
                self._org = None
