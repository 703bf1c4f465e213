"""Agents that take part in a conversation beside the one under test: sessions, errors, transfers and questions."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from pytest_a2a_bench.a2a.card import AgentCard, choose_interface
from pytest_a2a_bench.a2a.config import ClientConfig, party_config
from pytest_a2a_bench.benchmarks.base import FurtherAgent, Seat
from pytest_a2a_bench.benchmarks.conversation import Conversation
from pytest_a2a_bench.config.settings import Settings
from pytest_a2a_bench.errors import (
    A2ABenchError,
    AgentOutcomeError,
    CardError,
    DeliveryUncertain,
    InfrastructureError,
    PartyError,
    TrialCancelledError,
    TrialTimeoutError,
)
from pytest_a2a_bench.model import AgentSaid, DialectFinding, Event, Part, PartyRole, ToolReturned, Usage
from pytest_a2a_bench.redact import KNOWN
from pytest_a2a_bench.results.manifest import where
from pytest_a2a_bench.text import one_line

if TYPE_CHECKING:
    from pytest_a2a_bench.a2a.client import AgentConnection


# --- from settings ---


def _configs(settings: Settings, environ: Mapping[str, str]) -> Iterator[tuple[PartyRole, str, ClientConfig]]:
    """Yield the role, the name and the connection settings of each further agent.

    :raises ConfigurationError: if a variable or file that a setting names does not exist.
    """
    if settings.user_endpoint:
        token = settings.user_auth_env
        yield "user", "user", party_config(settings, environ, settings.user_endpoint, token, "user-auth-env")
    for name, url in settings.colleague.items():
        variable = settings.variable_of_colleague(name)
        # One of several need not want any.
        token = variable if len(settings.colleague) == 1 or environ.get(variable or "", "").strip() else None
        yield "colleague", name, party_config(settings, environ, url, token, "colleague-auth-env")


def meet(settings: Settings, environ: Mapping[str, str]) -> None:
    """Check that each further agent answers; wait no longer than the setting ``wait`` for one that starts.

    :raises A2ABenchError: if one of them does not, with its ``party``.
    """
    for _, name, config in _configs(settings, environ):
        with _connect(config) as connection:
            try:
                connection.wait_until_ready()
            except A2ABenchError as error:
                error.party = name
                raise


@contextlib.contextmanager
def further_agents(settings: Settings, environ: Mapping[str, str]) -> Iterator[tuple[FurtherAgent, ...]]:
    """Give the further agents of a process, for all its trials.

    One without a card has no name and version here; its trials name the problem.

    :raises ConfigurationError: if a variable or file that a setting names does not exist.
    """
    found: list[FurtherAgent] = []
    with contextlib.ExitStack() as stack:
        for role, name, config in _configs(settings, environ):
            stack.callback(KNOWN.remember(config.known))
            connection = stack.enter_context(_connect(config))
            card: AgentCard | None = None
            with contextlib.suppress(A2ABenchError):
                card = connection.card()
            agent = describe(card) if card is not None else ""
            found.append(FurtherAgent(name, role, connection, agent, where(config.endpoint)))
        yield tuple(found)


def _connect(config: ClientConfig) -> AgentConnection:
    from pytest_a2a_bench.a2a.client import AgentConnection  # collecting imports this module, and no HTTP client

    return AgentConnection(config)


def describe(card: AgentCard) -> str:
    """Return an agent's name, version and interface."""
    with contextlib.suppress(A2ABenchError):
        chosen = choose_interface(card)
        return f"{card.title} (A2A {chosen.version} {chosen.transport})".strip()
    return card.title


# --- errors ---


@contextlib.contextmanager
def blamed(seat: Seat) -> Iterator[None]:
    """Attribute errors that are raised inside the block to a further agent.

    :raises InfrastructureError: with its ``party``. A trial that is stopped, or whose time is up, stays that.
    """
    try:
        yield
    except (TrialCancelledError, TrialTimeoutError):
        raise
    except InfrastructureError as error:
        error.party = seat.name
        # A conversation whose error is known already raises the same again.
        if not str(error).startswith(seat.title):
            error.args = (f"{seat.title}: {error}",)
            if isinstance(error, DeliveryUncertain):
                error.reason = f"{seat.name}: {error.reason}"
        raise
    except A2ABenchError as error:  # it gave up, its card cannot be used
        raise trouble(seat, str(error)) from error


def trouble(seat: Seat, what: str) -> PartyError:
    """Return an error that is attributed to a further agent."""
    error = PartyError(f"{seat.title}: {what}")
    error.party = seat.name
    return error


# --- a conversation that is transferred ---

WELCOME = "You are the agent that this conversation has been transferred to: go on with the user from here."
"""Added to the result of the first agent's call, for the agent that takes over alone."""


class Relay:
    """The agent's side of a trial: the first agent's, until its call of the tool that transfers has succeeded.

    The second agent gives the next reply. It is sent everything, as any agent that keeps no context: policy, tools, and
    all events until then, with the call and its result.

    :param tool: the name of that tool.
    :param seat: returns the second agent's seat; called when the conversation is transferred.
    :ivar taken_over: the second agent's seat, once it has the conversation.
    """

    def __init__(self, first: Conversation, tool: str, seat: Callable[[], Seat]) -> None:
        self.taken_over: Seat | None = None
        self._current = first
        self._tool = tool
        self._seat = seat

    @property
    def events(self) -> list[Event]:
        """The events so far, as the agent that has the conversation knows them."""
        return self._current.events

    @property
    def last_usage(self) -> Usage:
        """The usage of the last answer."""
        return self._current.last_usage

    def open(self, greeting: str) -> None:
        """Begin with words that the agent is taken to have said; see :meth:`.Conversation.open`."""
        self._current.open(greeting)

    def ask(self, new: Sequence[Event]) -> AgentSaid:
        """Send new events to the agent that has the conversation, and return its answer."""
        if self.taken_over is None and any(map(self._transfers, new)):
            self._hand_over(self._seat())
            new = [self._with_welcome(event) for event in new]
        return self._current.ask(new)

    def note(self, finding: DialectFinding) -> None:
        """Record a finding about the last reply; see :meth:`.Conversation.note`."""
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


Speaker = Conversation | Relay
"""The agent's side of a trial."""


# --- colleagues that the agent may ask ---

MAX_ANSWER = 32_000
"""Characters of an answer that reach the agent that asked."""

_FIRST = """\
You are {name}, an agent whom a colleague asks for help. It works on a question about the records of a Salesforce org
and sends you its questions, one a message; what is not in them you cannot know. Answer each in plain text, briefly.

"""


class Answered(NamedTuple):
    """The answer to a question.

    :param text: the answer, or why there is none.
    :param colleague: the name of the one that was asked; None where the question reached none.
    """

    text: str
    error: bool
    colleague: str | None = None


class Colleagues:
    """The agents that the agent under test may ask in one trial, each in a conversation of its own.

    A colleague receives the question and nothing of the task. Where it fails, the asking agent gets a tool error, the
    colleague a finding, and the trial goes on.

    :param seats: their seats, one or more.
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
        """The names of the agents that the agent under test may ask."""
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
        text = _FIRST.format(name=seat.name) + question if self._questions[seat.name] == 1 else question
        try:
            said = seat.session.send([Part.of_text(text)], timeout=left).text.strip()
        except TrialCancelledError:
            raise
        except (AgentOutcomeError, InfrastructureError, CardError) as error:
            # A later question may do better; the agent deals with a question that may or may not have arrived.
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
