"""tau2's agent interface over A2A: each turn of the orchestrator is one message to the endpoint.

The class is made for the installed flavour's base class, so that tau2's own registry accepts it too.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Sequence
from typing import Any, Protocol

from pytest_a2a_bench import translate
from pytest_a2a_bench.benchmarks.tau2.upstream import Tau2
from pytest_a2a_bench.errors import AgentOutcomeError
from pytest_a2a_bench.model import (
    AgentSaid,
    Briefing,
    DialectFinding,
    Event,
    Part,
    ToolCall,
    ToolReturned,
    ToolSpec,
    Usage,
    UserSaid,
)
from pytest_a2a_bench.translate.base import DecodedReply, Dialect

GREETING = "Hi! How can I help you today?"
"""tau2's fixed first agent message; the agent itself never said it, so it is not sent as history."""


class Reply(Protocol):
    """What a session answers."""

    @property
    def parts(self) -> Sequence[Part]:
        """The parts of the answer."""
        ...

    @property
    def usage(self) -> Usage | None:
        """What the agent says this answer cost."""
        ...


class Session(Protocol):
    """One conversation with the agent: what this module needs of the A2A client's ``AgentSession``."""

    @property
    def context_id(self) -> str | None:
        """The contextId that the server gave, once it did."""
        ...

    def send(self, parts: Sequence[Part], timeout: float | None = None) -> Reply:
        """Send one message and wait for the answer."""
        ...


@dataclasses.dataclass
class Conversation:
    """The agent's side of one trial, independent of tau2's classes.

    :param dialect: name of the dialect, or ``auto``.
    :param resend: send everything again with each turn (``--a2a-history full``).
    :param before_turn: called before each request; raises to stop the trial; returns the seconds that are left.
    """

    session: Session
    briefing: Briefing
    dialect: str = "auto"
    resend: bool = False
    before_turn: Callable[[], float | None] = lambda: None
    events: list[Event] = dataclasses.field(default_factory=list)
    findings: list[DialectFinding] = dataclasses.field(default_factory=list)
    usage: Usage = dataclasses.field(default_factory=Usage)
    settled: str | None = None
    last_usage: Usage = dataclasses.field(default_factory=Usage)
    _sent: int = 0
    _turn: int = 0
    _calls: int = 0
    _reminded: bool = False

    def ask(self, new: Sequence[Event]) -> AgentSaid:
        """Tell the agent what is new and return what it says: text or calls, never both.

        :raises AgentOutcomeError: if the agent gives up, or says nothing twice.
        """
        self.events.extend(new)
        self._turn += 1
        decoded, usage = self._exchange(self._request())
        if (decoded.unreadable or _is_empty(decoded)) and not self._reminded:
            self._reminded = True
            decoded, more = self._exchange(self._writer().reminder())
            usage = usage + more
        if _is_empty(decoded):
            raise AgentOutcomeError("the agent's answer is empty: neither text nor a tool call", state="failed")
        said = self._said(decoded)
        self.events.append(said)
        self._sent = len(self.events)
        self.last_usage = usage
        self.usage = self.usage + usage
        return said

    def _writer(self) -> Dialect:
        return translate.get(self.settled or self.dialect)

    def _request(self) -> Sequence[Part]:
        # A server that gives no contextId cannot know what was said before.
        whole = self.resend or self._sent == 0 or self.session.context_id is None
        if whole:
            return self._writer().encode_request(self.briefing, self.events)
        return self._writer().encode_request(None, self.events[self._sent :])

    def _exchange(self, parts: Sequence[Part]) -> tuple[DecodedReply, Usage]:
        reply = self.session.send(parts, timeout=self.before_turn())
        decoded = self._writer().decode_reply(reply.parts, self.briefing.tools)
        if self.dialect == "auto":
            self.settled = translate.settle(self.settled, decoded)
        self.findings.extend(dataclasses.replace(f, turn=self._turn) for f in decoded.findings)
        return decoded, reply.usage or Usage()

    def _said(self, decoded: DecodedReply) -> AgentSaid:
        if not decoded.calls:
            return AgentSaid(text=decoded.text)
        return AgentSaid(calls=tuple(self._with_id(c) for c in decoded.calls))

    def _with_id(self, call: ToolCall) -> ToolCall:
        self._calls += 1
        return call if call.id else dataclasses.replace(call, id=f"call_{self._calls}")


def _is_empty(decoded: DecodedReply) -> bool:
    return not decoded.calls and not (decoded.text and decoded.text.strip())


def tool_specs(tools: Sequence[Any]) -> tuple[ToolSpec, ...]:
    """Describe tau2's tools by their OpenAI schemas."""
    functions = [t.openai_schema["function"] for t in tools]
    return tuple(ToolSpec(f["name"], f.get("description", ""), f.get("parameters", {})) for f in functions)


def to_events(messages: Sequence[Any]) -> list[Event]:
    """Translate tau2 messages, as the agent may see them, into events."""
    events: list[Event] = []
    names: dict[str, str] = {}
    for message in messages:
        for part in getattr(message, "tool_messages", None) or [message]:
            events.append(_to_event(part, names))
    return events


def _to_event(message: Any, names: dict[str, str]) -> Event:
    if message.role == "tool":
        name = names.get(message.id, "")
        return ToolReturned(message.id, name, message.content or "", bool(message.error))
    if message.role == "user":
        return UserSaid(message.content or "")
    calls = tuple(ToolCall(c.name, c.arguments, c.id) for c in message.tool_calls or ())
    names.update({c.id: c.name for c in calls})
    return AgentSaid(message.content if not calls else None, calls)


@functools.cache
def _agent_class(base: Any, messages: Any) -> Any:
    class A2AAgent(base):  # type: ignore[misc]
        """An agent that lives behind an A2A endpoint."""

        def __init__(self, tools: list[Any], domain_policy: str, conversation: Conversation) -> None:
            super().__init__(tools=tools, domain_policy=domain_policy)
            self.conversation = conversation
            self._names: dict[str, str] = {}

        def get_init_state(self, message_history: list[Any] | None = None) -> Conversation:
            history = to_events(message_history or [])
            for event in history:
                if isinstance(event, AgentSaid):
                    self._names.update({c.id: c.name for c in event.calls})
            if history != [AgentSaid(GREETING)]:
                self.conversation.events.extend(history)
            return self.conversation

        def generate_next_message(self, message: Any, state: Conversation) -> tuple[Any, Conversation]:
            new = [_to_event(m, self._names) for m in getattr(message, "tool_messages", None) or [message]]
            said = state.ask(new)
            self._names.update({c.id: c.name for c in said.calls})
            usage = state.last_usage
            answer = messages.AssistantMessage(
                role="assistant",
                content=said.text if not said.calls else None,
                # tau2 refuses an empty list here.
                tool_calls=[_to_tau2_call(c) for c in said.calls] or None,
                cost=usage.cost_usd or 0.0,
                usage=_to_tau2_usage(usage),
            )
            return answer, state

        def set_seed(self, seed: int) -> None:
            """Do nothing: the agent behind the endpoint decides about its own randomness."""

    def _to_tau2_call(call: ToolCall) -> Any:
        return messages.ToolCall(id=call.id, name=call.name, arguments=dict(call.arguments), requestor="assistant")

    return A2AAgent


def _to_tau2_usage(usage: Usage) -> dict[str, int] | None:
    if usage.input_tokens is None and usage.output_tokens is None:
        return None
    return {"prompt_tokens": usage.input_tokens or 0, "completion_tokens": usage.output_tokens or 0}


def make_agent(tau2: Tau2, tools: list[Any], policy: str, conversation: Conversation) -> Any:
    """Make an agent for tau2's ``Orchestrator``."""
    return _agent_class(tau2.agent_base, tau2.messages)(tools, policy, conversation)
