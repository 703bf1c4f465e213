"""The two agents of one turn that the evaluator asks: what they are asked and answer, and what their model is given.

Each has a model that is given the material (a list of tasks, the results) beside the question, and answers a JSON
object. Of results the numbers are those of the files, beside the words of the model.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from typing import Any, Generic, TypeVar

from google.adk.agents import LlmAgent
from google.adk.models.base_llm import BaseLlm
from google.adk.models.llm_request import LlmRequest
from google.adk.models.llm_response import LlmResponse
from google.genai import types
from pydantic import BaseModel, Field, ValidationError

from pytest_a2a_bench.adk.facts import read_facts
from pytest_a2a_bench.adk.tools import Tools
from pytest_a2a_bench.errors import A2ABenchError
from pytest_a2a_bench.language_models import describe_failure
from pytest_a2a_bench.secret import KNOWN

log = logging.getLogger(__name__)


class SelectionRequest(BaseModel):
    """What task_selector is asked."""

    domain: str = Field(description="Domain whose tasks to choose from, as list_tasks takes it")
    request: str = Field(default="", description="What the tasks should be about, in words")
    count: int | None = Field(default=None, description="How many tasks; leave out for as many as fit")
    split: str = Field(default="base", description="Split of tau2's tasks")


class TaskSelection(BaseModel):
    """What task_selector answers."""

    task_ids: list[str] = Field(description="Ids of the chosen tasks, exactly as they are listed")
    reasoning: str = Field(description="Why these")


class InterpretationRequest(BaseModel):
    """What results_interpreter is asked."""

    run_id: str = Field(description="Evaluation that is completed")
    question: str = Field(default="", description="What the reader wants to know")


class Interpretation(BaseModel):
    """What results_interpreter answers: Numbers, Summary, Key Findings, Recommendations."""

    numbers: str = Field(default="", description="Leave this empty: it is filled in from the files")
    summary: str = Field(description="Summary, in two or three sentences")
    key_findings: list[str] = Field(description="Key Findings, a sentence each")
    recommendations: list[str] = Field(description="Recommendations, a sentence each")


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

Q = TypeVar("Q", bound=BaseModel)
A = TypeVar("A", bound=BaseModel)


class Helper(Generic[Q, A]):
    """What a helper's model is given beside a question, and what becomes of its answer."""

    asked: type[Q]
    answered: type[A]

    def __init__(self, tools: Tools) -> None:
        self.tools = tools

    async def material(self, question: Q) -> tuple[str, str]:
        """Return what the model is given beside a question, and the numbers of it.

        :raises A2ABenchError: if there is nothing to answer from.
        """
        raise NotImplementedError

    def finish(self, answer: A, numbers: str) -> A:
        """Return the answer as it leaves."""
        return answer

    def refuse(self, why: str, numbers: str) -> A:
        """Return what is answered where the model cannot."""
        raise NotImplementedError


class Selecting(Helper[SelectionRequest, TaskSelection]):
    """Tasks chosen from a list; one that is none of the list is refused by run_evaluation."""

    asked, answered = SelectionRequest, TaskSelection

    async def material(self, question: SelectionRequest) -> tuple[str, str]:
        """Return the list."""
        tasks = await self.tools.list_tasks(question.domain, question.split)
        lines = "\n".join(f"{task['id']} : {task['description']}" for task in tasks)
        return f"The {len(tasks)} tasks of {question.domain}, id : description:\n{lines}", ""

    def refuse(self, why: str, numbers: str) -> TaskSelection:
        """Choose nothing."""
        return TaskSelection(task_ids=[], reasoning=f"Nothing is chosen: {why}")


class Interpreting(Helper[InterpretationRequest, Interpretation]):
    """Results put into words."""

    asked, answered = InterpretationRequest, Interpretation

    async def material(self, question: InterpretationRequest) -> tuple[str, str]:
        """Return the results, and their numbers in words of the files."""
        facts = await asyncio.to_thread(lambda: read_facts(self.tools.runs.look(question.run_id)))
        return f"The results:\n{facts.text()}", facts.look.record.summary

    def finish(self, answer: Interpretation, numbers: str) -> Interpretation:
        """Put the numbers beside the words."""
        return answer.model_copy(update={"numbers": numbers})

    def refuse(self, why: str, numbers: str) -> Interpretation:
        """Give the numbers alone."""
        return Interpretation(
            numbers=numbers, summary=f"Nothing is interpreted: {why}", key_findings=[], recommendations=[]
        )


class HelperModel(BaseLlm):  # type: ignore[misc]
    """A model that is given the material of a helper, and whose answer always has the helper's shape.

    It stands in the place of the agent's model, so that this holds however the agent is run.
    """

    inner: Any
    helper: Any

    @property
    def capabilities(self) -> Any:
        """What the model behind can do."""
        return self.inner.capabilities

    async def generate_content_async(self, llm_request: LlmRequest, stream: bool = False) -> AsyncIterator[LlmResponse]:
        """Yield one answer."""
        numbers, usage = "", None
        try:
            material, numbers = await self.helper.material(self._question(llm_request))
            contents = [*llm_request.contents, _content("user", material)]
            text, usage = await self._ask(llm_request.model_copy(update={"contents": contents}))
            begin, end = text.find("{"), text.rfind("}")
            answer = self.helper.finish(self.helper.answered.model_validate_json(text[begin : end + 1]), numbers)
        except A2ABenchError as error:
            answer = self.helper.refuse(KNOWN.hide(str(error)), numbers)
        except ValidationError:
            answer = self.helper.refuse("the model's answer is not the JSON object that was asked for", numbers)
        except Exception as error:  # each provider has its own
            log.warning("the model did not answer", exc_info=error)
            answer = self.helper.refuse(f"the model did not answer ({KNOWN.hide(describe_failure(error))})", numbers)
        yield LlmResponse(content=_content("model", answer.model_dump_json()), usage_metadata=usage)

    def _question(self, request: LlmRequest) -> Any:
        """Return the question, which ADK writes as JSON, perhaps with texts around it."""
        texts = [part.text for content in request.contents for part in content.parts or () if part.text]
        for text in reversed(texts):
            try:
                return self.helper.asked.model_validate_json(text)
            except ValidationError:
                continue
        raise A2ABenchError("what is asked is not the JSON object that this agent takes")

    async def _ask(self, request: LlmRequest) -> tuple[str, Any]:
        """Return the whole text of an answer, and what it used."""
        text, usage = "", None
        async for response in self.inner.generate_content_async(request, stream=False):
            if response.error_code or response.error_message:
                raise RuntimeError(f"{response.error_code}: {response.error_message}")
            parts = response.content.parts if response.content is not None else None
            text += "".join(part.text for part in parts or () if part.text and not part.thought)
            usage = response.usage_metadata or usage
        return text, usage


def make_selector(model: BaseLlm, tools: Tools) -> LlmAgent:
    """Make the helper that chooses tasks."""
    description = "Chooses tasks of a domain that fit a description. Returns task_ids and reasoning."
    return _make("task_selector", description, _SELECT, model, Selecting(tools))


def make_interpreter(model: BaseLlm, tools: Tools) -> LlmAgent:
    """Make the helper that puts results into words."""
    description = "Interprets a completed evaluation. Returns numbers, summary, key_findings and recommendations."
    return _make("results_interpreter", description, _INTERPRET, model, Interpreting(tools))


def _make(name: str, description: str, instruction: str, model: BaseLlm, helper: Helper[Any, Any]) -> LlmAgent:
    return LlmAgent(
        name=name,
        description=description,
        model=HelperModel(model=model.model, inner=model, helper=helper),
        instruction=lambda context: instruction,  # in which ADK looks for no {names}
        input_schema=helper.asked,
        output_schema=helper.answered,
        # A helper answers one question, and sees nothing of the conversation around it.
        mode="single_turn",
        include_contents="none",
        disallow_transfer_to_parent=True,
        disallow_transfer_to_peers=True,
    )


def _content(role: str, text: str) -> types.Content:
    return types.Content(role=role, parts=[types.Part(text=text)])
