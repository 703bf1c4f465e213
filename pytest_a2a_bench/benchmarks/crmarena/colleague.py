"""The colleagues that an agent may ask in a CRM task: other A2A agents, asked in plain words over the harness.

A colleague receives the question and nothing of the task. Where it fails, the asking agent gets a tool error, the
colleague a finding, and the trial goes on.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from typing import NamedTuple

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


class Answered(NamedTuple):
    """The result of a question.

    :param text: the answer, or why there is none.
    :param colleague: the name of the agent that was asked; None where no agent was.
    """

    text: str
    error: bool
    colleague: str | None = None


class Colleagues:
    """The agents that may be asked in one trial, each in a conversation of its own.

    :param seats: their places, one or more.
    :param most: questions to all of them together.
    :param before_turn: called before each question, and after one that was not answered; raises to stop the trial.
    :ivar failed: questions without an answer.
    """

    def __init__(self, seats: Iterable[Seat], most: int, before_turn: Callable[[], float]) -> None:
        self._seats = {seat.name: seat for seat in seats}
        self._questions = Counter[str]()
        self._most = most
        self._before_turn = before_turn
        self.failed = 0

    @property
    def names(self) -> tuple[str, ...]:
        """Whom the agent may ask."""
        return tuple(self._seats)

    @property
    def asked(self) -> int:
        """Questions so far."""
        return self._questions.total()

    def ask(self, name: str, question: str) -> Answered:
        """Ask one of them; where there is only one, it need not be named.

        :raises TrialCancelledError: if the run is stopping; :class:`TrialTimeoutError` if the trial's time is up.
        """
        is_one = len(self._seats) == 1
        seat = next(iter(self._seats.values())) if is_one and not name else self._seats.get(name)
        if seat is None:
            there = f"there is {' and '.join(self.names)}" if is_one else f"there are {' and '.join(self.names)}"
            return Answered(f"There is no colleague {name[:80]!r}; {there}.", True)
        if self.asked >= self._most:
            who = f"{seat.name} has" if is_one else "Your colleagues have"
            what = "answers" if is_one else "answer"
            return Answered(f"{who} been asked {self._most} times and {what} no more questions in this task.", True)
        left = self._before_turn()
        self._questions[seat.name] += 1
        told = _FIRST.format(name=seat.name) + question if self._questions[seat.name] == 1 else question
        try:
            said = seat.session.send([Part.of_text(told)], timeout=left).text.strip()
        except TrialCancelledError:
            raise
        except (AgentOutcomeError, InfrastructureError, CardError) as error:
            # A later question may do better, and what is not known of this one is the agent's own to deal with.
            seat.session.tainted = None
            self._before_turn()
            return self._without_answer(seat, f"{type(error).__name__}: {error}")
        return (
            Answered(said[:MAX_ANSWER], False, seat.name) if said else self._without_answer(seat, "its answer is empty")
        )

    def _without_answer(self, seat: Seat, why: str) -> Answered:
        self.failed += 1
        turn = self._questions[seat.name]
        seat.findings.append(DialectFinding("no-answer", one_line(why, 500), turn=turn))
        return Answered(f"{seat.name} did not answer.", True, seat.name)
