"""Scenarios: conversations that a project's own tests describe, about its agent's own job."""

from __future__ import annotations

import hashlib
import inspect
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from pytest_a2a_bench.benchmarks.registry import Suite
from pytest_a2a_bench.errors import ConfigurationError
from pytest_a2a_bench.model import BenchTask
from pytest_a2a_bench.text import did_you_mean

NAME = "a2a_scenario"
DOMAIN = "scenario"

SIGNATURE = (
    "*says, answers=None, persona='', goal='', tools=None, policy='', criteria=(), max_turns=20, "
    "trials=None, label=None"
)

Check = Callable[[Any], object]


@dataclass(frozen=True, slots=True)
class Scenario:
    """One conversation with the agent, and its expected outcome.

    :param says: the user's sentences, in order.
    :param answers: regular expression -> the user's answer where the agent asks so, before it goes on.
    :param persona: who the user is, for a model that plays it.
    :param goal: the user's goal, for a model that plays it (``--a2a-user llm:MODEL``).
    :param tools: makes an object for each trial whose public methods the agent may call; None for none.
    :param policy: instructions for the agent; empty where it knows its job.
    :param criteria: sentences that a model judges to be true of the conversation (``--a2a-judge-llm``).
    :param check: the test: given the trial, it asserts.
    """

    says: tuple[str, ...]
    check: Check
    answers: Mapping[str, str] = field(default_factory=dict)
    persona: str = ""
    goal: str = ""
    tools: Callable[[], object] | None = None
    policy: str = ""
    criteria: tuple[str, ...] = ()
    max_turns: int = 20

    @property
    def digest(self) -> str:
        """Return its identity: a result of another scenario of that name is not reused."""
        said = (self.says, sorted(self.answers.items()), self.persona, self.goal, self.policy, self.criteria)
        text = repr((said, self.max_turns, _source(self.check), _source(self.tools)))
        return hashlib.sha256(text.encode()).hexdigest()[:12]


_known: dict[tuple[str, str | None], Scenario] = {}


def get(task_id: str, label: str | None = None) -> Scenario:
    """Return a scenario of this process's tests.

    :raises ConfigurationError: if there is none: its test was not collected.
    """
    if (task_id, label) not in _known:
        raise ConfigurationError(f"the scenario {task_id!r} is of a test that was not collected here")
    return _known[task_id, label]


def from_test(function: Check, args: tuple[Any, ...], values: Mapping[str, Any], label: str | None) -> BenchTask:
    """Read a marker, and keep its scenario.

    :param function: the test, which takes ``trial`` alone.
    :param values: the marker's keyword arguments, without those that every marker has.
    :param label: distinguishes tests of one name.
    :raises ConfigurationError: naming all that is wrong.
    """
    problems = list(_problems(function, args, values))
    if problems:
        raise ConfigurationError(f"@pytest.mark.{NAME}({SIGNATURE}) " + "; ".join(problems))
    named = {**values, "criteria": tuple(values.get("criteria", ()))}
    # With its module: another file may have a test of that name.
    task_id = f"{function.__module__.rpartition('.')[2]}.{function.__qualname__}"
    _known[task_id, label] = Scenario(says=tuple(args), check=function, **named)
    return BenchTask(NAME, DOMAIN, task_id, ("base",))


_KINDS: Mapping[str, tuple[Callable[[Any], bool], str]] = {
    "answers": (lambda v: isinstance(v, Mapping) and all(map(_is_text, (*v, *v.values()))),
                "a dict of regular expressions and answers"),
    "persona": (lambda v: isinstance(v, str), "a text"),
    "goal": (lambda v: isinstance(v, str), "a text"),
    "tools": (callable, "a class, or a function that makes an object"),
    "policy": (lambda v: isinstance(v, str), "a text"),
    "criteria": (lambda v: isinstance(v, list | tuple) and all(map(_is_text, v)), "a list of sentences"),
    "max_turns": (lambda v: isinstance(v, int) and not isinstance(v, bool) and v > 0, "a whole number of at least 1"),
}  # fmt: skip
"""Argument -> whether a value is valid, and the valid values."""


def _problems(function: Check, args: tuple[Any, ...], values: Mapping[str, Any]) -> list[str]:
    found = []
    unknown = sorted(set(values) - set(_KINDS))
    if unknown:
        valid = (*_KINDS, "trials", "label")
        found.append(f"does not know {', '.join(unknown)}; valid are: {', '.join(valid)}{did_you_mean(unknown, valid)}")
    if not all(map(_is_text, args)):
        found.append("says: what the user says are texts")
    found += [
        f"{name}: {values[name]!r} is not {what}" for name, (will_do, what) in _KINDS.items()
        if name in values and not will_do(values[name])
    ]  # fmt: skip
    if isinstance(answers := values.get("answers"), Mapping):
        found += filter(None, map(_pattern_problem, answers))
    if isinstance(values.get("tools"), type):
        found += _tool_problems(values["tools"])
    if not args and not values.get("goal"):
        found.append("there is nothing to say: give what the user says, or a goal for a model that plays it")
    if args and values.get("goal"):
        found.append("give what the user says, or a goal, not both")
    elif args and values.get("persona"):
        found.append("persona is for a model that plays the user; give a goal in place of what the user says")
    elif values.get("goal") and values.get("answers"):
        found.append("answers are for a user with sentences; write into the goal what a model is to answer")
    if inspect.iscoroutinefunction(function) or inspect.isasyncgenfunction(function):
        found.append("the test is async, and is asked where nothing awaits it; write it as a plain function")
    taken = [name for name in inspect.signature(function).parameters if name != "trial"]
    if taken:
        found.append(
            f"the test takes {', '.join(taken)}, but it decides the reward of its trial, so it takes trial alone"
        )
    return found


def _tool_problems(kind: type) -> list[str]:
    """List the public methods that an agent could never call, as they do not name their parameters."""
    found = []
    for name, method in inspect.getmembers(kind, inspect.isroutine):
        if name.startswith("_"):
            continue
        kinds = {p.kind for p in inspect.signature(method).parameters.values() if p.name != "self"}
        if kinds - {inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY}:
            found.append(f"tools: {name} takes parameters without names, which cannot be described to an agent")
        if inspect.iscoroutinefunction(method):
            found.append(f"tools: {name} is async, and nothing awaits it; write it as a plain method")
    return found


def _is_text(value: object) -> bool:
    return isinstance(value, str) and bool(value.strip())


def _pattern_problem(value: object) -> str:
    try:
        re.compile(str(value))
    except (re.error, OverflowError, RecursionError) as error:
        return f"answers: {value!r} is no regular expression: {error}"
    return ""


def _source(thing: Any) -> str:
    try:
        return inspect.getsource(thing)
    except (OSError, TypeError):
        return repr(thing)


SUITE = Suite(
    name=NAME,
    domains=(DOMAIN,),
    available=lambda: (DOMAIN,),
    splits=lambda domain: ("base",),
    load_tasks=lambda domain, split: [],
    offered=(),
    benchmark="pytest_a2a_bench.benchmarks.scenario.benchmark",
    diagnoser="pytest_a2a_bench.benchmarks.scenario.benchmark",
    from_test=from_test,
    marker_signature=SIGNATURE,
    check_titles={"assertion": "what the test asserts:", "criterion": "not true of the conversation, says the judge:"},
    short_labels=True,
)
