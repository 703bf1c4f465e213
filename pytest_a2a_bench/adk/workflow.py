"""``tau2_workflow``: register, select, run, interpret, in this order and without a model that chooses the steps."""

from __future__ import annotations

import asyncio
import json
import os
import re
from collections.abc import AsyncIterator
from typing import Any

from google.adk.agents import BaseAgent, LlmAgent
from google.adk.agents.invocation_context import InvocationContext
from google.adk.events.event import Event
from google.adk.events.event_actions import EventActions
from google.genai import types
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from pytest_a2a_bench.adk.agent import make_interpreter, make_selector, runs_of, taking_up
from pytest_a2a_bench.adk.cases import Interpretation, InterpretationRequest, SelectionRequest, TaskSelection
from pytest_a2a_bench.adk.models import resolve
from pytest_a2a_bench.adk.options import AdkOptions
from pytest_a2a_bench.adk.runs import CALLER, Runs
from pytest_a2a_bench.adk.tools import PROTOCOL, Tools
from pytest_a2a_bench.errors import A2ABenchError
from pytest_a2a_bench.results.assessments import UNFINISHED
from pytest_a2a_bench.secret import KNOWN

NAME = "tau2_workflow"
RUN = "a2a_run_id"
"""In the session's state: the evaluation that the last request began."""

_URL = re.compile(r"https?://[^\s\"'<>]+|builtin:\w+")
_SHAPE = '{"endpoint": "http://127.0.0.1:9019/", "domain": "airline", "request": "cancellations", "count": 3}'


class WorkflowRequest(BaseModel):
    """What the workflow is asked, as a JSON object.

    :param request: what the tasks should be about; ``task_ids`` names them instead.
    """

    model_config = ConfigDict(extra="forbid")

    endpoint: str
    domain: str
    task_ids: list[str] = Field(default_factory=list)
    request: str = ""
    count: int | None = Field(default=None, ge=1)
    split: str = "base"
    auth_token: str = ""
    max_steps: int = Field(default=30, ge=1)
    question: str = ""


class EvaluationWorkflow(BaseAgent):  # type: ignore[misc]
    """The steps, each told in an event of its own. Its state carries the run, so that the next message goes on with it.

    :param evaluations: the tools. (ADK looks for tools of a model under the usual name.)
    :param selector: chooses tasks; asked only where the request describes them.
    :param interpreter: puts the results into words.
    """

    evaluations: Any = Field(exclude=True)
    selector: LlmAgent
    interpreter: LlmAgent

    async def _run_async_impl(self, ctx: InvocationContext) -> AsyncIterator[Event]:
        said = _said(ctx.user_content)
        CALLER.set(ctx.user_id)
        try:
            run_id = await self._interrupted(ctx, said)
            if run_id:
                yield self._tell(ctx, f"going on with the evaluation {run_id}")
                async for event in self._follow(ctx, run_id, ""):
                    yield event
                return
            asked = read_request(said)
            async for event in self._carry_out(ctx, asked):
                yield event
        except A2ABenchError as error:
            yield self._tell(ctx, f"This cannot be done: {error}")

    async def _carry_out(self, ctx: InvocationContext, asked: WorkflowRequest) -> AsyncIterator[Event]:
        found = await self.evaluations.register_agent(asked.endpoint, asked.auth_token)
        kept = "keeps the protocol" if found["validated"] else found["error"]
        yield self._tell(ctx, f"register: {found['name']} ({asked.endpoint}), its card {kept}")
        chosen = TaskSelection(task_ids=asked.task_ids, reasoning="as named in the request")
        if asked.domain == PROTOCOL:
            chosen.reasoning = "every check of the protocol"
        elif not asked.task_ids:
            question = SelectionRequest(
                domain=asked.domain, request=asked.request, count=asked.count, split=asked.split
            )
            answer: list[str] = []
            async for event in self._ask(ctx, self.selector, question, answer):
                yield event
            chosen = TaskSelection.model_validate_json(answer[-1])
            if not chosen.task_ids:
                yield self._tell(ctx, f"This cannot be done: {chosen.reasoning}")
                return
        yield self._tell(ctx, f"select: {', '.join(chosen.task_ids) or 'all'} ({chosen.reasoning})")
        run = await self.evaluations.run_evaluation(
            asked.domain, asked.endpoint, chosen.task_ids, asked.auth_token, asked.max_steps
        )
        run_id = run["run_id"]
        yield self._tell(ctx, f"run: {run_id} in {run['results_path']}", state={RUN: run_id})
        async for event in self._follow(ctx, run_id, asked.question):
            yield event

    async def _follow(self, ctx: InvocationContext, run_id: str, question: str) -> AsyncIterator[Event]:
        """Wait for the end, telling what changes, and have it interpreted."""
        said = ""
        while (status := await self.evaluations.get_evaluation_status(run_id))["status"] in UNFINISHED:
            if status["progress"] != said:
                said = status["progress"]
                yield self._tell(ctx, f"run: {status['status']}, {said}")
        if status["status"] != "completed":
            how = f": {status['error']}" if status["error"] else ""
            yield self._tell(ctx, f"The evaluation {run_id} is {status['status']}{how}", state={RUN: ""})
            return
        yield self._tell(ctx, f"run: {status['progress']}")
        answer: list[str] = []
        async for event in self._ask(
            ctx, self.interpreter, InterpretationRequest(run_id=run_id, question=question), answer
        ):
            yield event
        yield self._tell(ctx, Interpretation.model_validate_json(answer[-1]).text, state={RUN: ""})

    async def _interrupted(self, ctx: InvocationContext, said: str) -> str:
        """Return the evaluation that the session still waits for, unless something new is asked for."""
        run_id = str(ctx.session.state.get(RUN) or "")
        if not run_id or _URL.search(said):
            return ""
        try:
            await asyncio.to_thread(self.evaluations.runs.look, run_id)
        except A2ABenchError:
            return ""
        return run_id

    async def _ask(
        self, ctx: InvocationContext, helper: LlmAgent, question: BaseModel, answer: list[str]
    ) -> AsyncIterator[Event]:
        """Put a question to a helper, in the way ADK itself does for an agent of one turn, and keep its answer."""
        branch = f"{ctx.branch}.{helper.name}" if ctx.branch else helper.name
        asked = Event(
            author="user",
            invocation_id=ctx.invocation_id,
            branch=branch,
            content=types.Content(role="user", parts=[types.Part(text=question.model_dump_json())]),
        )
        ctx.session.events.append(asked)
        try:
            async for event in helper.run_async(ctx.model_copy(update={"branch": branch, "agent": helper})):
                if event.content is not None and event.author == helper.name and (text := _said(event.content)):
                    answer.append(text)
                yield event
        finally:
            if asked in ctx.session.events:
                ctx.session.events.remove(asked)

    def _tell(self, ctx: InvocationContext, text: str, state: dict[str, Any] | None = None) -> Event:
        content = types.Content(role="model", parts=[types.Part(text=KNOWN.hide(text))])
        return Event(
            author=self.name,
            invocation_id=ctx.invocation_id,
            branch=ctx.branch,
            content=content,
            actions=EventActions(state_delta=state or {}),
        )


def make_workflow(options: AdkOptions | None = None, *, runs: Runs | None = None, model: Any = None) -> BaseAgent:
    """Make the workflow. Its helpers have the model that the options name; with ``none`` they have none.

    :raises ConfigurationError: if a setting is wrong.
    """
    chosen = options or (runs.options if runs is not None else AdkOptions.from_environment(os.environ))
    own = model or resolve(chosen.model)
    tools = Tools(runs or runs_of(chosen))
    selector, interpreter = make_selector(own, tools), make_interpreter(own, tools)
    return EvaluationWorkflow(
        name=NAME,
        description="Registers an agent, selects tasks, runs them and interprets the results, always in this order.",
        evaluations=tools,
        selector=selector,
        interpreter=interpreter,
        sub_agents=[selector, interpreter],
        before_agent_callback=taking_up(tools.runs),
    )


def read_request(said: str) -> WorkflowRequest:
    """Read the JSON object in a message, alone or with words around it.

    :raises A2ABenchError: if there is none, with its shape.
    """
    start, end = said.find("{"), said.rfind("}")
    try:
        return WorkflowRequest.model_validate(json.loads(said[start : end + 1] if 0 <= start < end else said))
    except ValidationError as error:
        wrong = "; ".join(f"{'.'.join(map(str, one['loc'])) or 'it'}: {one['msg']}" for one in error.errors())
        raise A2ABenchError(
            f"the request is not what this workflow takes ({wrong}); expected such as {_SHAPE}"
        ) from None
    except (ValueError, RecursionError):
        raise A2ABenchError(f"this workflow takes a JSON object, such as {_SHAPE}") from None


def _said(content: types.Content | None) -> str:
    parts = content.parts if content is not None else None
    return "".join(part.text for part in parts or () if part.text and not part.thought)
