"""Read an agent's reply: what every dialect shares, and the few rules in which they differ.

What goes beyond ``--a2a-reply-limits`` is cut off, and a finding says so.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from pytest_a2a_bench.model import DialectFinding, Part, ToolCall, ToolSpec
from pytest_a2a_bench.model.bounds import DEFAULT_BOUNDS, Bounds, CpuAllowance, is_deeper
from pytest_a2a_bench.translate.base import DecodedReply
from pytest_a2a_bench.translate.calls import (
    Reading,
    drop_echoes,
    drop_repeated,
    find_message,
    is_respond,
    merge_calls,
    read_calls,
    respond_content,
)
from pytest_a2a_bench.translate.foreign import FORMS
from pytest_a2a_bench.translate.integers import read_texts, restore_integers
from pytest_a2a_bench.translate.parsing import RAW_LIMIT, Scan, find_shared_thoughts, scan_text
from pytest_a2a_bench.translate.quoting import UNSAID, Thought, Verdict, judge, waits_for_user


def limit_finding(bounds: Bounds, name: str, message: str) -> DialectFinding:
    """Return a finding that names the bound; its rule is ``limit-NAME``."""
    return DialectFinding(f"limit-{name}", f"{message} ({bounds.show(name)})")


def cut_parts(parts: Sequence[Part], bounds: Bounds) -> tuple[Sequence[Part], list[DialectFinding]]:
    """Return the parts that are read, and what is to be said about the others."""
    if len(parts) <= bounds.parts:
        return parts, []
    message = f"the reply has {len(parts)} parts; only the first {bounds.parts} are read"
    return parts[: bounds.parts], [limit_finding(bounds, "parts", message)]


def too_slow(bounds: Bounds) -> DialectFinding:
    """Return what is to be said about a reply that took too long to read."""
    message = f"finding the calls in the reply took more than {bounds.cpu:g} s of CPU time; the rest of it is not read"
    return limit_finding(bounds, "cpu", message)


def too_deep(bounds: Bounds) -> DialectFinding:
    """Return what is to be said about a reply with something in it that is nested too deeply."""
    message = f"the reply holds JSON that is nested deeper than {bounds.depth} levels; that is not read"
    return limit_finding(bounds, "depth", message)


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

_WITHHELD: Mapping[Verdict, tuple[str, str]] = {
    "considered": ("considered-call", "a call in the agent's thinking is not carried out"),
    "quotation": ("quoted-call", "a call that is quoted in words to the user is not carried out"),
    "ambiguous": ("ambiguous-call", "whether this is a call or only spoken of cannot be told; it is not carried out"),
}


@dataclass(frozen=True, slots=True)
class Rules:
    """What a dialect allows in a reply.

    :param text_shapes: the :data:`~pytest_a2a_bench.translate.calls.Shape` names that are its own in text parts.
    :param data_shapes: the same for data parts.
    :param json_asked: True where prose is not what was asked for.
    :param one_call: True where the agent was told to call one tool at a time.
    :param message_object: True where an object with a ``message`` (or ``content`` and its like) in a text part is a
        message; one of nothing but ``message`` is one everywhere.
    """

    name: str
    text_shapes: frozenset[str] = frozenset()
    data_shapes: frozenset[str] = frozenset()
    json_asked: bool = False
    one_call: bool = False
    message_object: bool = False


@dataclass(slots=True)
class _Gathered:
    """What is being collected from the parts of one reply.

    :param text_calls: with the name of the form that each is written in.
    :param forms: foreign forms that calls were read in, with the first such stretch of the reply.
    :param withheld: calls that are not carried out, with what they are instead.
    :param said: whether there are words besides calls, thoughts and what else could not be read.
    """

    known: Mapping[str, Mapping[str, Any]]
    bounds: Bounds
    allowance: CpuAllowance
    data_calls: list[ToolCall] = field(default_factory=list)
    text_calls: list[tuple[str, ToolCall]] = field(default_factory=list)
    forms: dict[str, str] = field(default_factory=dict)
    withheld: list[tuple[Verdict, str]] = field(default_factory=list)
    messages: list[str] = field(default_factory=list)
    prose: list[str] = field(default_factory=list)
    unreadable: list[str] = field(default_factory=list)
    dialect: str | None = None
    deep: bool = False
    torn: bool = False
    said: bool = False


def read_reply(
    parts: Sequence[Part], tools: Sequence[ToolSpec], rules: Rules, bounds: Bounds = DEFAULT_BOUNDS
) -> DecodedReply:
    """Read a reply by a dialect's rules. Never raises, whatever the parts contain.

    What is beyond a bound is not read, or not called, and a finding says so. Where nothing readable is left of a reply
    that was cut short because reading it took too long, it is unreadable.
    """
    kept, findings = cut_parts(parts, bounds)
    gathered = _Gathered({t.name: t.parameters for t in tools}, bounds, CpuAllowance(bounds.cpu))
    for part in kept:
        if gathered.allowance.is_spent:
            gathered.torn = True
            break
        if part.kind == "data":
            _gather_data(part.data, gathered, rules)
    _gather_texts([p.text for p in kept if p.kind == "text" and p.text], gathered, rules)
    # What is written in a text is what the agent means, 2.0 as well as 2; only data parts lose what was an integer.
    restored = [restore_call(c, tools) for c in gathered.data_calls]
    written = merge_calls(restored, drop_echoes(gathered.text_calls))
    merged = drop_repeated(written)
    if len(merged) < len(written):
        message = "the reply has the same call (id, name and arguments) more than once; it is carried out once"
        findings.append(DialectFinding("answer-repeated", message))
    if len(merged) > bounds.calls:
        message = f"the reply has {len(merged)} calls; only the first {bounds.calls} are carried out"
        findings.append(limit_finding(bounds, "calls", message))
    findings += [too_deep(bounds)] * gathered.deep + [too_slow(bounds)] * gathered.torn
    decoded = _conclude(tuple(merged[: bounds.calls]), gathered, kept, rules)
    return replace(decoded, findings=(*decoded.findings, *findings))


def _gather_data(data: Any, into: _Gathered, rules: Rules) -> None:
    reading = read_calls(data, into.known, into.bounds.depth)
    into.deep = into.deep or is_deeper(data, into.bounds.depth)
    if reading is not None:
        own = reading.shape in rules.data_shapes
        _take_dialect(into, rules.name if own else _DIALECT_OF_DATA[reading.shape])
        into.data_calls += _gather_reading(reading, into)
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
    thoughts = find_shared_thoughts(texts, into.bounds.depth, into.allowance)
    scans = [scan for t, own in zip(texts, thoughts, strict=True) if (scan := _scan(t, into, own)) is not None]
    if len(texts) > 1 and not any(s.found for s in scans):
        # Some servers stream one text as many parts, torn anywhere.
        whole = _scan("".join(texts), into)
        scans = [whole] if whole is not None and whole.found else scans
    words = "\n".join(w for scan in scans for w in (scan.words, *_spoken(scan, into)))
    into.said = bool(words.strip())
    waits = waits_for_user(words) if any(s.found for s in scans) else False
    for scan in scans:
        _gather_scan(scan, into, rules, waits=waits)


def _scan(text: str, into: _Gathered, thoughts: Sequence[Thought] | None = None) -> Scan | None:
    """Scan a text while there is time for it; one that was begun in time is given back as far as it was read."""
    if into.torn or into.allowance.is_spent:
        into.torn = True
        return None
    scan = scan_text(text, into.known, into.bounds.depth, into.allowance, thoughts)
    into.torn = into.allowance.is_spent
    return scan


def _spoken(scan: Scan, into: _Gathered) -> Iterator[str]:
    """Yield what a text says to the user in calls of ``respond``, beside which other calls may stand."""
    for found in scan.found:
        if found.place not in UNSAID:
            yield from (respond_content(c) or "" for c in found.reading.calls if is_respond(c, into.known))


def _gather_scan(scan: Scan, into: _Gathered, rules: Rules, *, waits: bool) -> None:
    taken = []
    for found in scan.found:
        reading = found.reading
        speaks = all(is_respond(c, into.known) for c in reading.calls)
        verdict = judge(found.place, waits=waits and not speaks)
        if verdict == "call" or (speaks and found.place not in UNSAID):
            taken.append(found)
            _gather_text_reading(reading, scan.text[found.start : found.end], into, rules)
        else:
            into.withheld.append((verdict, scan.text[found.start : min(found.end, found.start + RAW_LIMIT)]))
    into.unreadable.extend(scan.unreadable)
    into.deep = into.deep or (scan.deep and bool(scan.unreadable))
    message = None if scan.found else find_message(scan.value)
    if message is not None and (rules.message_object or scan.value == {"message": message}):
        into.messages.append(message)
        if rules.message_object:
            _take_dialect(into, rules.name)
    elif (prose := scan.without(taken)).strip():
        into.prose.append(prose)


def _gather_text_reading(reading: Reading, raw: str, into: _Gathered, rules: Rules) -> None:
    calls = _gather_reading(reading, into)
    if reading.form:
        into.forms.setdefault(reading.form, raw[:RAW_LIMIT])
    else:
        own = reading.shape in rules.text_shapes
        _take_dialect(into, rules.name if own else _DIALECT_OF_TEXT[reading.shape])
    if reading.untyped:
        calls = [replace(c, arguments=read_texts(c.arguments, into.known.get(c.name, {}))) for c in calls]
    into.text_calls += [(reading.form or reading.shape, c) for c in calls]


def _take_dialect(into: _Gathered, name: str) -> None:
    into.dialect = into.dialect or name


def _gather_reading(reading: Reading, into: _Gathered) -> list[ToolCall]:
    """Take the messages of a reading, and return its calls."""
    if reading.message:
        into.messages.append(reading.message)
    calls = []
    for call in reading.calls:
        if not is_respond(call, into.known):
            calls.append(call)
        elif (content := respond_content(call)) is not None:
            into.messages.append(content)
        else:
            into.unreadable.append(_show({"name": call.name, "arguments": call.arguments}))
    return calls


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
    # A reply of nothing but what was considered says nothing: the agent may have forgotten to go on.
    doubtful = any(verdict == "ambiguous" or not gathered.said for verdict, _ in gathered.withheld)
    unreadable = (bool(gathered.unreadable) or gathered.torn or doubtful) and not calls and not messages
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


def _foreign_finding(form: str, raw: str, rules: Rules) -> DialectFinding:
    asked = "no dialect asks" if rules.name == "auto" else f"the {rules.name} dialect does not ask"
    return DialectFinding("foreign-call-syntax", f"read as {FORMS[form]}, a form for which {asked}", raw)


def _find_faults(
    calls: tuple[ToolCall, ...], messages: list[str], asides: list[str], gathered: _Gathered, rules: Rules
) -> list[DialectFinding]:
    findings = [
        DialectFinding("unreadable-call", "this looks like a tool call but cannot be read", raw[:RAW_LIMIT])
        for raw in gathered.unreadable[:_MAX_FINDINGS]
    ]
    findings += [DialectFinding(*_WITHHELD[verdict], raw) for verdict, raw in gathered.withheld[:_MAX_FINDINGS]]
    findings += [_foreign_finding(form, raw, rules) for form, raw in gathered.forms.items()]
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
