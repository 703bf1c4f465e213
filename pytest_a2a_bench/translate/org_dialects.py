"""The ``crm_action`` and ``execute_tags`` dialects: bare text, one query or one answer per reply.

``crm_action`` asks for ``{"action": "execute", "query": ...}`` or ``{"action": "respond", "answer": ...}``;
``execute_tags`` for ``<execute>...</execute>`` or ``<respond>...</respond>``, as CRMArena's own agents write them.
The words of the user and the org's output are sent as they are.
"""

from __future__ import annotations

import json
from collections.abc import Sequence

from pytest_a2a_bench.errors import ConfigurationError
from pytest_a2a_bench.model import AgentSaid, Briefing, Event, Part, ToolCall, ToolReturned, ToolSpec, UserSaid
from pytest_a2a_bench.settings import ORG_DIALECTS
from pytest_a2a_bench.translate.base import DecodedReply, DecodedRequest
from pytest_a2a_bench.translate.foreign import labelled
from pytest_a2a_bench.translate.marks import Piece, join_pieces, read_marks
from pytest_a2a_bench.translate.org_actions import EXECUTE, TOOLS, answer_text, is_about_org
from pytest_a2a_bench.translate.org_reading import read_org_reply

OUTPUT_LABEL = "Salesforce instance output: "
"""How an observation begins."""

_QUESTION = "\n\n# Question\n"
_UNREADABLE = "Your last reply could not be read as a query or an answer; nothing was done with it.\n\n"

ACTION_HOW = """\
# How to reply: one JSON object, nothing around it
To run a query: {"action": "execute", "query": "YOUR SOQL OR SOSL"}
To answer: {"action": "respond", "answer": "YOUR ANSWER"}"""

TAGS_HOW = """\
# How to reply: one tagged action
To run a query: <execute> YOUR SOQL OR SOSL </execute>
To answer: <respond> YOUR ANSWER </respond>
You may think aloud before it, on one line: <thought> YOUR THOUGHT </thought>"""


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

    def decode_reply(self, parts: Sequence[Part], tools: Sequence[ToolSpec]) -> DecodedReply:
        """Read one action."""
        return read_org_reply(parts, self.name, prose_allowed=self.prose_allowed)

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
