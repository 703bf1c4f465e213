"""Turn for turn what upstream's ChatEnv, InteractiveChatEnv and ChatAgent do."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from pytest_a2a_bench.benchmarks.crmarena import episode as rules
from pytest_a2a_bench.benchmarks.crmarena.actions import EXECUTE
from pytest_a2a_bench.benchmarks.crmarena.episode import Episode
from pytest_a2a_bench.benchmarks.crmarena.official.texts import OfficialTexts
from pytest_a2a_bench.benchmarks.crmarena.org.base import OrgError
from pytest_a2a_bench.benchmarks.crmarena.tasks import CrmTask
from pytest_a2a_bench.benchmarks.model_user import ModelUser
from pytest_a2a_bench.model import AgentSaid, Event, Turn

MAX_TURNS = 20
"""Replies of the agent; in an interactive conversation the count starts anew after each that speaks to the user."""
MAX_USER_TURNS = 10
"""Answers after which the next action is the last. So the user speaks eleven times, the opening words among them."""

_FENCES = (re.compile(r"```(?:sql|SQL|soql|SOQL)?([\S\s]+?)```"), re.compile(r"```([\S\s]+?)```"))


def prepare_query(query: str) -> str:
    """Return what upstream's connector sends: a text that begins with FIND as it stands, another without its fence.

    :raises OrgError: for a search in other letters, which upstream sends where only SOQL is understood.
    """
    if query.startswith("FIND"):
        return query
    fenced = [found for fence in _FENCES for found in fence.findall(query)]
    bare = " ".join(fenced[0].split()) if fenced else query
    word = bare.split(None, 1)[0] if bare.split() else ""
    if word.upper() == "FIND":
        raise OrgError("MALFORMED_QUERY", f"unexpected token: {word}")
    return bare


@dataclass(slots=True)
class OfficialEpisode(Episode):
    """One conversation by upstream's rules.

    :param agent_turn: replies since the agent last spoke to the user.
    :param spoken: how often the agent has spoken to the user.
    """

    agent_turn: int = field(default=0)
    spoken: int = field(default=0)

    def step(self, said: AgentSaid) -> tuple[Event, ...]:
        """Take in one reply, as :meth:`Episode.step` does."""
        self.findings = []
        self.transcript.append(Turn("agent", text=None if said.calls else said.text or "", calls=said.calls))
        self.agent_turn += 1
        if not said.calls:
            told = self._refuse(said.text or "")
            return () if self._end_turn() else (told,)
        call = said.calls[0]
        # Asked before the action is carried out, and effective after it.
        last = self.user is not None and self.spoken >= self.max_user_turns
        if call.name == EXECUTE:
            seen = self._ask_org(call, str(call.arguments["query"]))
            if last:
                self.ended = rules.MAX_USER_TURNS
            return () if last or self._end_turn() else (seen,)
        return self._speak(str(call.arguments["answer"]), last=last)

    def _speak(self, answer: str, *, last: bool) -> tuple[Event, ...]:
        self.answer = answer
        self.answers += 1
        self.counts.turns += 1
        if self.user is None:
            self.ended = rules.AGENT_STOP
            return ()
        words = self.user.hear(answer)
        self.spoken += 1
        self.agent_turn = 0
        if words is None:
            self.ended = rules.USER_STOP
        elif last:
            self.ended = rules.MAX_USER_TURNS
        if words is None or self.ended:
            return ()
        self.counts.user_turns += 1
        return (self._tell(words),)

    def _spend(self, *, bad: bool = False) -> None:
        self.counts.turns += 1
        self.counts.bad_format += bad

    def _end_turn(self) -> bool:
        if self.agent_turn >= self.max_turns:
            self.ended = rules.MAX_TURNS
        return self.ended is not None


def official_user(
    task: CrmTask,
    texts: OfficialTexts,
    model: str,
    arguments: Mapping[str, Any],
    before_turn: Callable[[], Any] = lambda: None,
) -> ModelUser:
    """Return the simulated user by upstream's instructions; its words are passed on as they are."""
    told = texts.user_instructions(task)
    return ModelUser(told, model, arguments, before_turn, begin=texts.greeting, tidy=str)
