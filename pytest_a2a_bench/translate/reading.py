"""Read an agent's reply: what every dialect shares, and the few rules in which they differ."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from pytest_a2a_bench.model import DialectFinding, Part, ToolCall, ToolSpec
from pytest_a2a_bench.model.bounds import DEFAULT_BOUNDS, Bounds, CpuAllowance, is_deeper
from pytest_a2a_bench.translate.base import DecodedReply
from pytest_a2a_bench.translate.calls import Reading, find_message, is_respond, read_calls, respond_content
from pytest_a2a_bench.translate.integers import restore_integers
from pytest_a2a_bench.translate.limits import cut_parts, limit_finding, too_deep, too_slow
from pytest_a2a_bench.translate.merging import merge_calls
from pytest_a2a_bench.translate.parsing import RAW_LIMIT, Scan, scan_text

_MAX_FINDINGS = 5

# What an agent that writes like this was made for, unless the dialect that it was addressed in allows it too.
_DIALECT_OF_TEXT = {
    "wrapped": "tool_call",
    "listed": "tool_call",
    "bare": "agentbeats",
    "kwargs": "agentbeats",
    "tagged": "sierra",
    "message": "data",
}
_DIALECT_OF_DATA = {**_DIALECT_OF_TEXT, "listed": "data"}


@dataclass(frozen=True, slots=True)
class Rules:
    """What a dialect allows in a reply.

    :param text_shapes: the :data:`~pytest_a2a_bench.translate.calls.Shape` names that are its own in text parts.
    :param data_shapes: the same for data parts.
    :param json_asked: True where prose is not what was asked for.
    :param one_call: True where the agent was told to call one tool at a time.
    :param message_object: True where ``{"message": ...}`` in a text part is a message.
    """

    name: str
    text_shapes: frozenset[str] = frozenset()
    data_shapes: frozenset[str] = frozenset()
    json_asked: bool = False
    one_call: bool = False
    message_object: bool = False


@dataclass(slots=True)
class _Gathered:
    """What is being collected from the parts of one reply."""

    known: frozenset[str]
    bounds: Bounds
    allowance: CpuAllowance
    data_calls: list[ToolCall] = field(default_factory=list)
    text_calls: list[ToolCall] = field(default_factory=list)
    messages: list[str] = field(default_factory=list)
    prose: list[str] = field(default_factory=list)
    unreadable: list[str] = field(default_factory=list)
    dialect: str | None = None
    deep: bool = False
    torn: bool = False


def read_reply(
    parts: Sequence[Part], tools: Sequence[ToolSpec], rules: Rules, bounds: Bounds = DEFAULT_BOUNDS
) -> DecodedReply:
    """Read a reply by a dialect's rules. Never raises, whatever the parts contain.

    What is beyond a bound is not read, or not called, and a finding says so. Where nothing readable is left of a reply
    that was cut short because reading it took too long, it is unreadable.
    """
    kept, findings = cut_parts(parts, bounds)
    gathered = _Gathered(frozenset(t.name for t in tools), bounds, CpuAllowance(bounds.cpu))
    for part in kept:
        if gathered.allowance.is_spent:
            gathered.torn = True
            break
        if part.kind == "data":
            _gather_data(part.data, gathered, rules)
    _gather_texts([p.text for p in kept if p.kind == "text" and p.text], gathered, rules)
    merged = merge_calls(gathered.data_calls, gathered.text_calls)
    if len(merged) > bounds.calls:
        message = f"the reply has {len(merged)} calls; only the first {bounds.calls} are carried out"
        findings.append(limit_finding(bounds, "calls", message))
    findings += [too_deep(bounds)] * gathered.deep + [too_slow(bounds)] * gathered.torn
    calls = tuple(restore_call(c, tools) for c in merged[: bounds.calls])
    decoded = _conclude(calls, gathered, kept, rules)
    return replace(decoded, findings=(*decoded.findings, *findings))


def _gather_data(data: Any, into: _Gathered, rules: Rules) -> None:
    reading = read_calls(data, into.known, into.bounds.depth)
    into.deep = into.deep or is_deeper(data, into.bounds.depth)
    if reading is not None:
        own = reading.shape in rules.data_shapes
        _gather_reading(reading, into, into.data_calls, rules.name if own else _DIALECT_OF_DATA[reading.shape])
        if reading.bad:
            into.unreadable.append(_show(data))
    elif isinstance(data, str):
        into.prose.append(data)
    elif (message := find_message(data)) is not None:
        into.messages.append(message)
        into.dialect = into.dialect or "data"
    elif data not in (None, {}, []):
        into.unreadable.append(_show(data))


def _gather_texts(texts: Sequence[str], into: _Gathered, rules: Rules) -> None:
    scans = [scan for t in texts if (scan := _scan(t, into)) is not None]
    if len(texts) > 1 and not any(s.readings for s in scans):
        # Some servers stream one text as many parts, torn anywhere.
        whole = _scan("".join(texts), into)
        scans = [whole] if whole is not None and whole.readings else scans
    for scan in scans:
        _gather_scan(scan, into, rules)


def _scan(text: str, into: _Gathered) -> Scan | None:
    """Scan a text while there is time for it; one that was begun in time is given back as far as it was read."""
    if into.torn or into.allowance.is_spent:
        into.torn = True
        return None
    scan = scan_text(text, into.known, into.bounds.depth, into.allowance)
    into.torn = into.allowance.is_spent
    return scan


def _gather_scan(scan: Scan, into: _Gathered, rules: Rules) -> None:
    for reading in scan.readings:
        own = reading.shape in rules.text_shapes
        _gather_reading(reading, into, into.text_calls, rules.name if own else _DIALECT_OF_TEXT[reading.shape])
    into.unreadable.extend(scan.unreadable)
    into.deep = into.deep or (scan.deep and bool(scan.unreadable))
    if rules.message_object and not scan.readings and (message := find_message(scan.value)) is not None:
        into.messages.append(message)
        into.dialect = into.dialect or rules.name
    elif scan.prose.strip():
        into.prose.append(scan.prose)


def _gather_reading(reading: Reading, into: _Gathered, calls: list[ToolCall], dialect: str) -> None:
    into.dialect = into.dialect or dialect
    if reading.message:
        into.messages.append(reading.message)
    for call in reading.calls:
        if not is_respond(call, into.known):
            calls.append(call)
        elif (content := respond_content(call)) is not None:
            into.messages.append(content)
        else:
            into.unreadable.append(_show({"name": call.name, "arguments": call.arguments}))


def _show(value: Any) -> str:
    try:
        return json.dumps(value, ensure_ascii=False, default=str)[:RAW_LIMIT]
    except (ValueError, RecursionError):
        return f"a {type(value).__name__} that is nested too deeply"


def restore_call(call: ToolCall, tools: Sequence[ToolSpec]) -> ToolCall:
    """Return a call whose whole numbers are integers again where its tool wants them; JSON parts make them floats."""
    schema: Mapping[str, Any] = next((t.parameters for t in tools if t.name == call.name), {})
    return replace(call, arguments=restore_integers(call.arguments, schema))


def _conclude(calls: tuple[ToolCall, ...], gathered: _Gathered, parts: Sequence[Part], rules: Rules) -> DecodedReply:
    messages = list(dict.fromkeys(m for m in gathered.messages if m.strip()))
    said = {m.strip() for m in messages}
    asides = [p for p in gathered.prose if p.strip() and p.strip() not in said]
    unreadable = (bool(gathered.unreadable) or gathered.torn) and not calls and not messages
    if unreadable:
        text = "\n".join(p.text for p in parts if p.kind == "text" and p.text) or "\n".join(gathered.unreadable[:1])
    else:
        text = "\n".join(messages if messages and not calls else [*messages, *asides])
    return DecodedReply(
        text=text if text.strip() else None,
        calls=calls,
        findings=tuple(_find_faults(calls, messages, asides, gathered, rules)),
        unreadable=unreadable,
        dialect=gathered.dialect,
    )


def _find_faults(
    calls: tuple[ToolCall, ...], messages: list[str], asides: list[str], gathered: _Gathered, rules: Rules
) -> list[DialectFinding]:
    findings = [
        DialectFinding("unreadable-call", "this looks like a tool call but cannot be read", raw[:RAW_LIMIT])
        for raw in gathered.unreadable[:_MAX_FINDINGS]
    ]
    aside = "\n".join(asides)[:RAW_LIMIT]
    if calls and (messages or asides):
        said = "\n".join([*messages, *asides])[:RAW_LIMIT]
        findings.append(DialectFinding("text-beside-call", "text beside a tool call does not reach the user", said))
    elif messages and asides:
        findings.append(DialectFinding("text-beside-message", "text beside a message does not reach the user", aside))
    elif asides and rules.json_asked and not gathered.unreadable:
        message = f"the {rules.name} dialect asks for JSON; this prose was taken as a message to the user"
        findings.append(DialectFinding("prose-where-json-asked", message, aside))
    if rules.one_call and len(calls) > 1:
        message = f"the {rules.name} dialect allows one tool call at a time; this reply has {len(calls)}"
        findings.append(DialectFinding("several-calls", message))
    if not (calls or messages or asides or gathered.unreadable):
        findings.append(DialectFinding("empty-reply", "the reply has neither text nor a tool call"))
    return findings
