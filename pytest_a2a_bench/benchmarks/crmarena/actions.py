"""What an agent may do in a CRM task, how its words are read as that, and what it is told of a query's outcome."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pytest_a2a_bench.benchmarks.crmarena.org.base import OrgError, QueryResult
from pytest_a2a_bench.model import AgentSaid, ToolCall
from pytest_a2a_bench.translate.org_actions import ASK, EXECUTE, RESPOND, answer_text, strip_fence
from pytest_a2a_bench.translate.org_dialects import OUTPUT_LABEL

# Names that models give the argument, although the tool's schema has another one: the words count.
_QUERY_KEYS = ("query", "content", "soql", "sosl", "q", "input", "text")
_ANSWER_KEYS = ("answer", "content", "message", "text", "response", "answers")


@dataclass(frozen=True, slots=True)
class Execute:
    """Run a query. ``call_id`` is that of the tool call, where there was one."""

    query: str
    call_id: str = ""


@dataclass(frozen=True, slots=True)
class Respond:
    """Give the answer (or, in an interactive task, speak to the user)."""

    answer: str
    call_id: str = ""


@dataclass(frozen=True, slots=True)
class Ask:
    """Ask a colleague a question."""

    name: str
    question: str
    call_id: str = ""


@dataclass(frozen=True, slots=True)
class BadFormat:
    """Neither of the two: it costs a turn, and the agent is told the format.

    :param reason: what is wrong, for people.
    """

    reason: str
    call_id: str = ""


Action = Execute | Respond | Ask | BadFormat


def read_action(said: AgentSaid) -> Action:
    """Read what the agent said as one action. The first readable call counts; words alone are no action."""
    if not said.calls:
        return BadFormat("the reply is neither a query nor an answer")
    actions = [_read_call(call) for call in said.calls]
    # One bad call among good ones is no reason to lose a turn.
    return next((a for a in actions if not isinstance(a, BadFormat)), actions[0])


def _read_call(call: ToolCall) -> Action:
    name = call.name.strip().lower()
    if name == EXECUTE:
        query = _find(call.arguments, _QUERY_KEYS)
        if isinstance(query, str) and query.strip():
            return Execute(strip_fence(query), call.id)
        return BadFormat(f"a call of {EXECUTE} without a query", call.id)
    if name == RESPOND:
        answer = answer_text(_find(call.arguments, _ANSWER_KEYS))
        if answer is not None and answer.strip():
            return Respond(unwrap(answer), call.id)
        return BadFormat(f"a call of {RESPOND} without an answer", call.id)
    if name == ASK:
        whom, question = call.arguments.get("name"), call.arguments.get("question")
        if isinstance(question, str) and question.strip():
            return Ask(whom.strip() if isinstance(whom, str) else "", question.strip(), call.id)
        return BadFormat(f"a call of {ASK} without a question", call.id)
    return BadFormat(f"there is no action {json.dumps(call.name[:80])}", call.id)


def unwrap(answer: str) -> str:
    """Return what an answer that is ``{"answer": [...]}`` and nothing else says, joined; another answer as it is."""
    text = strip_fence(answer)
    if not text.startswith("{"):
        return answer.strip()
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return answer.strip()
    inside = answer_text(value["answer"]) if isinstance(value, dict) and set(value) == {"answer"} else None
    return inside.strip() if inside and inside.strip() else answer.strip()


def _find(arguments: Mapping[str, Any], keys: tuple[str, ...]) -> Any:
    for key in keys:
        if key in arguments:
            # A null answer is the answer None.
            return arguments[key] if arguments[key] is not None else "None"
    # With a single argument its name does not matter.
    return next(iter(arguments.values()), "") if len(arguments) == 1 else ""


_ATTRIBUTES = "attributes"


def visible_records(records: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return records as the agent sees them: without ``attributes`` and without columns that are null in all of them.

    Only the outermost level is tidied, as upstream does: nested parents and children keep their ``attributes``.
    A column counts if the first record has it; upstream's records all have the same columns.
    """
    columns = [key for key in (records[0] if records else ()) if key != _ATTRIBUTES]
    empty = {key for key in columns if all(record.get(key) is None for record in records)}
    return [{k: v for k, v in record.items() if k != _ATTRIBUTES and k not in empty} for record in records]


def render_result(result: QueryResult) -> str:
    """Write what a query found, never truncated.

    ``SELECT COUNT()`` has no records, so it reads ``[]`` as upstream's does, although the prompt cannot say so without
    giving a query away; agents count with ``COUNT(Id)``.
    """
    # As a Python list, which is how upstream's agents see it; the solver reads it back.
    return f"{OUTPUT_LABEL}{visible_records(result.records)}"


def render_error(error: OrgError) -> str:
    """Write why the org refuses a query: ``{code}: {message}``."""
    return f"{OUTPUT_LABEL}{error.code}: {error.message}"
