"""One conversation with an org, as a state machine: the agent's reply in, the next events or the end out.

Nothing here sends, waits or scores. What happens when:

- ``execute`` asks the org; the observation is the call's result.
- ``respond`` is the answer. It ends a plain conversation; in an interactive one the user hears it and speaks or stops.
- ``ask_agent`` asks a colleague, where there is one; its answer is the call's result, its failure a tool error.
- Everything else costs a turn and is answered with the rule: prose, an empty reply, another tool, a call without its
  argument. Every dialect says so to the agent. Only an agent that is asked to speak in plain text, because it calls its
  tools by itself, answers in prose, which is a finding.
- Several calls in one reply are carried out in order, and each is a turn; calls after a ``respond`` are ignored.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from pytest_a2a_bench.benchmarks.crmarena.actions import EXECUTE, RESPOND, read_action
from pytest_a2a_bench.model import AgentSaid, DialectFinding, Event, ToolCall, ToolReturned, Turn, UserSaid

if TYPE_CHECKING:
    from pytest_a2a_bench.benchmarks.participants import Colleagues

AGENT_STOP = "agent_stop"
USER_STOP = "user_stop"
MAX_TURNS = "max_turns"
MAX_USER_TURNS = "max_user_turns"
AGENT_ERROR = "agent_error"

RULE = (
    "That was no action, so nothing was done. Every message of yours has to be exactly one action: "
    "execute with a query, or respond with your answer, written in the format given at the beginning."
)
"""The answer to a reply that was neither ``execute`` nor ``respond``."""

# Of what an agent said; the transcript has all of it.
_RAW_LIMIT = 500


class Observation(NamedTuple):
    """The org's answer to one query, as the agent reads it."""

    text: str
    rows: int = 0
    error: bool = False
    seconds: float = 0.0


class User(Protocol):
    """The user of an interactive conversation."""

    kind: str

    def open(self) -> str:
        """Return the first message."""
        ...

    def hear(self, text: str) -> str | None:
        """Return the user's reply to the agent's words, or None where the user is done."""
        ...


@dataclass(slots=True)
class Counts:
    """The counts of one conversation, made here and never taken from the agent.

    :param turns: actions carried out and replies that were none.
    :param rows_read: rows that the answers to all queries were made of.
    :param query_seconds: seconds that the org took for all queries.
    """

    turns: int = 0
    queries: int = 0
    query_errors: int = 0
    rows_read: int = 0
    bad_format: int = 0
    user_turns: int = 0
    query_seconds: float = 0.0

    def to_json(self) -> dict[str, Any]:
        """Return the counts for a result's provenance."""
        return {**dataclasses.asdict(self), "query_seconds": round(self.query_seconds, 4)}


@dataclass(slots=True)
class Episode:
    """One conversation.

    :param execute: asks the org; never raises for a query that the org refuses.
    :param user: the interactive user; None where the task itself asks.
    :param colleagues: the agents that may be asked; None where there are none, and no such action.
    :param prose_answers: whether plain text is the agent's answer, as nothing else was asked of it.
    :param ended: why the conversation is over, or None while it goes on.
    :param answer: the agent's last ``respond``, or None; ``answers`` counts them.
    """

    query: str
    execute: Callable[[str], Observation]
    user: User | None = None
    colleagues: Colleagues | None = None
    max_turns: int = 20
    max_user_turns: int = 10
    rule: str = RULE
    prose_answers: bool = False
    ended: str | None = None
    answer: str | None = None
    answers: int = 0
    counts: Counts = field(default_factory=Counts)
    transcript: list[Turn] = field(default_factory=list)
    findings: list[DialectFinding] = field(default_factory=list)

    def open(self) -> tuple[Event, ...]:
        """Return the first message."""
        if self.user is None:
            return (self._tell(self.query),)
        self.counts.user_turns += 1
        return (self._tell(self.user.open()),)

    def step(self, said: AgentSaid) -> tuple[Event, ...]:
        """Take one reply of the agent and return the next message. Empty once :attr:`ended` is set."""
        self.findings = []
        # Text beside calls is not passed on, and is no part of the conversation.
        self.transcript.append(Turn("agent", text=None if said.calls else said.text or "", calls=said.calls))
        events: list[Event] = []
        if said.calls:
            for call in said.calls:
                answers = self.answers
                events.extend(self._carry_out(call))
                # What stands behind an answer was said before the user could hear it.
                if self.ended or self.answers > answers:
                    break
        elif self.prose_answers and (said.text or "").strip():
            self._find("plain text was taken as the answer", said.text or "", rule="prose-as-answer")
            events.extend(self._answer((said.text or "").strip()))
        else:
            events.append(self._refuse(said.text or ""))
        return () if self.ended else tuple(events)

    def give_up(self) -> None:
        """End it because the agent did: its A2A task failed, was rejected or cancelled."""
        self.ended = AGENT_ERROR

    def _carry_out(self, call: ToolCall) -> Sequence[Event]:
        action = read_action(call)
        if action.name == EXECUTE:
            return (self._ask_org(call, action.text),)
        if action.name == RESPOND:
            return self._answer(action.text)
        if action.name and self.colleagues is not None:
            text, error, party = self.colleagues.ask(action.colleague, action.text)
            self._spend()
            return (self._return(call, text, error=error, party=party),)
        self._spend(bad=True)
        if not action.name:
            self._find(action.text, f"{call.name} {dict(call.arguments)}")
        reason = "There is nobody to ask" if action.name else action.text
        return (self._return(call, f"{reason}. {self.rule}", error=True),)

    def _ask_org(self, call: ToolCall, query: str) -> Event:
        seen = self.execute(query)
        self.counts.queries += 1
        self.counts.query_errors += seen.error
        self.counts.rows_read += seen.rows
        self.counts.query_seconds += seen.seconds
        # A refused query costs a turn like any other.
        self._spend()
        return self._return(call, seen.text, error=seen.error)

    def _answer(self, answer: str) -> tuple[Event, ...]:
        self.answer = answer
        self.answers += 1
        self._spend()
        if self.user is None:
            self.ended = AGENT_STOP
            return ()
        last = self._is_last_answer()
        words = self.user.hear(answer)
        if words is None:
            self.ended = USER_STOP
        elif last:
            # The answer may have been the agent's last turn as well; that is the reason then.
            self.ended = self.ended or MAX_USER_TURNS
        if words is None or self.ended:
            return ()
        self.counts.user_turns += 1
        return (self._tell(words),)

    def _is_last_answer(self) -> bool:
        return self.user is not None and self.counts.user_turns >= self.max_user_turns

    def _refuse(self, text: str) -> Event:
        self._spend(bad=True)
        self._find("the reply is neither a query nor an answer; it was answered with the rule", text)
        return self._tell(self.rule)

    def _spend(self, *, bad: bool = False) -> None:
        self.counts.turns += 1
        self.counts.bad_format += bad
        # Counted after the action: the last turn may still be the answer.
        if self.counts.turns >= self.max_turns:
            self.ended = MAX_TURNS

    def _find(self, message: str, raw: str, *, rule: str = "not-an-action") -> None:
        self.findings.append(DialectFinding(rule, message, raw[:_RAW_LIMIT]))

    def _tell(self, text: str) -> UserSaid:
        self.transcript.append(Turn("user", text=text))
        return UserSaid(text)

    def _return(self, call: ToolCall, text: str, *, error: bool, party: str | None = None) -> ToolReturned:
        turn = Turn("tool", text=text, call_id=call.id, tool=call.name, error=error, requestor="agent", party=party)
        self.transcript.append(turn)
        return ToolReturned(call.id, call.name, text, error)
