"""The dialects of CRMArena's tasks: bare text or JSON, one query or one answer per reply.

``crm_action`` asks for ``{"action": "execute", "query": ...}`` or ``{"action": "respond", "answer": ...}``;
``execute_tags`` for ``<execute>...</execute>`` or ``<respond>...</respond>``, as CRMArena's own agents write them.
There the words of the user and the org's output are sent as they are. ``crm_observation`` is ``crm_action`` with what
agents of AgentBeats' CRMArena wait for: ``Observation: ...`` and ``What is your next action?``. ``crm_entropic`` has no
queries.
``crm_official`` and ``crm_official_tools``, which the profile ``official`` chooses, read replies as upstream's parsers
do: the first pair of tags with something in it counts, a query before an answer; the agent with tools writes
``Action: TOOL`` and ``Action Input: {...}``. Their briefing is upstream's own text.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from pytest_a2a_bench.benchmarks.crmarena import ORG_DIALECTS
from pytest_a2a_bench.benchmarks.crmarena.actions import (
    ASK,
    EXECUTE,
    OUTPUT_LABEL,
    RESPOND,
    TOOLS,
    answer_text,
    is_about_org,
    read_org_reply,
)
from pytest_a2a_bench.config.settings import DIALECTS
from pytest_a2a_bench.dialects.reading import DecodedReply, DecodedRequest
from pytest_a2a_bench.dialects.serialization import (
    BROKEN,
    MAX_TEXT,
    Piece,
    join_pieces,
    labelled,
    parse_json,
    read_literal,
    read_marks,
)
from pytest_a2a_bench.dialects.tool_call import lists_tools
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
from pytest_a2a_bench.model.messages import DEFAULT_BOUNDS, Bounds

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

AUTO_HOW = """\
How to answer: with one JSON object and nothing around it.
To run a query: {"action": "execute", "query": "YOUR QUERY"}
To answer the user: {"action": "respond", "answer": ["VALUE", ...]}, or your words in place of the list
Calls of the two tools above are read as well. Plain text reaches nobody. What a query finds is in the next message."""

OBSERVATION = "Observation: "
_NEXT = "What is your next action?"

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
    form = "crm_action"
    how = ACTION_HOW
    prose_allowed = False

    def encode_request(self, briefing: Briefing | None, events: Sequence[Event]) -> tuple[Part, ...]:
        """Write one text part; raises ConfigurationError if the agent is to have other tools than the two actions."""
        head = ""
        if briefing is not None:
            refuse_other_tools(self.name, briefing)
            head = f"{briefing.policy}\n\n{self.how}{_QUESTION}"
        return (self._join(head, events),)

    def _join(self, head: str, events: Sequence[Event]) -> Part:
        labels = ((label if len(events) > 1 else "", text) for label, text in map(labelled, events))
        pieces = [Piece(label, text, event) for (label, text), event in zip(labels, events, strict=True)]
        return join_pieces(head, pieces, "\n\n")

    def decode_reply(
        self, parts: Sequence[Part], tools: Sequence[ToolSpec], bounds: Bounds = DEFAULT_BOUNDS
    ) -> DecodedReply:
        """Read one action."""
        return self._judged(read_org_reply(parts, self.form, prose_allowed=self.prose_allowed, bounds=bounds))

    def _judged(self, found: DecodedReply) -> DecodedReply:
        return found

    def decode_request(self, parts: Sequence[Part]) -> DecodedRequest:
        """Read a message of :meth:`encode_request`."""
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

    def recognises(self, parts: Sequence[Part]) -> bool:
        """Return whether a request is written in this dialect: of two that are quoted the first one counts."""
        for part in parts:
            hits = [(part.text.find(f"\n{d.how}{_QUESTION}"), d.name) for d in (ActionDialect, TagsDialect)]
            at, name = min((hit for hit in hits if hit[0] >= 0), default=(0, ""))
            if name == self.name and not lists_tools(part.text[:at]):
                return True
        return False

    def encode_reply(self, reply: AgentSaid) -> tuple[Part, ...]:
        """Write the first call; words alone stay words, which the other side takes for a bad format."""
        return (Part.of_text(self._write(reply.calls[0]) if reply.calls else reply.text or ""),)

    def reminder(self) -> tuple[Part, ...]:
        """Return the format."""
        return (Part.of_text(_UNREADABLE + self.how),)

    def _write(self, call: ToolCall) -> str:
        key, value = payload(call)
        return json.dumps({"action": call.name, key: value, **({"id": call.id} if call.id else {})}, ensure_ascii=False)


class AnyForm(ActionDialect):
    """The reader of replies for ``auto``, where no form was asked for, so that none is a finding."""

    name = form = "auto"
    prose_allowed = True

    def is_made_for(self, tools: Sequence[ToolSpec]) -> bool:
        """Return whether tools are the two actions of an org."""
        return is_about_org(tools)

    def explain(self, tools: Sequence[ToolSpec]) -> str:
        """Return how to answer, in the form that agents without tools can write; it has no place for a colleague."""
        return "" if ASK in (tool.name for tool in tools) else AUTO_HOW

    def _judged(self, found: DecodedReply) -> DecodedReply:
        return replace(found, findings=tuple(f for f in found.findings if f.rule != "other-dialect"))


class TagsDialect(ActionDialect):
    """See the module's docstring."""

    name = form = "execute_tags"
    how = TAGS_HOW
    prose_allowed = True

    def _write(self, call: ToolCall) -> str:
        return f"<{call.name}> {payload(call)[1]} </{call.name}>"


class ObservationDialect(ActionDialect):
    """See the module's docstring."""

    name = "crm_observation"

    def _join(self, head: str, events: Sequence[Event]) -> Part:
        first = list(events[:1]) if head else []
        pieces = [Piece("", labelled(event)[1], event) for event in first]
        for event in events[len(first) :]:
            label, text = labelled(event)
            label = label if isinstance(event, AgentSaid) else OBSERVATION
            pieces.append(Piece(label, text.removeprefix(OUTPUT_LABEL), event))
        part = join_pieces(head, pieces, "\n\n")
        return part if len(pieces) == len(first) else replace(part, text=f"{part.text}\n\n{_NEXT}")


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
            f"choose {', '.join(name for name in DIALECTS if name not in ORG_DIALECTS)}"
        )


def _split(head: str, how: str) -> tuple[str | None, str]:
    policy, marker, rest = head.rpartition(f"\n\n{how}{_QUESTION}")
    return (policy, rest) if marker else (None, head)


def _bare_events(text: str) -> list[Event]:
    if text.startswith((OUTPUT_LABEL, OBSERVATION)):
        return [ToolReturned("", EXECUTE, text)]
    return [UserSaid(text)] if text else []


class EntropicDialect(ActionDialect):
    """One task in, one answer out, both JSON; the agent brings its own access to the data.

    The request is ``{"type": "crm_task", "task_id", "task_category", "prompt", "persona", "required_context", "config",
    "entropy"}``, the answer ``{"task_id", "answer"}``. There are no queries in this format. One that comes all the same
    is carried out as in any other dialect, and is a finding.
    """

    name = form = "crm_entropic"

    def encode_request(self, briefing: Briefing | None, events: Sequence[Event]) -> tuple[Part, ...]:
        """Write one text part that is a JSON object.

        :raises ConfigurationError: if the agent is to have other tools than the two actions.
        """
        said = list(map(labelled, events))
        prompt = said[0][1] if len(said) == 1 else "\n\n".join(map("".join, said))
        if briefing is None:
            return (Part.of_text(_dump({"type": _MESSAGE, "prompt": prompt})),)
        refuse_other_tools(self.name, briefing)
        facts = briefing.facts
        config = {"instructions": briefing.policy, "answer_format": _FORMAT}
        config |= {key: facts[key] for key in _IN_CONFIG if key in facts}
        body = {"type": _TASK, **{key: facts.get(key, "") for key in _OWN}, "prompt": prompt, "config": config}
        return (Part.of_text(_dump({**body, "entropy": facts.get("entropy", {})})),)

    def _judged(self, found: DecodedReply) -> DecodedReply:
        # A text that is no JSON is the answer itself.
        if not found.calls and found.text and not found.unreadable:
            return replace(found, text=None, calls=(ToolCall(RESPOND, {"answer": found.text.strip()}),))
        if not found.calls or found.calls[0].name == RESPOND:
            return found
        message = "the crm_entropic dialect has no queries: the agent brings its own data"
        finding = DialectFinding("query-where-answer-asked", message, str(found.calls[0].arguments)[:2000])
        return replace(found, findings=(*found.findings, finding))

    def decode_request(self, parts: Sequence[Part]) -> DecodedRequest:
        """Read a message of :meth:`encode_request`."""
        briefing: Briefing | None = None
        events: list[Event] = []
        for part in parts:
            body = _read_body(part)
            if body is None:
                events += [UserSaid(part.text)] if part.kind == "text" and part.text else []
                continue
            if body["type"] == _TASK:
                briefing = _briefing(body)
            if isinstance(body.get("prompt"), str) and body["prompt"]:
                events.append(UserSaid(body["prompt"]))
        return DecodedRequest(briefing, tuple(events))

    def recognises(self, parts: Sequence[Part]) -> bool:
        """Return whether a request is written in this dialect."""
        return any(_read_body(part) is not None for part in parts)

    def reminder(self) -> tuple[Part, ...]:
        """Return the form of an answer."""
        return (Part.of_text(_dump({"type": _MESSAGE, "prompt": _REMINDER})),)

    def _write(self, call: ToolCall) -> str:
        key, value = payload(call)
        # A query has no form here: it is written as an action, for the other side to complain.
        return _dump(
            {"task_id": call.id, "answer": value} if call.name == RESPOND else {"action": call.name, key: value}
        )


def _read_body(part: Part) -> Mapping[str, Any] | None:
    """Return the JSON object of a request in the entropic dialect, or None if it is something else."""
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


def _dump(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


_RAW = 500


class OfficialDialect(TagsDialect):
    """The agent without tools, which writes tags."""

    name = "crm_official"
    other_tools = False
    problem = "the reply has no pair of tags"

    def encode_request(self, briefing: Briefing | None, events: Sequence[Event]) -> tuple[Part, ...]:
        """Write one text part: the briefing and a blank line before the first words, as for models without roles."""
        text = "\n\n".join(labelled(event)[1] for event in events)
        if briefing is None:
            return (Part.of_text(text),)
        if not self.other_tools:
            refuse_other_tools(self.name, briefing)
        return (Part.of_text(f"{briefing.policy}\n\n{text}"),)

    def decode_reply(
        self, parts: Sequence[Part], tools: Sequence[ToolSpec], bounds: Bounds = DEFAULT_BOUNDS
    ) -> DecodedReply:
        """Read one action; several text parts are one text, and a text that is no action is left as it is."""
        text = "".join(part.text for part in parts if part.kind == "text")[: bounds.bytes].strip()
        call = self._read(text)
        if call is not None:
            return DecodedReply(calls=(call,), dialect=self.name)
        finding = DialectFinding("prose-where-action-asked", self.problem, text[:_RAW])
        return DecodedReply(text or None, findings=(finding,))

    def _read(self, text: str) -> ToolCall | None:
        for name, argument in ((EXECUTE, "query"), (RESPOND, "answer")):
            # What stands in the first pair of tags, as a lazy regular expression finds it, in linear time.
            _, opened, rest = text.partition(f"<{name}>")
            inside, closed, _ = rest.partition(f"</{name}>")
            if opened and closed and inside.strip():
                return ToolCall(name, {argument: inside.strip()})
        return None

    def decode_request(self, parts: Sequence[Part]) -> DecodedRequest:
        """Read a request; the text behind the last blank line of a first message is the question."""
        text = "".join(part.text for part in parts if part.kind == "text")
        if self.recognises(parts):
            policy, _, question = text.rpartition("\n\n")
            return DecodedRequest(Briefing(policy, TOOLS), (UserSaid(question),))
        return super().decode_request(parts)

    def recognises(self, parts: Sequence[Part]) -> bool:
        """Return whether a text explains both tags, as upstream's instructions do."""
        texts = [part.text for part in parts if part.kind == "text"]
        return any(f"</{EXECUTE}>" in text and f"</{RESPOND}>" in text and "\n\n" in text for text in texts)


_ACTION = re.compile(r"Action:\s*(\w+)")
_INPUT = "Action Input:"
_FENCE = re.compile(r"```(?:json\s*+)?\n*(?=\{)")
_FENCE_END = re.compile(r"\}\n*```")
_LONGEST_LITERAL = 2**20


def read_tool_action(text: str) -> tuple[str, Any] | None:
    """Read the reply of an agent with tools, as upstream's parser does: a tool's name and its arguments.

    :return: None where it is no call; a text that speaks of no action at all is a call of ``respond``, whose arguments
        are that text. Arguments may be of any JSON type: they are not validated yet.
    """
    text = text.strip()
    if "Action:" not in text:
        return (RESPOND, text) if text else None
    named = _ACTION.search(text)
    _, given, after = text.partition(_INPUT)
    if named is None or not given:
        return None
    # Text after a second label is ignored.
    written = after.partition(_INPUT)[0].strip()
    try:
        value = _read_value(written)
        # Through JSON, as upstream hands it on: tuples become lists, and keys strings.
        return None if value is None else (named[1], json.loads(json.dumps(value)))
    except (ValueError, TypeError, SyntaxError, RecursionError, MemoryError):
        return None


def _read_value(text: str) -> Any:
    # The object in the first code fence, as a lazy regular expression finds it, in linear time.
    opened = _FENCE.search(text)
    closed = _FENCE_END.search(text, opened.end()) if opened else None
    text = text[opened.end() : closed.start() + 1] if opened and closed else text
    try:
        return json.loads(text)
    except json.JSONDecodeError:
        # Python's parser takes a hundred times the text in memory.
        if len(text) > _LONGEST_LITERAL:
            raise
        return read_literal(text)


class OfficialToolsDialect(OfficialDialect):
    """The agent with tools, which writes its calls as text; the briefing has described the tools already."""

    name = "crm_official_tools"
    other_tools = True
    problem = "the reply is no action with an input"

    def _read(self, text: str) -> ToolCall | None:
        # Arguments that no call can have are left as text.
        action = read_tool_action(text)
        return ToolCall(*action) if action is not None and isinstance(action[1], Mapping) else None


ACTION, OBSERVING, TAGS, ENTROPIC = ActionDialect(), ObservationDialect(), TagsDialect(), EntropicDialect()
OFFICIAL, OFFICIAL_TOOLS = OfficialDialect(), OfficialToolsDialect()
ANY_FORM = AnyForm()
