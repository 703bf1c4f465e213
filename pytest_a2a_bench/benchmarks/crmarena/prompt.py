"""The texts of a task: the facts that its agent needs before the first query, and its simulated user's words.

The agent's message carries what upstream's system prompt carries (role, objects and fields, the task's required
details, in aided mode the domain's optional ones, how to act, how many turns there are), in words of our own. How an
action is written belongs to the dialect, which adds it; see :mod:`pytest_a2a_bench.benchmarks.crmarena.actions`.

No simulated user knows the gold answer. The scripted one is deterministic: it tells its question in pieces, answers
what it is asked back with fixed lines, and is done when it has heard an answer to the whole question.
"""

from __future__ import annotations

import dataclasses
import re
import textwrap
from collections.abc import Callable, Sequence

from pytest_a2a_bench.benchmarks.base import Seat
from pytest_a2a_bench.benchmarks.conversation import Conversation
from pytest_a2a_bench.benchmarks.crmarena.actions import RESPOND, TOOLS, asking_tool
from pytest_a2a_bench.benchmarks.crmarena.org import OrgSchema
from pytest_a2a_bench.benchmarks.crmarena.tasks import CrmTask
from pytest_a2a_bench.benchmarks.models import BEGIN, STOP
from pytest_a2a_bench.benchmarks.participants import blamed, trouble
from pytest_a2a_bench.model import Briefing, UserSaid
from pytest_a2a_bench.model.messages import Bounds

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
  message.
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
        _render_schema(schema),
    ]
    if task.required.strip():
        sections.append(f"# What you need to know for this task\n{_dedent(task.required)}")
    # Only on request, as in upstream's aided mode.
    if aided and task.optional.strip():
        sections.append(f"# More about this domain\n{_dedent(task.optional)}")
    return "\n\n".join(sections)


def _render_schema(schema: OrgSchema) -> str:
    """Write the objects of the org, each with its fields and their meaning."""
    lines = ["# The org's objects", ", ".join(sobject.name for sobject in schema.objects), "", "# Their fields"]
    for sobject in schema.objects:
        fields = (f"  - {f.name}: {f.description}" if f.description else f"  - {f.name}" for f in sobject.fields)
        lines += [sobject.name, *fields]
    return "\n".join(lines)


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
    # The task's details as fields, for the dialect that sends them as such. The gold is not among them.
    facts = {
        "task_id": task.task_id,
        "task_category": task.category,
        "persona": task.persona,
        "required_context": task.required,
        "optional_context": task.optional if aided else "",
        "org_type": domain,
    }
    policy = render_policy(task, schema, aided=aided, max_turns=max_turns)
    return Briefing(policy, TOOLS, facts, speaking_tool=RESPOND)


def with_colleagues(briefing: Briefing, names: Sequence[str], questions: int) -> Briefing:
    """Return the part of the prompt about colleagues.

    :param names: of one or more.
    :param questions: how many it may ask.
    """
    count = "1 question" if questions == 1 else f"{questions} questions"
    note = (_COLLEAGUE if len(names) == 1 else _COLLEAGUES).format(name=" and ".join(names), count=count)
    tools = (*briefing.tools, asking_tool(names, questions))
    return dataclasses.replace(briefing, policy=f"{briefing.policy}\n\n{note}", tools=tools)


_MAX_PIECES = 3
_SENTENCE_END = re.compile(r"(?<=[.?!])\s+(?=[\"'(]?[A-Z0-9])")
_GREETING_STAFF = "Hello, I have something to find out and need your help."
_GREETING_CUSTOMER = "Hello, I am a customer of yours and have a question."
_NOTHING_TO_ADD = "I have told you all I know. Please go by that and give me your answer."
_SAID_ALREADY = "As I said: {query}"
_HEARD = "- What reaches you as the user's message is what the assistant says to you. You have no tools."


class ScriptedUser:
    """Says a greeting, then the question in at most three pieces, then answers the agent's questions, then stops.

    A message of the agent's that ends as a question, or that comes before the whole question was asked, is no answer.
    """

    kind = "scripted"

    def __init__(self, task: CrmTask) -> None:
        self._query = task.query.strip()
        self._pieces = split_query(task.query)
        self._greeting = _GREETING_CUSTOMER if task.kind.external else _GREETING_STAFF
        self._asked_back = 0

    def open(self) -> str:
        """Greet; the question comes when the agent has answered."""
        return self._greeting

    def hear(self, text: str) -> str | None:
        """Go on with the question, answer the agent's question, or be done."""
        if self._pieces:
            # Before the whole question was asked nothing can be an answer.
            return self._pieces.pop(0)
        if not asks_back(text):
            return None
        self._asked_back += 1
        return _SAID_ALREADY.format(query=self._query) if self._asked_back == 1 else _NOTHING_TO_ADD


def split_query(query: str) -> list[str]:
    """Cut a question into at most three pieces, between sentences; joined by spaces they are the question again."""
    sentences = [s for s in _SENTENCE_END.split(query.strip()) if s]
    if len(sentences) <= _MAX_PIECES:
        return sentences
    return [*sentences[: _MAX_PIECES - 1], " ".join(sentences[_MAX_PIECES - 1 :])]


def asks_back(text: str) -> bool:
    """Return whether words end in a question."""
    # Closing quotes and Markdown may stand behind a question mark.
    return text.rstrip(" \n\t\"')*_`").endswith("?")


class AgentUser:
    """An A2A agent that plays the task's persona: with a model's prompt, and it stops as a model does.

    :param before_turn: called before each request; raises to stop the trial.
    """

    kind = "a2a"

    def __init__(self, task: CrmTask, seat: Seat, before_turn: Callable[[], float], bounds: Bounds) -> None:
        self._seat = seat
        briefing = Briefing(f"{write_instructions(task)}\n{_HEARD}")
        self._conversation = Conversation(
            session=seat.session, briefing=briefing, before_turn=before_turn, bounds=bounds, strict=True
        )
        seat.conversations.append(self._conversation)

    def open(self) -> str:
        """Let the agent begin; raises InfrastructureError if it cannot, or stops before it has asked anything."""
        words = self.hear(BEGIN)
        if words is None:
            raise trouble(self._seat, "it stopped before it asked anything")
        return words

    def hear(self, text: str) -> str | None:
        """Let the agent answer the tested agent's words; None once it says that it is done.

        :raises InfrastructureError: if it cannot be reached, gives up, or its answer cannot be read.
        """
        with blamed(self._seat):
            said = self._conversation.ask([UserSaid(text)])
        if said.calls:
            raise trouble(self._seat, f"it calls {said.calls[0].name!r}, and a user of this benchmark has no tools")
        words = (said.text or "").strip()
        return None if STOP in words else words


def write_instructions(task: CrmTask) -> str:
    """Write the model's prompt: its person, its request, and when it is done."""
    who = "a customer of the company" if task.kind.external else "an employee of the company"
    return f"""\
You play {who} who talks to an assistant. Stay in this role whatever the assistant says.

Who you are:
{task.persona or "Somebody with little time and a plain way of speaking."}

What you want to know:
{task.query}

How you talk:
- Begin with a short message; bring in the details of your question over two or three messages, or when asked.
- Never invent a detail that is not given above. Where you are asked for one that you do not have, say so.
- Never answer your own question.
- Ask for nothing beyond what you want to know.
- Once the assistant has given you its final answer, or has clearly declined to, reply with {STOP} and nothing else."""
