"""The dialects of CRMArena's tasks: bare text or JSON, one query or one answer per reply.

``crm_action`` asks for ``{"action": "execute", "query": ...}`` or ``{"action": "respond", "answer": ...}``;
``execute_tags`` for ``<execute>...</execute>`` or ``<respond>...</respond>``, as CRMArena's own agents write them.
There the words of the user and the org's output are sent as they are. ``crm_entropic`` has no queries.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from pytest_a2a_bench.errors import ConfigurationError
from pytest_a2a_bench.model import (
    AgentSaid,
    Briefing,
    DialectFinding,
    Event,
    Part,
    ToolCall,
    ToolReturned,
    ToolSpec,
    UserSaid,
)
from pytest_a2a_bench.model.bounds import DEFAULT_BOUNDS, Bounds
from pytest_a2a_bench.translate.base import DecodedReply, DecodedRequest
from pytest_a2a_bench.translate.json_blocks import BROKEN, MAX_TEXT, parse_json
from pytest_a2a_bench.translate.org_actions import (
    EXECUTE,
    ORG_DIALECTS,
    RESPOND,
    TOOLS,
    answer_text,
    is_about_org,
    read_org_reply,
)
from pytest_a2a_bench.translate.serialization import Piece, join_pieces, labelled, read_marks

OUTPUT_LABEL = "Salesforce instance output: "
"""How an observation begins."""

_QUESTION = "\n\n# Question\n"
_UNREADABLE = "Your last reply could not be read as a query or an answer; nothing was done with it.\n\n"

ACTION_HOW = """\
# How to reply: one JSON object, nothing around it
To run a query: {"action": "execute", "query": "YOUR SOQL OR SOSL"}
To answer: {"action": "respond", "answer": ["VALUE", ...]}, or your words in place of the list"""

TAGS_HOW = """\
# How to reply: one tagged action
To run a query: <execute> YOUR SOQL OR SOSL </execute>
To answer: <respond> {"answer": ["VALUE", ...]} </respond>, or your words in place of the object
You may think aloud before it, on one line: <thought> YOUR THOUGHT </thought>"""

_TASK = "crm_task"
_MESSAGE = "crm_message"
_OWN = ("task_id", "task_category", "persona", "required_context")
_IN_CONFIG = ("org_type", "optional_context")
_FORMAT = '{"task_id": "ID OF THE TASK", "answer": ["VALUE", ...]}'
_ENTROPIC_HOW = f"Reply with one JSON object: {_FORMAT}"
_REMINDER = f"Your last reply could not be read as an answer. {_ENTROPIC_HOW}"


class ActionDialect:
    """See the module's docstring."""

    name = "crm_action"
    how = ACTION_HOW
    prose_allowed = False

    def encode_request(self, briefing: Briefing | None, events: Sequence[Event]) -> tuple[Part, ...]:
        """Write one text part.

        :raises ConfigurationError: if the agent is to have other tools than the two actions.
        """
        head = ""
        if briefing is not None:
            refuse_other_tools(self.name, briefing)
            head = f"{briefing.policy}\n\n{self.how}{_QUESTION}"
        return (join_pieces(head, _pieces(events), "\n\n"),)

    def decode_reply(
        self, parts: Sequence[Part], tools: Sequence[ToolSpec], bounds: Bounds = DEFAULT_BOUNDS
    ) -> DecodedReply:
        """Read one action."""
        return read_org_reply(parts, self.name, prose_allowed=self.prose_allowed, bounds=bounds)

    def decode_request(self, parts: Sequence[Part]) -> DecodedRequest:
        """Read back what :meth:`encode_request` wrote."""
        briefing: Briefing | None = None
        events: list[Event] = []
        for part in parts:
            if part.kind != "text":
                continue
            marked = read_marks(part)
            policy, rest = _split(marked.head if marked else part.text, self.how)
            if policy is not None:
                briefing = Briefing(policy, TOOLS)
            events += marked.events if marked else _bare_events(rest)
        return DecodedRequest(briefing, tuple(events))

    def encode_reply(self, reply: AgentSaid) -> tuple[Part, ...]:
        """Write the first call; words alone stay words, which the other side takes for a bad format."""
        return (Part.of_text(self._write(reply.calls[0]) if reply.calls else reply.text or ""),)

    def reminder(self) -> tuple[Part, ...]:
        """Tell the format."""
        return (Part.of_text(_UNREADABLE + self.how),)

    def _write(self, call: ToolCall) -> str:
        key, value = payload(call)
        return json.dumps({"action": call.name, key: value, **({"id": call.id} if call.id else {})}, ensure_ascii=False)


class TagsDialect(ActionDialect):
    """See the module's docstring."""

    name = "execute_tags"
    how = TAGS_HOW
    prose_allowed = True

    def _write(self, call: ToolCall) -> str:
        return f"<{call.name}> {payload(call)[1]} </{call.name}>"


def payload(call: ToolCall) -> tuple[str, str]:
    """Return the argument that carries a call's words, and the words."""
    key = "query" if call.name == EXECUTE else "answer"
    value = call.arguments.get(key)
    if value is None:
        value = next(iter(call.arguments.values()), "")
    return key, answer_text(value) or ""


def refuse_other_tools(dialect: str, briefing: Briefing) -> None:
    """Raise if a briefing has other tools than the two actions.

    :raises ConfigurationError: naming the dialects that carry any tools.
    """
    if not is_about_org(briefing.tools):
        raise ConfigurationError(
            f"the dialect {dialect!r} has no way to write tools: {', '.join(ORG_DIALECTS)} are for CRMArena's tasks; "
            "choose auto, tool_call, agentbeats, sierra or data"
        )


def find_dialect(text: str) -> tuple[str, int] | None:
    """Return which of the two dialects a first message is written in, and where it says so; None if neither."""
    hits = [(text.find(f"\n{d.how}{_QUESTION}"), d.name) for d in (ActionDialect, TagsDialect)]
    found = [(at, name) for at, name in hits if at >= 0]
    return (min(found)[1], min(found)[0]) if found else None


def _split(head: str, how: str) -> tuple[str | None, str]:
    policy, marker, rest = head.rpartition(f"\n\n{how}{_QUESTION}")
    return (policy, rest) if marker else (None, head)


def _pieces(events: Sequence[Event]) -> list[Piece]:
    if len(events) > 1:
        return [Piece(*labelled(e), e) for e in events]
    return [Piece("", labelled(e)[1], e) for e in events]


def _bare_events(text: str) -> list[Event]:
    if text.startswith(OUTPUT_LABEL):
        return [ToolReturned("", EXECUTE, text)]
    return [UserSaid(text)] if text else []


class EntropicDialect:
    """One task in, one answer out, both JSON; the agent brings its own access to the data.

    The request is ``{"type": "crm_task", "task_id", "task_category", "prompt", "persona", "required_context", "config",
    "entropy"}``, the answer ``{"task_id", "answer"}``. There are no queries in this format. One that comes all the same
    is carried out as in any other dialect, and is a finding.
    """

    name = "crm_entropic"

    def encode_request(self, briefing: Briefing | None, events: Sequence[Event]) -> tuple[Part, ...]:
        """Write one text part that is a JSON object.

        :raises ConfigurationError: if the agent is to have other tools than the two actions.
        """
        prompt = _prompt(events)
        if briefing is None:
            return (Part.of_text(_dump({"type": _MESSAGE, "prompt": prompt})),)
        refuse_other_tools(self.name, briefing)
        facts = briefing.facts
        config = {"instructions": briefing.policy, "answer_format": _FORMAT}
        config |= {key: facts[key] for key in _IN_CONFIG if key in facts}
        body = {"type": _TASK, **{key: facts.get(key, "") for key in _OWN}, "prompt": prompt, "config": config}
        return (Part.of_text(_dump({**body, "entropy": facts.get("entropy", {})})),)

    def decode_reply(
        self, parts: Sequence[Part], tools: Sequence[ToolSpec], bounds: Bounds = DEFAULT_BOUNDS
    ) -> DecodedReply:
        """Read the answer; a text that is no JSON is the answer itself."""
        decoded = read_org_reply(parts, self.name, bounds=bounds)
        if not decoded.calls:
            return _take_words(decoded)
        if decoded.calls[0].name == RESPOND:
            return decoded
        message = "the crm_entropic dialect has no queries: the agent brings its own data"
        finding = DialectFinding("query-where-answer-asked", message, str(decoded.calls[0].arguments)[:2000])
        return replace(decoded, findings=(*decoded.findings, finding))

    def decode_request(self, parts: Sequence[Part]) -> DecodedRequest:
        """Read back what :meth:`encode_request` wrote."""
        briefing: Briefing | None = None
        events: list[Event] = []
        for part in parts:
            body = read_entropic_body(part)
            if body is None:
                events += [UserSaid(part.text)] if part.kind == "text" and part.text else []
                continue
            if body["type"] == _TASK:
                briefing = _briefing(body)
            if isinstance(body.get("prompt"), str) and body["prompt"]:
                events.append(UserSaid(body["prompt"]))
        return DecodedRequest(briefing, tuple(events))

    def encode_reply(self, reply: AgentSaid) -> tuple[Part, ...]:
        """Write the answer. A query has no form here; it is written as an action, for the other side to complain."""
        if not reply.calls:
            return (Part.of_text(reply.text or ""),)
        call = reply.calls[0]
        key, value = payload(call)
        if call.name == RESPOND:
            return (Part.of_text(_dump({"task_id": call.id, "answer": value})),)
        return (Part.of_text(_dump({"action": call.name, key: value})),)

    def reminder(self) -> tuple[Part, ...]:
        """Tell how an answer must look."""
        return (Part.of_text(_dump({"type": _MESSAGE, "prompt": _REMINDER})),)


def read_entropic_body(part: Part) -> Mapping[str, Any] | None:
    """Return the JSON object of a request in this dialect, or None if it is something else."""
    value: Any = part.data if part.kind == "data" else None
    if part.kind == "text" and len(part.text) <= MAX_TEXT and part.text.lstrip().startswith("{"):
        value = parse_json(part.text)
    if value is BROKEN or not isinstance(value, Mapping) or value.get("type") not in (_TASK, _MESSAGE):
        return None
    return value


def _briefing(body: Mapping[str, Any]) -> Briefing:
    config = body["config"] if isinstance(body.get("config"), Mapping) else {}
    facts = {key: body[key] for key in _OWN if key in body} | {k: config[k] for k in _IN_CONFIG if k in config}
    if body.get("entropy"):
        facts["entropy"] = body["entropy"]
    policy = config.get("instructions")
    if not isinstance(policy, str):
        policy = body["required_context"] if isinstance(body.get("required_context"), str) else ""
    return Briefing(policy, TOOLS, facts)


def _take_words(decoded: DecodedReply) -> DecodedReply:
    if decoded.unreadable or not decoded.text:
        return decoded
    return replace(decoded, text=None, calls=(ToolCall(RESPOND, {"answer": decoded.text.strip()}),))


def _prompt(events: Sequence[Event]) -> str:
    if len(events) == 1:
        return labelled(events[0])[1]
    return "\n\n".join("".join(labelled(e)) for e in events)


def _dump(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)
