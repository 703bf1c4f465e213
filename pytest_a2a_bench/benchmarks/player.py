"""What the built-in agents ask a benchmark: the reference solution of a task, and how its conversations are spoken in.

A suite names the module of its player (``Suite.player``), so that nothing of it is imported before an agent starts.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from pytest_a2a_bench.config.settings import Settings
from pytest_a2a_bench.model import AgentSaid, Briefing, ToolCall, ToolReturned, ToolSpec


@dataclass(frozen=True, slots=True)
class Gold:
    """A reference solution: the calls in order, and the information that the user must get.

    :param communicate: texts that the evaluator looks for in the agent's words.
    :param instructions: what to tell the user to do, a text each.
    :param told_after: how many of the calls come before each instruction; those of which this says nothing come last.
    :param where_offered: calls that are made where there are no others, as far as their tools are offered.
    :param answer: the call that gives the answer, where that is a call: in place of words, at each request.
    """

    calls: tuple[ToolCall, ...] = ()
    communicate: tuple[str, ...] = ()
    where_offered: tuple[ToolCall, ...] = ()
    instructions: tuple[str, ...] = ()
    told_after: tuple[int, ...] = ()
    answer: ToolCall | None = None

    @property
    def closing(self) -> str:
        """The one text that says everything the user must hear. One value a line, so that substring checks hold."""
        if not self.communicate:
            return "Everything that can be done for you is done."
        return "\n".join(["Everything that can be done for you is done. For your information:", *self.communicate])

    def is_time_to_tell(self, told: int, done: int) -> bool:
        """Whether the next instruction comes before the next call.

        :param told: instructions that were given.
        :param done: calls that were made, where there are others to make.
        """
        return told < len(self.told_after) and self.told_after[told] <= done

    def plan(self, briefing: Briefing | None) -> tuple[ToolCall, ...]:
        """Return the calls to make, given the tools on offer."""
        if self.calls or briefing is None:
            return self.calls
        offered = {tool.name for tool in briefing.tools}
        return tuple(call for call in self.where_offered if call.name in offered)


@dataclass(frozen=True, slots=True)
class Player:
    """How the built-in agents act in the conversations of one benchmark. Calls need no ids: the agents number them.

    :param read_gold: the reference solution of ``(domain, task id)`` under settings, of which only the benchmark's own
        options are known (``oracle``, ``readonly``). Raises LookupError, or an error of this package, where there is
        none.
    :param writing: the tools of a domain that change something, which ``readonly`` leaves out.
    :param recognises: whether a conversation with these tools is this benchmark's, where no tag says so.
    :param idle: what an agent says that does nothing (``noop``), where its polite words would be no answer.
    :param instructions: a language model's instructions above the policy; empty for the general ones.
    """

    read_gold: Callable[[str, str, Settings], Gold] | None = None
    writing: Callable[[str], frozenset[str]] = lambda domain: frozenset()
    recognises: Callable[[Sequence[ToolSpec]], bool] = lambda tools: False
    idle: AgentSaid | None = None
    instructions: str = ""


def match_call(result: ToolReturned, waiting: list[ToolCall]) -> ToolCall:
    """Return the call that a result answers: by id, else by name, else the oldest."""
    by_id = (c for c in waiting if result.call_id and c.id == result.call_id)
    by_name = (c for c in waiting if c.name == result.name)
    return next(by_id, None) or next(by_name, None) or waiting[0]
