"""A dialect of lines: ``CALL name {"argument": 1}``, and ``RESULT id ...`` for what came of it."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence

from pytest_a2a_bench.dialects import DecodedReply, DecodedRequest
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

A2A_BENCH_CONTRACT = 1
HOW = 'To call tools, write lines of the form: CALL name {"argument": "value"}. Else write to the user.'


class Lines:
    """See the module's docstring."""

    name = "lines"

    def encode_request(self, briefing: Briefing | None, events: Sequence[Event]) -> tuple[Part, ...]:
        """Write what the agent is told, a line for each tool and event."""
        lines = []
        if briefing is not None:
            tools = [{"name": t.name, "about": t.description, "takes": t.parameters} for t in briefing.tools]
            lines = [f"POLICY {json.dumps(briefing.policy)}", *(f"TOOL {json.dumps(t)}" for t in tools), f"HOW {HOW}"]
        return (Part.of_text("\n".join([*lines, *map(_line, events)])),)

    def decode_reply(
        self, parts: Sequence[Part], tools: Sequence[ToolSpec], bounds: Bounds = DEFAULT_BOUNDS
    ) -> DecodedReply:
        """Read what the agent answered."""
        text = "\n".join(part.text for part in parts)
        try:
            calls = _calls(text)
        except ValueError as error:
            finding = DialectFinding("unreadable-call", f"a CALL without a JSON object: {error}", text[:200])
            return DecodedReply(text=text, unreadable=True, findings=(finding,))
        return DecodedReply(calls=calls[: bounds.calls]) if calls else DecodedReply(text=text)

    def decode_request(self, parts: Sequence[Part]) -> DecodedRequest:
        """Read, on the agent's side, what :meth:`encode_request` wrote."""
        policy, tools, events = None, [], []
        for line in "\n".join(part.text for part in parts).splitlines():
            word, _, rest = line.partition(" ")
            if word == "POLICY":
                policy = json.loads(rest)
            elif word == "TOOL":
                tool = json.loads(rest)
                tools.append(ToolSpec(tool["name"], tool["about"], tool["takes"]))
            elif word != "HOW":
                events.append(_event(word, json.loads(rest)))
        return DecodedRequest(None if policy is None else Briefing(policy, tuple(tools)), tuple(events))

    def encode_reply(self, reply: AgentSaid) -> tuple[Part, ...]:
        """Write, on the agent's side, text or calls."""
        lines = [f"CALL {call.name} {json.dumps(dict(call.arguments))}" for call in reply.calls]
        return (Part.of_text("\n".join(lines) or reply.text or ""),)

    def reminder(self) -> tuple[Part, ...]:
        """Tell once more how a call looks."""
        return (Part.of_text(f"HOW {HOW}"),)

    def recognises(self, parts: Sequence[Part]) -> bool:
        """Tell whether a request is written in this dialect, so that built-in agents answer in it."""
        return bool(parts) and parts[0].text.startswith(("POLICY ", "USER ", "RESULT "))


def _calls(text: str) -> tuple[ToolCall, ...]:
    found = re.findall(r"^CALL (\S+) (.*)$", text, re.MULTILINE)
    return tuple(ToolCall(name, dict(json.loads(arguments))) for name, arguments in found)


def _line(event: Event) -> str:
    match event:
        case UserSaid():
            return f"USER {json.dumps(event.text)}"
        case ToolReturned():
            return f"RESULT {json.dumps([event.call_id, event.name, event.content, event.error])}"
        case AgentSaid():
            return f"AGENT {json.dumps([event.text, [[c.name, dict(c.arguments), c.id] for c in event.calls]])}"


def _event(word: str, said: object) -> Event:
    match word, said:
        case "RESULT", [call_id, name, content, error]:
            return ToolReturned(call_id, name, content, error)
        case "AGENT", [text, calls]:
            return AgentSaid(text, tuple(ToolCall(*call) for call in calls))
    return UserSaid(str(said))


LINES = Lines()
