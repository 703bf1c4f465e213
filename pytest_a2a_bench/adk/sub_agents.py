"""The two sub-agents of one turn: ``task_selector`` chooses tasks, ``results_interpreter`` puts results into words.

Each takes and answers a JSON object. Its model is given the material (a list of tasks, the results) beside the
question. The numbers of an interpretation are those of the files, whatever the model says beside them.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, TypeVar

from google.adk.agents import LlmAgent
from google.adk.models.base_llm import BaseLlm
from google.adk.models.llm_request import LlmRequest
from google.adk.models.llm_response import LlmResponse
from google.genai import types
from pydantic import BaseModel, Field, ValidationError, computed_field

from pytest_a2a_bench.adk.tools import Tools
from pytest_a2a_bench.errors import A2ABenchError
from pytest_a2a_bench.language_models import describe_failure
from pytest_a2a_bench.redact import KNOWN

log = logging.getLogger(__name__)


class SelectionRequest(BaseModel):
    """The request to task_selector."""

    domain: str = Field(description="Domain whose tasks to choose from, as list_tasks takes it")
    request: str = Field(default="", description="What the tasks should be about, in words")
    count: int | None = Field(default=None, description="How many tasks; leave out for as many as fit")
    split: str = Field(default="base", description="Split of tau2's tasks")


class TaskSelection(BaseModel):
    """The answer of task_selector."""

    task_ids: list[str] = Field(description="Ids of the chosen tasks, exactly as they are listed")
    reasoning: str = Field(description="Why these")


class InterpretationRequest(BaseModel):
    """The request to results_interpreter."""

    run_id: str = Field(description="Evaluation that is completed")
    question: str = Field(default="", description="What the reader wants to know")


class Interpretation(BaseModel):
    """The answer of results_interpreter; ``report`` is all of it in Markdown."""

    numbers: str = Field(default="", description="Leave this empty: it is filled in from the files")
    overview: list[str] = Field(default=[], description="Leave this empty, too")
    summary: str = Field(description="Summary, in two or three sentences")
    key_findings: list[str] = Field(description="Key Findings, a sentence each")
    recommendations: list[str] = Field(description="Recommendations, a sentence each")

    @computed_field  # type: ignore[prop-decorator]
    @property
    def report(self) -> str:
        """The interpretation in Markdown."""
        paragraphs = ["## Summary", _listed(self.overview), self.summary]
        paragraphs += ["## Key Findings", _listed(self.key_findings)]
        paragraphs += ["## Recommendations", _listed(self.recommendations)]
        return "\n\n".join(filter(None, paragraphs))


def _listed(lines: Sequence[str]) -> str:
    return "\n".join(f"- {line}" for line in lines)


_SELECT = """\
You choose tasks of a benchmark for an evaluation. You get a request as JSON, and the list of tasks.
Choose those that fit the request, exactly as many as its count says, or as many as fit. Copy ids exactly.
Answer with one JSON object: {"task_ids": [...], "reasoning": "..."}.
"""

_INTERPRET = """\
You put the results of an evaluation into words. You get a question as JSON, and the results.
What could not be evaluated is an error and no failure of the agent. An interval says how sure a rate is.
The numbers are shown beside your words: say what they mean.
Answer with one JSON object: {"summary": "...", "key_findings": ["..."], "recommendations": ["..."]}.
"""

_FACTS = "temp:facts"
"""Member of the session's state, for one invocation: members of the answer that are filled in from the files."""

Asked = TypeVar("Asked", bound=BaseModel)
Facts = dict[str, Any]
Material = Callable[[Asked], Awaitable[tuple[str, Facts]]]
"""Returns what the model is given beside a question, and members of the answer that no model writes."""


def make_selector(model: BaseLlm, tools: Tools) -> LlmAgent:
    """Return the sub-agent that chooses tasks. An id that is not listed is refused by run_evaluation."""

    async def material(question: SelectionRequest) -> tuple[str, Facts]:
        tasks = await tools.list_tasks(question.domain, question.split)
        lines = "\n".join(f"{task['id']} : {task['description']}" for task in tasks)
        return f"The {len(tasks)} tasks of {question.domain}, id : description:\n{lines}", {}

    def refuse(why: str) -> TaskSelection:
        return TaskSelection(task_ids=[], reasoning=f"Nothing is chosen: {why}")

    description = "Chooses tasks of a domain that fit a description. Returns task_ids and reasoning."
    return _make("task_selector", description, _SELECT, model, SelectionRequest, TaskSelection, material, refuse)


def make_interpreter(model: BaseLlm, tools: Tools) -> LlmAgent:
    """Return the sub-agent that puts results into words."""

    async def material(question: InterpretationRequest) -> tuple[str, Facts]:
        results = await asyncio.to_thread(tools.runs.results, question.run_id)
        metrics = results.get("metrics", {})
        passed = metrics.get("successful_tasks", results["score"])
        overview = [
            f"Overall Score: {results['pass_rate']:.1f} %",
            f"Tasks Passed: {passed}/{metrics.get('total_tasks', results['max_score'])}",
            f"Domains: {results['domain']}",
            *(f"{name}: {metrics[name]:.3f}" for name in metrics if name.startswith("pass^") and name != "pass^1"),
        ]
        facts = {"numbers": results["summary"], "overview": overview}
        return f"The results:\n{json.dumps(results, ensure_ascii=False, default=str)}", facts

    def refuse(why: str) -> Interpretation:
        return Interpretation(summary=f"Nothing is interpreted: {why}", key_findings=[], recommendations=[])

    description = "Interprets a completed evaluation. Returns its report in Markdown, and the parts of that."
    return _make(
        "results_interpreter", description, _INTERPRET, model, InterpretationRequest, Interpretation, material, refuse
    )


def _make(
    name: str,
    description: str,
    instruction: str,
    model: BaseLlm,
    asked: type[Asked],
    answered: type[BaseModel],
    material: Material[Asked],
    refuse: Callable[[str], BaseModel],
) -> LlmAgent:
    """Return a sub-agent whose answer has its schema whatever the model does: ``refuse`` makes one with the reason."""

    async def add_material(callback_context: Any, llm_request: LlmRequest) -> LlmResponse | None:
        try:
            text, callback_context.state[_FACTS] = await material(_question(asked, llm_request))
        except A2ABenchError as error:
            return _response(refuse(KNOWN.hide(str(error))))
        llm_request.contents.append(types.Content(role="user", parts=[types.Part(text=text)]))
        return None

    async def check(callback_context: Any, llm_response: LlmResponse) -> LlmResponse | None:
        if llm_response.partial:
            return None
        parts = llm_response.content.parts if llm_response.content is not None else None
        text = "".join(part.text for part in parts or () if part.text and not part.thought)
        begin, end = text.find("{"), text.rfind("}")
        try:
            answer = answered.model_validate_json(text[begin : end + 1])
        except ValidationError:
            why = "the model's answer is not the JSON object that was asked for"
            if llm_response.error_message or llm_response.error_code:
                error = KNOWN.hide(f"{llm_response.error_code}: {llm_response.error_message}")
                why = f"the model did not answer ({error})"
            answer = refuse(why)
        return filled(callback_context, answer, llm_response.usage_metadata)

    async def explain(callback_context: Any, llm_request: LlmRequest, error: Exception) -> LlmResponse:
        log.warning("the model did not answer", exc_info=error)
        return filled(callback_context, refuse(f"the model did not answer ({KNOWN.hide(describe_failure(error))})"))

    def filled(callback_context: Any, answer: BaseModel, usage: Any = None) -> LlmResponse:
        return _response(answer.model_copy(update=callback_context.state.get(_FACTS) or {}), usage)

    return LlmAgent(
        name=name,
        description=description,
        model=model,
        instruction=lambda context: instruction,  # a function: ADK replaces {names} in a text
        input_schema=asked,
        output_schema=answered,
        # It answers one question, and sees nothing of the conversation around it.
        mode="single_turn",
        include_contents="none",
        disallow_transfer_to_parent=True,
        disallow_transfer_to_peers=True,
        before_model_callback=add_material,
        after_model_callback=check,
        on_model_error_callback=explain,
    )


def _question(asked: type[Asked], request: LlmRequest) -> Asked:
    """Return the question, which ADK writes as JSON, perhaps with texts around it."""
    texts = [part.text for content in request.contents for part in content.parts or () if part.text]
    for text in reversed(texts):
        try:
            return asked.model_validate_json(text)
        except ValidationError:
            continue
    raise A2ABenchError("the question is not the JSON object that this agent takes")


def _response(answer: BaseModel, usage: Any = None) -> LlmResponse:
    content = types.Content(role="model", parts=[types.Part(text=answer.model_dump_json())])
    return LlmResponse(content=content, usage_metadata=usage)
