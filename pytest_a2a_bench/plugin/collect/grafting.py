"""Built-in modules join the session: those that are named, and those that ``-k`` and ``-m`` may choose from."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest

from pytest_a2a_bench.benchmarks import registry
from pytest_a2a_bench.benchmarks.suite import Suite
from pytest_a2a_bench.errors import ConfigurationError, MissingExtraError
from pytest_a2a_bench.plugin.run.modules import CONFORMANCE, SuiteModuleSpec, all_modules, joins
from pytest_a2a_bench.plugin.run.state import BenchRun
from pytest_a2a_bench.plugin.shim import SuiteModule, is_below, would_select

ALL_MODULES = "a2a"
"""The node id that all built-in modules are below."""


def add_modules(collector: pytest.Collector, report: pytest.CollectReport, run: BenchRun) -> None:
    """Add the built-in modules to the session's collection report."""
    # The session's own report: modules that are added to its paths would be collected by nobody (a .venv, python_files,
    # xdist).
    if isinstance(collector, pytest.Session) and run.plan.selection:
        report.result.extend(_graft(collector, run))
    elif isinstance(collector, SuiteModule) and report.passed and not report.result:
        # --lf empties every module whose file it does not find in its cache; it then selects items by id itself.
        report.result = list(collector.collect())


def _graft(session: pytest.Session, run: BenchRun) -> Iterator[SuiteModule]:
    selection = run.plan.selection
    for module in all_modules():
        below = tuple(i for i in selection.ids if is_below(i, module.nodeid))
        whole = _is_whole(module, run)
        # A module that is named whole is not narrowed by ids below it.
        if not (whole or below or (selection.candidates and _is_candidate(module, run, session.config))):
            continue
        if module.suite == CONFORMANCE:
            if selection.conformance:
                yield SuiteModule.graft(session, module, () if whole else below)
        elif _has_tasks(module, run, by_itself=module.domain in run.settings.suite or bool(below)):
            yield SuiteModule.graft(session, module, () if whole else below)


def _is_whole(module: SuiteModuleSpec, run: BenchRun) -> bool:
    # Everything, but only what is offered without being named.
    if ALL_MODULES in run.plan.selection.ids and joins(module, run.settings):
        return True
    named = (i for i in (*run.plan.selection.ids, *run.plan.selection.modules) if i != ALL_MODULES)
    return any(is_below(module.nodeid, i) for i in named)


def _is_candidate(module: SuiteModuleSpec, run: BenchRun, config: pytest.Config) -> bool:
    """Return whether a module is offered to ``-k`` and ``-m``.

    One whose tasks come from a file of the user's is read only if something of it may be chosen.
    """
    keyword, marker = config.getoption("keyword") or "", config.getoption("markexpr") or ""
    if not joins(module, run.settings, f"{keyword} {marker}"):
        return False
    if module.suite == CONFORMANCE:
        return True
    suite = registry.load(module.suite, run.settings)
    # The ids of such tasks are numbers, perhaps after a category: any digit may be meant for one of them.
    if not suite.categories or re.search(r"\d", keyword):
        return True
    return any(
        would_select(keyword, marker, names, {mark: {} for mark in marks})
        for names, marks in _conceivable(suite, module)
    )


# Numbers are left out: any digit has been let in above.
def _conceivable(suite: Suite, module: SuiteModuleSpec) -> Iterator[tuple[list[str], list[str]]]:
    """Yield what ``-k`` and ``-m`` would look at in items of each category, apart from the numbers of tasks."""
    for category in suite.categories:
        marks = [suite.name, module.domain, category]
        yield [module.nodeid, f"test_{module.domain}[{category}-]", "split_base", *marks], marks


def _has_tasks(module: SuiteModuleSpec, run: BenchRun, *, by_itself: bool) -> bool:
    """Return whether a domain is installed and has the split.

    :param by_itself: whether the user named this very domain, so that its absence is an error and not a note.
    """
    split = run.settings.split
    try:
        suite = registry.load(module.suite, run.settings)
        if module.domain in suite.available():
            if split in suite.splits(module.domain):
                return True
            problem = (
                f"{module.domain} has no split {split!r}; it has: {', '.join(sorted(suite.splits(module.domain)))}"
            )
            by_itself = by_itself or _is_named_in_vain(suite, run)
        else:
            problem = f"{module.domain} {suite.absence(module.domain)}"
    # What is not installed only matters to somebody who asked for it.
    except MissingExtraError as error:
        problem, by_itself = str(error), by_itself or not run.plan.selection.candidates
    except ConfigurationError as error:
        problem, by_itself = str(error), True
    # Named in vain is an error, offered in vain a note.
    target = run.collected.problems if by_itself else run.collected.notes
    if problem not in target:
        target.append(problem)
    return False


def _is_named_in_vain(suite: Suite, run: BenchRun) -> bool:
    """Return whether ``--a2a-suite`` names a suite of which no domain has the split."""
    domains = [domain for domain in suite.available() if suite.joins(domain, "")]
    return suite.name in run.settings.suite and not any(
        run.settings.split in suite.splits(domain) for domain in domains
    )
