"""The form of CRMArena's published agents, read exactly as its own code reads it.

``<execute>QUERY</execute>`` or ``<respond>ANSWER</respond>``: the first pair of tags with something in it counts, a
query before an answer; nothing else does. How to reply stands in the briefing, which is upstream's own text.
"""

from __future__ import annotations

from collections.abc import Sequence

from pytest_a2a_bench.model import Briefing, DialectFinding, Event, Part, ToolCall, ToolSpec, UserSaid
from pytest_a2a_bench.model.bounds import DEFAULT_BOUNDS, Bounds
from pytest_a2a_bench.translate.base import DecodedReply, DecodedRequest
from pytest_a2a_bench.translate.event_marks import labelled
from pytest_a2a_bench.translate.org_actions import EXECUTE, RESPOND, TOOLS
from pytest_a2a_bench.translate.org_dialects import TagsDialect, refuse_other_tools

_ARGUMENT = {EXECUTE: "query", RESPOND: "answer"}
_RAW = 500


class OfficialDialect(TagsDialect):
    """See the module's docstring."""

    name = "crm_official"

    def encode_request(self, briefing: Briefing | None, events: Sequence[Event]) -> tuple[Part, ...]:
        """Write one text part: the briefing and a blank line before the first words, as for models without roles."""
        text = "\n\n".join(labelled(event)[1] for event in events)
        if briefing is None:
            return (Part.of_text(text),)
        refuse_other_tools(self.name, briefing)
        return (Part.of_text(f"{briefing.policy}\n\n{text}"),)

    def decode_reply(
        self, parts: Sequence[Part], tools: Sequence[ToolSpec], bounds: Bounds = DEFAULT_BOUNDS
    ) -> DecodedReply:
        """Read one action; several text parts are one text."""
        text = "".join(part.text for part in parts if part.kind == "text")[: bounds.bytes].strip()
        for name, argument in _ARGUMENT.items():
            payload = _inside(text, name)
            if payload:
                return DecodedReply(calls=(ToolCall(name, {argument: payload}),), dialect=self.name)
        finding = DialectFinding("prose-where-action-asked", "the reply has no pair of tags", text[:_RAW])
        return DecodedReply(text or None, findings=(finding,))

    def decode_request(self, parts: Sequence[Part]) -> DecodedRequest:
        """Read a request; what stands behind the last blank line of a first message is the question."""
        text = "".join(part.text for part in parts if part.kind == "text")
        if is_first(text):
            policy, _, question = text.rpartition("\n\n")
            return DecodedRequest(Briefing(policy, TOOLS), (UserSaid(question),))
        return super().decode_request(parts)


def _inside(text: str, tag: str) -> str:
    """Return what stands in the first pair of tags, as a lazy regular expression finds it, in linear time."""
    _, opened, rest = text.partition(f"<{tag}>")
    inside, closed, _ = rest.partition(f"</{tag}>")
    return inside.strip() if opened and closed else ""


OFFICIAL = OfficialDialect()
"""Not among the dialects, of which a user may choose one: the profile decides about it."""


def is_first(text: str) -> bool:
    """Tell whether a text explains both tags, as upstream's instructions do."""
    return f"</{EXECUTE}>" in text and f"</{RESPOND}>" in text and "\n\n" in text
