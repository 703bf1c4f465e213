"""Two editions of one domain beside each other: what kind of difference, never which texts. Pure."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from pytest_a2a_bench.benchmarks.lint import LintFinding
from pytest_a2a_bench.benchmarks.tau2.lint.data import DomainData, RawTask, reward_basis

_RULE = "editions-differ"


def compare(
    here: DomainData, there: DomainData, changes: Mapping[str, Any], changes_there: Mapping[str, Any]
) -> Iterator[LintFinding]:
    """Yield a finding for each task that is not the same in both.

    :param changes: what each gold changes in its own edition's database, by task; without one nothing is said of it.
    """
    others = {task.task_id: task for task in there.tasks}
    for task in here.tasks:
        other = others.pop(task.task_id, None)
        if other is None:
            yield task.find(_RULE, "the other edition has no such task")
            continue
        kinds = list(_kinds(task, other))
        mine, theirs = changes.get(task.task_id), changes_there.get(task.task_id)
        if mine is not None and theirs is not None and mine != theirs:
            kinds.append("where the gold ends")
        if kinds:
            yield task.find(_RULE, f"the editions differ in {_listed(kinds)}")
    for task in others.values():
        yield task.find(_RULE, "only the other edition has it")


def _kinds(task: RawTask, other: RawTask) -> Iterator[str]:
    if _differ(task, other, "user_scenario"):
        yield "the user's instructions"
    if _differ(task, other, "initial_state"):
        yield "the initial state"
    if [_call(a) for a in task.actions] != [_call(a) for a in other.actions]:
        yield "the gold's actions"
    for name, what in (
        ("communicate_info", "expected texts"),
        ("env_assertions", "assertions about the environment"),
        ("nl_assertions", "assertions for a judge"),
    ):
        if (task.criteria.get(name) or []) != (other.criteria.get(name) or []):
            yield what
    if sorted(reward_basis(task)) != sorted(reward_basis(other)):
        yield "the reward's basis"


def _differ(task: RawTask, other: RawTask, name: str) -> bool:
    return _plain(task.value.get(name)) != _plain(other.value.get(name))


def _call(action: Mapping[str, Any]) -> tuple[str, str, str]:
    # Ids and remarks of actions are nobody's to keep to.
    return str(action.get("requestor", "assistant")), str(action.get("name")), _plain(action.get("arguments"))


def _plain(value: Any) -> str:
    return json.dumps(value or None, sort_keys=True)


def _listed(words: list[str]) -> str:
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} and {words[-1]}"
