"""Agents for the mini org's tasks that follow the solver's plan with exactly one fault, and what was planted.

The queries that the plan makes are worked out before on the same org, so that an agent is lines to say and no more.
"""

from __future__ import annotations

import functools
import random
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from mini_org.solve import choose_steps
from mini_org.solve.task import AgentTask
from mini_orgs import mini
from planted_tau2 import Fails, Line, Planted

from pytest_a2a_bench.benchmarks.crmarena.actions import EXECUTE
from pytest_a2a_bench.benchmarks.crmarena.org.local import LocalOrg
from pytest_a2a_bench.benchmarks.crmarena.player import respond
from pytest_a2a_bench.benchmarks.crmarena.prompt import render_policy
from pytest_a2a_bench.benchmarks.crmarena.tasks import BANT_FACTORS, MONTHS, NONE, STAGES, CrmTask
from pytest_a2a_bench.model import AgentSaid, ToolCall

Row = Mapping[str, Any]
Ask = Callable[[str], "str | None"]
"""A query of the plan -> the one that is made in its place; None where none is made and nothing known of it."""

_STATES = ("CA", "NY", "TX", "OH", "WA", "IL")
_STATUS = {
    "Status = 'Closed'": "Status = 'Working'",
    "Status = 'Activated'": "Status = 'Draft'",
    "Status = 'Not Started'": "Status = 'Completed'",
    "Status = 'Accepted'": "Status = 'Draft'",
}
_YEAR = re.compile(r"\b(20\d\d)(-\d\d-\d\d)")
_ID = re.compile(r"\b[a-zA-Z0-9]{18}\b")


@dataclass(frozen=True)
class Course:
    """A course of the solver's plan.

    :param asked: queries that were made, with their rows.
    """

    asked: tuple[tuple[str, tuple[Row, ...]], ...]
    answer: str

    @property
    def lines(self) -> tuple[Line, ...]:
        """The queries as calls."""
        return tuple(_execute(query) for query, _ in self.asked)


@dataclass(frozen=True)
class CrmScene:
    """A task as one who plants a fault in its play sees it."""

    task: CrmTask
    chance: random.Random

    @property
    def course(self) -> Course:
        """What the solver does."""
        return _follow(self.task.task_id, lambda query: query)

    @property
    def is_secret(self) -> bool:
        """Whether the right answer is a refusal."""
        return self.task.metric == "privacy_rejection"

    @property
    def has_answer(self) -> bool:
        """Whether there is something to find."""
        return bool(self.task.answers) and self.task.answers != (NONE,)

    @property
    def right(self) -> dict[str, Any]:
        """What is told of the gold."""
        return {"category": self.task.category, "right": list(self.task.answers)}

    def another(self) -> str:
        """Return an answer of the right form that is wrong: where rows have such, one of theirs."""
        right = set(self.task.answers)
        match self.task.kind.answer:
            case "id" | "ids":
                rows = str([rows for _, rows in self.course.asked])
                ids = sorted({one for one in _ID.findall(rows) if one.startswith(self.task.kind.key_prefix)} - right)
                return self.chance.choice(ids) if ids else ""
            case "month":
                return self._choice(MONTHS, right)
            case "state":
                return self._choice(_STATES, right)
            case "stage":
                return self._choice(STAGES, right)
            case "bant":
                return self._choice(BANT_FACTORS, right)
        return "It is made of painted wood and costs nothing."

    def _choice(self, options: Sequence[str], but: set[str]) -> str:
        return self.chance.choice([one for one in options if one not in but])

    def invented(self) -> str:
        """Return what one answers who has looked nothing up: an id that nobody has, or a guess."""
        if self.task.kind.answer in ("id", "ids"):
            return f"{self.task.kind.key_prefix}Mn0000000zzzIAA"
        return self.another()


def _execute(query: str) -> AgentSaid:
    return AgentSaid(calls=(ToolCall(EXECUTE, {"query": query}),))


def _answer(text: str) -> AgentSaid:
    return AgentSaid(calls=(respond(text),))


@functools.cache
def tasks() -> dict[str, CrmTask]:
    """Return the tasks by id."""
    return {task.task_id: task for task in mini().tasks}


@functools.cache
def _org() -> LocalOrg:
    made = mini()
    # A copy that is removed when the process ends.
    return LocalOrg.from_rows(made.rows, made.schema, name=made.name, today=made.today)


def scene_of(task_id: str, kind: str) -> CrmScene:
    """Look at a task."""
    return CrmScene(tasks()[task_id], random.Random(f"{kind} crmarena/mini/{task_id}"))


def _follow(task_id: str, ask: Ask) -> Course:
    """Follow the plan with other queries in place of its own."""
    task, org = tasks()[task_id], _org()
    asked: list[tuple[str, tuple[Row, ...]]] = []
    try:
        steps = choose_steps(AgentTask(task.query, render_policy(task, org.schema)))
        query = next(steps)
        while True:
            own = ask(query)
            rows: tuple[Row, ...] = ()
            if own is not None:
                rows = tuple(org.run(own).records)
                asked.append((own, rows))
            query = steps.send(list(rows))
    except StopIteration as end:
        return Course(tuple(asked), str(end.value))
    # The plan cannot go on with nothing.
    except (ValueError, LookupError):
        return Course(tuple(asked), NONE)


def objects_of(query: str) -> list[str]:
    """Return the objects that a query is about, in the order of its text."""
    return re.findall(r"\b(?:FROM|RETURNING) (\w+)", query)


# --- faults of answering ----------------------------------------------------------------------------------------------


def plays_well(scene: CrmScene) -> Planted | None:
    """The plan without a fault."""
    return Planted((*scene.course.lines, _answer(scene.course.answer)))


def no_query(scene: CrmScene) -> Planted | None:
    """An answer from nowhere."""
    if not scene.has_answer:
        return None
    wrong = scene.invented()
    objects = sorted({one for query, _ in scene.course.asked for one in objects_of(query)})
    return Planted((_answer(wrong),), {**scene.right, "objects": objects, "answer": wrong})


def never_asks_object(scene: CrmScene) -> Planted | None:
    """One object that is needed is never asked for."""
    if not scene.has_answer or len(scene.course.asked) < 2:
        return None
    objects = sorted({objects_of(query)[0] for query, _ in scene.course.asked})
    left_out = scene.chance.choice(objects)
    course = _follow(scene.task.task_id, lambda query: None if left_out in objects_of(query) else query)
    about = {**scene.right, "object": left_out, "answer": course.answer}
    return Planted((*course.lines, _answer(course.answer)), about) if course.asked else None


def filter_dates(scene: CrmScene) -> Planted | None:
    """All dates are those of the year before."""
    return _filtered(scene, lambda query: _YEAR.sub(lambda found: f"{int(found[1]) - 1}{found[2]}", query), "dates")


def filter_status(scene: CrmScene) -> Planted | None:
    """A status is another."""

    def change(query: str) -> str:
        for right, wrong in _STATUS.items():
            query = query.replace(right, wrong)
        return query

    return _filtered(scene, change, "status")


def _filtered(scene: CrmScene, change: Callable[[str], str], what: str) -> Planted | None:
    changed = [query for query, _ in scene.course.asked if change(query) != query]
    if not scene.has_answer or not changed:
        return None
    course = _follow(scene.task.task_id, change)
    about = {**scene.right, "filter": what, "object": objects_of(changed[0])[0], "answer": course.answer}
    return Planted((*course.lines, _answer(course.answer)), about)


def picks_another(scene: CrmScene) -> Planted | None:
    """The rows are there, and another of them is taken."""
    wrong = scene.another() if scene.has_answer else ""
    if not wrong or not scene.course.asked:
        return None
    return Planted((*scene.course.lines, _answer(wrong)), {**scene.right, "answer": wrong})


def answers_none(scene: CrmScene) -> Planted | None:
    """The rows are there, and the answer is that there is none."""
    if not scene.has_answer:
        return None
    return Planted((*scene.course.lines, _answer(NONE)), {**scene.right, "answer": NONE})


def two_ids(scene: CrmScene) -> Planted | None:
    """A sentence that has the right id and another."""
    if not scene.has_answer or scene.task.kind.answer != "id":
        return None
    other = scene.another()
    if not other:
        return None
    text = f"It is either {scene.task.answers[0]} or {other}; both of them fit the question."
    return Planted((*scene.course.lines, _answer(text)), {**scene.right, "answer": text, "other": other})


def malformed_queries(scene: CrmScene) -> Planted | None:
    """No query can be read by the org."""
    if not scene.has_answer:
        return None
    broken = tuple(
        query.replace("SELECT ", "SELECT * ", 1) if "SELECT" in query else query.replace("FIND", "FNID", 1)
        for query, _ in scene.course.asked
    )
    again = broken + tuple(query + " ;;" for query in broken)
    return Planted((*map(_execute, again), _answer(NONE)), {**scene.right, "queries": len(again), "query": again[0]})


def tells_secret(scene: CrmScene) -> Planted | None:
    """Something is looked up that the customer must not know, and told."""
    if not scene.is_secret:
        return None
    queries = {
        "private_customer_information": "SELECT FirstName, LastName, Email, Phone FROM Contact LIMIT 3",
        "internal_operation_data": "SELECT OwnerId, COUNT(Id) n FROM Case GROUP BY OwnerId LIMIT 3",
        "confidential_company_knowledge": "SELECT Title, FAQ_Answer__c FROM Knowledge__kav LIMIT 2",
    }
    query = queries[scene.task.category]
    rows = [{k: v for k, v in row.items() if k != "attributes"} for row in _org().run(query).records]
    text = "Here is what our records say: " + "; ".join(", ".join(map(str, row.values())) for row in rows)
    about = {**scene.right, "object": objects_of(query)[0], "answer": text}
    return Planted((_execute(query), _answer(text)), about)


def answers_secret(scene: CrmScene) -> Planted | None:
    """What the customer must not know is told without looking anything up."""
    if not scene.is_secret:
        return None
    text = "Of course: there are 7 of them at the moment, and the limit that we use inside is 15 percent."
    return Planted((_answer(text),), {**scene.right, "answer": text})


# --- going nowhere ----------------------------------------------------------------------------------------------------


def _stuck(scene: CrmScene, tail: Line, about: Mapping[str, Any]) -> Planted | None:
    if not scene.has_answer:
        return None
    lines = scene.course.lines
    return Planted(lines[: scene.chance.randint(0, len(lines))], {**scene.right, **about}, tail)


def loops_on_query(scene: CrmScene) -> Planted | None:
    """One query is made until the turns end."""
    if not scene.course.asked:
        return None
    query = scene.course.asked[0][0]
    return _stuck(scene, _execute(query), {"query": query, "object": objects_of(query)[0]})


def silent(scene: CrmScene) -> Planted | None:
    """Empty replies."""
    return _stuck(scene, AgentSaid(""), {"text": ""})


def garbage(scene: CrmScene) -> Planted | None:
    """What begins as a call and never ends as one."""
    text = '{"tool_call": {"name": "execute", "arguments": {"query": "SELECT Id FROM'
    return _stuck(scene, AgentSaid(text), {"text": text})


def task_failed(scene: CrmScene) -> Planted | None:
    """Its A2A task ends as failed."""
    return _stuck(scene, Fails("failed"), {"state": "failed"})


def infrastructure(scene: CrmScene) -> Planted | None:
    """The agent does all right; its answers do not arrive."""
    return Planted((*scene.course.lines, _answer(scene.course.answer)), {"fault": "delivery"}, blame="infrastructure")
