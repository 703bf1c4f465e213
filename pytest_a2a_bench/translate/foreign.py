"""Calls in the forms that models were trained on and no dialect asks for, each told by its markers. Pure.

Only names of known tools count: what has a form's markers and another name is left to be words. Time is linear in the
text: every search begins where the one before it ended, and JSON values are those that have been found already.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, NamedTuple

from pytest_a2a_bench.model import ToolCall
from pytest_a2a_bench.translate.calls import Reading
from pytest_a2a_bench.translate.json_blocks import BROKEN, Block, parse_json
from pytest_a2a_bench.translate.python_calls import find_python_calls
from pytest_a2a_bench.translate.quoting import Span, leave, starting_at

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
_FORMS = ("function", "invoke", "react", "harmony", "mistral", "mistral_list", "deepseek", "llama")
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
"""What the forms are called in findings."""

# Markers before and behind calls that say nothing more.
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
_MAX_CALLS = 2_000


class Foreign(NamedTuple):
    """A call in a foreign form, and the stretch of the text that it takes.

    :param reading: what it says, or None where it has a form's markers and cannot be read.
    :param mentioned: whether it stands where one cannot tell a call from words about it.
    """

    start: int
    end: int
    reading: Reading | None
    mentioned: bool = False


class _Text(NamedTuple):
    """What the readers of all forms look at."""

    text: str
    known: Collection[str]
    blocks: Sequence[Block]


def find_foreign(text: str, known: Collection[str], blocks: Sequence[Block], fences: Sequence[Span]) -> list[Foreign]:
    """Return the calls in foreign forms, sorted and disjoint.

    :param blocks: what :func:`~pytest_a2a_bench.translate.json_blocks.find_blocks` found in the text.
    :param fences: the insides of its code fences.
    """
    readable = [b for b in blocks if b.value is not BROKEN]
    within = _Text(text, known, readable)
    found: list[Foreign] = []
    position = 0
    while opener := _OPENER.search(text, position):
        # A marker inside a value is part of some string there.
        position = leave(opener.start(), readable)
        if position > opener.start():
            continue
        if len(found) == _MAX_CALLS:
            found.append(Foreign(opener.start(), len(text), None))
            break
        position = opener.end()
        form = next(f for f in _FORMS if opener[f] is not None)
        read = _READERS[form](within, opener, form)
        if read is not None:
            read = _widened(text, read, found[-1].end if found else 0)
            position = max(position, read.end)
            found.append(read)
    for call in find_python_calls(text, known, blocks, fences) if known else ():
        if call.call is None and not call.alone:
            continue
        form = "python"
        reading = Reading((call.call,), "foreign", form=form) if call.call else None
        found.append(Foreign(call.start, call.end, reading, mentioned=not call.alone))
    return _disjoint(found)


def find_invented(text: str, found: Sequence[Foreign]) -> Span | None:
    """Return what follows an ``Observation:`` that the agent wrote itself behind its own ``Action:``.

    No tool has answered yet, so that whatever follows is built on what the agent made up.
    """
    first = next((f for f in found if f.reading and f.reading.form == "react"), None)
    invented = _OBSERVATION.search(text, first.end) if first else None
    return Span(invented.start(), len(text)) if invented else None


def _disjoint(found: list[Foreign]) -> list[Foreign]:
    kept: list[Foreign] = []
    for each in sorted(found, key=lambda f: (f.start, -f.end)):
        if not kept or each.start >= kept[-1].end:
            kept.append(each)
    return kept


def _widened(text: str, found: Foreign, floor: int) -> Foreign:
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


def _value_at(within: _Text, position: int) -> tuple[Any, int]:
    """Return the JSON value at a position, past white space and the opening of a fence, and where it ends."""
    skipped = _SKIP.match(within.text, position)
    block = starting_at(skipped.end() if skipped else position, within.blocks)
    return (BROKEN, position) if block is None else (block.value, block.end)


def _read_json_form(within: _Text, opener: re.Match[str], form: str) -> Foreign | None:
    """Read a form of a name, and its arguments as JSON behind it."""
    name = opener[f"{form}_name"]
    if name not in within.known:
        return None
    value, end = _value_at(within, opener.end())
    reading = None if value is BROKEN else _one(name, value, form)
    return Foreign(opener.start(), max(end, opener.end()), reading)


def _read_react(within: _Text, opener: re.Match[str], form: str) -> Foreign | None:
    found = _read_json_form(within, opener, form)
    if found is None or found.reading is not None:
        return found
    rest = _LINE_REST.match(within.text, opener.end())
    if rest is None or rest[0].strip(" \t`*") not in ("", "None", "null", "N/A", "none"):
        return found
    return Foreign(opener.start(), rest.end(), _one(opener["react_name"], {}, form))


def _read_tagged(within: _Text, opener: re.Match[str], form: str) -> Foreign | None:
    """Read ``<function=NAME>`` or ``<invoke name="NAME">``: JSON inside, or a tag for each parameter."""
    name = opener[f"{form}_name"]
    if name not in within.known:
        return None
    value, end = _value_at(within, opener.end())
    if isinstance(value, dict):
        return Foreign(opener.start(), _past(within.text, end, _closer(opener, form)), _one(name, value, form))
    arguments: dict[str, str] = {}
    position = opener.end()
    while parameter := _PARAMETER[form].match(within.text, position):
        close = _PARAMETER_END.search(within.text, parameter.end())
        if close is None:
            # Nothing behind it ends it either.
            return Foreign(opener.start(), len(within.text), None)
        if parameter[1] in arguments:
            return Foreign(opener.start(), parameter.end(), None)
        # Some write each value on lines of its own.
        arguments[parameter[1]] = within.text[parameter.end() : close.start()].removeprefix("\n").removesuffix("\n")
        position = close.end()
    end = _past(within.text, position, _closer(opener, form))
    closed = end > position
    return Foreign(opener.start(), end, _one(name, arguments, form, untyped=True) if closed else None)


def _closer(opener: re.Match[str], form: str) -> str:
    return "</function>" if form == "function" else f"</{opener['prefix']}invoke>"


def _past(text: str, position: int, closer: str) -> int:
    """Return the end of a closing tag that follows, or the position itself."""
    skipped = _SKIP.match(text, position)
    at = skipped.end() if skipped else position
    return at + len(closer) if text.startswith(closer, at) else position


def _read_harmony(within: _Text, opener: re.Match[str], form: str) -> Foreign | None:
    name = opener["harmony_name"] or opener["early_name"]
    if name is not None and name in within.known:
        value, end = _value_at(within, opener.end())
        if value is BROKEN:
            return Foreign(opener.start(), opener.end(), None)
        return Foreign(opener.start(), end, _one(name, value, form))
    if name is not None or opener["channel"] == "analysis":
        return None
    # The channels whose words are for the user.
    end_mark = _CHANNEL_END.search(within.text, opener.end())
    end = end_mark.start() if end_mark else len(within.text)
    words = within.text[opener.end() : end].strip()
    # What was asked to answer in JSON does so here, too.
    if opener["channel"] != "final" or not words or "{" in words:
        return None
    return Foreign(opener.start(), end, Reading((), "foreign", message=words, form=form))


def _read_list(within: _Text, opener: re.Match[str], form: str) -> Foreign | None:
    """Read a marker before JSON that names the calls itself: an object, or a list of them."""
    value, end = _value_at(within, opener.end())
    members = value if isinstance(value, list) else [value]
    named = [m for m in members if isinstance(m, dict) and isinstance(m.get("name"), str) and m["name"] in within.known]
    if value is BROKEN or not named:
        return None
    calls = [ToolCall(m["name"], arguments) for m in named if (arguments := _arguments_of(m)) is not None]
    return Foreign(
        opener.start(),
        end,
        Reading(tuple(calls), "foreign", bad=len(members) - len(calls), form=form) if calls else None,
    )


def _arguments_of(member: dict[str, Any]) -> dict[str, Any] | None:
    value = member.get("arguments", member.get("parameters", {}))
    value = parse_json(value) if isinstance(value, str) else value
    return value if isinstance(value, dict) else None


_READERS: Mapping[str, Callable[[_Text, re.Match[str], str], Foreign | None]] = {
    "function": _read_tagged,
    "invoke": _read_tagged,
    "react": _read_react,
    "harmony": _read_harmony,
    "mistral": _read_json_form,
    "mistral_list": _read_list,
    "deepseek": _read_json_form,
    "llama": _read_list,
}
