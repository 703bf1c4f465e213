"""Conversations with our ADK agents: a model that says what a test wants, and what holds them.

Google's libraries are imported by the tests that need them: each process that collects would take most of a second.
"""

from __future__ import annotations

import asyncio
import functools
import json
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from google.adk.agents import BaseAgent
    from google.adk.events.event import Event
    from google.adk.models.llm_request import LlmRequest
    from google.adk.models.llm_response import LlmResponse

    Line = str | tuple[str, dict[str, Any]] | Callable[[LlmRequest], str | tuple[str, dict[str, Any]]]
    """What a model says: words, a tool with its arguments, or either made of the request."""


@functools.cache
def _scripted_class() -> Any:
    from google.adk.models.base_llm import BaseLlm
    from google.adk.models.llm_response import LlmResponse
    from google.genai import types

    class ScriptedLlm(BaseLlm):  # type: ignore[misc]
        """A model that says its lines in order."""

        model: str = "scripted"
        lines: list[Any]
        requests: list[Any]

        async def generate_content_async(
            self, llm_request: LlmRequest, stream: bool = False
        ) -> AsyncIterator[LlmResponse]:
            # A schema may be a class, which is no JSON.
            seen = llm_request.model_copy(
                update={"config": llm_request.config.model_copy(update={"response_schema": None})}
            )
            self.requests.append(seen.model_dump_json(exclude_none=True, exclude={"tools_dict"}))
            line = self.lines.pop(0)
            if callable(line):
                line = line(llm_request)
            if isinstance(line, Exception):
                raise line
            if isinstance(line, str):
                part = types.Part(text=line)
            else:
                part = types.Part(function_call=types.FunctionCall(name=line[0], args=line[1]))
            yield LlmResponse(content=types.Content(role="model", parts=[part]))

    return ScriptedLlm


def scripted(*lines: Line) -> Any:
    return _scripted_class()(lines=list(lines), requests=[])


def make_evaluator(*args: Any, **options: Any) -> Any:
    from pytest_a2a_bench.adk import agent

    return agent.make_evaluator(*args, **options)


def returned(name: str, member: str) -> Callable[[LlmRequest], Any]:
    """Return what finds a member of what a tool last returned, in the request that a model gets."""

    def find(request: LlmRequest) -> Any:
        for content in reversed(request.contents):
            for part in content.parts or ():
                if part.function_response is not None and part.function_response.name == name:
                    return part.function_response.response[member]
        raise AssertionError(f"{name} returned nothing")

    return find


def talk(agent: BaseAgent, results: Path, message: str) -> list[Event]:
    """Say something to an agent, and return all that happens; its session is one of the results directory."""

    from google.genai import types

    from pytest_a2a_bench.adk.serving import make_runner

    async def run() -> list[Event]:
        runner = make_runner(agent, results)
        where = {"app_name": agent.name, "user_id": "u", "session_id": "s"}
        if await runner.session_service.get_session(**where) is None:
            await runner.session_service.create_session(**where)
        said = types.Content(role="user", parts=[types.Part(text=message)])
        events = [event async for event in runner.run_async(user_id="u", session_id="s", new_message=said)]
        await runner.close()
        return events

    return asyncio.run(run())


def answers(events: list[Event], tool: str) -> list[dict[str, Any]]:
    return [one.response for event in events for one in event.get_function_responses() if one.name == tool]


def text_of(events: list[Event]) -> str:
    parts = [part for event in events if event.content for part in event.content.parts or ()]
    return "\n".join(part.text for part in parts if part.text)


def interpretation(summary: str, *findings: str) -> str:
    return json.dumps({"summary": summary, "key_findings": list(findings), "recommendations": []})
