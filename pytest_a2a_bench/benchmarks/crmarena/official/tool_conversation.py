"""Turn for turn what upstream's ToolEnv and ToolCallAgent do."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from pytest_a2a_bench.benchmarks.crmarena import episode as rules
from pytest_a2a_bench.benchmarks.crmarena.actions import OUTPUT_LABEL, RESPOND
from pytest_a2a_bench.benchmarks.crmarena.dialects import read_tool_action
from pytest_a2a_bench.benchmarks.crmarena.episode import Episode
from pytest_a2a_bench.benchmarks.crmarena.official.tools import Connector, OfficialTools, use_tool
from pytest_a2a_bench.benchmarks.crmarena.org.base import Org
from pytest_a2a_bench.model import AgentSaid, Event, ToolCall, Turn


@dataclass(slots=True, kw_only=True)
class OfficialToolEpisode(Episode):
    """One conversation with upstream's agent that has tools: twenty replies, each one call.

    :param worth: what is said of a submitted answer; what it raises is told to the agent, and nothing is submitted.
    :param tools: names of those that are offered.
    :param as_text: whether the agent writes its calls as upstream's text form, and reads results in it.
    """

    worth: Callable[[Any], float]
    org: Org
    code: OfficialTools
    tools: frozenset[str]
    as_text: bool
    agent_turn: int = field(default=0)

    def step(self, said: AgentSaid) -> tuple[Event, ...]:
        """Take in one reply, as :meth:`Episode.step` does."""
        self.findings = []
        self.transcript.append(Turn("agent", text=None if said.calls else said.text or "", calls=said.calls))
        self.agent_turn += 1
        told = self._answer_call(said.calls[0]) if said.calls else self._answer_text(said.text or "")
        if self.ended is None and self.agent_turn >= self.max_turns:
            self.ended = rules.MAX_TURNS
        return () if self.ended else (told,)

    def _answer_call(self, call: ToolCall) -> Event:
        seen = self._use(call.name, call.arguments)
        return self._return(call, self._shown(seen), error=_is_error(seen))

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

    def _spend(self, *, bad: bool = False) -> None:
        self.counts.turns += 1
        self.counts.bad_format += bad


def _is_error(seen: str) -> bool:
    return seen.startswith(("Error: ", "Unknown action "))
