"""The colleague that an agent may ask in a CRM task: another A2A agent, asked in plain words over the harness.

It is told who asks and nothing of the task: what it is to know stands in the question. Its trouble is told to the agent
that asked, as its tool's error, and is among its own findings; the trial goes on.
"""

from __future__ import annotations

from collections.abc import Callable

from pytest_a2a_bench.benchmarks.parties import Seat
from pytest_a2a_bench.errors import AgentOutcomeError, CardError, InfrastructureError, TrialCancelledError
from pytest_a2a_bench.model import DialectFinding, Part
from pytest_a2a_bench.redact import one_line

MAX_ANSWER = 32_000
"""Characters of an answer that reach the agent that asked."""

_FIRST = """\
You are {name}, an agent whom a colleague asks for help. It works on a question about the records of a Salesforce org
and sends you its questions, one a message; what is not in them you cannot know. Answer each in plain text, briefly.

"""


class AskedAgent:
    """One conversation with the colleague.

    :param most: questions that it is asked.
    :param before_turn: called before each question, and after one that was not answered; raises to stop the trial.
    :ivar asked: questions so far; ``failed`` those without an answer.
    """

    def __init__(self, seat: Seat, most: int, before_turn: Callable[[], float]) -> None:
        self.name = seat.name
        self.asked = 0
        self.failed = 0
        self._seat = seat
        self._most = most
        self._before_turn = before_turn

    def ask(self, name: str, question: str) -> tuple[str, bool]:
        """Ask, and return the answer, or why there is none, and whether it is an error.

        :raises TrialCancelledError: if the run is stopping; :class:`TrialTimeoutError` if the trial's time is up.
        """
        if name not in ("", self.name):
            return f"There is no colleague {name[:80]!r}; there is {self.name}.", True
        if self.asked >= self._most:
            return f"{self.name} has been asked {self._most} times and answers no more questions in this task.", True
        left = self._before_turn()
        self.asked += 1
        told = _FIRST.format(name=self.name) + question if self.asked == 1 else question
        session = self._seat.session
        try:
            said = session.send([Part.of_text(told)], timeout=left).text.strip()
        except TrialCancelledError:
            raise
        except (AgentOutcomeError, InfrastructureError, CardError) as error:
            # A later question may do better, and what is not known of this one is the agent's own to deal with.
            session.tainted = None
            self._before_turn()
            return self._without_answer(f"{type(error).__name__}: {error}")
        return (said[:MAX_ANSWER], False) if said else self._without_answer("its answer is empty")

    def _without_answer(self, why: str) -> tuple[str, bool]:
        self.failed += 1
        self._seat.findings.append(DialectFinding("no-answer", one_line(why, 500), turn=self.asked))
        return f"{self.name} did not answer.", True
