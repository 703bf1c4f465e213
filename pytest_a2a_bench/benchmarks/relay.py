"""A conversation that another agent goes on with once the first has transferred it to a human."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Sequence

from pytest_a2a_bench.benchmarks.conversation import Conversation
from pytest_a2a_bench.benchmarks.parties import Seat
from pytest_a2a_bench.model import AgentSaid, DialectFinding, Event, ToolReturned, Usage

WELCOME = "You are the agent that this conversation has been transferred to: go on with the user from here."
"""What the one who takes over reads behind the result of the other's call. Nobody else does."""


class Relay:
    """The agent's side of a trial: the first agent's, until its call of the tool that transfers has succeeded.

    The next thing that is said is the other agent's. It is told everything, as any agent is that keeps no context:
    policy, tools, and what was said until then, the call and its result among it.

    :param tool: the name of that tool.
    :param seat: returns the other agent's place; called when the conversation is transferred.
    :ivar taken_over: the other agent's place, once it has the conversation.
    """

    def __init__(self, first: Conversation, tool: str, seat: Callable[[], Seat]) -> None:
        self.taken_over: Seat | None = None
        self._current = first
        self._tool = tool
        self._seat = seat

    @property
    def events(self) -> list[Event]:
        """What was said, as whoever has the conversation knows it."""
        return self._current.events

    @property
    def last_usage(self) -> Usage:
        """What the last answer cost."""
        return self._current.last_usage

    def open(self, greeting: str) -> None:
        """Begin with words that the agent is taken to have said; see :meth:`.Conversation.open`."""
        self._current.open(greeting)

    def ask(self, new: Sequence[Event]) -> AgentSaid:
        """Tell whoever has the conversation what is new, and return what it says; see :meth:`.Conversation.ask`."""
        if self.taken_over is None and any(map(self._transfers, new)):
            self._hand_over(self._seat())
            new = [self._with_welcome(event) for event in new]
        return self._current.ask(new)

    def note(self, finding: DialectFinding) -> None:
        """Record something about the last reply; see :meth:`.Conversation.note`."""
        self._current.note(finding)

    def _transfers(self, event: Event) -> bool:
        return isinstance(event, ToolReturned) and event.name == self._tool and not event.error

    def _hand_over(self, seat: Seat) -> None:
        first = self._current
        listener = getattr(first.session, "listener", None)
        if listener is not None:
            seat.session.listener = functools.partial(listener, party=seat.name)
        self._current = Conversation(
            session=seat.session,
            briefing=first.briefing,
            dialect=first.dialect,
            resend=first.resend,
            before_turn=first.before_turn,
            bounds=first.bounds,
            events=list(first.events),
            # Calls without an id are numbered; one number for two calls would mix their results up.
            _calls=first._calls,
            _told=first._told,
        )
        seat.conversations.append(self._current)
        self.taken_over = seat

    def _with_welcome(self, event: Event) -> Event:
        if isinstance(event, ToolReturned) and self._transfers(event):
            return dataclasses.replace(event, content=f"{event.content}\n{WELCOME}")
        return event
