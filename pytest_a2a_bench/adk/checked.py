"""A model whose answers are checked before anybody sees them: asked again once, then answered for."""

from __future__ import annotations

import json
import logging
from collections.abc import AsyncIterator, Callable
from typing import Any

from google.adk.models.base_llm import BaseLlm
from google.adk.models.llm_request import LlmRequest
from google.adk.models.llm_response import LlmResponse
from google.genai import types
from pydantic import BaseModel

from pytest_a2a_bench.adk.cases import Case, Open
from pytest_a2a_bench.errors import A2ABenchError
from pytest_a2a_bench.language_models import describe_failure, unfence
from pytest_a2a_bench.secret import KNOWN

log = logging.getLogger(__name__)

_ASKINGS = 2

Refuse = Callable[[A2ABenchError], BaseModel]
"""Makes an answer of a question that has none."""


class CheckedModel(BaseLlm):  # type: ignore[misc]
    """A model behind a check.

    It stands in the place of an agent's model, so that the check holds however the agent is run: as a tool of another
    agent, in a workflow, or alone.

    :param inner: the model that is asked; None for none, where the answer is always ours.
    :param open_case: makes a case of a question.
    :param refuse: answers a question that has no answer.
    """

    inner: Any = None
    open_case: Any
    refuse: Any

    @classmethod
    def over(cls, inner: BaseLlm | None, open_case: Open, refuse: Refuse) -> CheckedModel:
        """Make one."""
        name = inner.model if inner is not None else "none"
        return cls(model=name, inner=inner, open_case=open_case, refuse=refuse)

    @property
    def capabilities(self) -> Any:
        """What the model behind can do."""
        return self.inner.capabilities if self.inner is not None else super().capabilities

    async def generate_content_async(self, llm_request: LlmRequest, stream: bool = False) -> AsyncIterator[LlmResponse]:
        """Yield one answer, which holds."""
        case = await self._open(llm_request)
        if isinstance(case, BaseModel):
            yield _response(case)
            return
        asked = [*llm_request.contents, _content("user", case.material)]
        why, answer = "no model is set", ""
        for _ in range(_ASKINGS if self.inner is not None else 0):
            try:
                answer, usage = await self._ask(llm_request.model_copy(update={"contents": asked}))
            except Exception as error:  # each provider has its own
                log.warning("the model did not answer", exc_info=error)
                why = f"it did not answer ({KNOWN.hide(describe_failure(error))})"
                break
            problem = case.problem(answer)
            if not problem:
                yield LlmResponse(content=_content("model", answer), usage_metadata=usage)
                return
            why = f"its answer was refused twice, because {problem}"
            asked += [
                _content("model", answer or "(nothing)"),
                _content("user", f"This answer is refused: {problem}. Answer again."),
            ]
        yield _response(case.fallback(why, answer))

    async def _open(self, request: LlmRequest) -> Case | BaseModel:
        """Find the question, which is JSON, and make a case of it."""
        try:
            for question in _questions(request):
                try:
                    case: Case = await self.open_case(question)
                except ValueError:
                    continue  # said around it
                return case
        except A2ABenchError as error:
            refusal: BaseModel = self.refuse(error)
            return refusal
        asked: BaseModel = self.refuse(A2ABenchError("what is asked is not the JSON object that this agent takes"))
        return asked

    async def _ask(self, request: LlmRequest) -> tuple[str, Any]:
        """Return the whole text of an answer, and what it used."""
        text, usage = "", None
        async for response in self.inner.generate_content_async(request, stream=False):
            if response.error_code or response.error_message:
                raise RuntimeError(f"{response.error_code}: {response.error_message}")
            parts = response.content.parts if response.content is not None else None
            text += "".join(part.text for part in parts or () if part.text and not part.thought)
            usage = response.usage_metadata or usage
        return unfence(text).strip(), usage


def _questions(request: LlmRequest) -> list[str]:
    """Return the texts of a request that are JSON objects, the latest first."""
    texts = [part.text for content in request.contents for part in content.parts or () if part.text]
    found = []
    for text in reversed(texts):
        try:
            is_object = isinstance(json.loads(text), dict)
        except (ValueError, RecursionError):
            continue
        if is_object:
            found.append(text)
    return found


def _response(answer: BaseModel) -> LlmResponse:
    return LlmResponse(content=_content("model", answer.model_dump_json()))


def _content(role: str, text: str) -> types.Content:
    return types.Content(role=role, parts=[types.Part(text=text)])
