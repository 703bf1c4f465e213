"""The ``crm_entropic`` dialect: one task in, one answer out, both JSON; the agent brings its own access to the data.

The request is ``{"type": "crm_task", "task_id", "task_category", "prompt", "persona", "required_context", "config",
"entropy"}``, the answer ``{"task_id", "answer"}``. There are no queries in this format. One that comes all the same is
carried out as in any other dialect, and is a finding.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from pytest_a2a_bench.model import AgentSaid, Briefing, DialectFinding, Event, Part, ToolCall, ToolSpec, UserSaid
from pytest_a2a_bench.translate.base import DecodedReply, DecodedRequest
from pytest_a2a_bench.translate.foreign import labelled
from pytest_a2a_bench.translate.json_blocks import BROKEN, MAX_TEXT, parse_json
from pytest_a2a_bench.translate.org_actions import RESPOND, TOOLS
from pytest_a2a_bench.translate.org_dialects import payload, refuse_other_tools
from pytest_a2a_bench.translate.org_reading import read_org_reply

_TASK = "crm_task"
_MESSAGE = "crm_message"
_OWN = ("task_id", "task_category", "persona", "required_context")
_IN_CONFIG = ("org_type", "optional_context")
_FORMAT = '{"task_id": "ID OF THE TASK", "answer": "YOUR ANSWER"}'
_HOW = f"Reply with one JSON object: {_FORMAT}"
_REMINDER = f"Your last reply could not be read as an answer. {_HOW}"


class EntropicDialect:
    """See the module's docstring."""

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

    def decode_reply(self, parts: Sequence[Part], tools: Sequence[ToolSpec]) -> DecodedReply:
        """Read the answer; a text that is no JSON is the answer itself."""
        decoded = read_org_reply(parts, self.name)
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
            body = read_body(part)
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


def read_body(part: Part) -> Mapping[str, Any] | None:
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
