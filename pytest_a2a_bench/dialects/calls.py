"""Recognize tool calls in JSON values of any usual shape, and in text forms that models were trained on (pure).

Time is linear in the text: each search starts where the previous one ended, and JSON values are those already found.
"""

from __future__ import annotations

import math
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Hashable, Mapping, Sequence
from typing import Any, Final, Literal, NamedTuple

from pytest_a2a_bench.dialects.serialization import BROKEN, Block, Span, around, parse_json, search_outside, starting_at
from pytest_a2a_bench.model import ToolCall
from pytest_a2a_bench.model.messages import DEFAULT_BOUNDS, is_deeper

Shape = Literal["wrapped", "bare", "kwargs", "tagged", "listed", "message", "foreign"]
"""How a call was written.

``wrapped``: ``{"tool_call": ...}`` and OpenAI's shapes; ``bare``: ``{"name", "arguments"}``; ``kwargs``: the same with
that key; ``tagged``: bare, in ``<json>`` tags; ``listed``: ``{"tool_calls": [...]}``; ``message``: no call, but
``{"message": ...}``; ``foreign``: in a text form that no dialect asks for (:data:`FORMS`).
"""

RESPOND: Final = "respond"
"""The tool of the AgentBeats and Sierra formats that sends a message to the user."""

# tau2-bench's own A2A experiment shows the literal placeholder in its example, and agents copy it.
_RESPOND_NAMES = frozenset({RESPOND, "{RESPOND_ACTION_NAME}", "respond_to_user"})
_CONTENT_KEYS = ("content", "message", "text", "response", "answer")
_WRAPPERS: dict[str, Shape] = {
    "tool_calls": "listed",
    "function_calls": "listed",
    "tool_call": "wrapped",
    "function_call": "wrapped",
}
# Common words: a wrapper only where they contain a call.
_WEAK_WRAPPERS = ("action", "actions")
_ARGUMENT_KEYS = ("arguments", "kwargs")
_WEAK_ARGUMENT_KEYS = ("parameters", "args", "input", "params")
_NAME_KEYS = ("name", "tool_name", "tool", "function")
# OpenAI's {"tool_calls": [{"function": ...}]} inside one more wrapper; no known agent nests deeper.
_MAX_NESTING = 3
# An id goes back with the result: a longer one is no id but text that happens to be under that key.
_MAX_ID = 256
_MAX_CALLS = 2_000


class Reading(NamedTuple):
    """The calls of one JSON value or one text form.

    :param bad: how many calls in it could not be read.
    :param message: its words to the user (``content`` of an OpenAI message).
    :param form: the key of :data:`FORMS` for a text form.
    :param untyped: True where all arguments are strings, because the form has no other types.
    """

    calls: tuple[ToolCall, ...]
    shape: Shape
    bad: int = 0
    message: str | None = None
    form: str = ""
    untyped: bool = False


_BAD = Reading((), "bare", bad=1)

# --- calls in JSON values ---------------------------------------------------------------------------------------------


def read_calls(value: Any, known: Collection[str], depth: int = DEFAULT_BOUNDS.depth) -> Reading | None:
    """Read the calls in a JSON value, or return None if it is not meant as a call.

    :param known: names of the existing tools; a looser spelling is accepted for them.
    :param depth: how deep the value, and the arguments of a call, may be nested.
    """
    if is_deeper(value, depth):
        return _BAD
    reading = _read(value, known, wrapped=False, nesting=0)
    return reading and drop_invalid(reading, depth)


def drop_invalid(reading: Reading, depth: int = DEFAULT_BOUNDS.depth) -> Reading:
    """Return a reading in which calls with too deep or infinite arguments count as bad."""
    # Arguments may have been a string, whose nesting has not been counted yet.
    good = tuple(c for c in reading.calls if not is_deeper(c.arguments, depth) and _is_finite(c.arguments))
    return reading._replace(calls=good, bad=reading.bad + len(reading.calls) - len(good))


def _is_finite(value: Any) -> bool:
    """Return whether no number in a JSON value is infinite, as ``1e999`` is once it is parsed."""
    if isinstance(value, float):
        return math.isfinite(value)
    inner = value.values() if isinstance(value, Mapping) else value if isinstance(value, list) else ()
    return all(map(_is_finite, inner))


def _read(value: Any, known: Collection[str], *, wrapped: bool, nesting: int) -> Reading | None:
    if nesting > _MAX_NESTING:
        return None
    if isinstance(value, str) and wrapped:
        value = parse_json(value)
    if isinstance(value, list):
        items = [item for item in value if wrapped or isinstance(item, Mapping)]
        readings = [r for item in items if (r := _read(item, known, wrapped=wrapped, nesting=nesting + 1))]
        if not readings:
            return None
        return Reading(tuple(c for r in readings for c in r.calls), readings[0].shape, sum(r.bad for r in readings))
    if isinstance(value, Mapping):
        return _read_wrapper(value, known, nesting) or _read_one(value, known, wrapped=wrapped)
    return _BAD if wrapped else None


def _read_wrapper(value: Mapping[str, Any], known: Collection[str], nesting: int) -> Reading | None:
    for key, shape in _WRAPPERS.items():
        if value.get(key):
            inner = _read(value[key], known, wrapped=True, nesting=nesting + 1) or _BAD
            return inner._replace(shape=shape, message=_find_text(value, _CONTENT_KEYS))
    nested = (value[k] for k in _WEAK_WRAPPERS if isinstance(value.get(k), Mapping | list))
    return next((r for v in nested if (r := _read(v, known, wrapped=False, nesting=nesting + 1))), None)


def _read_one(value: Mapping[str, Any], known: Collection[str], *, wrapped: bool) -> Reading | None:
    function = value.get("function")
    if isinstance(function, Mapping) and "name" in function:
        reading = _read_one(function, known, wrapped=wrapped)
        return reading and _with_id(reading._replace(shape="wrapped"), value)
    if wrapped:
        return _read_named(value, "name" if "name" in value else _name_key(value, lambda _: True))
    if "name" in value and any(k in value for k in _ARGUMENT_KEYS):
        return _read_named(value, "name")
    key = _name_key(value, lambda name: name in known or name in _RESPOND_NAMES)
    # A tool's own schema, quoted back, is not a call of it.
    if key and not ("description" in value and "arguments" not in value):
        return _read_named(value, key)
    if any(name in known and isinstance(body, Mapping) for name, body in value.items()):
        return _BAD
    return None


def _name_key(value: Mapping[str, Any], accept: Callable[[str], bool]) -> str | None:
    return next((k for k in _NAME_KEYS if isinstance(name := value.get(k), str) and accept(name)), None)


def _read_named(value: Mapping[str, Any], name_key: str | None) -> Reading:
    name = value.get(name_key) if name_key else None
    if not isinstance(name, str) or not name:
        return _BAD
    key = next((k for k in (*_ARGUMENT_KEYS, *_WEAK_ARGUMENT_KEYS) if k in value), None)
    if key is None and set(value) - {name_key, "id", "call_id", "type", "thought", "reasoning"}:
        return _BAD
    arguments = value[key] if key else {}
    if isinstance(arguments, str):
        parsed = parse_json(arguments) if arguments.strip() else {}
        is_words = name in _RESPOND_NAMES and not isinstance(parsed, Mapping)
        arguments = {"content": arguments} if is_words else parsed
    arguments = {} if arguments is None else arguments
    if not isinstance(arguments, Mapping):
        return _BAD
    return _with_id(Reading((ToolCall(name, arguments),), "kwargs" if key == "kwargs" else "bare"), value)


def _with_id(reading: Reading, value: Mapping[str, Any]) -> Reading:
    call_id = value.get("call_id") or value.get("id")
    if isinstance(call_id, float) and call_id.is_integer():
        call_id = int(call_id)
    if isinstance(call_id, int) and not isinstance(call_id, bool):
        call_id = str(call_id)
    if not reading.calls or not isinstance(call_id, str) or len(call_id) > _MAX_ID:
        return reading
    first, *rest = reading.calls
    return reading._replace(calls=(ToolCall(first.name, first.arguments, call_id), *rest))


def _find_text(value: Mapping[str, Any], keys: Sequence[str]) -> str | None:
    return next((value[k] for k in keys if isinstance(value.get(k), str)), None)


def find_message(value: Any) -> str | None:
    """Return the words to the user in ``{"message": ...}`` and its variants, or None."""
    return _find_text(value, _CONTENT_KEYS) if isinstance(value, Mapping) else None


def is_respond(call: ToolCall, known: Collection[str]) -> bool:
    """Return whether a call only sends a message to the user."""
    return call.name in _RESPOND_NAMES and call.name not in known


def drop_echoes(written: Sequence[tuple[str, ToolCall]]) -> list[ToolCall]:
    """Return the calls of texts, in order, without repetitions of a call in a second form.

    A call written twice in one form is two calls; in another form besides, it was written for another reader.

    :param written: each call with the name of its form.
    """
    times: defaultdict[Hashable, Counter[str]] = defaultdict(Counter)
    kept: Counter[Hashable] = Counter()
    calls: list[ToolCall] = []
    for form, call in written:
        same = _same(call)
        times[same][form] += 1
        if times[same][form] > kept[same]:
            kept[same] += 1
            calls.append(call)
    return calls


def merge_calls(data_calls: Sequence[ToolCall], text_calls: Sequence[ToolCall]) -> list[ToolCall]:
    """Return the calls of the data parts, then those of the texts that do not repeat one of them.

    A text's call repeats a data call of the same name and arguments that no other one repeats, unless both have ids
    and these differ.
    """
    unmatched: defaultdict[Hashable, dict[str, int]] = defaultdict(dict)
    for call in data_calls if text_calls else ():
        ids = unmatched[_same(call)]
        ids[call.id] = ids.get(call.id, 0) + 1
    return [*data_calls, *(c for c in text_calls if not _take(unmatched[_same(c)], c.id))]


def _take(ids: dict[str, int], call_id: str) -> bool:
    """Remove one id that a call with this id repeats; return False if there is none."""
    own = (call_id, "") if call_id else ("", next(reversed(ids), ""))
    found = next((i for i in own if i in ids), None)
    if found is None:
        return False
    ids[found] -= 1
    if not ids[found]:
        del ids[found]
    return True


def drop_repeated(calls: Sequence[ToolCall]) -> list[ToolCall]:
    """Return the calls without those that repeat the id, name and arguments of an earlier one."""
    kept: dict[Hashable, ToolCall] = {}
    for position, call in enumerate(calls):
        kept.setdefault((call.id, _same(call)) if call.id else position, call)
    return [*kept.values()]


def _same(call: ToolCall) -> Hashable:
    return call.name, _freeze(call.arguments)


def _freeze(value: Any) -> Hashable:
    """Return something hashable that is equal for equal JSON values, as Python has it: ``2 == 2.0``."""
    if isinstance(value, Mapping):
        return frozenset((k, _freeze(v)) for k, v in value.items())
    if isinstance(value, list):
        return tuple(_freeze(v) for v in value)
    return value  # type: ignore[no-any-return]


# --- calls in text forms ----------------------------------------------------------------------------------------------

_SKIP = re.compile(r"\s*(?:```\w{0,20}\s*)?")
_NAME = r"[\"']?(?:functions\.|tools\.)?(?P<{}>[\w.-]{{1,128}})"
# DeepSeek's tokens have a bar and a gap of their own, which others write in plain characters.
_BAR_OPEN, _BAR_CLOSE, _GAP = "<[|\uff5c]", "[|\uff5c]>", "[_\u2581]"
_OPENER = re.compile(
    rf"""
      (?P<function> <function= {_NAME.format("function_name")} ["']? \s{{0,9}}> )
    | (?P<invoke> <(?P<prefix>(?:\w{{1,20}}:)?)invoke \s{{1,9}} name\s{{0,9}}=\s{{0,9}} {_NAME.format("invoke_name")}
        ["']? \s{{0,9}}> )
    | (?P<react> ^[ \t]{{0,20}}\*{{0,2}}Action:\*{{0,2}}[ \t]{{0,20}}`?{_NAME.format("react_name")}`?[ \t]{{0,20}}
        (?:\n[ \t]{{0,20}}){{1,3}} \*{{0,2}}Action[ ]Input:\*{{0,2}} )
    | (?P<harmony> (?:<\|start\|>assistant\s{{0,9}})?
        (?:to=(?:functions\.)?(?P<early_name>[\w.-]{{1,128}})\s{{0,9}})?
        <\|channel\|>\s{{0,9}}(?P<channel>commentary|analysis|final)
        (?:\s{{1,9}}to=(?:functions\.)?(?P<harmony_name>[\w.-]{{1,128}}))?
        [^<]{{0,60}}(?:<\|constrain\|>[^<]{{0,40}})?<\|message\|> )
    | (?P<mistral> \[TOOL_CALLS\]\s{{0,9}}{_NAME.format("mistral_name")}
        (?:\[CALL_ID\]\w{{1,64}})?(?:\[ARGS\])?\s{{0,9}} (?=\{{) )
    | (?P<mistral_list> \[TOOL_CALLS\]\s{{0,9}} (?=\[) )
    | (?P<deepseek> {_BAR_OPEN}tool{_GAP}call{_GAP}begin{_BAR_CLOSE}\s{{0,9}}
        (?:function{_BAR_OPEN}tool{_GAP}sep{_BAR_CLOSE})? {_NAME.format("deepseek_name")} (?::\d{{1,6}})?\s{{0,9}}
        (?:{_BAR_OPEN}tool{_GAP}(?:sep|call{_GAP}argument{_GAP}begin){_BAR_CLOSE})? )
    | (?P<llama> <\|python_tag\|>\s{{0,9}} (?=[\[{{]) )
    """,
    re.VERBOSE | re.MULTILINE,
)
FORMS: Mapping[str, str] = {
    "function": "<function=NAME>",
    "invoke": '<invoke name="NAME">',
    "react": "Action: / Action Input:",
    "harmony": "harmony's <|channel|>",
    "mistral": "[TOOL_CALLS]NAME",
    "mistral_list": "[TOOL_CALLS] and a list",
    "deepseek": "<|tool_call_begin|>",
    "llama": "<|python_tag|>",
    "python": "NAME(...)",
}
"""The text forms, as findings name them."""

# Markers around calls that carry no further meaning.
_SECTION = rf"{_BAR_OPEN}tool{_GAP}calls?{_GAP}(?:section{_GAP})?"
_BEFORE = re.compile(rf"(?:<(?:\w{{1,20}}:)?function_calls>|{_SECTION}begin{_BAR_CLOSE})\s*\Z")
_AFTER = re.compile(
    rf"\s*(?:```\s*)?(?:{_SECTION}end{_BAR_CLOSE}|</(?:\w{{1,20}}:)?function_calls>|</function>"
    r"|<\|(?:call|end|return|eom_id|eot_id)\|>|\[/TOOL_CALLS\]|</s>)"
)
_CHANNEL_END = re.compile(r"<\|(?:call|end|return|start|channel)\|>")
_PARAMETER = {
    "function": re.compile(r"\s*<parameter=[\"']?([^\"'<>=]{1,128})[\"']?>"),
    "invoke": re.compile(
        r"\s*<(?:\w{1,20}:)?parameter\s{1,9}name\s{0,9}=\s{0,9}[\"']([^\"'<>]{1,128})[\"'][^<>]{0,80}>"
    ),
}
_PARAMETER_END = re.compile(r"</(?:\w{1,20}:)?parameter>")
_LINE_REST = re.compile(r"[^\n]*")
_OBSERVATION = re.compile(r"^[ \t]{0,20}\*{0,2}Observation:", re.MULTILINE)
_MARGIN = 200


class Foreign(NamedTuple):
    """A call in a text form, and the span of the text that it takes.

    :param reading: None where it has a form's markers and cannot be read.
    :param mentioned: whether the text may only mention the call.
    """

    start: int
    end: int
    reading: Reading | None
    mentioned: bool = False


def find_foreign(text: str, known: Collection[str], blocks: Sequence[Block], fences: Sequence[Span]) -> list[Foreign]:
    """Return the calls of known tools in text forms, sorted and disjoint; other names are left to be prose.

    :param blocks: the result of :func:`~pytest_a2a_bench.dialects.serialization.find_blocks` for the text.
    :param fences: the insides of its code fences.
    """
    readable = [b for b in blocks if b.value is not BROKEN]
    forms = _Forms(text, known, readable)
    found: list[Foreign] = []
    position = 0
    # A marker inside a JSON value is part of a string there.
    while opener := search_outside(_OPENER, text, position, readable):
        if len(found) == _MAX_CALLS:
            found.append(Foreign(opener.start(), len(text), None))
            break
        position = opener.end()
        read = forms.read(opener)
        if read is not None:
            read = _widen(text, read, found[-1].end if found else 0)
            position = max(position, read.end)
            found.append(read)
    kept: list[Foreign] = []
    for each in sorted([*found, *_find_python(text, known, readable, fences)], key=lambda f: (f.start, -f.end)):
        if not kept or each.start >= kept[-1].end:
            kept.append(each)
    return kept


def find_invented(text: str, found: Sequence[Foreign]) -> Span | None:
    """Return the text after an ``Observation:`` that the agent wrote itself behind its own ``Action:``.

    No tool has answered yet, so all that follows is built on an invented result.
    """
    first = next((f for f in found if f.reading and f.reading.form == "react"), None)
    invented = _OBSERVATION.search(text, first.end) if first else None
    return Span(invented.start(), len(text)) if invented else None


def _widen(text: str, found: Foreign, floor: int) -> Foreign:
    left = max(floor, found.start - _MARGIN)
    before = _BEFORE.search(text[left : found.start])
    end = found.end
    while after := _AFTER.match(text, end):
        end = after.end()
    return found._replace(start=left + before.start() if before else found.start, end=end)


def _one(name: str, arguments: Any, form: str, *, untyped: bool = False) -> Reading | None:
    if not isinstance(arguments, dict):
        return None
    return Reading((ToolCall(name, arguments),), "foreign", form=form, untyped=untyped)


class _Forms(NamedTuple):
    """Reads the call behind an opening marker in one text."""

    text: str
    known: Collection[str]
    blocks: Sequence[Block]

    def read(self, opener: re.Match[str]) -> Foreign | None:
        form = next(f for f in FORMS if opener[f] is not None)
        match form:
            case "function" | "invoke":
                return self._read_tagged(opener, form)
            case "harmony":
                return self._read_harmony(opener)
            case "mistral_list" | "llama":
                return self._read_list(opener, form)
        return self._read_json(opener, form)

    def _value_at(self, position: int) -> tuple[Any, int]:
        """Return the JSON value at a position, after white space and the opening of a fence, and where it ends."""
        block = starting_at(self._skip(position), self.blocks)
        return (BROKEN, position) if block is None else (block.value, block.end)

    def _skip(self, position: int) -> int:
        skipped = _SKIP.match(self.text, position)
        return skipped.end() if skipped else position

    def _read_json(self, opener: re.Match[str], form: str) -> Foreign | None:
        """Read a name with its arguments as JSON behind it; ReAct may leave them out."""
        name = opener[f"{form}_name"]
        if name not in self.known:
            return None
        value, end = self._value_at(opener.end())
        if value is BROKEN and form == "react":
            rest = _LINE_REST.match(self.text, opener.end())
            if rest and rest[0].strip(" \t`*") in ("", "None", "null", "N/A", "none"):
                value, end = {}, rest.end()
        return Foreign(opener.start(), max(end, opener.end()), _one(name, value, form))

    def _read_tagged(self, opener: re.Match[str], form: str) -> Foreign | None:
        """Read ``<function=NAME>`` or ``<invoke name="NAME">``: JSON inside, or a tag for each parameter."""
        name = opener[f"{form}_name"]
        if name not in self.known:
            return None
        closer = "</function>" if form == "function" else f"</{opener['prefix']}invoke>"
        value, end = self._value_at(opener.end())
        if isinstance(value, dict):
            return Foreign(opener.start(), self._past(end, closer), _one(name, value, form))
        arguments: dict[str, str] = {}
        position = opener.end()
        while parameter := _PARAMETER[form].match(self.text, position):
            close = _PARAMETER_END.search(self.text, parameter.end())
            if close is None:  # then no later one is closed either
                return Foreign(opener.start(), len(self.text), None)
            if parameter[1] in arguments:
                return Foreign(opener.start(), parameter.end(), None)
            # Some models write each value on lines of its own.
            arguments[parameter[1]] = self.text[parameter.end() : close.start()].removeprefix("\n").removesuffix("\n")
            position = close.end()
        end = self._past(position, closer)
        return Foreign(opener.start(), end, _one(name, arguments, form, untyped=True) if end > position else None)

    def _past(self, position: int, closer: str) -> int:
        """Return the end of a closing tag that follows, or the position itself."""
        at = self._skip(position)
        return at + len(closer) if self.text.startswith(closer, at) else position

    def _read_harmony(self, opener: re.Match[str]) -> Foreign | None:
        name = opener["harmony_name"] or opener["early_name"]
        if name is not None and name in self.known:
            value, end = self._value_at(opener.end())
            return Foreign(opener.start(), max(end, opener.end()), _one(name, value, "harmony"))
        if name is not None or opener["channel"] != "final":
            return None
        end_mark = _CHANNEL_END.search(self.text, opener.end())
        end = end_mark.start() if end_mark else len(self.text)
        words = self.text[opener.end() : end].strip()
        if not words or "{" in words:  # an agent that was asked for JSON writes it here, too
            return None
        return Foreign(opener.start(), end, Reading((), "foreign", message=words, form="harmony"))

    def _read_list(self, opener: re.Match[str], form: str) -> Foreign | None:
        """Read JSON behind a marker that names the calls itself: an object, or a list of them."""
        value, end = self._value_at(opener.end())
        members = value if isinstance(value, list) else [value]
        named = [
            m for m in members if isinstance(m, dict) and isinstance(m.get("name"), str) and m["name"] in self.known
        ]
        if not named:
            return None
        calls = []
        for member in named:
            arguments = member.get("arguments", member.get("parameters", {}))
            arguments = parse_json(arguments) if isinstance(arguments, str) else arguments
            if isinstance(arguments, dict):
                calls.append(ToolCall(member["name"], arguments))
        bad = len(members) - len(calls)
        return Foreign(opener.start(), end, Reading(tuple(calls), "foreign", bad=bad, form=form) if calls else None)


# --- NAME(arg="x"), alone, in a list, in print(), in a tool_code fence; arguments are literals ------------------------

_PYTHON_OPEN = re.compile(r"(?<![\w.])(?:(?:default_api|functions?|tools?|api)\.)?([A-Za-z_]\w{0,127})(?:\.call)?\(")
_PYTHON_KEY = re.compile(r"\s*([A-Za-z_]\w{0,127})\s*=(?!=)\s*")
_SCALAR = re.compile(
    r'"""|\'\'\'|"[^"\\]*+(?:\\.[^"\\]*+)*+"|\'[^\'\\]*+(?:\\.[^\'\\]*+)*+\''
    r"|-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?(?![\w.])|\b(?:True|False|None|true|false|null)\b",
    re.DOTALL,
)
_SPACE = re.compile(r"\s*")
_COMMA = re.compile(r"\s*,\s*")
_CLOSE = re.compile(r"\s*\)")
# May stand around a call on its line without making it part of a sentence or of a program.
_LEFT = re.compile(r"(?:\s|[\[,;]|print\(|await\b|```\w{0,20}|Action:|<\|?\w{1,24}\|?>|\[TOOL_CALLS\])*", re.ASCII)
_RIGHT = re.compile(r"(?:\s|[\]),;.]|```|</?\|?\w{1,24}\|?>|\[/?\w{1,24}\])*", re.ASCII)
_WORD = re.compile(r"\w")
_COMMENT = re.compile(r"^[ \t]*#.*$|^\w{1,20}$", re.MULTILINE)
_LINE = 2_000
# A text that is read again from each of its openers is given up after so many passes over it.
_PASSES = 6


def _find_python(
    text: str, known: Collection[str], blocks: Sequence[Block], fences: Sequence[Span]
) -> Sequence[Foreign]:
    """Return Python calls with literal keyword arguments (or one dictionary).

    The remainder of a text that is too hostile to go on is one unreadable call.
    """
    read: list[tuple[int, int, ToolCall | None]] = []
    given_up: list[Foreign] = []
    budget, position = _PASSES * len(text) + 10_000, 0
    while known and (opener := search_outside(_PYTHON_OPEN, text, position, blocks)):
        if budget < 0 or len(read) == _MAX_CALLS:
            given_up.append(Foreign(opener.start(), len(text), None))
            break
        position = opener.end()
        if opener[1] in known:
            arguments, end = _read_python_arguments(text, position, blocks)
            budget -= end - opener.start()
            call = None if arguments is None else ToolCall(opener[1], arguments)
            position = end if call else position
            read.append((opener.start(), position, call))
    return [*_place_python(text, read, fences), *given_up]


def _read_python_arguments(text: str, position: int, blocks: Sequence[Block]) -> tuple[dict[str, Any] | None, int]:
    """Return the arguments, or None where they are no literals, and where reading ended."""
    arguments: dict[str, Any] = {}
    while not (close := _CLOSE.match(text, position)):
        key = _PYTHON_KEY.match(text, position)
        value, position = _read_python_value(text, key.end() if key else position, blocks)
        if key is None and isinstance(value, dict) and not arguments:
            arguments = dict(value)
        elif key is None or value is BROKEN or key[1] in arguments:
            return None, position
        else:
            arguments[key[1]] = value
        if comma := _COMMA.match(text, position):
            position = comma.end()
        elif not _CLOSE.match(text, position):
            return None, position
    return arguments, close.end()


def _read_python_value(text: str, position: int, blocks: Sequence[Block]) -> tuple[Any, int]:
    space = _SPACE.match(text, position)
    position = space.end() if space else position
    if text[position : position + 1] in ("{", "["):
        block = starting_at(position, blocks)
        return (BROKEN, position) if block is None else (block.value, block.end)
    scalar = _SCALAR.match(text, position)
    if scalar is None or scalar[0] in ('"""', "'''"):
        return BROKEN, position
    return parse_json(scalar[0]), scalar.end()


def _place_python(
    text: str, read: Sequence[tuple[int, int, ToolCall | None]], fences: Sequence[Span]
) -> Sequence[Foreign]:
    """Mark the calls that share their lines or their fence with other words; those that stand alone take their lines.

    A call that is not alone and cannot be read is prose.
    """
    found: list[Foreign] = []
    for index, (start, end, call) in enumerate(read):
        behind = max(read[index - 1][1], found[-1].end) if index else 0
        ahead = read[index + 1][0] if index + 1 < len(read) else len(text)
        left = text[max(behind, start - _LINE) : start].rpartition("\n")[2]
        right = text[end : min(ahead, end + _LINE)].partition("\n")[0]
        ends = _RIGHT.fullmatch(right) if call else right.rstrip(" \t;.,`")[-1:] in ("", ")", "]", ">")
        alone = bool(ends) and bool(_LEFT.fullmatch(left))
        if alone and call is not None:
            start, end = start - len(left), end + len(right)
        reading = Reading((call,), "foreign", form="python") if call else None
        found.append(Foreign(start, end, reading, mentioned=not alone))
    inside: defaultdict[Span, list[Foreign]] = defaultdict(list)
    for each in found:
        fence = around(each.start, fences) or around(each.end - 1, fences)
        if fence is not None:
            inside[fence].append(each)
    programs = {fence for fence, calls in inside.items() if _is_program(text, fence, calls)}
    placed = [f._replace(mentioned=True) if around(f.start, fences) in programs else f for f in found]
    return [f for f in placed if f.reading or not f.mentioned]


def _is_program(text: str, fence: Span, calls: Sequence[Foreign]) -> bool:
    """Return whether a fence has code besides calls and comments: it shows a program, and asks for no call."""
    edges = [fence.start, *(edge for call in calls for edge in (call.start, call.end)), fence.end]
    rest = "\n".join(text[start:end] for start, end in zip(edges[::2], edges[1::2], strict=True))
    return bool(_WORD.search(_COMMENT.sub("", rest)))
