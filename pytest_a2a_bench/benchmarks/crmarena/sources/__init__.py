"""Where a domain's tasks and rows come from: the mini org, a directory of the user's, or the Hugging Face hub."""

from __future__ import annotations

from pytest_a2a_bench.benchmarks.crmarena import DOMAINS, MINI
from pytest_a2a_bench.benchmarks.crmarena.options import CrmOptions
from pytest_a2a_bench.benchmarks.crmarena.sources.base import Source, parse_data
from pytest_a2a_bench.errors import ConfigurationError
from pytest_a2a_bench.settings import Settings

__all__ = ["PUBLISHED", "Source", "available_domains", "open_source", "task_ids"]

PUBLISHED = tuple(domain for domain in DOMAINS if domain not in MINI)
"""The domains that upstream publishes; what they hold is the user's to download."""


def open_source(domain: str, settings: Settings) -> Source:
    """Return where a domain's tasks and rows come from. Nothing big is read before it is asked for.

    :raises ConfigurationError: if there is no such domain, its files are not there, or are not what they should be.
    """
    if domain in MINI:
        from pytest_a2a_bench.benchmarks.crmarena.sources.mini import MiniSource

        return MiniSource(domain, seed=CrmOptions.of(settings).seed, tasks_per_category=CrmOptions.of(settings).tasks)
    if domain not in PUBLISHED:
        raise ConfigurationError(f"CRMArena has no domain {domain!r}; there are: {', '.join(DOMAINS)}")
    where = parse_data(CrmOptions.of(settings).data)
    if where is None:
        raise ConfigurationError(
            f"the domain {domain!r} needs CRMArena's data, which is not ours to ship (CC BY-NC 4.0); download it and "
            "pass --a2a-crm-data DIR, or --a2a-crm-data hub"
        )
    needs_rows = CrmOptions.of(settings).org == "local"
    if where.hub:
        from pytest_a2a_bench.benchmarks.crmarena.sources.hub import HubSource

        return HubSource(domain, revision=where.revision, rows=where.directory, needs_rows=needs_rows)
    from pytest_a2a_bench.benchmarks.crmarena.sources.directory import DirectorySource

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
    from pytest_a2a_bench.benchmarks.crmarena.sources.files import find_tasks

    return tuple(domain for domain in PUBLISHED if find_tasks(where.directory, domain))


def task_ids(domain: str, settings: Settings) -> tuple[tuple[str, str], ...]:
    """Return the ids of a domain's tasks and the category of each, in the order of the source.

    :raises ConfigurationError: as :func:`open_source`, and if a row is no task.
    """
    if domain in PUBLISHED:
        # Collection asks for ids, and these need no rows of an org.
        import dataclasses

        settings = dataclasses.replace(
            settings, benchmark_options={**settings.benchmark_options, "crm_org": "salesforce"}
        )
    source = open_source(domain, settings)
    try:
        return source.task_ids()
    finally:
        source.close()
