"""Make one item for each trial of a marker, and give items their keywords."""

from __future__ import annotations

import fnmatch
import functools
import inspect
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pytest

from pytest_a2a_bench.benchmarks import registry
from pytest_a2a_bench.benchmarks.registry import Suite
from pytest_a2a_bench.errors import ConfigurationError
from pytest_a2a_bench.plugin import options
from pytest_a2a_bench.plugin.shim import SuiteModule, describe_fixture, fixture_definition, is_below
from pytest_a2a_bench.plugin.state import TRIAL, BenchRun, ItemTrial
from pytest_a2a_bench.text import did_you_mean, one_line

if TYPE_CHECKING:
    import pytest

    from pytest_a2a_bench.model import BenchTask

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
                + did_you_mean([mark.name for mark in metafunc.definition.iter_markers()], registry.names())
            )
            metafunc.parametrize(KEY_FIXTURE, [_wrong(metafunc, None, run, problem)], indirect=True)
    elif wanted and len(own := own_markers(metafunc.definition)) > 1:
        names = " and ".join(f"@pytest.mark.{name}" for name in own)
        problem = f"a test has one marker that says which tasks; this one has {names}: write a test for each"
        metafunc.parametrize(KEY_FIXTURE, [_wrong(metafunc, None, run, problem)], indirect=True)
    elif wanted:
        metafunc.parametrize(KEY_FIXTURE, list(_parameters(metafunc, marker, run)), indirect=True)
    # A fixture of the user's own of that name hides ours, and the test would never see a trial.
    elif "trial" in metafunc.fixturenames or "bench_task" in metafunc.fixturenames:
        _note_problem(metafunc, run, _shadowed(metafunc))
    # A class or a module may have one for those of its tests that take trials.
    elif own_markers(metafunc.definition):
        _note_problem(metafunc, run, f"a test with @pytest.mark.{marker.name} takes trial, which this one does not")


def own_markers(node: pytest.Item) -> list[str]:
    """Return the names of the markers of benchmarks that a test itself has, not its class or module."""
    known = {suite.name for suite in registry.known()}
    return [marker.name for marker in node.own_markers if marker.name in known]


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
            request, tasks = read_own(marker, suite, _function(metafunc))
        else:
            request = read(marker, suite)
            tasks = tasks_of(request, suite, run.settings.split)
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
    """Return a test as a function without ``self``: a class's test is called on one instance for all trials.

    Its ``pytest.fail`` is an assertion that does not hold: only the plugin knows what that raises.
    """
    plain: Callable[..., object] = metafunc.function
    bound: Callable[..., object] = getattr(metafunc.cls(), plain.__name__) if metafunc.cls is not None else plain
    if inspect.iscoroutinefunction(bound) or inspect.isasyncgenfunction(bound):
        return bound

    @functools.wraps(bound)
    def asked(*args: object) -> object:
        try:
            return bound(*args)
        except pytest.fail.Exception as error:
            raise AssertionError(error.msg or "pytest.fail") from error

    return asked


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


# -- the marker of a suite, ``@pytest.mark.tau2("airline", ...)`` --

SIGNATURE = "domain, *, split=None, trials=None, tasks=None, label=None"
CATEGORY_SIGNATURE = ", category=None"

# Of a shorter id every other number is near.
_TELLING = 4

_KNOWN = ("domain", "split", "trials", "tasks", "label")

TaskFilter = tuple[str, ...] | Callable[[str], bool]


@dataclass(frozen=True, slots=True)
class MarkerRequest:
    """A marker's arguments, checked.

    :param tasks: ids or glob patterns, or a function of the id; None for all.
    :param category: categories or glob patterns; None for all.
    """

    domain: str
    split: str | None = None
    trials: int | None = None
    tasks: TaskFilter | None = None
    label: str | None = None
    category: tuple[str, ...] | None = None


def signature(suite: Suite) -> str:
    """Return the arguments that a suite's marker takes."""
    if suite.marker_signature:
        return suite.marker_signature
    return SIGNATURE + CATEGORY_SIGNATURE * bool(suite.categories)


def lines(suites: Sequence[Suite]) -> list[str]:
    """Return the ini lines that register our markers: of suites, domains and categories."""
    registered = [f"{suite.name}({signature(suite)}): {_told(suite)}" for suite in suites]
    registered.append(options.CONFORMANCE_MARKER)
    domains = dict.fromkeys(domain for suite in suites for domain in suite.domains)
    categories = dict.fromkeys(category for suite in suites for category in suite.categories)
    registered += [f"{domain}: set on items of the benchmark domain {domain}, for -m." for domain in domains]
    # Registered so that --strict-markers accepts them in the user's own expressions.
    return registered + [
        f"{category}: set on items of the task category {category}, for -m." for category in categories
    ]


def _told(suite: Suite) -> str:
    if suite.from_test is not None:
        return (
            "one item per trial of the conversation that is described; the test takes the fixture 'trial' and asserts "
            "what has to come of it."
        )
    return (
        f"one item per trial of the tasks of a {suite.name} domain; the test takes the fixture 'trial' (tasks: ids, "
        "glob patterns or a function of the id; label: for a task that is used twice)."
    )


def read(marker: pytest.Mark, suite: Suite) -> MarkerRequest:
    """Read a marker; raises ConfigurationError naming every wrong argument."""
    values = dict(marker.kwargs)
    problems = []
    if len(marker.args) > 1:
        problems.append(f"takes one positional argument, the domain, and got {len(marker.args)}")
    if marker.args:
        values["domain"] = marker.args[0]
    valid = (*_KNOWN, *(["category"] if suite.categories else []))
    unknown = sorted(set(values) - set(valid))
    if unknown:
        problems.append(
            f"does not know {', '.join(unknown)}; valid are: {', '.join(valid)}{did_you_mean(unknown, valid)}"
        )
    problems += [f"{name}: {text}" for name in valid if (text := _argument_problem(name, values.get(name), suite))]
    if problems:
        arguments = signature(suite)
        # The signature is in the message, as nobody remembers it.
        raise ConfigurationError(f"@pytest.mark.{marker.name}({arguments}) " + "; ".join(problems))
    values |= {"tasks": _task_filter(values.get("tasks")), "category": _names(values.get("category"))}
    return MarkerRequest(**values)


def read_own(
    marker: pytest.Mark, suite: Suite, function: Callable[..., object]
) -> tuple[MarkerRequest, list[BenchTask]]:
    """Read a marker whose test brings its own task; raises ConfigurationError naming every wrong argument."""
    assert suite.from_test is not None
    shared = {name: marker.kwargs.get(name) for name in ("trials", "label")}
    problems = [f"{name}: {text}" for name, value in shared.items() if (text := _argument_problem(name, value, suite))]
    if problems:
        raise ConfigurationError(f"@pytest.mark.{marker.name}({signature(suite)}) " + "; ".join(problems))
    own = {name: value for name, value in marker.kwargs.items() if name not in shared}
    task = suite.from_test(function, marker.args, own, shared["label"])
    return MarkerRequest(task.domain, trials=shared["trials"], label=shared["label"]), [task]


def _is_chosen(function: Callable[[str], object], task_id: str) -> bool:
    try:
        return bool(function(task_id))
    except Exception as error:
        problem = one_line(f"{type(error).__name__}: {error}")
        raise ConfigurationError(f"tasks: the function raised {problem}; it is called with {task_id!r}") from error


def tasks_of(request: MarkerRequest, suite: Suite, default_split: str) -> list[BenchTask]:
    """Return the tasks that a marker asks for, in the suite's order.

    :raises ConfigurationError: if the domain, the split or a task is not there.
    """
    if request.domain not in suite.available():
        raise ConfigurationError(f"the domain {request.domain!r} {suite.absence(request.domain)}")
    tasks = suite.load_tasks(request.domain, request.split or default_split)
    if not tasks:
        raise ConfigurationError(f"the suite {suite.name!r} has no task in the domain {request.domain!r}")
    if other := next((task.suite for task in tasks if task.suite != suite.name), None):
        raise ConfigurationError(f"the suite {suite.name!r} has tasks of the suite {other!r}: BenchTask(suite, ...)")
    tasks = _of_category(request.category, tasks)
    if request.tasks is None:
        return tasks
    if callable(request.tasks):
        chosen = [task for task in tasks if _is_chosen(request.tasks, task.task_id)]
        if not chosen:
            raise ConfigurationError(f"tasks: the function accepts none of the {len(tasks)} tasks")
        return chosen
    if not request.tasks:
        raise ConfigurationError("tasks: the list is empty; leave it out for all tasks")
    return _named(request.tasks, tasks, request.split or default_split)


def _of_category(patterns: tuple[str, ...] | None, tasks: list[BenchTask]) -> list[BenchTask]:
    if patterns is None:
        return tasks
    chosen = [task for task in tasks if any(fnmatch.fnmatchcase(task.category, p) for p in patterns)]
    if not chosen:
        there = ", ".join(dict.fromkeys(task.category for task in tasks))
        raise ConfigurationError(f"category: no task is of {', '.join(patterns)}; there are tasks of: {there}")
    return chosen


def _named(patterns: tuple[str, ...], tasks: list[BenchTask], split: str) -> list[BenchTask]:
    chosen: set[str] = set()
    missing = []
    ids = {task.task_id for task in tasks}
    for pattern in patterns:
        # Task ids may contain the brackets that a glob pattern treats as special: the literal id comes first.
        found = {pattern} if pattern in ids else {i for i in ids if fnmatch.fnmatchcase(i, pattern)}
        if not found:
            missing.append(pattern)
        chosen |= found
    if missing:
        examples = ", ".join(task.task_id for task in tasks[:5])
        raise ConfigurationError(
            f"tasks: no task matches {', '.join(map(repr, missing))} in split {split!r}; its ids look like: {examples}"
            f"{did_you_mean([name for name in missing if len(name) >= _TELLING], ids)}"
        )
    # In the suite's order, whatever order the patterns are in.
    return [task for task in tasks if task.task_id in chosen]


def _argument_problem(name: str, value: Any, suite: Suite) -> str | None:
    if name == "domain":
        valid = ", ".join(suite.domains)
        if value is None:
            return f"missing; valid are: {valid}"
        return (
            None
            if value in suite.domains
            else f"{value!r} is not one of {valid}{did_you_mean(str(value), suite.domains)}"
        )
    if value is None:
        return None
    if name == "trials":
        # True is a whole number in Python.
        whole = isinstance(value, int) and not isinstance(value, bool) and value >= 1
        return None if whole else f"{value!r} is not a whole number of at least 1"
    if name == "label":
        readable = isinstance(value, str) and re.fullmatch(r"[\w.-]+", value)
        return None if readable else f"{value!r} is not made of letters, digits, '_', '-' and '.'"
    if name == "category":
        return _wrong_category(value, suite)
    if name == "split":
        return None if isinstance(value, str) else f"{value!r} is not the name of a split"
    return None if _is_filter(value) else f"{value!r} is not a list of ids, a glob pattern or a function of the id"


def _wrong_category(value: Any, suite: Suite) -> str | None:
    if not isinstance(value, str | list | tuple | set | frozenset) or not all(isinstance(v, str) for v in value):
        return f"{value!r} is not a category, a glob pattern or a list of these"
    unknown = [name for name in _names(value) or () if not fnmatch.filter(suite.categories, name)]
    if not unknown and value:
        return None
    near = did_you_mean(unknown, suite.categories)
    return f"{', '.join(map(repr, unknown)) or 'nothing'} is none of {', '.join(suite.categories)}{near}"


def _names(value: Any) -> tuple[str, ...] | None:
    if value is None:
        return None
    # Sorted, because sets have no order that workers would agree on.
    return (value,) if isinstance(value, str) else tuple(sorted(set(value)))


def _is_filter(value: Any) -> bool:
    if isinstance(value, str) or callable(value):
        return True
    return isinstance(value, list | tuple | set | frozenset) and all(isinstance(v, str | int) for v in value)


def _task_filter(value: Any) -> TaskFilter | None:
    if value is None:
        return None
    if callable(value):
        chosen: Callable[[str], bool] = value
        return chosen
    if isinstance(value, str):
        return (value,)
    return tuple(sorted({str(v) for v in value}))
