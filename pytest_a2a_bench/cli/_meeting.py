"""Meeting an agent once: what its card says, and what one small conversation shows."""

from __future__ import annotations

import dataclasses
import statistics
import time
from collections.abc import Iterator, Mapping, Sequence

from pytest_a2a_bench.a2a.card import choose_interface
from pytest_a2a_bench.a2a.client import AgentConnection
from pytest_a2a_bench.a2a.config import ClientConfig
from pytest_a2a_bench.a2a.session import AgentSession
from pytest_a2a_bench.benchmarks.conversation import Conversation, SessionReply
from pytest_a2a_bench.config.settings import TAGGED_SKILL
from pytest_a2a_bench.errors import AgentOutcomeError
from pytest_a2a_bench.model import Briefing, Event, Part, ToolReturned, ToolSpec, UserSaid
from pytest_a2a_bench.results.stats import count, duration
from pytest_a2a_bench.text import one_line

TURNS = 10
"""Turns that a conversation is reckoned to take; the oracle's over airline, retail and telecom are 5 to 15."""

CARD_ERROR = "card error"
"""Title of a line about an interface URL that no client can call, and the URL that is used instead."""

NO_CALL = "no call"
"""Title of the line about an agent that called no tool, although it was asked for what one returns."""

_GUIDE = "https://github.com/pytest-a2a-bench/pytest-a2a-bench/blob/main/docs/guides/agents.md"
SECONDS = 30.0
"""Most seconds of a turn here, where no limit is named: a person waits for the answer."""
_USUAL_SECONDS = {field.name: field.default for field in dataclasses.fields(ClientConfig)}["timeout"]
_ORDER = {"type": "object", "properties": {"order": {"type": "string"}}, "required": ["order"]}
_TOOL = ToolSpec("get_status", "Return the status of an order.", _ORDER)
_BRIEFING = Briefing("You serve a shop. Look up an order's status with the tool before you tell it.", (_TOOL,))
_STATUS = "held at customs"


def meet(config: ClientConfig, tasks: Mapping[str, int], *, talk: bool = True) -> Iterator[tuple[str, str]]:
    """Yield titles and texts: the card, the interface, the dialect, the time of a turn, how long a run will take.

    Two messages are sent, of one conversation.

    :param tasks: domain -> how many tasks it has, for the estimate.
    :param talk: whether it is talked to; an agent that only plays given tasks would refuse.
    :raises A2ABenchError: what kept it from being met; what was found before it is yielded first.
    """
    if config.timeout == _USUAL_SECONDS:  # none was named
        config = dataclasses.replace(config, timeout=SECONDS)
    connection = AgentConnection(config)
    try:
        card = connection.wait_until_ready()
        skills = card.raw.get("skills")
        skills = skills if isinstance(skills, list) else []
        yield "agent", one_line(f"{card.title}, {count(len(skills), 'skill')}", 200)
        chosen = choose_interface(card, config.protocol, config.transport)
        others = [str(i) for i in card.interfaces if i != chosen]
        yield "interface", one_line(f"{chosen}" + (f"; also {', '.join(others)}" if others else ""), 400)
        yield from ((CARD_ERROR, one_line(note, 400)) for note in card.notes)
        if talk and TAGGED_SKILL in (one.get("id") for one in skills if isinstance(one, dict)):
            yield "dialect", "any; it plays tasks' reference solutions only: run pytest with --a2a-set tag-trials=on"
        elif talk:
            yield from _talk(connection, tasks)
    finally:
        connection.close()


class _Noted:
    """A session that keeps the message it sent first.

    :ivar sent: its parts as text.
    """

    def __init__(self, session: AgentSession) -> None:
        self._session = session
        self.sent = ""

    @property
    def context_id(self) -> str | None:
        """The contextId that the server gave, once it did."""
        return self._session.context_id

    def send(self, parts: Sequence[Part], timeout: float | None = None) -> SessionReply:
        """Send one message and wait for the answer."""
        self.sent = self.sent or " ".join(part.text or str(part.data) for part in parts)
        return self._session.send(parts, timeout=timeout)


def _talk(connection: AgentConnection, tasks: Mapping[str, int]) -> Iterator[tuple[str, str]]:
    session = connection.session()
    try:
        noted = _Noted(session)
        talk = Conversation(noted, _BRIEFING)
        seconds = []
        news: list[Event] = [UserSaid("What is the status of order A1?")]
        called = reported = False
        words = ""
        for _ in range(2):
            began = time.monotonic()
            try:
                said = talk.attempt(news)
            except AgentOutcomeError as error:
                # Also an agent for one job only may refuse this one.
                yield "dialect", one_line(f"not known, for it ended this conversation: {error}", 600)
                return
            seconds.append(time.monotonic() - began)
            if not said.calls:
                words = said.text or ""
                reported = _STATUS in words.lower()
                break
            called = True
            news = [ToolReturned(c.id, c.name, _STATUS) for c in said.calls]
        if called:
            name = talk.settled or talk.dialect
            yield "dialect", f"{name}: it called the tool and {'reported' if reported else 'did not report'} its result"
        else:
            # One that follows rules of its own may ask something first, and call tools in the tasks it was made for.
            yield (
                NO_CALL,
                f"asked for an order's status, it called no tool and said {one_line(words, 120)!r}; one that never "
                "calls a tool solves only tasks that need no call",
            )
            yield "it was sent", one_line(noted.sent, 1_000)
            yield "forms", f"of calls that are understood: {_GUIDE}"
        yield from (("finding", one_line(f"{f.message} [{f.rule}]: {f.raw}", 200)) for f in talk.findings[:5])
        yield "a turn", f"{statistics.median(seconds):.2f} s, of {count(len(seconds), 'turn')}"
        if talk.usage.tokens is not None:
            yield "tokens", f"{talk.usage.tokens:,} for this conversation"
        # An agent that calls no tool would get through none of these.
        if called:
            yield from _estimates(statistics.median(seconds), talk.usage.cost_usd, len(seconds), tasks)
    finally:
        session.finish()


def _estimates(turn: float, cost: float | None, turns: int, tasks: Mapping[str, int]) -> Iterator[tuple[str, str]]:
    for domain, number in tasks.items():
        alone = number * TURNS * turn
        dollars = f", ${number * TURNS * cost / turns:.2f}" if cost is not None else ""
        yield (
            domain,
            f"{count(number, 'task')}: about {duration(alone)}, {duration(alone / 8)} with --a2a-concurrency 8{dollars}"
            f" (at {TURNS} turns a conversation)",
        )
