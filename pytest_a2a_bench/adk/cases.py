"""What the two sub-agents are asked, what is wrong with an answer, and what is answered where the model cannot."""

from __future__ import annotations

import asyncio
import difflib
from collections.abc import Awaitable, Callable
from typing import Protocol

from pydantic import BaseModel, Field, ValidationError

from pytest_a2a_bench.adk.facts import Facts, findings, read_facts, recommendations, summarise
from pytest_a2a_bench.adk.tools import Tools
from pytest_a2a_bench.errors import A2ABenchError

_USUAL = 5
"""Tasks that are chosen where nobody says how many."""
_MOST_SHOWN = 10


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
    """What results_interpreter answers: Summary, Key Findings, Recommendations."""

    summary: str = Field(description="Summary, in two or three sentences")
    key_findings: list[str] = Field(description="Key Findings, a sentence each")
    recommendations: list[str] = Field(description="Recommendations, a sentence each")

    @property
    def text(self) -> str:
        """Return it under its three headings."""
        lists = (("Key Findings", self.key_findings), ("Recommendations", self.recommendations))
        told = "\n\n".join(f"## {title}\n" + "\n".join(f"- {one}" for one in items) for title, items in lists)
        return f"## Summary\n{self.summary}\n\n{told}"


class Case(Protocol):
    """One question with what its answer is held against."""

    @property
    def material(self) -> str:
        """What the model is given beside the question."""
        ...

    def problem(self, answer: str) -> str:
        """Return what is wrong with an answer; empty if nothing is."""
        ...

    def fallback(self, why: str, answer: str) -> BaseModel:
        """Return what is answered instead.

        :param answer: the model's last one; empty where there was none.
        """
        ...


Open = Callable[[str], Awaitable["Case"]]
"""Makes a case of a question (JSON). Raises ValueError if it is none, an A2ABenchError if it cannot be answered."""


class Selection:
    """Tasks to be chosen from a list."""

    def __init__(self, asked: SelectionRequest, tasks: list[dict[str, str]]) -> None:
        self._asked, self._tasks = asked, tasks
        self._ids = [task["id"] for task in tasks]

    @property
    def material(self) -> str:
        """The list."""
        lines = "\n".join(f"{task['id']} : {task['description']}" for task in self._tasks)
        return f"The {len(self._tasks)} tasks of {self._asked.domain}, id : description:\n{lines}"

    def problem(self, answer: str) -> str:
        """Say which ids are none of the list, and whether they are as many as were asked for."""
        try:
            chosen = TaskSelection.model_validate_json(answer).task_ids
        except ValidationError as error:
            return f"this is not the JSON object that is wanted ({_first(error)})"
        unknown = [one for one in chosen if one not in self._ids]
        if unknown:
            near = {one: difflib.get_close_matches(one, self._ids, 1) for one in unknown[:_MOST_SHOWN]}
            hints = ", ".join(
                f"{one!r}" + (f" (there is {found[0]!r})" if found else "") for one, found in near.items()
            )
            return f"{self._asked.domain} has no task {hints}; copy ids from the list"
        wanted = self._asked.count
        if not chosen:
            return "no task is chosen"
        if len(set(chosen)) != len(chosen):
            return "a task is chosen twice"
        if wanted is not None and len(chosen) != min(wanted, len(self._ids)):
            return f"{len(chosen)} tasks are chosen, and {wanted} were asked for"
        return ""

    def fallback(self, why: str, answer: str) -> TaskSelection:
        """Keep what is right of the answer, and fill up from the beginning of the list."""
        try:
            chosen = TaskSelection.model_validate_json(answer).task_ids
        except ValidationError:
            chosen = []
        kept = [one for one in dict.fromkeys(chosen) if one in self._ids]
        count = self._asked.count or len(kept) or _USUAL
        filled = list(dict.fromkeys([*kept, *self._ids]))[:count]
        return TaskSelection(
            task_ids=filled, reasoning=f"Chosen from the beginning of the list, without the model: {why}."
        )


class Interpreting:
    """The results of an evaluation to be put into words."""

    def __init__(self, facts: Facts) -> None:
        self._facts = facts

    @property
    def material(self) -> str:
        """The results."""
        return f"The results:\n{self._facts.text()}"

    def problem(self, answer: str) -> str:
        """Say which numbers are none of the results."""
        try:
            found = Interpretation.model_validate_json(answer)
        except ValidationError as error:
            return f"this is not the JSON object that is wanted ({_first(error)})"
        strangers = self._facts.figures.strangers(
            "\n".join([found.summary, *found.key_findings, *found.recommendations])
        )
        if strangers:
            shown = ", ".join(list(dict.fromkeys(strangers))[:_MOST_SHOWN])
            return f"the results do not have these numbers: {shown}; use only numbers that the results have"
        return ""

    def fallback(self, why: str, answer: str) -> Interpretation:
        """Put them into words of our own."""
        return Interpretation(
            summary=f"{summarise(self._facts)} (Made from the files without the model: {why}.)",
            key_findings=list(findings(self._facts)),
            recommendations=list(recommendations(self._facts)),
        )


def opens_selections(tools: Tools) -> Open:
    """Return what makes cases of task_selector's questions."""

    async def open_case(question: str) -> Case:
        asked = SelectionRequest.model_validate_json(question)
        return Selection(asked, await tools.list_tasks(asked.domain, asked.split))

    return open_case


def opens_interpretations(tools: Tools) -> Open:
    """Return what makes cases of results_interpreter's questions."""

    async def open_case(question: str) -> Case:
        asked = InterpretationRequest.model_validate_json(question)
        return Interpreting(await asyncio.to_thread(lambda: read_facts(tools.runs.look(asked.run_id))))

    return open_case


def nothing_selected(error: A2ABenchError) -> TaskSelection:
    """Answer where there is nothing to choose from."""
    return TaskSelection(task_ids=[], reasoning=f"Nothing can be chosen: {error}")


def nothing_interpreted(error: A2ABenchError) -> Interpretation:
    """Answer where there are no results."""
    return Interpretation(summary=f"There is nothing to interpret: {error}", key_findings=[], recommendations=[])


def _first(error: ValidationError) -> str:
    one = error.errors()[0]
    where = ".".join(map(str, one["loc"]))
    return f"{where}: {one['msg']}" if where else str(one["msg"])
