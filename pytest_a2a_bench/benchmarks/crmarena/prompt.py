"""The task message: everything an agent must know before its first query, with no prior knowledge of the benchmark.

It carries what upstream's system prompt carries (role, objects and fields, the task's required details, in aided mode
the domain's optional ones, how to act, how many turns there are), in words of our own. How an action is written belongs
to the dialect, which adds it; see :mod:`pytest_a2a_bench.benchmarks.crmarena.actions`.
"""

from __future__ import annotations

import dataclasses
import textwrap
from collections.abc import Iterable, Sequence
from typing import Any

from pytest_a2a_bench.benchmarks.crmarena.actions import RESPOND, TOOLS, asking_tool
from pytest_a2a_bench.benchmarks.crmarena.org.schema import OrgSchema, SObject
from pytest_a2a_bench.benchmarks.crmarena.tasks import CrmTask
from pytest_a2a_bench.model import Briefing

MAX_TURNS = 20
"""How many replies an agent has before the conversation ends, as upstream."""

_INTERNAL = "You work on a Salesforce org for one of the company's own employees, who has a question about its records."
_EXTERNAL = (
    "You work on a Salesforce org for a customer of the company: a person from outside, who asks you a question. "
    "You can read the whole org; the customer cannot."
)
_HOW_TO_WORK = """\
# How to work
- Query the org as often as you need: SOQL (SELECT ... FROM ...) for records, SOSL (FIND {words} IN ALL FIELDS
  RETURNING Object(Field, ...)) to search texts. A query only reads. What it finds, or why it failed, is in the next
  message, after "Salesforce instance output: ".
- Say one thing per reply: one query, or the answer. Do not write the org's output yourself.
- Anything else costs a turn. You have {turns} turns."""
_ANSWER_ONCE = """\
- Your answer ends the task. Write it as {"answer": ["VALUE", ...]}, with all values asked for and nothing else;
  {"answer": []} says that there is none. Without JSON, give the values alone, separated by commas, or None: a full
  sentence may be misread."""
_ANSWER_OR_ASK = """\
- Answer to speak to the user: to give the result, or to ask back where the request is unclear or lacks something.
- Give a result as {"answer": ["VALUE", ...]}, with all values that are asked for; {"answer": []} says that there is
  none. Without JSON, separate several values with commas; if no record fits, say None."""


_COLLEAGUE = """\
# Your colleague
You may ask your colleague {name}, an agent as you are: ask_agent with its name and up to {count}. It does not see this
task or the org: write all that it needs into the question. Each question is one reply of yours and costs a turn."""
_COLLEAGUES = """\
# Your colleagues
You may ask your colleagues {name}, agents as you are: ask_agent with the name of one and up to {count} in all. They see
neither this task nor the org nor each other: write all that one needs into the question. Each question is one reply of
yours and costs a turn."""


def render_policy(task: CrmTask, schema: OrgSchema, *, aided: bool = False, max_turns: int = MAX_TURNS) -> str:
    """Write everything but the question and the form of an action.

    :param aided: show the optional domain details too.
    :param max_turns: replies that the agent has.
    """
    sections = [
        _EXTERNAL if task.kind.external else _INTERNAL,
        # replace and not format: the text has braces of SOSL in it.
        _HOW_TO_WORK.replace("{turns}", str(max_turns)) + "\n" + (_ANSWER_OR_ASK if task.interactive else _ANSWER_ONCE),
        render_schema(schema),
    ]
    if task.required.strip():
        sections.append(f"# What you need to know for this task\n{_dedent(task.required)}")
    # Only on request, as in upstream's aided mode.
    if aided and task.optional.strip():
        sections.append(f"# More about this domain\n{_dedent(task.optional)}")
    return "\n\n".join(sections)


def render_schema(schema: OrgSchema) -> str:
    """Write the objects of the org, each with its fields and what they mean."""
    names = ", ".join(sobject.name for sobject in schema.objects)
    return "\n".join([f"# The org's objects\n{names}", "", "# Their fields", *_objects(schema.objects)])


def _objects(objects: Iterable[SObject]) -> Iterable[str]:
    for sobject in objects:
        yield sobject.name
        for field in sobject.fields:
            yield f"  - {field.name}: {field.description}" if field.description else f"  - {field.name}"


def _dedent(text: str) -> str:
    """Take off the indentation of the published texts: it means nothing, and Markdown reads it as code."""
    lines = textwrap.dedent(text.strip("\n")).strip().splitlines()
    return "\n".join(line.rstrip() for line in lines)


def brief(
    task: CrmTask, schema: OrgSchema, *, domain: str = "", aided: bool = False, max_turns: int = MAX_TURNS
) -> Briefing:
    """Make the part of the prompt before the question.

    :param domain: for dialects that name the org (``crm_entropic``).
    """
    return Briefing(
        render_policy(task, schema, aided=aided, max_turns=max_turns),
        TOOLS,
        facts(task, domain, aided=aided),
        speaking_tool=RESPOND,
    )


def with_colleagues(briefing: Briefing, names: Sequence[str], questions: int) -> Briefing:
    """Return the part of the prompt about colleagues.

    :param names: of one or more.
    :param questions: how many it may ask.
    """
    count = "1 question" if questions == 1 else f"{questions} questions"
    told = (_COLLEAGUE if len(names) == 1 else _COLLEAGUES).format(name=" and ".join(names), count=count)
    tools = (*briefing.tools, asking_tool(names, questions))
    return dataclasses.replace(briefing, policy=f"{briefing.policy}\n\n{told}", tools=tools)


def facts(task: CrmTask, domain: str, *, aided: bool) -> dict[str, Any]:
    """Return the task's details as fields, for the dialect that sends them as such. The gold is not among them."""
    return {
        "task_id": task.task_id,
        "task_category": task.category,
        "persona": task.persona,
        "required_context": task.required,
        "optional_context": task.optional if aided else "",
        "org_type": domain,
    }
