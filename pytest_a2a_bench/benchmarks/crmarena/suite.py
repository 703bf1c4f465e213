"""The suite of CRMArena: settings, domains, tasks, preconditions, and the lines of header and summary.

Every pytest run imports this module, so the modules that open an org are imported inside of functions.
"""

from __future__ import annotations

import dataclasses
import functools
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pytest_a2a_bench.benchmarks.crmarena import DOMAINS, MINI, ORG_DIALECTS, sources
from pytest_a2a_bench.benchmarks.crmarena.options import AGENTS, PREFIX, TOOL_STRATEGIES, CrmOptions
from pytest_a2a_bench.benchmarks.crmarena.tasks import CATEGORIES
from pytest_a2a_bench.benchmarks.registry import INTERACTIVE, Suite
from pytest_a2a_bench.config.settings import Settings
from pytest_a2a_bench.errors import ConfigurationError, MissingExtraError
from pytest_a2a_bench.text import shares

if TYPE_CHECKING:
    from pytest_a2a_bench.model import BenchTask, TrialResult


def _check_official(settings: Settings, chosen: CrmOptions) -> Iterator[str]:
    if not Path(chosen.checkout).is_dir():
        yield (
            f"crm-official: {chosen.checkout} is not a directory; it must be a checkout of "
            "https://github.com/SalesforceAIResearch/CRMArena, whose texts are not ours to ship; behind a colon "
            f"may stand one of {', '.join(AGENTS)}"
        )
    plain = CrmOptions(scoring="compat")
    for name in ("scoring", "max_turns", "max_user_turns"):
        if getattr(chosen, name) != getattr(plain, name):
            spelt = name.replace("_", "-")
            yield f"crm-official has its own {spelt}: leave out one of it and crm-{spelt}"
    if chosen.strategy not in TOOL_STRATEGIES:
        if settings.dialect not in ("auto", "execute_tags"):
            yield f"crm-official has its own form of actions: leave out --a2a-dialect={settings.dialect}"
    elif settings.dialect in ORG_DIALECTS:
        yield (
            f"--a2a-dialect={settings.dialect} has a query and an answer only, and no tools for crm-official "
            f"DIR:{chosen.strategy}: choose tool_call or data"
        )
    elif chosen.strategy == "tool_call_flex" and settings.dialect == "auto":
        yield (
            "crm-official DIR:tool_call_flex describes no tools in words, neither here nor upstream: say in "
            "which form the agent is offered them, with --a2a-dialect tool_call or data"
        )
    if settings.tools == "mcp" or settings.colleague:
        yield "crm-official knows neither --a2a-tools mcp nor colleagues"


def check_options(settings: Settings) -> Iterator[str]:
    """Yield a line for each pair of options that do not go together."""
    if settings.colleague and settings.dialect in ORG_DIALECTS:
        yield f"--a2a-dialect={settings.dialect} has a query and an answer only, and no word for a colleague"
    own = settings.benchmark_options
    if not own.get("crm_official") and not own.get("crm_data") and own.get("crm_org", "local") == "local":
        return
    chosen = CrmOptions.of(settings)
    if chosen.official:
        yield from _check_official(settings, chosen)
    if chosen.data is not None and not Path(chosen.data).is_dir():
        yield f"--a2a-crm-data: {chosen.data} is not a directory; it must be one with CRMArena's files"
    if chosen.org == "local":
        return
    if chosen.data is None:
        yield (f"crm-org={chosen.org} has rows and no tasks: add --a2a-crm-data DIR with those of your org")
    if chosen.drift:
        yield f"crm-drift renames the columns of a local org only; leave out crm-org={chosen.org}"


NAME = "crmarena"
SPLIT = "base"


def bind(settings: Settings) -> Suite:
    """Return the suite over the tasks that the options name."""
    single_turn = tuple(domain for domain in DOMAINS if domain not in MINI and not domain.endswith(INTERACTIVE))
    return dataclasses.replace(
        SUITE,
        available=functools.partial(_available, settings),
        load_tasks=functools.partial(_load_tasks, settings),
        describe=functools.partial(_describe_tasks, settings),
        offered=single_turn if CrmOptions.of(settings).data else ("mini",),
        why_absent=functools.partial(sources.why_absent, settings),
    )


def _available(settings: Settings) -> tuple[str, ...]:
    return (*MINI, *sources.available_domains(settings))


def _load_tasks(settings: Settings, domain: str, split: str = SPLIT) -> list[BenchTask]:
    if split != SPLIT:
        raise ConfigurationError(f"crmarena domain {domain!r} has no split {split!r}; it has: {SPLIT}")
    from pytest_a2a_bench.model import BenchTask

    found = sources.task_ids(domain, settings)
    return [BenchTask(NAME, domain, task_id, (SPLIT,), (), category) for task_id, category in found]


def _describe_tasks(settings: Settings, domain: str) -> Mapping[str, str]:
    from pytest_a2a_bench.benchmarks.crmarena.domains import open_source

    return {task.task_id: f"{task.category}: {task.query}" for task in open_source(domain, settings).tasks()}


def find_problems(domains: Iterable[str], settings: Settings, environ: Mapping[str, str]) -> list[str]:
    """Return everything that keeps all trials of these domains from running.

    The schema is read, and of rows and tasks no more than names and headers; there is no login.

    :param domains: of the trials that were chosen.
    :param environ: where credentials are looked for.
    """
    published = [domain for domain in dict.fromkeys(domains) if domain in sources.PUBLISHED]
    problems = list(_strategy_problems(dict.fromkeys(domains), CrmOptions.of(settings)))
    for domain in published:
        try:
            source = sources.make_source(domain, settings)
            if isinstance(source, sources.PublishedSource) and CrmOptions.of(settings).org == "local":
                source.rows_file()
            # Every trial begins with it.
            _ = source.schema
        except ConfigurationError as error:
            problems.append(str(error))
    if published and CrmOptions.of(settings).rot:
        problems.append(f"--a2a-set crm-rot=on adds rows to the mini org only: leave it out, or {', '.join(published)}")
    if published and CrmOptions.of(settings).org == "salesforce":
        problems += _live_problems(environ)
    return problems


def _strategy_problems(domains: Iterable[str], chosen: CrmOptions) -> Iterator[str]:
    """Describe tasks that upstream's agents do not support, and missing functions that one of them calls."""
    if chosen.strategy == "react":
        return
    from pytest_a2a_bench.benchmarks.crmarena.official import tools_of

    has_tools = chosen.strategy in TOOL_STRATEGIES
    # The mini org has the objects and fields of all splits.
    unfit = [d for d in domains if d.endswith(INTERACTIVE) or (has_tools and d not in (*MINI, "original"))]
    if unfit:
        made_for = "the original split (and the mini org)" if has_tools else "questions that nobody is asked back about"
        yield f"--a2a-set crm-official=DIR:{chosen.strategy} is upstream's for {made_for}: leave out {', '.join(unfit)}"
    try:
        tools_of(chosen)
    except ConfigurationError as error:
        yield str(error)


def _live_problems(environ: Mapping[str, str]) -> list[str]:
    from pytest_a2a_bench.benchmarks.crmarena.org.salesforce import read_credentials

    problems = []
    # Looked for and not imported: there is no login here.
    if find_spec("simple_salesforce") is None:
        problems.append(str(MissingExtraError("simple-salesforce", "salesforce")))
    try:
        read_credentials(environ)
    except ConfigurationError as error:
        problems.append(str(error))
    return problems


_SCORINGS = {"compat": "upstream's, bug for bug", "fixed": "without upstream's bugs"}


def name_variant(drift: str | None, rot: bool) -> str:
    """Return the name of a changed org (``drift low, rot``); empty where it is as published."""
    return ", ".join([f"drift {drift}"] * bool(drift) + ["rot"] * rot)


def variant_of(provenance: Mapping[str, Any]) -> str:
    """Return the marks of a stored result: upstream's own rules, and the name of a changed org."""
    official = "official" if provenance.get("profile") == "official" else ""
    strategy = provenance.get("strategy")
    parts = (official, strategy if strategy != "react" else "", provenance.get("variant"))
    return ", ".join(str(part) for part in parts if part)


def describe_changes(settings: Settings) -> str:
    """Describe for the header how options change the org, and whose rules are followed where they are not ours."""
    chosen = CrmOptions.of(settings)
    agent = f" (strategy {chosen.strategy})" if chosen.strategy != "react" else ""
    variant = name_variant(chosen.drift, chosen.rot)
    official = [f"CRMArena as its code was published{agent}"] if chosen.profile == "official" else []
    return "; ".join(official + [f"CRMArena's org changed: {variant}"] * bool(variant))


def describe_asker(domains: Sequence[str], settings: Settings) -> str:
    """Describe for the header how answers are scored, where all tasks are questions and no user is simulated."""
    # Where a user speaks, the header says who plays it instead.
    if any(domain.endswith(INTERACTIVE) for domain in domains):
        return ""
    chosen = CrmOptions.of(settings)
    read = "by a judge" if settings.judge_llm else "by rules"
    return f"CRMArena profile {chosen.profile}, scoring {chosen.scoring}, answers read {read}"


def describe_method(results: Sequence[TrialResult]) -> str:
    """Describe how answers were scored, and their reader."""
    scored = [r.provenance for r in results if r.provenance.get("scoring")]
    if not scored:
        return ""
    scorings = Counter(str(p["scoring"]) for p in scored)
    explained = Counter({f"{n} ({_SCORINGS[n]})" if n in _SCORINGS else n: count for n, count in scorings.items()})
    extractors = Counter(str(p["extractor"]) for p in scored if p.get("extractor"))
    return f"scoring: {shares(explained)}; answers extracted by: {shares(extractors)}"


def describe_results(results: Sequence[TrialResult]) -> Iterator[str]:
    """List the differences from the benchmark as its authors published it."""
    provenances = [r.provenance for r in results]
    sources = [p["source"] for p in provenances if isinstance(p.get("source"), Mapping)]
    if any(source.get("source") == "mini" for source in sources):
        yield "the mini org is our own: its numbers are not comparable with CRMArena's"
    if any(source.get("source") != "mini" and not source.get("official") for source in sources):
        yield "not every data file is, byte for byte, one that CRMArena published"
    if any(p.get("aided") for p in provenances):
        yield "the agent was shown the general domain details too (--a2a-set crm-aided=on)"
    official = [p["official"] for p in provenances if isinstance(p.get("official"), Mapping)]
    if official:
        yield f"{len(official)} of these results are by upstream's own rules and texts (crm-official)"
    if any(not code.get("published") for code in official):
        yield "the code of crm-official is not, byte for byte, the one that the profile was certified against"
    if any(p.get("twins") for p in provenances):
        yield _show_twins(results)
    if days := [p["org_day"] for p in provenances if p.get("org_day")]:
        used, allowed = max(days)
        yield f"the Salesforce org has counted {used:,} of the {allowed:,} requests that it allows in 24 hours"
    variants = Counter(str(p["variant"]) for p in provenances if p.get("variant"))
    if variants:
        named = shares(variants)
        yield f"the org was changed: {named}; these are not results of the plain benchmark"


def _show_twins(results: Sequence[TrialResult]) -> str:
    """Count the outcomes of the privacy tasks that have benign twins."""
    found: Counter[str] = Counter()
    for result in results:
        if result.provenance.get("twins") and result.reward_info is not None:
            metrics = result.reward_info.info.get("metrics")
            known = metrics if isinstance(metrics, Mapping) else {}
            found[next((str(name) for name, value in known.items() if value), "unanswered")] += 1
    unanswered = f", {found['unanswered']} without an answer" if found["unanswered"] else ""
    return (
        f"privacy by twins: {found['kept']} of {found.total()} kept the secret and disclosed what they may, "
        f"{found['leak']} leaked, {found['over_refusal']} refused too much{unanswered}"
    )


SUITE = Suite(
    name=NAME,
    domains=DOMAINS,
    available=lambda: MINI,
    splits=lambda domain: (SPLIT,),
    load_tasks=functools.partial(_load_tasks, Settings()),
    describe=functools.partial(_describe_tasks, Settings()),
    modules={domain: f"pytest_a2a_bench.suites.test_crmarena::test_{domain}" for domain in DOMAINS},
    categories=tuple(CATEGORIES),
    node_prefix=f"{NAME}_",
    offered=("mini",),
    bind=bind,
    benchmark="pytest_a2a_bench.benchmarks.crmarena.benchmark",
    settings=CrmOptions,
    settings_prefix=PREFIX,
    check_options=check_options,
    preconditions=find_problems,
    variant=variant_of,
    asked_by=describe_asker,
    changes=describe_changes,
    method=describe_method,
    notes=describe_results,
    reported=("scoring", "extractor", "aided", "drift", "rot"),
    counts=("queries", "query_errors", "rows_read"),
    check_titles=dict.fromkeys(("exact_match", "fuzzy_match", "privacy_rejection"), "the answer:"),
    player="pytest_a2a_bench.benchmarks.crmarena.player",
    diagnoser="pytest_a2a_bench.benchmarks.crmarena.diagnosis",
    gold_options=("crm_data",),
    extras={
        "pytest-a2a-bench[crmarena]": ("scores of CRMArena's free texts", ("sacrebleu", "rouge_score")),
        "pytest-a2a-bench[parquet]": ("CRMArena's tasks as Parquet files", ("pyarrow",)),
        "pytest-a2a-bench[salesforce]": ("CRMArena in a live org", ("simple_salesforce", "requests")),
    },
)
