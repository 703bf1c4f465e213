"""What must be there before a single conversation: the files of the chosen domains, the credentials of a live org."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from importlib.util import find_spec

from pytest_a2a_bench.benchmarks.crmarena import MINI, sources
from pytest_a2a_bench.benchmarks.crmarena.official.tools import tools_of
from pytest_a2a_bench.benchmarks.crmarena.options import TOOL_STRATEGIES, CrmOptions
from pytest_a2a_bench.benchmarks.crmarena.org.salesforce_login import read_credentials
from pytest_a2a_bench.benchmarks.suite import INTERACTIVE
from pytest_a2a_bench.errors import A2ABenchError, ConfigurationError, MissingExtraError
from pytest_a2a_bench.settings import Settings


def find_problems(domains: Iterable[str], settings: Settings, environ: Mapping[str, str]) -> list[str]:
    """Return everything that keeps all trials of these domains from running.

    Only names and headers of files are read, and nobody logs in.

    :param domains: of the trials that were chosen.
    :param environ: where credentials are looked for.
    """
    published = [domain for domain in dict.fromkeys(domains) if domain in sources.PUBLISHED]
    problems = list(_strategy_problems(dict.fromkeys(domains), CrmOptions.of(settings)))
    for domain in published:
        try:
            sources.open_published(domain, settings)
        except ConfigurationError as error:
            problems.append(str(error))
    if published and CrmOptions.of(settings).rot:
        problems.append(f"--a2a-crm-rot adds rows to the mini org only: leave it out, or {', '.join(published)}")
    if published and CrmOptions.of(settings).org == "salesforce":
        problems += _live_problems(environ)
    return problems


def _strategy_problems(domains: Iterable[str], chosen: CrmOptions) -> Iterator[str]:
    """Say what upstream's agents are not made for, and whether the functions are there that one of them calls."""
    if chosen.strategy == "react":
        return
    has_tools = chosen.strategy in TOOL_STRATEGIES
    # The mini org has the objects and fields of all splits.
    unfit = [d for d in domains if d.endswith(INTERACTIVE) or (has_tools and d not in (*MINI, "original"))]
    if unfit:
        made_for = "the original split (and the mini org)" if has_tools else "questions that nobody is asked back about"
        yield f"--a2a-crm-official DIR:{chosen.strategy} is upstream's for {made_for}: leave out {', '.join(unfit)}"
    try:
        tools_of(chosen)
    except ConfigurationError as error:
        yield str(error)


def _live_problems(environ: Mapping[str, str]) -> list[str]:
    problems = []
    # Looked for and not imported: nobody logs in here.
    if find_spec("simple_salesforce") is None:
        problems.append(str(MissingExtraError("simple-salesforce", "salesforce")))
    try:
        read_credentials(environ)
    except ConfigurationError as error:
        problems.append(str(error))
    return problems


def examine(environ: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """Say for ``a2a-bench doctor`` which tasks there are, and whether a live org can be logged in to."""
    yield "CRMArena", _count_tasks(environ.get("A2A_CRM_DATA") or None)
    yield "Salesforce", _describe_login(environ)


def _count_tasks(data: str | None) -> str:
    settings = Settings(benchmark_options={"crm_data": data})
    counts = [f"mini {len(sources.task_ids('mini', settings))}"]
    if data is None:
        return f"{counts[0]}; A2A_CRM_DATA is not set (a directory, or hub)"
    # Counting them would download them.
    if data.startswith("hub"):
        return f"{counts[0]}; A2A_CRM_DATA is {data}"
    try:
        counts += [
            f"{domain} {len(sources.task_ids(domain, settings))}" for domain in sources.available_domains(settings)
        ]
    except (A2ABenchError, OSError) as error:
        return f"{counts[0]}; A2A_CRM_DATA: {error}"
    return f"tasks: {', '.join(counts)}; A2A_CRM_DATA is {data}"


def _describe_login(environ: Mapping[str, str]) -> str:
    """Say whether there are credentials. No value is shown."""
    try:
        return f"credentials for {read_credentials(environ).place}"
    except A2ABenchError:
        named = sorted(name for name in environ if name.startswith("SALESFORCE_"))
        return (
            f"no complete credentials (set: {', '.join(named)})" if named else "no credentials (SALESFORCE_* not set)"
        )
