"""Read an agent's reply: find the calls in its parts, decide which are meant, and report breaches of the dialect.

A call in a text is carried out unless it stands in the agent's thinking, is quoted, or stands beside words that ask
the user something or wait for an answer; ``docs/explanations/calls.md`` has the table. What exceeds
``reply-limits`` is cut off, and a finding says so. Pure; time is linear in the text.

A dialect is data-in, data-out in both directions: the benchmark's side (:meth:`Dialect.encode_request`,
:meth:`Dialect.decode_reply`) and the agent's side (:meth:`Dialect.decode_request`, :meth:`Dialect.encode_reply`),
so that a test can show that each side reads the other's messages.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

from pytest_a2a_bench.dialects.calls import (
    FORMS,
    Reading,
    drop_echoes,
    drop_repeated,
    find_message,
    is_respond,
    merge_calls,
    read_calls,
)
from pytest_a2a_bench.dialects.integers import read_texts, restore_integers
from pytest_a2a_bench.dialects.scan import (
    IN_THOUGHT,
    RAW_LIMIT,
    Scan,
    Thought,
    Verdict,
    find_shared_thoughts,
    judge,
    scan_text,
    waits_for_user,
)
from pytest_a2a_bench.model import AgentSaid, Briefing, DialectFinding, Event, Part, ToolCall, ToolSpec
from pytest_a2a_bench.model.messages import DEFAULT_BOUNDS, Bounds, CpuAllowance, is_deeper


@dataclass(frozen=True, slots=True)
class DecodedReply:
    """The meaning of an agent's reply.

    tau2 wants text or calls, never both: where there are calls, ``text`` is prose around them (kept for the
    transcript's findings, not for the user).

    :param calls: with arguments restored by the tools' JSON schemas; ``id`` empty where the agent gave none.
    :param findings: breaches of the dialect's rules.
    :param unreadable: True where something looked like a call and could not be read, and nothing else says what the
        agent wants; ``text`` is then the reply as it came. A bad call beside a good one is a finding only.
    :param dialect: the dialect that the reply was written in, where it is known (``auto`` settles on it).
    """

    text: str | None = None
    calls: tuple[ToolCall, ...] = ()
    findings: tuple[DialectFinding, ...] = ()
    unreadable: bool = False
    dialect: str | None = None


@dataclass(frozen=True, slots=True)
class DecodedRequest:
    """The meaning of a request to an agent; ``briefing`` is there on the first message (and when history is resent)."""

    briefing: Briefing | None
    events: tuple[Event, ...]


class Dialect(Protocol):
    """One way to write the conversation into A2A parts. Instances are stateless and may be shared."""

    name: str

    def encode_request(self, briefing: Briefing | None, events: Sequence[Event]) -> tuple[Part, ...]:
        """Write a request: the briefing if given, then the events in order."""
        ...

    def decode_reply(
        self, parts: Sequence[Part], tools: Sequence[ToolSpec], bounds: Bounds = DEFAULT_BOUNDS
    ) -> DecodedReply:
        """Read the agent's answer. Never raises, whatever the parts contain."""
        ...

    def decode_request(self, parts: Sequence[Part]) -> DecodedRequest:
        """Read, on the agent's side, a message of :meth:`encode_request`."""
        ...

    def encode_reply(self, reply: AgentSaid) -> tuple[Part, ...]:
        """Write, on the agent's side, text or calls."""
        ...

    def reminder(self) -> tuple[Part, ...]:
        """Return the message that explains the format of a call, sent once after one could not be read."""
        ...


_MAX_FINDINGS = 5

# The dialect of an agent that writes like this, unless the dialect that it was addressed in allows it too.
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
    "ambiguous": ("ambiguous-call", "this may be a call or only text about one; it is not carried out"),
}


def limit_finding(bounds: Bounds, name: str, message: str) -> DialectFinding:
    """Return a finding that names the bound; its rule is ``limit-NAME``."""
    return DialectFinding(f"limit-{name}", f"{message} ({bounds.show(name)})")


def cut_parts(parts: Sequence[Part], bounds: Bounds) -> tuple[Sequence[Part], list[DialectFinding]]:
    """Return the parts that are read, and a finding about the others."""
    if len(parts) <= bounds.parts:
        return parts, []
    message = f"the reply has {len(parts)} parts; only the first {bounds.parts} are read"
    return parts[: bounds.parts], [limit_finding(bounds, "parts", message)]


def too_slow(bounds: Bounds) -> DialectFinding:
    """Return the finding about a reply that took too long to read."""
    message = f"finding the calls in the reply took more than {bounds.cpu:g} s of CPU time; the rest of it is not read"
    return limit_finding(bounds, "cpu", message)


def too_deep(bounds: Bounds) -> DialectFinding:
    """Return the finding about a reply with something in it that is nested too deeply."""
    message = f"the reply holds JSON that is nested deeper than {bounds.depth} levels; that is not read"
    return limit_finding(bounds, "depth", message)


def restore_call(call: ToolCall, tools: Sequence[ToolSpec]) -> ToolCall:
    """Return a call whose integers are restored by its tool's schema; JSON parts make them floats."""
    schema: Mapping[str, Any] = next((t.parameters for t in tools if t.name == call.name), {})
    return replace(call, arguments=restore_integers(call.arguments, schema))


@dataclass(frozen=True, slots=True)
class Rules:
    """The replies that a dialect allows.

    :param text_shapes: the :data:`~pytest_a2a_bench.dialects.calls.Shape` names that are its own in text parts.
    :param data_shapes: the same for data parts.
    :param json_asked: True where the dialect asks for JSON instead of prose.
    :param one_call: True where the dialect allows one call at a time.
    :param message_object: True where an object with a ``message`` (or ``content`` and its like) in a text part is a
        message; one of nothing but ``message`` is one everywhere.
    """

    name: str
    text_shapes: frozenset[str] = frozenset()
    data_shapes: frozenset[str] = frozenset()
    json_asked: bool = False
    one_call: bool = False
    message_object: bool = False


class RuledDialect:
    """The base of dialects whose replies are read by rules alone."""

    _rules: Rules

    def decode_reply(
        self, parts: Sequence[Part], tools: Sequence[ToolSpec], bounds: Bounds = DEFAULT_BOUNDS
    ) -> DecodedReply:
        """Read calls or words."""
        return read_reply(parts, tools, self._rules, bounds)


def read_reply(
    parts: Sequence[Part], tools: Sequence[ToolSpec], rules: Rules, bounds: Bounds = DEFAULT_BOUNDS
) -> DecodedReply:
    """Read a reply by a dialect's rules. Never raises, whatever the parts contain.

    Parts and calls beyond a bound are ignored, and a finding says so. A reply that was cut short because reading it
    took too long, and has nothing readable, is unreadable.
    """
    kept, findings = cut_parts(parts, bounds)
    reader = _Reader({t.name: t.parameters for t in tools}, bounds, rules, CpuAllowance(bounds.cpu))
    for part in kept:
        if reader.allowance.is_spent:
            reader.torn = True
            break
        if part.kind == "data":
            reader.read_data(part.data)
    reader.read_texts([p.text for p in kept if p.kind == "text" and p.text])
    # In a text the agent means 2.0 as well as 2; only data parts turn integers into floats.
    restored = [restore_call(c, tools) for c in reader.data_calls]
    written = merge_calls(restored, drop_echoes(reader.text_calls))
    merged = drop_repeated(written)
    if len(merged) < len(written):
        message = "the reply has the same call (id, name and arguments) more than once; it is carried out once"
        findings.append(DialectFinding("answer-repeated", message))
    if len(merged) > bounds.calls:
        message = f"the reply has {len(merged)} calls; only the first {bounds.calls} are carried out"
        findings.append(limit_finding(bounds, "calls", message))
    findings += [too_deep(bounds)] * reader.deep + [too_slow(bounds)] * reader.torn
    decoded = reader.conclude(tuple(merged[: bounds.calls]), kept)
    return replace(decoded, findings=(*decoded.findings, *findings))


@dataclass(slots=True)
class _Reader:
    """Collects calls and messages from the parts of one reply.

    :param text_calls: with the name of the form that each is written in.
    :param forms: text forms that calls were read in, with the first example of each in the reply.
    :param withheld: calls that are not carried out, with the reason.
    :param said: whether there are words besides calls, thinking and unreadable text.
    """

    known: Mapping[str, Mapping[str, Any]]
    bounds: Bounds
    rules: Rules
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

    def read_data(self, data: Any) -> None:
        reading = read_calls(data, self.known, self.bounds.depth)
        self.deep = self.deep or is_deeper(data, self.bounds.depth)
        if reading is not None:
            own = reading.shape in self.rules.data_shapes
            self.dialect = self.dialect or (self.rules.name if own else _DIALECT_OF_DATA[reading.shape])
            self.data_calls += self._take_messages(reading)
            if reading.bad:
                self.unreadable.append(_show(data))
        elif isinstance(data, str):
            self.prose.append(data)
        elif (message := find_message(data)) is not None:
            self.messages.append(message)
            self.dialect = self.dialect or "data"
        elif data not in (None, {}, []):
            self.unreadable.append(_show(data))

    def read_texts(self, texts: Sequence[str]) -> None:
        thoughts = find_shared_thoughts(texts, self.bounds.depth, self.allowance)
        scans = [scan for t, own in zip(texts, thoughts, strict=True) if (scan := self._scan(t, own)) is not None]
        if len(texts) > 1 and not any(s.found for s in scans):
            # Some servers stream one text as many parts, cut anywhere.
            whole = self._scan("".join(texts))
            scans = [whole] if whole is not None and whole.found else scans
        words = "\n".join(w for scan in scans for w in (scan.words, *self._spoken(scan)))
        self.said = bool(words.strip())
        waits = waits_for_user(words) if any(s.found for s in scans) else False
        for scan in scans:
            self._read_scan(scan, waits=waits)

    def _scan(self, text: str, thoughts: Sequence[Thought] | None = None) -> Scan | None:
        """Scan a text while CPU time is left; one that was begun in time is returned as far as it was read."""
        if self.torn or self.allowance.is_spent:
            self.torn = True
            return None
        scan = scan_text(text, self.known, self.bounds.depth, self.allowance, thoughts)
        self.torn = self.allowance.is_spent
        return scan

    def _spoken(self, scan: Scan) -> Iterator[str]:
        """Yield the words of ``respond`` calls, beside which other calls may stand."""
        for found in scan.found:
            if found.place not in IN_THOUGHT:
                yield from (find_message(c.arguments) or "" for c in found.reading.calls if is_respond(c, self.known))

    def _read_scan(self, scan: Scan, *, waits: bool) -> None:
        rules = self.rules
        taken = []
        for found in scan.found:
            speaks = all(is_respond(c, self.known) for c in found.reading.calls)
            verdict = judge(found.place, waits=waits and not speaks)
            if verdict == "call" or (speaks and found.place not in IN_THOUGHT):
                taken.append(found)
                self._take_call(found.reading, scan.text[found.start : found.end])
            else:
                self.withheld.append((verdict, scan.text[found.start : min(found.end, found.start + RAW_LIMIT)]))
        self.unreadable.extend(scan.unreadable)
        self.deep = self.deep or (scan.deep and bool(scan.unreadable))
        message = None if scan.found else find_message(scan.value)
        if message is not None and (rules.message_object or scan.value == {"message": message}):
            self.messages.append(message)
            if rules.message_object:
                self.dialect = self.dialect or rules.name
        elif (prose := scan.without(taken)).strip():
            self.prose.append(prose)

    def _take_call(self, reading: Reading, raw: str) -> None:
        calls = self._take_messages(reading)
        if reading.form:
            self.forms.setdefault(reading.form, raw[:RAW_LIMIT])
        else:
            own = reading.shape in self.rules.text_shapes
            self.dialect = self.dialect or (self.rules.name if own else _DIALECT_OF_TEXT[reading.shape])
        if reading.untyped:
            calls = [replace(c, arguments=read_texts(c.arguments, self.known.get(c.name, {}))) for c in calls]
        self.text_calls += [(reading.form or reading.shape, c) for c in calls]

    def _take_messages(self, reading: Reading) -> list[ToolCall]:
        """Collect the messages of a reading, and return its other calls."""
        if reading.message:
            self.messages.append(reading.message)
        calls = []
        for call in reading.calls:
            if not is_respond(call, self.known):
                calls.append(call)
            elif (content := find_message(call.arguments)) is not None:
                self.messages.append(content)
            else:
                self.unreadable.append(_show({"name": call.name, "arguments": call.arguments}))
        return calls

    def conclude(self, calls: tuple[ToolCall, ...], parts: Sequence[Part]) -> DecodedReply:
        messages = list(dict.fromkeys(m for m in self.messages if m.strip()))
        said = {m.strip() for m in messages}
        asides = [p for p in self.prose if p.strip() and p.strip() not in said]
        # A reply of nothing but considered calls says nothing: the agent may have forgotten to go on.
        doubtful = any(verdict == "ambiguous" or not self.said for verdict, _ in self.withheld)
        unreadable = (bool(self.unreadable) or self.torn or doubtful) and not calls and not messages
        if unreadable:
            text = "\n".join(p.text for p in parts if p.kind == "text" and p.text) or "\n".join(self.unreadable[:1])
        else:
            text = "\n".join(messages if messages and not calls else [*messages, *asides])
        findings = tuple(self._findings(calls, messages, asides))
        return DecodedReply(text if text.strip() else None, calls, findings, unreadable, self.dialect)

    def _findings(self, calls: tuple[ToolCall, ...], messages: list[str], asides: list[str]) -> list[DialectFinding]:
        rules = self.rules
        findings = [
            DialectFinding("unreadable-call", "this looks like a tool call but cannot be read", raw[:RAW_LIMIT])
            for raw in self.unreadable[:_MAX_FINDINGS]
        ]
        findings += [DialectFinding(*_WITHHELD[verdict], raw) for verdict, raw in self.withheld[:_MAX_FINDINGS]]
        asked = "no dialect asks" if rules.name == "auto" else f"the {rules.name} dialect does not ask"
        findings += [
            DialectFinding("foreign-call-syntax", f"read as {FORMS[form]}, a form for which {asked}", raw)
            for form, raw in self.forms.items()
        ]
        aside = "\n".join(asides)[:RAW_LIMIT]
        if calls and (messages or asides):
            said = "\n".join([*messages, *asides])[:RAW_LIMIT]
            findings.append(DialectFinding("text-beside-call", "text beside a tool call does not reach the user", said))
        elif messages and asides:
            findings.append(
                DialectFinding("text-beside-message", "text beside a message does not reach the user", aside)
            )
        elif asides and rules.json_asked and not self.unreadable:
            message = f"the {rules.name} dialect asks for JSON; this prose was taken as a message to the user"
            findings.append(DialectFinding("prose-where-json-asked", message, aside))
        if rules.one_call and len(calls) > 1:
            message = f"the {rules.name} dialect allows one tool call at a time; this reply has {len(calls)}"
            findings.append(DialectFinding("several-calls", message))
        if not (calls or messages or asides or self.unreadable):
            findings.append(DialectFinding("empty-reply", "the reply has neither text nor a tool call"))
        return findings


def _show(value: Any) -> str:
    try:
        return json.dumps(value, ensure_ascii=False, default=str)[:RAW_LIMIT]
    except (ValueError, RecursionError):
        return f"a {type(value).__name__} that is nested too deeply"
