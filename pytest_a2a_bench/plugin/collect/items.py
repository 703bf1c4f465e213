"""Markers become one item per trial."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import pytest

from pytest_a2a_bench.benchmarks import registry
from pytest_a2a_bench.errors import ConfigurationError
from pytest_a2a_bench.plugin.collect import markers
from pytest_a2a_bench.plugin.run.state import TRIAL, BenchRun, ItemTrial
from pytest_a2a_bench.plugin.shim import SuiteModule, describe_fixture, fixture_definition, is_below

KEY_FIXTURE = "_a2a_key"
ENDPOINT_FIXTURE = "_a2a_endpoint"

# The end of a pasted id.
_TRIAL_OF_ID = re.compile(r"-t(\d+)\]")


def make_items(metafunc: pytest.Metafunc, run: BenchRun) -> None:
    """Turn a marked test function into one item per trial."""
    wanted = KEY_FIXTURE in metafunc.fixturenames
    # Entry points are only looked at for tests that take our fixtures: loading them imports other packages.
    marker = _suite_marker(metafunc, also_entry_points=wanted)
    if marker is None:
        if wanted:
            problem = (
                "a test that uses trial or bench_task needs a marker that says which, "
                'such as @pytest.mark.tau2("airline")'
            )
            metafunc.parametrize(KEY_FIXTURE, [_wrong(metafunc, None, run, problem)], indirect=True)
    elif not wanted and (suite := registry.find(marker.name)) is not None and suite.from_test is not None:
        _note_problem(metafunc, run, f"a test with @pytest.mark.{marker.name} takes trial, which this one does not")
    elif wanted:
        metafunc.parametrize(KEY_FIXTURE, list(_parameters(metafunc, marker, run)), indirect=True)
    # A fixture of the user's own of that name hides ours, and the test would never see a trial.
    elif "trial" in metafunc.fixturenames or "bench_task" in metafunc.fixturenames:
        _note_problem(metafunc, run, _shadowed(metafunc))


def _note_problem(metafunc: pytest.Metafunc, run: BenchRun, problem: str) -> None:
    where = metafunc.definition.nodeid
    if metafunc.definition.getparent(SuiteModule) is not None:
        run.collected.problems.append(f"{where}: {problem}")
    # By node id: only if the test is selected does its problem stop the run.
    else:
        run.collected.test_problems.append((where, problem))


def _wrong(metafunc: pytest.Metafunc, marker: pytest.Mark | None, run: BenchRun, problem: str) -> Any:
    """Note a test's problem, and return the parameter of the one item that stands for it in selections."""
    _note_problem(metafunc, run, problem)
    named = [marker.kwargs.get("domain"), *marker.args[:1]] if marker is not None else []
    # With every domain's mark, so that -m finds the item that tells what is wrong.
    marks = [getattr(pytest.mark, domain) for suite in registry.known() for domain in suite.domains if domain in named]
    return pytest.param(None, id="invalid", marks=marks)


def _suite_marker(metafunc: pytest.Metafunc, *, also_entry_points: bool) -> pytest.Mark | None:
    names = registry.names() if also_entry_points else [suite.name for suite in registry.known()]
    found = (metafunc.definition.get_closest_marker(name) for name in names)
    return next((marker for marker in found if marker is not None), None)


def _parameters(metafunc: pytest.Metafunc, marker: pytest.Mark, run: BenchRun) -> Iterable[Any]:
    where = metafunc.definition.nodeid
    try:
        suite = registry.load(marker.name, run.settings)
        if suite.from_test is not None:
            request, tasks = markers.read_own(marker, suite, _function(metafunc))
        else:
            request = markers.read(marker, suite)
            tasks = markers.tasks_of(request, suite, run.settings.split)
        # An id that was pasted from a run of more trials must exist here.
        named = (*run.plan.selection.ids, *metafunc.config.args, *(m.nodeid for m in run.plan.missed or ()))
        trials = request.trials or max(run.settings.trials, _named_trials(named, where))
    except ConfigurationError as error:
        yield _wrong(metafunc, marker, run, str(error))
        return
    mark = getattr(pytest.mark, request.domain)
    turns = _in_turns(run.settings.under_test)
    for task in tasks:
        marks = [mark, getattr(pytest.mark, task.category)] if task.category else [mark]
        for trial in range(trials):
            for agent in next(turns):
                key = task.key(trial, request.label, agent)
                yield pytest.param(ItemTrial(task, key), id=key.short_id, marks=marks)


def _function(metafunc: pytest.Metafunc) -> Callable[..., object]:
    """Return what a test does, called without ``self``: a class's is called on one instance for all trials."""
    plain: Callable[..., object] = metafunc.function
    bound: Callable[..., object] = getattr(metafunc.cls(), plain.__name__) if metafunc.cls is not None else plain
    return bound


def _in_turns(names: tuple[str | None, ...]) -> Iterator[tuple[str | None, ...]]:
    """Yield agents in an order in which each comes first as often as any other: whatever is slow by then is for all."""
    while True:
        for first in range(len(names)):
            yield names[first:] + names[:first]


def _named_trials(ids: Iterable[str], where: str) -> int:
    """Return how many trials a test must have so that every pasted id of it exists."""
    numbers = [int(match[1]) + 1 for i in ids if is_below(i, where) and (match := _TRIAL_OF_ID.search(i))]
    return max(numbers, default=1)


def _shadowed(metafunc: pytest.Metafunc) -> str:
    name = "trial" if "trial" in metafunc.fixturenames else "bench_task"
    place = describe_fixture(fixture_definition(metafunc.definition, name))
    return f"the fixture {name!r} is not ours but the one defined at {place}, which hides it; rename that fixture"


def adopt(item: pytest.Item, found: object) -> None:
    """Note an item's trial, unless its marker was wrong, and give the item its keywords."""
    if isinstance(found, ItemTrial):
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


def uses_agent(item: pytest.Item) -> bool:
    """Return whether an item needs the agent."""
    return ENDPOINT_FIXTURE in getattr(item, "fixturenames", ())
