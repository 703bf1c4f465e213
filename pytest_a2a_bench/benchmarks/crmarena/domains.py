"""The domains that are open in this process: tasks, and the org that answers, with drift and distractors if asked.

A source is read and an org is opened once for each combination of settings that changes them; threads share both.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Mapping
from contextlib import closing
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar, cast

from pytest_a2a_bench.benchmarks.crmarena.options import CrmOptions
from pytest_a2a_bench.benchmarks.crmarena.org import Org, OrgSchema
from pytest_a2a_bench.benchmarks.crmarena.org.drift import DriftLevel, drift_text, drifted
from pytest_a2a_bench.benchmarks.crmarena.org.local import LocalOrg
from pytest_a2a_bench.benchmarks.crmarena.org.salesforce import open_salesforce
from pytest_a2a_bench.benchmarks.crmarena.sources import PublishedSource, Source, make_source, org_of
from pytest_a2a_bench.benchmarks.crmarena.tasks import CrmTask, Provenance, read_rot, read_rows, read_tasks
from pytest_a2a_bench.config.settings import Settings
from pytest_a2a_bench.errors import ConfigurationError

__all__ = ["OpenDomain", "Source", "make_source", "open_domain", "open_org", "open_source"]

T = TypeVar("T")
DRIFT_SEED = 1
"""The fields that schema drift renames, with their new names."""


def open_org(source: Source, *, rot: bool = False) -> LocalOrg:
    """Open an org with a source's rows; it is the caller's to close.

    :param rot: whether the mini org has its distractor rows.
    :raises ConfigurationError: if the source has tasks but no rows.
    """
    if isinstance(source, PublishedSource):
        return LocalOrg(source.rows_file(), source.schema, name=org_of(source.domain))
    rows = read_rows()
    for name, extra in read_rot().rows.items() if rot else ():
        rows.setdefault(name, []).extend(extra)
    tasks = read_tasks()
    return LocalOrg.from_rows(rows, source.schema, name=tasks.name, today=tasks.today)


@dataclass(frozen=True)
class OpenDomain:
    """One domain as the conversations see it.

    :param tasks: by id, with golds; in the words of the org's fields as they are called after schema drift.
    :param org: answers queries; shared by all conversations of the process.
    :param traps: by task and shortcut the wrong answers that shortcuts come to in an org with distractor rows.
    """

    name: str
    tasks: Mapping[str, CrmTask]
    org: Org
    provenance: Provenance
    traps: Mapping[str, Mapping[str, str]] = field(default_factory=dict)

    def task(self, task_id: str) -> CrmTask:
        """Return a task; raises ConfigurationError if the domain has none of that id."""
        if task_id not in self.tasks:
            some = ", ".join(list(self.tasks)[:3])
            raise ConfigurationError(
                f"crmarena domain {self.name!r} has no task {task_id!r}; it has {len(self.tasks)}, such as {some}"
            )
        return self.tasks[task_id]


# Reentrant: opening a domain opens its source. Held while an org is built, so that threads wait for it instead of
# building their own.
_LOCK = threading.RLock()
_OPEN: dict[tuple[object, ...], Any] = {}


def _once(key: tuple[object, ...], make: Callable[[], T]) -> T:
    with _LOCK:
        if key not in _OPEN:
            _OPEN[key] = make()
        return cast("T", _OPEN[key])


def open_domain(domain: str, settings: Settings) -> OpenDomain:
    """Return a domain's tasks and org; opened once, and kept until the process ends.

    :raises ConfigurationError: if the data are missing or are not what they should be.
    """
    chosen = CrmOptions.of(settings)
    # Interactive domains ask the same org as the others.
    key = (org_of(domain), chosen.data, chosen.org, chosen.drift, chosen.rot)

    def make() -> OpenDomain:
        source = open_source(domain, settings)
        org = _once(("org", *key), lambda: _open_org(source, chosen))
        tasks = source.tasks()
        if chosen.drift:
            tasks = tuple(_reworded(task, source.schema, org.schema) for task in tasks)
        traps = read_rot().traps if chosen.rot else {}
        return OpenDomain(domain, {task.task_id: task for task in tasks}, org, source.provenance, traps)

    return _once((domain, *key), make)


def open_source(domain: str, settings: Settings) -> Source:
    """Return a domain's source; opened once, and kept until the process ends.

    :raises ConfigurationError: if the data are missing or are not what they should be.
    """
    return _once(("source", domain, CrmOptions.of(settings).data), lambda: make_source(domain, settings))


def _reworded(task: CrmTask, before: OrgSchema, after: OrgSchema) -> CrmTask:
    """Return a task whose texts have the org's present field names."""
    # The gold stays: ids and values are not renamed.
    query, required, optional = (drift_text(t, before, after) for t in (task.query, task.required, task.optional))
    return replace(task, query=query, required=required, optional=optional)


def _open_org(source: Source, chosen: CrmOptions) -> Org:
    if chosen.org != "local" and isinstance(source, PublishedSource):
        return open_salesforce(os.environ, source.schema)
    org = open_org(source, rot=chosen.rot)
    if not chosen.drift:
        return org
    with closing(org):
        return drifted(org, cast("DriftLevel", chosen.drift), DRIFT_SEED)
