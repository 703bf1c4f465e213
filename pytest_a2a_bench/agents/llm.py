"""A tool-calling agent around any model that LiteLLM reaches: the honest baseline.

The model is named by ``--model`` or ``A2A_AGENT_LLM``; keys come from the environment as LiteLLM expects them
(``OPENAI_API_KEY``, ``ANTHROPIC_API_KEY`` ...). ``openai/NAME`` with ``--api-base`` (or ``OPENAI_API_BASE``) reaches
any OpenAI-compatible server.
"""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Mapping, Sequence
from typing import Any

from pytest_a2a_bench.agents.brain import BrainError, BrainReply, Conversation, find_player
from pytest_a2a_bench.agents.options import AgentOptions
from pytest_a2a_bench.benchmarks.registry import match_call
from pytest_a2a_bench.errors import ConfigurationError
from pytest_a2a_bench.language_models import cost_of, import_litellm
from pytest_a2a_bench.model import AgentSaid, Briefing, Event, ToolCall, ToolReturned, ToolSpec, Usage, UserSaid

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
        """Ask the model what to say next."""
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
    """Read a chat completion.

    :raises ValueError: if the model's arguments of a call are not a JSON object.
    """
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
