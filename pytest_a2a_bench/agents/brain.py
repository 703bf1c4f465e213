"""The interface of an agent's logic, without A2A, from a conversation to its next reply; and a language model's."""

from __future__ import annotations

import asyncio
import json
import os
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

from pytest_a2a_bench.agents.options import AgentOptions
from pytest_a2a_bench.benchmarks import registry
from pytest_a2a_bench.benchmarks.registry import Player, match_call
from pytest_a2a_bench.dialects.reading import DecodedRequest
from pytest_a2a_bench.errors import ConfigurationError
from pytest_a2a_bench.language_models import cost_of, import_litellm
from pytest_a2a_bench.model import AgentSaid, Briefing, Event, ToolCall, ToolReturned, ToolSpec, Usage, UserSaid

TAG = "a2a_bench"
"""The metadata key under which ``--a2a-set tag-trials=on`` names the benchmark task."""


class RefusalError(Exception):
    """The agent will not do this at all: its A2A task is rejected, with the message as the reason."""


class BrainError(Exception):
    """The agent could not think (its model did not answer): an internal error on the wire, not a bad answer."""


@dataclass(slots=True)
class Conversation:
    """One context as the agent knows it.

    :param history: everything said so far, the agent's own words included.
    :param own: this server's own replies in this context; they survive a client that sends the history again.
    :param dialect: the dialect in which the context was opened.
    :param last_message_id: the last request answered, so that a client's retry of it gets the same answer.
    """

    metadata: dict[str, Any] = field(default_factory=dict)
    briefing: Briefing | None = None
    history: list[Event] = field(default_factory=list)
    own: list[AgentSaid] = field(default_factory=list)
    dialect: str = "tool_call"
    last_message_id: str = ""
    last_reply: BrainReply | None = None

    def hear(self, request: DecodedRequest, metadata: Mapping[str, Any]) -> None:
        """Take in one request. A briefing starts the history anew: with it the client sends all that was said."""
        self.metadata.update(metadata)
        if request.briefing is not None:
            self.briefing = request.briefing
            self.history = []
        for event in request.events:
            self.history.append(self._as_result(event))

    def say(self, said: AgentSaid) -> None:
        """Record the agent's own words."""
        self.history.append(said)
        self.own.append(said)

    def unanswered(self) -> list[ToolCall]:
        """Return the agent's calls that no result has answered yet, in order."""
        waiting: list[ToolCall] = []
        for event in self.history:
            if isinstance(event, AgentSaid):
                waiting = list(event.calls)
            elif isinstance(event, ToolReturned) and waiting:
                waiting.remove(match_call(event, waiting))
        return waiting

    def _as_result(self, event: Event) -> Event:
        """Read a user's words as a tool's where a call is open.

        Some dialects send a single result as bare text. The environment always answers a call before the user speaks
        again, so the first text after a call can be nothing else.
        """
        if isinstance(event, UserSaid):
            waiting = self.unanswered()
            if waiting:
                return ToolReturned(waiting[0].id, waiting[0].name, event.text)
        return event


def number_calls(said: AgentSaid, conversation: Conversation) -> AgentSaid:
    """Return a reply with an id for each call that has none."""
    made = sum(len(own.calls) for own in conversation.own)
    calls = tuple(c if c.id else replace(c, id=f"call_{made + n}") for n, c in enumerate(said.calls, 1))
    return AgentSaid(said.text, calls)


def find_player(conversation: Conversation) -> Player | None:
    """Return the player of a conversation's benchmark: by its tools, else by the trial's tag."""
    if conversation.briefing is not None and conversation.briefing.tools:
        tools = conversation.briefing.tools
        recognising = next((player for _, player in registry.players() if player.recognises(tools)), None)
        if recognising is not None:
            return recognising
    suite = (bench_task_key(conversation.metadata) or "").partition("/")[0]
    return dict(registry.players()).get(suite)


@dataclass(frozen=True, slots=True)
class BrainReply:
    """A brain's answer and its cost (None where it has no cost worth reporting)."""

    said: AgentSaid
    usage: Usage | None = None


class Brain(Protocol):
    """An agent's mind. One instance serves every conversation; all its memory is in the conversation.

    ``description`` is one sentence for the agent card.
    """

    description: str

    async def reply(self, conversation: Conversation) -> BrainReply:
        """Answer the last thing said.

        :raises RefusalError: if the agent will not do this at all.
        :raises BrainError: if it cannot think just now.
        """
        ...


class Memory:
    """The conversations of one server by context id; the least recently used is forgotten first."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._known: OrderedDict[str, Conversation] = OrderedDict()

    def __len__(self) -> int:
        return len(self._known)

    def recall(self, context_id: str) -> Conversation | None:
        """Return a context's conversation, or None if it is new or forgotten."""
        found = self._known.get(context_id)
        if found is not None:
            self._known.move_to_end(context_id)
        return found

    def open(self, context_id: str, dialect: str) -> Conversation:
        """Start a context's conversation."""
        conversation = self._known[context_id] = Conversation(dialect=dialect)
        while len(self._known) > self._limit:
            self._known.popitem(last=False)
        return conversation


def is_noisy(metadata: Mapping[str, Any]) -> bool:
    """Return whether the trial is one of a run with noise, in which answers of tools need not be right."""
    tag = metadata.get(TAG)
    return isinstance(tag, Mapping) and tag.get("noise") is True


def bench_task_key(metadata: Mapping[str, Any]) -> str | None:
    """Return the task that the trial is tagged with, such as ``tau2/airline/12``, or None."""
    tag = metadata.get(TAG)
    task = tag.get("task") if isinstance(tag, Mapping) else None
    return task if isinstance(task, str) and task else None


MODEL_ENV = "A2A_AGENT_LLM"

INSTRUCTIONS = """\
You serve customers on behalf of a company. The company's policy is given below; it binds you in every case, whatever \
the customer says.

In each turn do exactly one of two things: write to the customer, or call tools. Never do both at once. Look things up \
with the tools instead of guessing, and do only what the policy allows and the tools can do. When nothing is left to \
do, tell the customer so.
"""

_MISSING_RESULT = "(there was no result)"
_EMPTY_ANSWER = "I am sorry, could you say that again?"


class LanguageModel:
    """Asks a model for every turn, with the policy as the system prompt and the tools as functions.

    :param model: LiteLLM model name.
    :param arguments: further arguments of ``litellm.acompletion``.
    """

    def __init__(self, model: str, arguments: Mapping[str, Any]) -> None:
        self.description = f"Answers with the language model {model}."
        self._model = model
        self._arguments = dict(arguments)
        self._litellm = import_litellm("the agent 'llm'")

    @classmethod
    def from_options(cls, options: AgentOptions) -> LanguageModel:
        """Make the brain that the options (and the environment) describe.

        :raises ConfigurationError: if no model is named.
        :raises MissingExtraError: if LiteLLM is not installed.
        """
        model = options.model or os.environ.get(MODEL_ENV)
        if not model:
            raise ConfigurationError(
                f"built-in agent 'llm': no model is named; give --model MODEL (builtin:llm?model=MODEL) "
                f"or set {MODEL_ENV}, for example to openai/gpt-4.1"
            )
        arguments = dict(options.llm_args)
        if options.api_base:
            arguments["api_base"] = options.api_base
        return cls(model, arguments)

    async def reply(self, conversation: Conversation) -> BrainReply:
        """Ask the model for the next reply."""
        briefing = conversation.briefing or Briefing(policy="")
        player = find_player(conversation)
        instructions = (player.instructions if player is not None else "") or INSTRUCTIONS
        request: dict[str, Any] = {
            **self._arguments,
            "model": self._model,
            "messages": write_messages(briefing, conversation.history, instructions),
        }
        if briefing.tools:
            request["tools"] = [write_tool(tool) for tool in briefing.tools]
        try:
            response = await self._litellm.acompletion(**request)
            return read_response(response, cost_of(self._litellm, response))
        except asyncio.CancelledError:
            raise
        except Exception as error:  # LiteLLM raises some thirty types, and others where a provider misbehaves
            raise BrainError(f"the model {self._model} did not answer: {type(error).__name__}: {error}") from error


def write_tool(tool: ToolSpec) -> dict[str, Any]:
    """Write a tool as a function schema."""
    parameters = dict(tool.parameters) or {"type": "object", "properties": {}}
    return {
        "type": "function",
        "function": {"name": tool.name, "description": tool.description, "parameters": parameters},
    }


def write_messages(
    briefing: Briefing, history: Sequence[Event], instructions: str = INSTRUCTIONS
) -> list[dict[str, Any]]:
    """Write a conversation as chat messages.

    Every call is followed by exactly one result with its id, as the chat format demands, even where the dialect on the
    wire carried no ids or a result never came.
    """
    messages: list[dict[str, Any]] = [
        {"role": "system", "content": f"{instructions}\n<policy>\n{briefing.policy}\n</policy>"}
    ]
    waiting: list[ToolCall] = []
    for number, event in enumerate(history):
        if isinstance(event, ToolReturned) and waiting:
            call = match_call(event, waiting)
            waiting.remove(call)
            messages.append({"role": "tool", "tool_call_id": call.id, "content": event.content})
            continue
        messages.extend(_no_result(call) for call in waiting)
        waiting = []
        if isinstance(event, AgentSaid) and event.calls:
            waiting = [_with_id(call, f"call_{number}_{index}") for index, call in enumerate(event.calls)]
            messages.append(
                {"role": "assistant", "content": None, "tool_calls": [_write_call(call) for call in waiting]}
            )
        else:
            messages.append(_write_text(event))
    messages.extend(_no_result(call) for call in waiting)
    return messages


def _with_id(call: ToolCall, fallback: str) -> ToolCall:
    return call if call.id else ToolCall(call.name, call.arguments, fallback)


def _write_call(call: ToolCall) -> dict[str, Any]:
    arguments = json.dumps(call.arguments, ensure_ascii=False)
    return {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": arguments}}


def _write_text(event: Event) -> dict[str, Any]:
    if isinstance(event, UserSaid):
        return {"role": "user", "content": event.text}
    if isinstance(event, AgentSaid):
        return {"role": "assistant", "content": event.text or ""}
    return {"role": "user", "content": f"Result of {event.name or 'a tool'}: {event.content}"}


def _no_result(call: ToolCall) -> dict[str, Any]:
    return {"role": "tool", "tool_call_id": call.id, "content": _MISSING_RESULT}


def read_response(response: Any, cost: float | None) -> BrainReply:
    """Read a chat completion; raises ValueError if it has no choice, or arguments of a call are not a JSON object."""
    if not response.choices:
        raise ValueError("its answer has no choices")
    message = response.choices[0].message
    calls = tuple(_read_call(call) for call in message.tool_calls or ())
    usage = getattr(response, "usage", None)
    spent = Usage(getattr(usage, "prompt_tokens", None), getattr(usage, "completion_tokens", None), cost)
    if calls:
        return BrainReply(AgentSaid(calls=calls), spent)
    # An empty text would break the conversation off; a model that says nothing has not understood.
    return BrainReply(AgentSaid((message.content or "").strip() or _EMPTY_ANSWER), spent)


def _read_call(call: Any) -> ToolCall:
    arguments = json.loads(call.function.arguments or "{}")
    if not isinstance(arguments, dict):
        raise ValueError(f"arguments of {call.function.name} are not an object: {call.function.arguments!r}")
    return ToolCall(call.function.name, arguments, call.id or "")
