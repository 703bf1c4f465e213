"""What the conversations of one process share: a domain's tasks, and the org that answers, aged and renamed as asked.

A source is read and an org is opened once for each combination of settings that changes them; threads share both.
"""

from __future__ import annotations

import os
import sqlite3
import tempfile
import threading
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, NamedTuple, cast

from pytest_a2a_bench.benchmarks.crmarena.mini.near_misses import chosen_rows, near_misses, traps
from pytest_a2a_bench.benchmarks.crmarena.mini.rot import add_rot
from pytest_a2a_bench.benchmarks.crmarena.options import CrmOptions
from pytest_a2a_bench.benchmarks.crmarena.org.base import Org
from pytest_a2a_bench.benchmarks.crmarena.org.drift import DriftLevel, drift_text, drifted
from pytest_a2a_bench.benchmarks.crmarena.org.local import LocalOrg
from pytest_a2a_bench.benchmarks.crmarena.org.salesforce import open_salesforce
from pytest_a2a_bench.benchmarks.crmarena.org.schema import OrgSchema
from pytest_a2a_bench.benchmarks.crmarena.sources import opening
from pytest_a2a_bench.benchmarks.crmarena.sources.files import org_of
from pytest_a2a_bench.benchmarks.crmarena.tasks import CrmTask, Provenance
from pytest_a2a_bench.errors import ConfigurationError
from pytest_a2a_bench.settings import Settings


@dataclass(frozen=True)
class OpenDomain:
    """One domain as the conversations see it.

    :param tasks: by id, with golds; in the words of the org's fields as they are called after schema drift.
    :param org: what answers queries; shared by all conversations of the process.
    :param traps: by task and shortcut the wrong answers that shortcuts come to in an org with distractor rows.
    :param floors: what constant answers are worth, by profile and scoring; measured once where it is asked for.
    """

    name: str
    tasks: Mapping[str, CrmTask]
    org: Org
    provenance: Provenance
    traps: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    floors: dict[tuple[str, str], dict[str, float]] = field(default_factory=dict)

    def task(self, task_id: str) -> CrmTask:
        """Return a task.

        :raises ConfigurationError: if the domain has none of that id.
        """
        if task_id not in self.tasks:
            some = ", ".join(list(self.tasks)[:3])
            raise ConfigurationError(
                f"crmarena domain {self.name!r} has no task {task_id!r}; it has {len(self.tasks)}, such as {some}"
            )
        return self.tasks[task_id]


class _OrgKey(NamedTuple):
    """What makes an org another one. Interactive domains ask the same org as the others."""

    domain: str
    data: str | None
    live: str
    tasks: int
    seed: int
    drift: str | None
    rot: int


# Reentrant: opening a domain opens its source. Held while an org is built, so that threads wait for it instead of
# building their own.
_LOCK = threading.RLock()
_SOURCES: dict[tuple[str, str | None, str, int, int], opening.Source] = {}
_ORGS: dict[_OrgKey, Org] = {}
_TRAPS: dict[_OrgKey, dict[str, dict[str, str]]] = {}
_DOMAINS: dict[tuple[str, _OrgKey], OpenDomain] = {}


def open_domain(domain: str, settings: Settings) -> OpenDomain:
    """Return a domain's tasks and org; opened once, and kept until the process ends.

    :raises ConfigurationError: if the data are missing or are not what they should be.
    """
    key = _org_key(domain, settings)
    with _LOCK:
        if (domain, key) not in _DOMAINS:
            source = open_source(domain, settings)
            tasks = {task.task_id: task for task in source.tasks()}
            if key not in _ORGS:
                _ORGS[key], _TRAPS[key] = _open_org(source, settings)
            if CrmOptions.of(settings).drift:
                tasks = {name: _reworded(task, source.schema, _ORGS[key].schema) for name, task in tasks.items()}
            _DOMAINS[domain, key] = OpenDomain(domain, tasks, _ORGS[key], source.provenance, _TRAPS[key])
        return _DOMAINS[domain, key]


def open_source(domain: str, settings: Settings) -> opening.Source:
    """Return a domain's source; opened once, and kept until the process ends.

    :raises ConfigurationError: if the data are missing or are not what they should be.
    """
    chosen = CrmOptions.of(settings)
    # Not the whole settings: most of them make no other org.
    key = (domain, chosen.data, chosen.org, chosen.tasks, chosen.seed)
    with _LOCK:
        if key not in _SOURCES:
            _SOURCES[key] = opening.open_source(domain, settings)
        return _SOURCES[key]


def close_domains() -> None:
    """Close everything that is open (for tests; a process that ends does it by itself)."""
    with _LOCK:
        for org in _ORGS.values():
            org.close()
        for cache in (_SOURCES, _ORGS, _TRAPS, _DOMAINS):
            cache.clear()


# What an org is made of; two domains with equal keys share one.
def _org_key(domain: str, settings: Settings) -> _OrgKey:
    chosen = CrmOptions.of(settings)
    return _OrgKey(
        org_of(domain),
        chosen.data,
        chosen.org,
        chosen.tasks,
        chosen.seed,
        chosen.drift,
        chosen.rot,
    )


def _reworded(task: CrmTask, before: OrgSchema, after: OrgSchema) -> CrmTask:
    """Return a task whose texts call the org's fields what they are called now."""
    # The gold stays: ids and values are not renamed.
    query, required, optional = (drift_text(t, before, after) for t in (task.query, task.required, task.optional))
    return replace(task, query=query, required=required, optional=optional)


def _open_org(source: opening.Source, settings: Settings) -> tuple[Org, dict[str, dict[str, str]]]:
    """Open an org, and tell what shortcuts come to in it where it has rows that are made for them."""
    chosen = CrmOptions.of(settings)
    if chosen.org != "local":
        return open_salesforce(os.environ, source.schema), {}
    org = opening.open_org(source)
    caught: dict[str, dict[str, str]] = {}
    # Rows first: they are written under the original names.
    if chosen.rot and isinstance(source, opening.MiniSource):
        mini = source.built
        near = chosen_rows(near_misses(mini.rows, mini.tasks, mini.schema, chosen.seed), chosen.rot)
        org = _replace(org, rotted(org, chosen.rot, chosen.seed, near))
        caught = traps(mini.tasks, org.run)
    elif chosen.rot:
        org = _replace(org, rotted(org, chosen.rot, chosen.seed))
    if chosen.drift:
        org = _replace(org, drifted(org, cast("DriftLevel", chosen.drift), chosen.seed))
    return org, caught


def _replace(before: LocalOrg, after: LocalOrg) -> LocalOrg:
    """Close an org of which a changed copy was made, and return the copy."""
    before.close()
    return after


def rotted(org: LocalOrg, rows: int, seed: int, near: Mapping[str, Sequence[dict[str, Any]]] | None = None) -> LocalOrg:
    """Return an org of its own with distractor rows added; the given one stays as it is.

    :param rows: how many.
    :param near: those of them that nearly count, by object.
    """
    with tempfile.TemporaryDirectory(prefix="a2a-rot-") as folder:
        path = Path(folder) / "org.db"
        with closing(sqlite3.connect(org.path)) as original, closing(sqlite3.connect(path)) as copy:
            original.backup(copy)
            add_rot(copy, rows, seed, near)
        return LocalOrg.open(
            path,
            org.schema,
            name=org.name,
            today=org.today,
            time_limit=org.time_limit,
            row_limit=org.row_limit,
        )
