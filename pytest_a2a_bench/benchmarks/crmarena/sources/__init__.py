"""Where a domain's tasks and rows come from: the mini org, a directory of the user's, or the Hugging Face hub.

Collection asks here for domains and task ids, so nothing that opens or builds an org is imported:
:mod:`.opening` does that.
"""

from __future__ import annotations

import dataclasses
import re
from pathlib import Path
from typing import NamedTuple

from pytest_a2a_bench.benchmarks.crmarena import DOMAINS, MINI
from pytest_a2a_bench.benchmarks.crmarena.mini import read_tasks
from pytest_a2a_bench.benchmarks.crmarena.options import CrmOptions
from pytest_a2a_bench.benchmarks.crmarena.sources.directory import DirectorySource, PublishedSource
from pytest_a2a_bench.benchmarks.crmarena.sources.files import find_tasks
from pytest_a2a_bench.benchmarks.crmarena.sources.hub import HubSource
from pytest_a2a_bench.errors import ConfigurationError
from pytest_a2a_bench.settings import Settings

PUBLISHED = tuple(domain for domain in DOMAINS if domain not in MINI)
"""The domains that upstream publishes; what they hold is the user's to download."""

_HUB = re.compile(r"hub(?:@(?P<revision>[^:@\s]+))?(?::(?P<rows>.+))?", re.DOTALL)


class DataSpec(NamedTuple):
    """What ``--a2a-crm-data`` says.

    :param hub: whether tasks and schema come from the hub.
    :param directory: the directory; for the hub the one that has the rows, or None.
    """

    hub: bool
    directory: Path | None
    revision: str | None = None


def parse_data(text: str | None) -> DataSpec | None:
    """Read ``DIR``, ``hub``, ``hub@REVISION``, and ``hub:DIR`` or ``hub@REVISION:DIR`` with the rows in DIR.

    A directory that is really called ``hub`` is written ``./hub``.
    """
    if not text:
        return None
    hub = _HUB.fullmatch(text)
    if hub is None:
        return DataSpec(False, Path(text).expanduser())
    rows = hub["rows"]
    return DataSpec(True, Path(rows).expanduser() if rows else None, hub["revision"])


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
    return tuple(domain for domain in PUBLISHED if find_tasks(where.directory, domain))


def task_ids(domain: str, settings: Settings) -> tuple[tuple[str, str], ...]:
    """Return the ids of a domain's tasks and the category of each, in the order of the source.

    :raises ConfigurationError: as :func:`open_published`, and if a row is no task.
    """
    if domain in MINI:
        return tuple((task.task_id, task.category) for task in read_tasks().tasks)
    # Ids need no rows of an org, so that their file may be missing here.
    return open_published(
        domain, dataclasses.replace(settings, benchmark_options={**settings.benchmark_options, "crm_org": "salesforce"})
    ).task_ids()
