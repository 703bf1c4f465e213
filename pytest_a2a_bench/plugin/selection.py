"""Choose the built-in modules that join a session, and add them to its collect report."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import pytest

from pytest_a2a_bench import suites
from pytest_a2a_bench.benchmarks import registry
from pytest_a2a_bench.benchmarks.registry import Suite
from pytest_a2a_bench.config.settings import Settings
from pytest_a2a_bench.errors import ConfigurationError, MissingExtraError
from pytest_a2a_bench.plugin.shim import (
    ACTS,
    CONFORMANCE,
    SuiteModule,
    SuiteModuleSpec,
    all_modules,
    is_below,
    joins,
    judge_protocol,
    would_select,
)
from pytest_a2a_bench.plugin.state import TRIAL, BenchRun, Selection
from pytest_a2a_bench.text import did_you_mean

if TYPE_CHECKING:
    from pytest_a2a_bench.results.gates.files import Missed


def take_arguments(config: pytest.Config, settings: Settings, missed: tuple[Missed, ...] | None = None) -> Selection:
    """Decide which built-in modules join, and take their ids out of pytest's own arguments.

    Only ``config.args`` changes, never argv: xdist's workers parse argv again and come to the same. Where ids name
    tests, ``--a2a-suite`` adds nothing: the id of a trial, or of a test, means that one alone, and the option may
    come from table or environment, where it means a whole and perhaps paid run.

    :param missed: trials that are to run again.
    """
    # Arguments that pytest took from ini's testpaths are no choice of anybody's.
    explicit = config.args_source == pytest.Config.ArgsSource.ARGS
    ids = [a for a in map(_module_id, config.args) if a] if explicit else []
    paths = [a for a in config.args if not _module_id(a)] if explicit else []
    names_items = any("::" in a for a in ids) or (bool(paths) and not ids and all("::" in a for a in paths))
    modules = () if names_items else _selected_modules(settings)
    # Without our ids pytest would look for files of these names.
    if ids or (modules and not paths):
        config.args = paths
    if ids or modules:
        return Selection(tuple(ids), modules, conformance=judge_protocol((*ids, *modules)))
    if explicit:
        return Selection()
    # An expression that only leaves out ("not slow") is about the user's own tests, and no wish for every benchmark.
    by_expression = not would_select(config.getoption("keyword") or "", config.getoption("markexpr") or "", (), {})
    # An endpoint in table or environment is there for the user's own tests, which an expression then means.
    if settings.endpoint_source == "cli" and by_expression:
        return Selection(candidates=True, trials=not _is_of_protocol(config.getoption("markexpr") or ""))
    if settings.endpoint_source == settings.acts_source == "cli":
        # An agent and ACTS files on the command line, and nothing else: these are run. Those of a table choose nothing.
        config.args = []
        return Selection(modules=(ACTS.nodeid,), conformance=True)
    failed = _previously_failed(config, missed or ()) if settings.endpoint else ()
    return Selection(modules=failed, conformance=judge_protocol(failed))


def _is_of_protocol(marker: str) -> bool:
    """Return whether ``-m`` chooses checks of the protocol only."""
    others = (name for name in registry.group_names() if re.search(rf"\b{re.escape(name)}\b", marker))
    return CONFORMANCE in marker and not any(others) and not would_select("", marker, (), {})


def _module_id(argument: str) -> str | None:
    """Return the built-in node id that a command line argument names, or None.

    From a subdirectory pytest prints ``../a2a/airline::...``, so such a prefix is accepted. An existing path wins.
    """
    path, separator, rest = argument.partition("::")
    # A path that exists is the user's, whatever it is called.
    if os.path.exists(path):
        nodeid = _built_in_at(path, rest)
        return nodeid + separator + rest if nodeid is not None else None
    plain = re.sub(r"^(?:\.{1,2}[/\\])+", "", path).replace("\\", "/").rstrip("/")
    if plain != "a2a" and not plain.startswith("a2a/"):
        return None
    known = [module.nodeid for module in all_modules()]
    if not any(is_below(k, plain) for k in known):
        # pytest would say of it that there is no such file, and nobody thinks of a file here.
        raise pytest.UsageError(f"{argument}: there is no such file, nor a built-in module{did_you_mean(plain, known)}")
    return plain + separator + rest


def _built_in_at(path: str, test: str) -> str | None:
    """Return the node id of the built-in module that a test of a file is in: editors run tests by file and name."""
    folder, file = os.path.split(os.path.abspath(path))
    if folder != os.path.dirname(suites.__file__):
        return None
    name = f"{suites.__name__}.{file.removesuffix('.py')}::{test.partition('[')[0]}"
    return next((module.nodeid for module in all_modules() if module.module == name), None)


def _selected_modules(settings: Settings) -> tuple[str, ...]:
    names = set(settings.suite)
    if not names:
        return ()
    return tuple(m.nodeid for m in all_modules() if m.domain in names or (m.suite in names and joins(m, settings)))


def _previously_failed(config: pytest.Config, missed: tuple[Missed, ...]) -> tuple[str, ...]:
    """Return the built-in modules that ``--lf``, ``--ff`` or ``--a2a-missed`` remember."""
    remembered: list[str] = [m.nodeid for m in missed]
    if config.getoption("lf", False) or config.getoption("failedfirst", False):
        remembered += config.cache.get("cache/lastfailed", {}) if config.cache else []
    if not any(nodeid.startswith("a2a/") for nodeid in remembered):
        # Nothing of ours failed, so that no module has to be loaded.
        return ()
    return tuple(m.nodeid for m in all_modules() if any(is_below(nodeid, m.nodeid) for nodeid in remembered))


def is_named(config: pytest.Config, settings: Settings) -> bool:
    """Return whether the command line names the trials to run, so that their success rate is not the agent's.

    To be asked before :func:`take_arguments` takes ids out of pytest's arguments.
    """
    if settings.missed:
        return True
    # A bracket names a trial or a check, and not a whole module.
    if config.args_source == pytest.Config.ArgsSource.ARGS and any("[" in a.partition("::")[2] for a in config.args):
        return True
    return runs_last_failed(config)


def runs_last_failed(config: pytest.Config) -> bool:
    """Return whether ``--lf`` runs what failed last; where nothing failed, it runs everything."""
    return bool(config.getoption("lf", False) and config.cache and config.cache.get("cache/lastfailed", {}))


def note_unknown_words(config: pytest.Config, run: BenchRun) -> None:
    """Note words of ``-k`` that no collected item has in its name, and words of ``-m`` that are no marker, where a
    near one exists.
    """
    names = {name.lower() for name in run.collected.names}
    for word in words_of(config, "keyword"):
        if names and not any(word.lower() in name for name in names):
            if near := did_you_mean(word, run.collected.names):
                run.collected.notes.append(f"-k: no test has {word!r} in its name{near}")
    markers = {re.split(r"[:(\s]", line)[0] for line in config.getini("markers")}
    for word in words_of(config, "markexpr"):
        if word not in markers and (near := did_you_mean(word, markers)):
            run.collected.notes.append(f"-m: there is no marker {word!r}{near}")


def lost_domains(config: pytest.Config, run: BenchRun, items: Sequence[pytest.Item]) -> Iterator[str]:
    """Yield a note for each domain that a ``not`` of ``-k`` leaves no trial of, as the name of a split does that all
    its tasks are in.

    :param items: those that are selected.
    """
    expression = config.getoption("keyword") or ""
    kept = {item.stash[TRIAL].task.domain for item in items if TRIAL in item.stash}
    for word in dict.fromkeys(re.findall(r"\bnot\s+([^\s()]+)", expression)):
        for domain, names in run.collected.shared.items():
            others = {name for name in names if word.lower() not in name.lower()}
            # A split alone is looked at: who writes "not telecom" means it. And without that name the trials are
            # chosen: a domain that another word leaves out is meant to be.
            by_split = any(name.startswith("split_") for name in names - others)
            if domain not in kept and by_split and would_select(expression, "", others, {}):
                yield f"-k: 'not {word}' leaves out every trial of {domain}: all of them are in that split"


def words_of(config: pytest.Config, *options: str) -> list[str]:
    """Return the words of ``-k`` and ``-m``, each once, without operators and the arguments of markers.

    :param options: which of ``keyword`` and ``markexpr``; both where none is given.
    """
    text = " ".join(config.getoption(option) or "" for option in options or ("keyword", "markexpr"))
    words = re.findall(r"[^\s()]+", re.sub(r"\([^()]*=[^()]*\)", "", text))
    return [word for word in dict.fromkeys(words) if word not in ("and", "or", "not")]


# -- adding modules to the session: those that are named, and those that ``-k`` and ``-m`` may choose from --

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
    if module.suite == CONFORMANCE or not run.plan.selection.trials:
        return module.suite == CONFORMANCE
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
    """Yield the keywords and marks of items of each category, for ``-k`` and ``-m``, without the numbers of tasks."""
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
    # What is not installed only matters where it was named.
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
