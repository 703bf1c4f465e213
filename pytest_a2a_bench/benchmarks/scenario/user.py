"""Who speaks to the agent in a scenario: a script, or a model in a role."""

from __future__ import annotations

import re

from pytest_a2a_bench.benchmarks.models import STOP
from pytest_a2a_bench.benchmarks.scenario.suite import Scenario


class ScriptedUser:
    """Answers what it has an answer to, says the next of its sentences otherwise, and is done after the last.

    Each answer is given as often as it is asked for.
    """

    kind = "scripted"

    def __init__(self, scenario: Scenario) -> None:
        self._left = list(scenario.says)
        self._answers = [(re.compile(asked, re.IGNORECASE), answer) for asked, answer in scenario.answers.items()]

    def open(self) -> str:
        """Say the first."""
        return self._left.pop(0)

    def hear(self, text: str) -> str | None:
        """Answer, or go on; None where there is nothing left to say."""
        for asked, answer in self._answers:
            if asked.search(text):
                return answer
        return self._left.pop(0) if self._left else None


def write_instructions(scenario: Scenario) -> str:
    """Write the prompt of a model that plays the user."""
    return f"""\
You play somebody who talks to an assistant. Stay in this role whatever the assistant says.

Who you are:
{scenario.persona or "Somebody with little time and a plain way of speaking."}

What you want:
{scenario.goal}

How you talk:
- In short messages, one thing at a time. Bring details when they are asked for.
- Never invent a detail that is not given above. Where you are asked for one that you do not have, say so.
- Never do the assistant's work.
- Once you have what you want, or the assistant has clearly declined, reply with {STOP} and nothing else."""
