"""Which items there are: built-in modules join the session, and markers become one item per trial."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest

from pytest_a2a_bench.benchmarks import registry
from pytest_a2a_bench.benchmarks.registry import Suite, SuiteModuleSpec
from pytest_a2a_bench.errors import ConfigurationError, MissingExtraError
from pytest_a2a_bench.plugin.collect import markers
from pytest_a2a_bench.plugin.conformance import check_items
from pytest_a2a_bench.plugin.run import options, state
from pytest_a2a_bench.plugin.run.state import TRIAL, BenchRun, ItemTrial, Selection
from pytest_a2a_bench.plugin.shim import SuiteModule, describe_fixture, fixture_definition, is_below, would_select
from pytest_a2a_bench.settings import DIALECTS, ORG_DIALECTS, Settings

if TYPE_CHECKING:
    from pytest_a2a_bench.gates.files import Missed

ALL_MODULES = "a2a"
"""The node id that all built-in modules are below."""

KEY_FIXTURE = "_a2a_key"
ENDPOINT_FIXTURE = "_a2a_endpoint"
SESSION_SCOPED = ("a2a_client_config", "a2a_message_metadata")
"""Fixtures that shape a conversation, which starts before any function-scoped fixture of its item."""

_TRIAL_OF_ID = re.compile(r"-t(\d+)\]")


# --- which built-in modules join --------------------------------------------------------------------------------------


def take_arguments(config: pytest.Config, settings: Settings, missed: tuple[Missed, ...] | None = None) -> Selection:
    """Decide which built-in modules join, and take their ids out of pytest's own arguments.

    Only ``config.args`` changes, never argv: xdist's workers parse argv again and come to the same.

    :param missed: trials that are to run again.
    """
    explicit = config.args_source == pytest.Config.ArgsSource.ARGS
    ids = [a for a in map(_module_id, config.args) if a] if explicit else []
    modules = _selected_modules(settings)
    paths = [a for a in config.args if not _module_id(a)] if explicit else []
    if ids or (modules and not paths):
        config.args = paths
    if ids or modules:
        return Selection(tuple(ids), modules, conformance=check_items.is_among((*ids, *modules)))
    if explicit:
        return Selection()
    by_expression = bool(config.getoption("keyword") or config.getoption("markexpr"))
    if settings.endpoint_source == "cli" and by_expression:
        return Selection(candidates=True, conformance=check_items.may_be_chosen(config))
    failed = _previously_failed(config, missed or ()) if settings.endpoint else ()
    return Selection(modules=failed, conformance=check_items.is_among(failed))


def all_modules() -> Iterator[SuiteModuleSpec]:
    """Yield every built-in module."""
    for suite in registry.load_all():
        for domain, module in suite.modules.items():
            yield SuiteModuleSpec(suite.name, domain, module, suite.node_prefix)
    yield from registry.CONFORMANCE_MODULES


def _module_id(argument: str) -> str | None:
    """Return the built-in node id that a command line argument names, or None.

    From a subdirectory pytest prints ``../a2a/airline::...``, so such a prefix is accepted. An existing path wins.
    """
    path, separator, rest = argument.partition("::")
    if os.path.exists(path):
        return None
    plain = re.sub(r"^(?:\.{1,2}[/\\])+", "", path).replace("\\", "/").rstrip("/")
    if plain != "a2a" and not plain.startswith("a2a/"):
        return None
    known = [module.nodeid for module in all_modules()]
    return plain + separator + rest if any(is_below(k, plain) for k in known) else None


def _selected_modules(settings: Settings) -> tuple[str, ...]:
    names = set(settings.suites)
    if not names:
        return ()
    return tuple(m.nodeid for m in all_modules() if m.domain in names or (m.suite in names and _joins(m, settings)))


def _joins(module: SuiteModuleSpec, settings: Settings, expression: str = "") -> bool:
    """Tell whether a module is meant where its suite is, or every suite."""
    if module.suite == registry.CONFORMANCE:
        return True
    return registry.load(module.suite, settings).joins(module.domain, expression)


def _previously_failed(config: pytest.Config, missed: tuple[Missed, ...]) -> tuple[str, ...]:
    """Return the built-in modules that ``--lf``, ``--ff`` or ``--a2a-missed`` remember."""
    remembered: list[str] = [m.nodeid for m in missed]
    if config.getoption("lf", False) or config.getoption("failedfirst", False):
        remembered += config.cache.get("cache/lastfailed", {}) if config.cache else []
    if not any(nodeid.startswith("a2a/") for nodeid in remembered):
        return ()
    return tuple(m.nodeid for m in all_modules() if any(is_below(nodeid, m.nodeid) for nodeid in remembered))


def extend_report(collector: pytest.Collector, report: pytest.CollectReport, run: BenchRun) -> None:
    """Add the built-in modules to the session's collection report."""
    if isinstance(collector, pytest.Session) and run.selection:
        report.result.extend(_graft(collector, run))
    elif isinstance(collector, SuiteModule) and report.passed and not report.result:
        # --lf empties every module whose file it does not find in its cache; it then selects items by id itself.
        report.result = list(collector.collect())


def _graft(session: pytest.Session, run: BenchRun) -> Iterator[SuiteModule]:
    selection = run.selection
    for module in all_modules():
        below = tuple(i for i in selection.ids if is_below(i, module.nodeid))
        whole = _is_whole(module, run)
        if not (whole or below or (selection.candidates and _is_candidate(module, run, session.config))):
            continue
        if module.suite == registry.CONFORMANCE:
            if selection.conformance:
                yield SuiteModule.graft(session, module, () if whole else below)
        elif _has_tasks(module, run, by_itself=module.domain in run.settings.suites or bool(below)):
            yield SuiteModule.graft(session, module, () if whole else below)


def _is_whole(module: SuiteModuleSpec, run: BenchRun) -> bool:
    if ALL_MODULES in run.selection.ids and _joins(module, run.settings):
        return True
    named = (i for i in (*run.selection.ids, *run.selection.modules) if i != ALL_MODULES)
    return any(is_below(module.nodeid, i) for i in named)


def _is_candidate(module: SuiteModuleSpec, run: BenchRun, config: pytest.Config) -> bool:
    """Tell whether a module is offered to ``-k`` and ``-m``.

    One whose tasks come from a file of the user's is read only if something of it may be chosen.
    """
    keyword, marker = config.getoption("keyword") or "", config.getoption("markexpr") or ""
    if not _joins(module, run.settings, f"{keyword} {marker}"):
        return False
    if module.suite == registry.CONFORMANCE:
        return True
    suite = registry.load(module.suite, run.settings)
    # The ids of such tasks are numbers, perhaps after a category: any digit may be meant for one of them.
    if not suite.categories or re.search(r"\d", keyword):
        return True
    return any(
        would_select(keyword, marker, names, {mark: {} for mark in marks})
        for names, marks in _conceivable(suite, module)
    )


def _conceivable(suite: Suite, module: SuiteModuleSpec) -> Iterator[tuple[list[str], list[str]]]:
    """Yield what ``-k`` and ``-m`` would look at in items of each category, apart from the numbers of tasks."""
    for category in suite.categories:
        marks = [suite.name, module.domain, category]
        yield [module.nodeid, f"test_{module.domain}[{category}-]", "split_base", *marks], marks


def _has_tasks(module: SuiteModuleSpec, run: BenchRun, *, by_itself: bool) -> bool:
    """Tell whether a domain is installed and has the split.

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
    except MissingExtraError as error:
        problem, by_itself = str(error), by_itself or not run.selection.candidates
    except ConfigurationError as error:
        problem, by_itself = str(error), True
    target = run.problems if by_itself else run.notes
    if problem not in target:
        target.append(problem)
    return False


def _is_named_in_vain(suite: Suite, run: BenchRun) -> bool:
    """Tell whether ``--a2a-suite`` names a suite of which no domain has the split."""
    domains = [domain for domain in suite.available() if suite.joins(domain, "")]
    return suite.name in run.settings.suites and not any(
        run.settings.split in suite.splits(domain) for domain in domains
    )


# --- one item per trial -----------------------------------------------------------------------------------------------


def make_items(metafunc: pytest.Metafunc, run: BenchRun) -> None:
    """Turn a marked test function into one item per trial."""
    if check_items.CHECK_FIXTURE in metafunc.fixturenames:
        check_items.make_items(metafunc, run)
        return
    wanted = KEY_FIXTURE in metafunc.fixturenames
    marker = _suite_marker(metafunc, also_entry_points=wanted)
    if marker is None:
        if wanted:
            problem = (
                "a test that uses trial or bench_task needs a marker that says which, "
                'such as @pytest.mark.tau2("airline")'
            )
            metafunc.parametrize(KEY_FIXTURE, [_wrong(metafunc, None, run, problem)], indirect=True)
    elif wanted:
        metafunc.parametrize(KEY_FIXTURE, list(_parameters(metafunc, marker, run)), indirect=True)
    elif "trial" in metafunc.fixturenames or "bench_task" in metafunc.fixturenames:
        _note_problem(metafunc, run, _shadowed(metafunc))


def _note_problem(metafunc: pytest.Metafunc, run: BenchRun, problem: str) -> None:
    where = metafunc.definition.nodeid
    if metafunc.definition.getparent(SuiteModule) is not None:
        run.problems.append(f"{where}: {problem}")
    else:
        run.test_problems.append((where, problem))


def _wrong(metafunc: pytest.Metafunc, marker: pytest.Mark | None, run: BenchRun, problem: str) -> Any:
    """Note a test's problem, and return the parameter of the one item that stands for it in selections."""
    _note_problem(metafunc, run, problem)
    named = [marker.kwargs.get("domain"), *marker.args[:1]] if marker is not None else []
    marks = [getattr(pytest.mark, domain) for domain in registry.marker_domains() if domain in named]
    return pytest.param(None, id="invalid", marks=marks)


def _suite_marker(metafunc: pytest.Metafunc, *, also_entry_points: bool) -> pytest.Mark | None:
    names = registry.names() if also_entry_points else registry.marker_suites()
    found = (metafunc.definition.get_closest_marker(name) for name in names)
    return next((marker for marker in found if marker is not None), None)


def _parameters(metafunc: pytest.Metafunc, marker: pytest.Mark, run: BenchRun) -> Iterable[Any]:
    where = metafunc.definition.nodeid
    try:
        suite = registry.load(marker.name, run.settings)
        request = markers.read(marker, suite)
        trials = request.trials or max(run.settings.trials, _named_trials(run.selection.ids, where))
        tasks = markers.tasks_of(request, suite, run.settings.split)
    except ConfigurationError as error:
        yield _wrong(metafunc, marker, run, str(error))
        return
    mark = getattr(pytest.mark, request.domain)
    for task in tasks:
        marks = [mark, getattr(pytest.mark, task.category)] if task.category else [mark]
        for trial in range(trials):
            key = task.key(trial, request.label)
            yield pytest.param(ItemTrial(task, key), id=key.short_id, marks=marks)


def _named_trials(ids: tuple[str, ...], where: str) -> int:
    """Return how many trials a test must have so that every pasted id of it exists."""
    numbers = [int(match[1]) + 1 for i in ids if is_below(i, where) and (match := _TRIAL_OF_ID.search(i))]
    return max(numbers, default=1)


def _shadowed(metafunc: pytest.Metafunc) -> str:
    name = "trial" if "trial" in metafunc.fixturenames else "bench_task"
    place = describe_fixture(fixture_definition(metafunc.definition, name))
    return f"the fixture {name!r} is not ours but the one defined at {place}, which hides it; rename that fixture"


def adopt(item: pytest.Item) -> None:
    """Note an item's trial, and give the item its keywords."""
    callspec = getattr(item, "callspec", None)
    check_items.adopt(item)
    found = callspec.params.get(KEY_FIXTURE) if callspec is not None else None
    if not isinstance(found, ItemTrial):
        return
    item.stash[TRIAL] = found
    item.extra_keyword_matches.update(_keywords(found))


def _keywords(trial: ItemTrial) -> Iterator[str]:
    task = trial.task
    yield from (task.suite, task.domain, task.task_id, *task.keywords)
    if task.category:
        yield task.category
    # A bare "test" would match every item by its function's name.
    yield from (f"split_{split}" for split in task.splits)
    if trial.key.label:
        yield trial.key.label


# --- when collection is over ------------------------------------------------------------------------------------------


class Census(NamedTuple):
    """What the collected items need."""

    trials: list[pytest.Item]
    users: list[pytest.Item]


def census(items: Iterable[pytest.Item]) -> Census:
    """Sort the items out."""
    every = list(items)
    return Census(
        trials=[item for item in every if TRIAL in item.stash],
        users=[item for item in every if ENDPOINT_FIXTURE in getattr(item, "fixturenames", ())],
    )


def find_problems(session: pytest.Session, run: BenchRun) -> list[str]:
    """Return everything that forbids running the collected items."""
    found = census(session.items)
    own = [
        f"{where}: {problem}"
        for where, problem in run.test_problems
        if any(is_below(item.nodeid, where) for item in session.items)
    ]
    problems = [
        *run.problems,
        *own,
        *_missing_ids(session.items, run),
        *_doubled_keys(found.trials),
        *_scopes(found.users),
        *_floors(found.trials, run),
        *_dialects(found.trials, run),
    ]
    if found.users:
        problems += run.resolution.problems
        if not run.settings.endpoint and not session.config.option.collectonly:
            problems.append(_no_endpoint(found.users))
    if not session.config.option.collectonly:
        problems += _missing_data(found.trials, run)
    return list(dict.fromkeys(problems))


def _dialects(trials: list[pytest.Item], run: BenchRun) -> Iterator[str]:
    """Tell of trials with tools that the chosen dialect cannot write."""
    dialect = run.settings.dialect
    if dialect not in ORG_DIALECTS:
        return
    others = [item for item in trials if item.stash[TRIAL].key.suite == "tau2"]
    if others:
        more = f" and {len(others) - 1} more" if len(others) > 1 else ""
        yield (
            f"{others[0].nodeid}{more}: --a2a-dialect={dialect} can say nothing but a query or an answer about an org "
            f"(CRMArena's tasks), and these have other tools; choose {_listed(DIALECTS)}"
        )


def _listed(dialects: Iterable[str]) -> str:
    *most, last = (each for each in dialects if each not in ORG_DIALECTS)
    return f"{', '.join(most)} or {last}"


def _missing_data(trials: list[pytest.Item], run: BenchRun) -> list[str]:
    domains = {key.domain for key in (item.stash[TRIAL].key for item in trials) if key.suite == "crmarena"}
    if not domains:
        return []
    from pytest_a2a_bench.benchmarks.crmarena import preconditions

    return preconditions.find_problems(sorted(domains), run.settings, os.environ)


def _floors(trials: list[pytest.Item], run: BenchRun) -> Iterator[str]:
    if trials:
        from pytest_a2a_bench.plugin.collect import shards
        from pytest_a2a_bench.plugin.trials import misses

        if wrong := tuple(misses.problems(trials, run, shards.part_of(trials, run))):
            yield options.usage_text(wrong)


def _no_endpoint(users: list[pytest.Item]) -> str:
    more = f" and {len(users) - 1} more" if len(users) > 1 else ""
    return (
        f"{users[0].nodeid}{more}: no agent to test; pass --a2a-endpoint URL (or builtin:NAME), "
        "or set A2A_ENDPOINT or ini a2a_endpoint"
    )


def _missing_ids(items: list[pytest.Item], run: BenchRun) -> Iterator[str]:
    for wanted in run.selection.ids:
        if any(is_below(item.nodeid, wanted) for item in items) or run.problems:
            continue
        if check_items.is_among((wanted,)):
            why = "the agent's card gives no such check, or it is deselected"
        else:
            why = f"no such item with --a2a-split={run.settings.split}, or it is deselected"
        yield f"not found: {wanted} ({why}; pytest --co lists what there is)"


def _doubled_keys(trials: list[pytest.Item]) -> Iterator[str]:
    seen: dict[Any, pytest.Item] = {}
    for item in trials:
        key = item.stash[TRIAL].key
        if key in seen:
            yield f"{seen[key].nodeid} and {item.nodeid} are the same trial, {key}; {_way_out(seen[key], item)}"
            return
        seen[key] = item


def _way_out(item: pytest.Item, other: pytest.Item) -> str:
    if item.parent is other.parent and _function_name(item) == _function_name(other):
        return (
            "a parametrized test would report one conversation several times: "
            "move the parameters into the test's body, or write a test with a label of its own for each"
        )
    return 'give one of their markers another name: label="..."'


def _function_name(item: pytest.Item) -> str:
    return getattr(item, "originalname", None) or item.name


def _leave_out_doubles(session: pytest.Session, run: BenchRun) -> None:
    """Drop built-in trials that only an expression chose where the user's own selected tests run the same ones."""
    if not run.selection.candidates:
        return
    trials = census(session.items).trials
    own = {item.stash[TRIAL].key for item in trials if not _is_built_in(item)}
    doubles = [item for item in trials if _is_built_in(item) and item.stash[TRIAL].key in own]
    if not doubles:
        return
    run.left_out = len(doubles)
    dropped = set(doubles)
    session.items[:] = [item for item in session.items if item not in dropped]
    session.config.hook.pytest_deselected(items=doubles)


def _is_built_in(item: pytest.Item) -> bool:
    return item.getparent(SuiteModule) is not None


def _scopes(users: list[pytest.Item]) -> Iterator[str]:
    for item in users:
        for name in SESSION_SCOPED:
            definition = fixture_definition(item, name)
            if definition is not None and definition.scope != "session":
                yield (
                    f"the fixture {name!r} at {describe_fixture(definition)} has scope {definition.scope!r}; "
                    "conversations start before their items do, so give it scope='session' "
                    "(for one trial, use the hook pytest_a2a_bench_prepare_trial)"
                )


def conclude(session: pytest.Session, run: BenchRun) -> None:
    """Check the collected items.

    :raises pytest.UsageError: with everything that is wrong with them.
    """
    if run.missed is not None:
        from pytest_a2a_bench.plugin.trials import misses

        misses.select(session, run)
    _leave_out_doubles(session, run)
    run.used = bool(census(session.items).users)
    problems = find_problems(session, run)
    if not problems and run.used and run.endpoint_problem and not session.config.option.collectonly:
        problems = [run.endpoint_problem]
    if problems:
        state.refuse(session, run, "\n".join(problems))
        return
    if run.used or run.settings.shard:
        from pytest_a2a_bench.plugin.collect import shards

        shards.divide(session, run)
        # A part without trials is a part of the run, too: it leaves a file that says so, with the agent's name in it.
        run.used = bool(census(session.items).users or run.whole)
