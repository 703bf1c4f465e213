"""What a task of tau2's wants done, for judging how its user played: the edge around ``tau2/user/fault``."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Any

from pytest_a2a_bench.benchmarks.tau2.player import read_gold
from pytest_a2a_bench.benchmarks.tau2.user.fault import Deed, Goal
from pytest_a2a_bench.benchmarks.tau2.user.scenario import Scenario


def goal_of(task: Any, tools: Collection[str] = ()) -> Goal:
    """Return what the user of a task wants.

    :param tools: names of the user's own tools in this task's environment.
    """
    criteria = task.evaluation_criteria
    communicate = (criteria.communicate_info if criteria else None) or []
    return Goal(Scenario.of(task.user_scenario.instructions), tuple(_golds(task)), tuple(map(str, communicate)), tools)


def _golds(task: Any) -> Iterator[Deed]:
    criteria = task.evaluation_criteria
    if criteria is None:
        return
    for action in criteria.actions or ():
        by_user = str(getattr(action.requestor, "value", action.requestor)) == "user"
        compared = None if action.compare_args is None else tuple(action.compare_args)
        yield Deed(action.name, action.arguments, by_user, compared)
    if not criteria.actions:
        # A task may only say what must hold at the end.
        for call in read_gold(task.model_dump(mode="json")).where_offered:
            yield Deed(call.name, call.arguments)
