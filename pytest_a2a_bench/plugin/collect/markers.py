"""The marker of a suite, ``@pytest.mark.tau2("airline", ...)``: its arguments read, checked and applied."""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pytest_a2a_bench.benchmarks.suite import INTERACTIVE, Suite
from pytest_a2a_bench.errors import ConfigurationError
from pytest_a2a_bench.nearest import did_you_mean

if TYPE_CHECKING:
    import pytest

    from pytest_a2a_bench.model import BenchTask

SIGNATURE = "domain, *, split=None, trials=None, tasks=None, label=None"
CATEGORY_SIGNATURE = ", category=None"
INTERACTIVE_SIGNATURE = ", interactive=False"

CONFORMANCE_SIGNATURE = "suite, *, group=None, level=None, id=None, binding=None, version=None"

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
    return SIGNATURE + CATEGORY_SIGNATURE * bool(suite.categories) + INTERACTIVE_SIGNATURE * suite.interactive


def lines(suites: Sequence[Suite]) -> list[str]:
    """Return the ini lines that register our markers: of suites, domains and categories."""
    registered = [f"{suite.name}({signature(suite)}): {_told(suite)}" for suite in suites]
    registered.append(
        f"conformance({CONFORMANCE_SIGNATURE}): one item per requirement of the agent's card or of the protocol; "
        "the test takes the fixture 'conformance_check'. Items carry their own suite, group, level, id, binding and "
        "version, for -m 'conformance(level=\"MUST\")'."
    )
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
    """Read a marker.

    :raises ConfigurationError: naming every wrong argument.
    """
    values = dict(marker.kwargs)
    problems = []
    if len(marker.args) > 1:
        problems.append(f"takes one positional argument, the domain, and got {len(marker.args)}")
    if marker.args:
        values["domain"] = marker.args[0]
    valid = (*_KNOWN, *(["category"] if suite.categories else []), *(["interactive"] if suite.interactive else []))
    unknown = sorted(set(values) - set(valid))
    if unknown:
        problems.append(
            f"does not know {', '.join(unknown)}; valid are: {', '.join(valid)}{did_you_mean(unknown, valid)}"
        )
    problems += [f"{name}: {text}" for name in valid if (text := _wrong(name, values.get(name), suite))]
    # Only with a domain that is right can its interactive sibling be looked for.
    if not problems and values.pop("interactive", False):
        values["domain"], problem = _interactive_domain(values["domain"], suite)
        problems += [problem] if problem else []
    if problems:
        arguments = signature(suite)
        # The signature is in the message, as nobody remembers it.
        raise ConfigurationError(f"@pytest.mark.{marker.name}({arguments}) " + "; ".join(problems))
    values |= {"tasks": _task_filter(values.get("tasks")), "category": _names(values.get("category"))}
    return MarkerRequest(**values)


def read_own(
    marker: pytest.Mark, suite: Suite, function: Callable[..., object]
) -> tuple[MarkerRequest, list[BenchTask]]:
    """Read a marker whose test brings its own task.

    :raises ConfigurationError: naming every wrong argument.
    """
    assert suite.from_test is not None
    shared = {name: marker.kwargs.get(name) for name in ("trials", "label")}
    problems = [f"{name}: {text}" for name, value in shared.items() if (text := _wrong(name, value, suite))]
    if problems:
        raise ConfigurationError(f"@pytest.mark.{marker.name}({signature(suite)}) " + "; ".join(problems))
    own = {name: value for name, value in marker.kwargs.items() if name not in shared}
    task = suite.from_test(function, marker.args, own, shared["label"])
    return MarkerRequest(task.domain, trials=shared["trials"], label=shared["label"]), [task]


def _interactive_domain(domain: str, suite: Suite) -> tuple[str, str]:
    """Return the domain in which a user asks the questions of another, and what is wrong if there is none."""
    wanted = domain if domain.endswith(INTERACTIVE) else domain + INTERACTIVE
    return wanted, "" if wanted in suite.domains else f"interactive: {domain!r} has no domain {wanted!r} beside it"


def tasks_of(request: MarkerRequest, suite: Suite, default_split: str) -> list[BenchTask]:
    """Return the tasks that a marker asks for, in the suite's order.

    :raises ConfigurationError: if the domain, the split or a task is not there.
    """
    if request.domain not in suite.available():
        raise ConfigurationError(f"the domain {request.domain!r} {suite.absence(request.domain)}")
    tasks = _of_category(request.category, suite.load_tasks(request.domain, request.split or default_split))
    if request.tasks is None:
        return tasks
    if callable(request.tasks):
        chosen = [task for task in tasks if request.tasks(task.task_id)]
        if not chosen:
            raise ConfigurationError(f"tasks: the function accepts none of the {len(tasks)} tasks")
        return chosen
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


def _wrong(name: str, value: Any, suite: Suite) -> str | None:
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
    if name == "interactive":
        return None if isinstance(value, bool) else f"{value!r} is not True or False"
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
