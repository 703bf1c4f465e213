"""What this user cannot play, known from the task alone: goals that need somebody to judge."""

from __future__ import annotations

import re

from pytest_a2a_bench.benchmarks.tau2.user.scenario import Scenario, sentences

_WEIGHING = re.compile(r"after (a few|several|some|\d+|the \w+) (attempt|exchange|agent|message|round)|\binsisted \d+|"
                       r"\bhalfway\b|\bfirst (\d|two|three) (round|message)|\btry to get\b|"
                       r"first offer", re.I)  # fmt: skip
_TYPED = re.compile(r"\bif (and only if )?(the )?(service )?agent\b[^,]*\b(asks?|not|cannot|can't|refus\w*|"
    r"denies|suggests?)\b",
                    re.I)  # fmt: skip
_CONDITION = re.compile(r"\bif (and only if )?(either of )?(the )?(service )?agent\b", re.I)


def needs_judgement(
    scenario: Scenario,
    *,
    checked: bool = True,
) -> str:
    """Return why a task's user needs judgement that a script has not, or an empty text.

    :param checked: whether the task says what must be true at the end (a database, assertions, actions, texts).
    """
    if not checked:
        return "the task lists nothing to judge the agent's offers by"
    for sentence in sentences(f"{scenario.reason}\n{scenario.instructions}"):
        if _WEIGHING.search(sentence):
            return "the user is to choose the moment for what it says"
        if _CONDITION.search(sentence) and not _TYPED.search(sentence):
            return "what the user does depends on what the agent's answer means"
    return ""
