"""What must be there before a single conversation: the files of the chosen domains, the credentials of a live org."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from importlib.util import find_spec

from pytest_a2a_bench.benchmarks.crmarena import sources
from pytest_a2a_bench.benchmarks.crmarena.org.salesforce_login import read_credentials
from pytest_a2a_bench.errors import ConfigurationError, MissingExtraError
from pytest_a2a_bench.settings import Settings


def find_problems(domains: Iterable[str], settings: Settings, environ: Mapping[str, str]) -> list[str]:
    """Return everything that keeps all trials of these domains from running.

    Only names and headers of files are read, and nobody logs in.

    :param domains: of the trials that were chosen.
    :param environ: where credentials are looked for.
    """
    published = [domain for domain in dict.fromkeys(domains) if domain in sources.PUBLISHED]
    problems = []
    for domain in published:
        try:
            sources.open_published(domain, settings)
        except ConfigurationError as error:
            problems.append(str(error))
    if published and settings.crm_org == "salesforce":
        problems += _live_problems(environ)
    return problems


def _live_problems(environ: Mapping[str, str]) -> list[str]:
    problems = []
    if find_spec("simple_salesforce") is None:
        problems.append(str(MissingExtraError("simple-salesforce", "salesforce")))
    try:
        read_credentials(environ)
    except ConfigurationError as error:
        problems.append(str(error))
    return problems
