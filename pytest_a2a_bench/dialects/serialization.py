"""Write tools, calls and conversation events as JSON or as marked text, and read them back.

Tools are OpenAI's function schemas in every dialect but ``tool_list``, which lists them for readers. The foreign
formats send a user's words and a tool's content as bare text, which does not tell one from the other: the part's
metadata name the span of each event. Agents made for these formats do not look at the metadata; ours read it.
"""

from __future__ import annotations

import ast
import bisect
import contextlib
import json
import math
import re
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final, Literal, NamedTuple, TypeVar

from pytest_a2a_bench.model import AgentSaid, Event, Part, ToolCall, ToolReturned, ToolSpec, UserSaid
from pytest_a2a_bench.model.messages import DEFAULT_BOUNDS, MAX_DEPTH, CpuAllowance, is_deeper


def tool_to_json(tool: ToolSpec) -> dict[str, Any]:
    """Write a tool as an OpenAI function schema."""
    function = {"name": tool.name, "description": tool.description, "parameters": tool.parameters}
    return {"type": "function", "function": function}


def tools_to_text(tools: Sequence[ToolSpec]) -> str:
    """Write tools as indented JSON."""
    return json.dumps([tool_to_json(t) for t in tools], indent=2, ensure_ascii=False)


def tools_to_list(tools: Sequence[ToolSpec]) -> str:
    """Write tools as a list for readers: ``- name(parameter: type, ...)``, the description, and each parameter."""
    return "\n".join(line for tool in tools for line in _listed(tool))


def _listed(tool: ToolSpec) -> Iterator[str]:
    schema = _inlined(tool.parameters, tool.parameters.get("$defs"))
    members = _members(schema)
    yield f"- {tool.name}({', '.join(f'{name}: {_type_of(one)}' for name, one in members.items())})"
    if tool.description:
        yield f"  Description: {_indented(tool.description, 4)}"
    if members:
        yield "  Parameters:"
        yield from _parameters(schema, 4)


def _parameters(schema: Mapping[str, Any], indent: int) -> Iterator[str]:
    needed = schema.get("required")
    for name, one in _members(schema).items():
        how = "required" if isinstance(needed, list) and name in needed else "optional"
        about = one.get("description")
        about = f": {_indented(about, indent + 2)}" if isinstance(about, str) and about else ""
        yield f"{' ' * indent}- {name} ({_type_of(one)}, {how}){about}"
        for inner in _objects_in(one):
            yield from _parameters(inner, indent + 2)


_REFERENCES = 3
"""References within each other that are followed: a schema may contain itself."""


def _inlined(value: Any, definitions: Any, left: int = _REFERENCES) -> Any:
    """Copy a JSON Schema with each ``$ref`` replaced by its target."""
    if isinstance(value, list):
        return [_inlined(one, definitions, left) for one in value]
    if not isinstance(value, Mapping):
        return value
    reference = value.get("$ref")
    if isinstance(reference, str) and isinstance(definitions, Mapping):
        found = definitions.get(reference.removeprefix("#/$defs/")) if left else None
        return _inlined(found, definitions, left - 1) if isinstance(found, Mapping) else {"type": "object"}
    return {name: _inlined(one, definitions, left) for name, one in value.items() if name != "$defs"}


def _members(schema: Mapping[str, Any]) -> dict[str, Mapping[str, Any]]:
    found = schema.get("properties")
    return {name: one for name, one in found.items() if isinstance(one, Mapping)} if isinstance(found, Mapping) else {}


def _choices(schema: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    found = schema.get("anyOf") or schema.get("oneOf")
    return [one for one in found if isinstance(one, Mapping)] if isinstance(found, list) else []


def _objects_in(schema: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """Yield the schemas of the objects that a value may be, or have in a list."""
    for choice in _choices(schema):
        yield from _objects_in(choice)
    if isinstance(schema.get("items"), Mapping):
        yield from _objects_in(schema["items"])
    if _members(schema):
        yield schema


def _type_of(schema: Mapping[str, Any]) -> str:
    """Return a type in a word or few: ``string``, ``array of object``, ``"a" or "b"``."""
    values = [schema["const"]] if "const" in schema else schema.get("enum")
    if isinstance(values, list):
        return " or ".join(json.dumps(one, ensure_ascii=False) for one in values)
    if choices := _choices(schema):
        return " or ".join(dict.fromkeys(_type_of(one) for one in choices))
    kind = schema.get("type", "any")
    if kind == "array" and isinstance(schema.get("items"), Mapping):
        return f"array of {_type_of(schema['items'])}"
    return " or ".join(map(str, kind)) if isinstance(kind, list) else str(kind)


def _indented(text: str, indent: int) -> str:
    return text.strip().replace("\n", "\n" + " " * indent)


def tools_from_json(value: Any) -> tuple[ToolSpec, ...]:
    """Read a list of tools; items that are no tools are left out."""
    return tuple(tool for v in value if (tool := _tool(v))) if isinstance(value, list) else ()


def _tool(value: Any) -> ToolSpec | None:
    function = value.get("function", value) if isinstance(value, Mapping) else None
    if not isinstance(function, Mapping) or not isinstance(name := function.get("name"), str) or not name:
        return None
    description, parameters = function.get("description"), function.get("parameters")
    return ToolSpec(
        name,
        description if isinstance(description, str) else "",
        whole_numbers(parameters) if isinstance(parameters, Mapping) else {},
    )


def whole_numbers(value: Any) -> Any:
    """Copy a JSON Schema with its integral floats (``"maxLength": 5.0`` from a data part) as integers."""
    if isinstance(value, float) and value.is_integer():
        return int(value)
    if isinstance(value, Mapping):
        return {k: whole_numbers(v) for k, v in value.items()}
    if isinstance(value, list):
        return [whole_numbers(v) for v in value]
    return value


def call_to_json(call: ToolCall) -> dict[str, Any]:
    """Write a call as ``{"name", "arguments"[, "id"]}``."""
    written: dict[str, Any] = {"name": call.name, "arguments": call.arguments}
    return {**written, "id": call.id} if call.id else written


def said_to_json(said: AgentSaid) -> dict[str, Any]:
    """Write a reply as ``{"message"?, "tool_calls"?}``."""
    written: dict[str, Any] = {} if said.text is None else {"message": said.text}
    return {**written, "tool_calls": [call_to_json(c) for c in said.calls]} if said.calls else written


def said_from_json(value: Any) -> AgentSaid | None:
    """Read the output of :func:`said_to_json`; None for anything else."""
    if not isinstance(value, Mapping) or set(value) - {"message", "tool_calls"}:
        return None
    text = value.get("message")
    calls = value.get("tool_calls", [])
    if not isinstance(text, str | None) or not isinstance(calls, list):
        return None
    read = [_call(c) for c in calls]
    return AgentSaid(text, tuple(c for c in read if c is not None)) if None not in read else None


def _call(value: Any) -> ToolCall | None:
    if not isinstance(value, Mapping):
        return None
    name, arguments, call_id = value.get("name"), value.get("arguments"), value.get("id", "")
    if isinstance(name, str) and isinstance(arguments, Mapping) and isinstance(call_id, str):
        return ToolCall(name, dict(arguments), call_id)
    return None


def show_said(said: AgentSaid) -> str:
    """Write a reply that is sent back as history, on one line of JSON."""
    return json.dumps(said_to_json(said), ensure_ascii=False)


def read_said(text: str) -> AgentSaid | None:
    """Read the output of :func:`show_said`."""
    try:
        return said_from_json(json.loads(text))
    except (ValueError, RecursionError):
        return None


# --- events in the metadata of a text part ---

OWN_KEY = "a2a_bench"
"""The key of our metadata of a part."""


def own_metadata(part: Part, of: str) -> list[Any]:
    """Return a list in our metadata of a part; an empty one where there is none."""
    own = (part.metadata or {}).get(OWN_KEY)
    found = own.get(of) if isinstance(own, Mapping) else None
    return list(found) if isinstance(found, list) else []


class Piece(NamedTuple):
    """One event as text: the words before it, and its own."""

    label: str
    body: str
    event: Event


def join_pieces(head: str, pieces: Sequence[Piece], separator: str = "\n") -> Part:
    """Write pieces after a head into one text part, marked."""
    text = head
    marks: list[dict[str, Any]] = []
    for index, piece in enumerate(pieces):
        text += (separator if index else "") + piece.label
        marks.append({"start": len(text), "length": len(piece.body), **_describe(piece.event)})
        text += piece.body
    return Part("text", text=text, metadata={OWN_KEY: {"events": marks}} if marks else None)


def _describe(event: Event) -> dict[str, Any]:
    match event:
        case UserSaid():
            return {"kind": "user"}
        case ToolReturned():
            return {"kind": "tool", "id": event.call_id, "name": event.name, "error": event.error}
        case AgentSaid():
            return {"kind": "agent"}


class Marked(NamedTuple):
    """The events that a part's metadata marks in its text, and the text before them."""

    head: str
    events: tuple[Event, ...]


def read_marks(part: Part) -> Marked | None:
    """Read a part by its marks, or return None if there are none, or wrong ones."""
    marks = own_metadata(part, "events")
    events = [_read_mark(part.text, m) for m in marks]
    if not marks or None in events:
        return None
    return Marked(part.text[: int(marks[0]["start"])], tuple(e for e in events if e is not None))


def _read_mark(text: str, mark: Any) -> Event | None:
    if not isinstance(mark, Mapping):
        return None
    start, length = _whole(mark.get("start")), _whole(mark.get("length"))
    if start is None or length is None or start + length > len(text):
        return None
    body = text[start : start + length]
    match mark.get("kind"):
        case "user":
            return UserSaid(body)
        case "tool":
            return ToolReturned(str(mark.get("id", "")), str(mark.get("name", "")), body, mark.get("error") is True)
        case "agent":
            return read_said(body)
    return None


def _whole(value: Any) -> int | None:
    # Metadata crosses as protobuf's Struct, which makes 12 a 12.0.
    if isinstance(value, bool) or not isinstance(value, int | float) or value != value // 1 or value < 0:
        return None
    return int(value)


def labelled(event: Event) -> tuple[str, str]:
    """Return a role label and the words, for a conversation that is sent again."""
    match event:
        case UserSaid():
            return "user: ", event.text
        case ToolReturned():
            return "tool: ", event.content
        case AgentSaid():
            return "assistant: ", show_said(event)


MAX_TEXT: Final = 1_000_000
"""Characters of one text in which calls are looked for."""

# A text of openers that nothing closes would be read once from each of them: the work is bounded by so many passes
# over the text, and the rest then counts as one unreadable span.
_MAX_BLOCKS: Final = 2_000
_PASSES: Final = 6

_DOUBLE = r'"[^"\\]*+(?:\\.[^"\\]*+)*+"'
_SINGLE = r"'[^'\\]*+(?:\\.[^'\\]*+)*+'"
_JSON_TOKENS = re.compile(rf'{_DOUBLE}|[{{}}\[\]"]|\\.', re.DOTALL)
# An escape outside a string is skipped as a pair, or a row of \" would be tried as a string from each quote.
_PYTHON_TOKENS = re.compile(rf"{_DOUBLE}|{_SINGLE}|[{{}}\[\]\"']|\\.", re.DOTALL)
_OPENER = re.compile(r"[{\[]")
_LOOSE = re.compile(rf"{_DOUBLE}|{_SINGLE}|\\.|\b(?:True|False|None)\b|,(?=\s*[}}\]])", re.DOTALL)
_CONSTANTS = {"True": "true", "False": "false", "None": "null", ",": ""}
_SURROGATE = re.compile(r"[\ud800-\udfff]")
_Outcome = Literal["closed", "deep", "torn"]


class _Broken:
    """Stands for a block that could not be read."""


BROKEN: Final = _Broken()


class Block(NamedTuple):
    """A bracketed span of a text and its value, or :data:`BROKEN`.

    :param exhausted: True where the search ended here because the text is too hostile to go on.
    :param deep: True where it was given up because of its nesting.
    """

    start: int
    end: int
    value: Any
    exhausted: bool = False
    deep: bool = False


class Span(NamedTuple):
    """Where something begins and ends in a text; all sorted lists of spans here are of tuples that begin so."""

    start: int
    end: int


T = TypeVar("T", bound=tuple[Any, ...])


def around(position: int, spans: Sequence[T]) -> T | None:
    """Return the one of some sorted, disjoint spans that a position is in."""
    index = bisect.bisect_right(spans, position, key=lambda s: s[0]) - 1
    return spans[index] if index >= 0 and position < spans[index][1] else None


def starting_at(position: int, spans: Sequence[T]) -> T | None:
    """Return the one of some sorted, disjoint spans that starts at a position."""
    found = around(position, spans)
    return found if found is not None and found[0] == position else None


def leave(position: int, spans: Sequence[tuple[Any, ...]]) -> int:
    """Return the end of the span that a position is in, or the position itself if it is in none."""
    found = around(position, spans)
    return position if found is None else int(found[1])


def search_outside(pattern: re.Pattern[str], text: str, position: int, spans: Sequence[T]) -> re.Match[str] | None:
    """Return the next match that begins outside of some sorted, disjoint spans."""
    while found := pattern.search(text, position):
        position = leave(found.start(), spans)
        if position == found.start():
            return found
    return None


def find_blocks(text: str, depth: int = DEFAULT_BOUNDS.depth, allowance: CpuAllowance | None = None) -> Iterator[Block]:
    """Yield the outermost readable blocks of a text, and the unreadable ones around or between them.

    :param depth: how deep they may be nested.
    :param allowance: once it is spent, the rest of the text is one unreadable block.
    """
    budget = _PASSES * len(text) + 10_000
    position = 0
    for _ in range(_MAX_BLOCKS):
        opener = _OPENER.search(text, position)
        if opener is None:
            return
        block, position, cost = _read_block(text, opener.start(), depth)
        yield block
        budget -= cost
        if budget < 0 or (allowance is not None and allowance.is_spent):
            break
    if _OPENER.search(text, position):
        yield Block(position, len(text), BROKEN, exhausted=True)


def _read_block(text: str, start: int, depth: int) -> tuple[Block, int, int]:
    """Return the block, where to go on, and how many characters it took."""
    cost = 0
    resume = stop = start + 1
    deep = False
    for tokens in (_JSON_TOKENS, _PYTHON_TOKENS):
        end, outcome = _find_end(text, start, tokens, depth)
        cost += end - start
        stop = max(stop, end)
        if outcome == "closed" and (value := parse_json(text[start:end], depth)) is not BROKEN:
            return Block(start, end, value), end, cost
        if outcome == "deep":
            resume, deep = max(resume, end), True
    return Block(start, stop, BROKEN, deep=deep), resume, cost


def _find_end(text: str, start: int, tokens: re.Pattern[str], depth: int) -> tuple[int, _Outcome]:
    """Return where the block that opens at ``start`` ends, or where looking for its end was given up."""
    open_brackets: list[str] = []
    for token in tokens.finditer(text, start):
        char = token[0]
        if len(char) > 1:
            continue
        if char in "{[":
            if len(open_brackets) == depth:
                return token.start(), "deep"
            open_brackets.append("}" if char == "{" else "]")
        elif char in "}]":
            if open_brackets.pop() != char:
                return token.end(), "torn"
            if not open_brackets:
                return token.end(), "closed"
        else:
            break
    return len(text), "torn"


def parse_json(text: str, depth: int = MAX_DEPTH) -> Any:
    """Read JSON, or its usual misspellings (single quotes, ``True``, trailing commas); else :data:`BROKEN`."""
    try:
        return _load(text, depth)
    except (ValueError, RecursionError):
        pass
    try:
        return _load(_LOOSE.sub(_tighten, text), depth)
    except (ValueError, RecursionError):
        return BROKEN


def _load(text: str, depth: int) -> Any:
    # strict=False: models write raw newlines inside strings.
    value = json.loads(text, strict=False, parse_float=_finite, parse_constant=_refuse)
    if is_deeper(value, depth):
        raise ValueError(f"nested deeper than {depth}")
    if r"\u" in text or _SURROGATE.search(text):
        value = _without_surrogates(value)
    return value


def _finite(digits: str) -> float:
    number = float(digits)
    if not math.isfinite(number):
        raise ValueError(f"{digits[:40]} is not a finite number")
    return number


def _refuse(name: str) -> Any:
    raise ValueError(f"{name} is not JSON")


def _tighten(match: re.Match[str]) -> str:
    token = match[0]
    if token[0] != "'":
        return _CONSTANTS.get(token, token)
    return '"' + re.sub(r'\\.|"', _requote, token[1:-1], flags=re.DOTALL) + '"'


def _requote(match: re.Match[str]) -> str:
    return {r"\'": "'", '"': r"\""}.get(match[0], match[0])


def _without_surrogates(value: Any) -> Any:
    """Replace halves of surrogate pairs: they are legal in JSON but cannot be written as UTF-8 again."""
    if isinstance(value, str):
        return _SURROGATE.sub("\N{REPLACEMENT CHARACTER}", value)
    if isinstance(value, list):
        return [_without_surrogates(v) for v in value]
    if isinstance(value, dict):
        return {_without_surrogates(k): _without_surrogates(v) for k, v in value.items()}
    return value


# --- Python's syntax ---
# CPython 3.11 counts the depth of a tree that it builds once for all threads, and raises SystemError in one thread
# where another builds a tree at the same time.

_LOCK = threading.Lock()
_TRIES = 10
_Parsed = TypeVar("_Parsed")


def despite_parsers(parse: Callable[[], _Parsed]) -> _Parsed:
    """Return the result of a function that parses Python, which is called again where a thread of other code parses."""
    for _ in range(_TRIES - 1):
        with contextlib.suppress(SystemError):
            return parse()
    return parse()


def parse_python(text: str, mode: str = "exec") -> Any:
    """Return the result of :func:`ast.parse`, and raise its errors."""
    with _LOCK:
        return despite_parsers(lambda: ast.parse(text, mode=mode))


def read_literal(text: str) -> Any:
    """Return the value of a literal; see :func:`ast.literal_eval`."""
    return ast.literal_eval(parse_python(text.lstrip(" \t"), "eval"))
