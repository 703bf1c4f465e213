"""Facts about the data behind tau2's numbers, for the header, the summary and failures."""

from __future__ import annotations

import contextlib
import os
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from importlib.util import find_spec
from typing import TYPE_CHECKING

from pytest_a2a_bench.benchmarks.tau2 import DOMAINS, index, retrieval
from pytest_a2a_bench.benchmarks.tau2.index import Correction, defects_of, find_edition
from pytest_a2a_bench.benchmarks.tau2.index import find_problems as edition_problems
from pytest_a2a_bench.benchmarks.tau2.suite import INSTALLED
from pytest_a2a_bench.benchmarks.tau2.user.scenario import judgement_needed
from pytest_a2a_bench.config.settings import Settings
from pytest_a2a_bench.errors import A2ABenchError
from pytest_a2a_bench.results.stats import count

if TYPE_CHECKING:
    from pytest_a2a_bench.model import TrialResult


def describe_data(settings: Settings) -> str:
    """Name the edition for the header."""
    try:
        edition = find_edition(settings)
        if edition.said == INSTALLED:
            return f"tau2 data: {edition.name(DOMAINS[0])}"
    except A2ABenchError:  # reported as a wrong option, or where a domain joins
        return ""
    return f"tau2 data: {edition.said}"


def find_problems(domains: Sequence[str], settings: Settings, environ: Mapping[str, str]) -> Iterator[str]:
    """Describe why no trial of some domains can run."""
    yield from edition_problems(domains, settings)
    yield from retrieval.find_problems(domains, settings, environ)


def announce(domains: Sequence[str], settings: Settings) -> Iterator[str]:
    """Announce before a run how its documents are found, and which of its tasks are no measure of an agent."""
    yield from retrieval.announce(domains, settings, os.environ)
    for domain in domains:
        with contextlib.suppress(A2ABenchError, OSError, ValueError):  # reported where a domain joins
            edition = find_edition(settings)
            tasks = [t.task_id for t in index.load_tasks(domain, settings.split, edition.data)]
            raw = (index.load_task_json(domain, task, edition.data) for task in tasks)
            judged = sum(map(bool, map(judgement_needed, raw))) if settings.user_kind == "scripted" else 0
            if judged:
                goals = f"goals of {judged} of {count(len(tasks), 'task')}"
                yield f"{domain}: {goals} ({settings.split}) need a user's judgement, which a script has not"
            known = defects_of(edition.name(domain), domain)
            if found := [tuple(known[task]) for task in tasks if task in known]:
                yield f"{domain}: {_counted(found, len(tasks))}"
    if "mock" in domains:
        # It looks like an error of ours and is upstream's.
        yield (
            "mock: in create_task_1_with_env_assertions tau2's own evaluator raises where an agent creates no task: "
            "that item is then an ERROR, and says nothing about the agent"
        )


def examine(environ: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """Report for ``a2a-bench doctor`` the installed tau2, its missing parts, and how documents are found."""
    try:
        found = index.find_installation()
        counts = ", ".join(f"{domain} {len(index.load_tasks(domain, 'base'))}" for domain in index.available_domains())
    except (A2ABenchError, OSError, ValueError) as error:
        yield "tau2-bench", str(error)
    else:
        lacks = "" if find_spec("mcp") else "; no mcp, which newer LiteLLMs need for users with tools: pip install mcp"
        yield "tau2-bench", f"{found.distribution}; base tasks: {counts}{lacks}"
        yield from (("documents", text) for text in retrieval.announce(DOMAINS, Settings(), environ))


def _counted(defects: Collection[Iterable[str]], of: int) -> str:
    """Describe how many tasks have defects, and how many have each kind, the most frequent first."""
    kinds = Counter(kind.replace("-", " ") for each in defects for kind in each)
    listed = ", ".join(f"{kind} {number}" for kind, number in kinds.most_common())
    return f"{len(defects)} of {count(of, 'task')} {'has' if len(defects) == 1 else 'have'} known defects ({listed})"


def describe_results(results: Sequence[TrialResult]) -> Iterator[str]:
    """Name the data of these results, where they are not the installed ones; and their known errors."""
    chosen: dict[str, set[str]] = defaultdict(set)
    for result in results:
        edition = result.provenance.get("edition")
        if result.provenance.get("variant") and isinstance(edition, Mapping):
            chosen[str(edition.get("said"))].add(f"{result.key.domain}: {edition.get('name')}")
    for where, names in sorted(chosen.items()):
        yield f"tau2's data: {where} ({', '.join(sorted(names))})"
    for why in sorted({str(r.provenance.get("without_shortcuts") or "") for r in results} - {""}):
        yield f"tau2: environments and evaluation without our shortcuts, at many times the CPU: {why}"
    yield from retrieval.describe_results([r.provenance for r in results])
    # Of a trial that was left out nobody knows whether it would have succeeded.
    counted = [r for r in results if r.status != "skipped"]
    for edition_name, tasks in sorted(_corrected(counted).items()):
        concerned = [r for r in counted if str(r.key.task_key) in tasks]
        other = sum("state" in kinds for kinds in tasks.values())
        ends = f", {other} so that another database is right" if other else ""
        of = len({r.key.task_key for r in counted})
        where = f"{'upstream ' if edition_name.startswith('tau2 ') else ''}in {edition_name}"
        are = "is" if len(tasks) == 1 else "are"
        passed = sum(r.success for r in concerned)
        yield (
            f"golds: {len(tasks)} of {count(of, 'task')} {are} corrected {where}{ends}; "
            f"{passed} of their {count(len(concerned), 'trial')} passed with the golds used here (--a2a-tau2-data)"
        )
    defective = {r.key.task_key: tuple(_defects(r)) for r in counted if _defects(r)}
    if defective:
        concerned = [r for r in counted if r.key.task_key in defective]
        succeeded = sum(r.success for r in concerned)
        yield (
            f"defects: {_counted(defective.values(), len({r.key.task_key for r in counted}))}; "
            f"{succeeded} of their {count(len(concerned), 'trial')} succeeded"
        )


def remarks(result: TrialResult) -> Iterator[str]:
    """Report whether a task is known to have been corrected, and which defects it is known to have."""
    yield from map(str, _corrections(result))
    for kind, details in _defects(result).items():
        yield f"known defect: {kind.replace('-', ' ')} ({details})"


def _corrected(results: Sequence[TrialResult]) -> dict[str, dict[str, tuple[str, ...]]]:
    """Return edition -> task -> kinds of change."""
    found: dict[str, dict[str, tuple[str, ...]]] = defaultdict(dict)
    for result in results:
        for correction in _corrections(result):
            found[correction.edition][result.key.task_key] = correction.kinds
    return found


def _defects(result: TrialResult) -> dict[str, str]:
    found = result.provenance.get("defects")
    return {str(kind): str(details) for kind, details in found.items()} if isinstance(found, Mapping) else {}


def _corrections(result: TrialResult) -> Iterator[Correction]:
    # A file may hold anything there.
    corrected = result.provenance.get("corrected")
    for edition, kinds in sorted(corrected.items()) if isinstance(corrected, Mapping) else ():
        yield Correction(str(edition), tuple(map(str, kinds)) if isinstance(kinds, Sequence) else ())
