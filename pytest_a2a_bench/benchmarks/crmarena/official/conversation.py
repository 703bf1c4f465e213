"""Conversations turn for turn as upstream's ChatEnv, InteractiveChatEnv, ToolEnv and their agents hold them."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from pytest_a2a_bench.benchmarks.crmarena import episode as rules
from pytest_a2a_bench.benchmarks.crmarena.actions import EXECUTE, OUTPUT_LABEL, RESPOND
from pytest_a2a_bench.benchmarks.crmarena.dialects import read_tool_action
from pytest_a2a_bench.benchmarks.crmarena.episode import Episode
from pytest_a2a_bench.benchmarks.crmarena.official.texts import OfficialTexts
from pytest_a2a_bench.benchmarks.crmarena.official.tools import Connector, OfficialTools, use_tool
from pytest_a2a_bench.benchmarks.crmarena.org.base import Org
from pytest_a2a_bench.benchmarks.crmarena.tasks import CrmTask
from pytest_a2a_bench.benchmarks.models import ModelUser
from pytest_a2a_bench.model import AgentSaid, Event, ToolCall, Turn

MAX_TURNS = 20
"""Replies of the agent; in an interactive conversation the count starts anew after each that speaks to the user."""
MAX_USER_TURNS = 10
"""Answers after which the next action is the last. So the user speaks eleven times, the opening words among them."""


@dataclass(slots=True)
class OfficialEpisode(Episode):
    """One conversation by upstream's rules.

    :param agent_turn: replies since the agent last spoke to the user.
    :param spoken: how often the agent has spoken to the user.
    """

    agent_turn: int = 0
    spoken: int = 0

    def step(self, said: AgentSaid) -> tuple[Event, ...]:
        """Take in one reply, as :meth:`Episode.step` does."""
        self._hear(said)
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

    def _hear(self, said: AgentSaid) -> None:
        self.findings = []
        self.transcript.append(Turn("agent", text=None if said.calls else said.text or "", calls=said.calls))
        self.agent_turn += 1

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


@dataclass(slots=True, kw_only=True)
class OfficialToolEpisode(OfficialEpisode):
    """One conversation with upstream's agent that has tools: twenty replies, each one call.

    :param worth: what is said of a submitted answer; what it raises goes to the agent, and nothing is submitted.
    :param tools: names of those that are offered.
    :param as_text: whether the agent writes its calls as upstream's text form, and reads results in it.
    """

    worth: Callable[[Any], float]
    org: Org
    code: OfficialTools
    tools: frozenset[str]
    as_text: bool

    def step(self, said: AgentSaid) -> tuple[Event, ...]:
        """Take in one reply, as :meth:`Episode.step` does."""
        self._hear(said)
        told = self._answer_call(said.calls[0]) if said.calls else self._answer_text(said.text or "")
        return () if self.ended or self._end_turn() else (told,)

    def _answer_call(self, call: ToolCall) -> Event:
        seen = self._use(call.name, call.arguments)
        return self._return(call, self._shown(seen), error=seen.startswith(("Error: ", "Unknown action ")))

    def _answer_text(self, text: str) -> Event:
        action = read_tool_action(text) if self.as_text else None
        if action is None:
            return self._refuse(text)
        # A call with arguments that no call can have; prose is one of respond, to upstream's parser.
        return self._tell(self._shown(self._use(*action)))

    def _shown(self, seen: str) -> str:
        return f"{OUTPUT_LABEL}{seen}" if self.as_text else seen

    def _use(self, name: str, arguments: Any) -> str:
        self._spend(bad=name not in self.tools)
        if name not in self.tools:
            return f"Unknown action {name}"
        if name == RESPOND:
            return self._submit(arguments)
        clock = time.perf_counter()
        connector = Connector(self.org)
        try:
            return use_tool(self.code.functions, name, arguments, connector)
        finally:
            self.counts.queries += len(connector.asked)
            self.counts.query_errors += connector.asked.count(None)
            self.counts.rows_read += sum(result.rows_read for result in connector.asked if result)
            self.counts.query_seconds += time.perf_counter() - clock

    def _submit(self, arguments: Any) -> str:
        try:
            content = arguments["content"]
            self.worth(content)
        # Upstream's environment catches what its evaluator raises, and the agent goes on.
        except Exception as error:
            return f"Error: {error}"
        self.answer = content if isinstance(content, str) else json.dumps(content)
        self.answers += 1
        self.ended = rules.AGENT_STOP
        return "DONE"


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
