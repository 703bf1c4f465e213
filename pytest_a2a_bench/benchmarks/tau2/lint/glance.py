"""The rules that look at a task alone: no database, no tool, no import of tau2. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from pytest_a2a_bench.benchmarks.lint import LintFinding
from pytest_a2a_bench.benchmarks.tau2.lint.data import RawTask

_STOP_TOKENS = ("###STOP###", "###TRANSFER###", "###OUT-OF-SCOPE###")
_SHORT = 2


def glance(task: RawTask) -> Iterator[LintFinding]:
    """Yield what a task's own text shows."""
    actions = task.actions
    if actions and all(action.get("requestor", "assistant") == "user" for action in actions):
        what = (
            f"all {len(actions)} gold actions are the user's" if actions[1:] else "the only gold action is the user's"
        )
        yield task.find("user-only-gold", what, "/evaluation_criteria/actions")
    yield from _expected_texts(task)
    for token in _STOP_TOKENS:
        if token in task.scenario:
            yield task.find("stop-token-in-scenario", f"the user's instructions contain {token}", "/user_scenario")


def _expected_texts(task: RawTask) -> Iterator[LintFinding]:
    # Only where the reward asks for them: else they are remarks.
    if "COMMUNICATE" not in reward_basis(task):
        return
    scenario = task.scenario.lower().replace(",", "")
    for number, text in enumerate(task.communicate):
        place = f"/evaluation_criteria/communicate_info/{number}"
        if "," in text:
            yield task.find("text-never-matches", f"expected text {number + 1} has a comma, and never matches", place)
        elif len(text.strip()) <= _SHORT:
            found = f"expected text {number + 1} is {len(text.strip())} characters long, and found in almost anything"
            yield task.find("short-text", found, place)
        elif text.lower() in scenario:
            yield task.find("text-in-scenario", f"expected text {number + 1} is in the user's instructions", place)


def reward_basis(task: RawTask) -> tuple[str, ...]:
    """Return what the reward is made of: tau2's default is the database and what is communicated."""
    basis = task.criteria.get("reward_basis")
    return tuple(map(str, basis)) if isinstance(basis, list) else ("DB", "COMMUNICATE")
