"""Calls written as Python has them: ``NAME(arg="x")``, alone, in a list, in ``print()``, in a ``tool_code`` fence.

Pure. Nothing is evaluated: arguments are literals, read by the reader of JSON.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Collection, Sequence
from typing import Any, NamedTuple

from pytest_a2a_bench.model import ToolCall
from pytest_a2a_bench.translate.json_blocks import BROKEN, Block, parse_json
from pytest_a2a_bench.translate.quoting import Span, around, leave, starting_at

_OPEN = re.compile(r"(?<![\w.])(?:(?:default_api|functions?|tools?|api)\.)?([A-Za-z_]\w{0,127})(?:\.call)?\(")
_KEY = re.compile(r"\s*([A-Za-z_]\w{0,127})\s*=(?!=)\s*")
_SCALAR = re.compile(
    r'"""|\'\'\'|"[^"\\]*+(?:\\.[^"\\]*+)*+"|\'[^\'\\]*+(?:\\.[^\'\\]*+)*+\''
    r"|-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?(?![\w.])|\b(?:True|False|None|true|false|null)\b",
    re.DOTALL,
)
_SPACE = re.compile(r"\s*")
_COMMA = re.compile(r"\s*,\s*")
_CLOSE = re.compile(r"\s*\)")
# What may stand around a call on its line without making it part of a sentence or of a program.
_BEFORE = re.compile(r"(?:\s|[\[,;]|print\(|await\b|```\w{0,20}|Action:|<\|?\w{1,24}\|?>|\[TOOL_CALLS\])*", re.ASCII)
_AFTER = re.compile(r"(?:\s|[\]),;.]|```|</?\|?\w{1,24}\|?>|\[/?\w{1,24}\])*", re.ASCII)
_WORD = re.compile(r"\w")
_COMMENT = re.compile(r"^[ \t]*#.*$|^\w{1,20}$", re.MULTILINE)
_LINE = 2_000
# A text that is read again and again from each of its openers is given up after so many passes over it.
_PASSES = 6
_MAX_CALLS = 2_000


class PythonCall(NamedTuple):
    """A call, and the stretch of the text that it takes with what only glues it to the lines around.

    :param call: None where its arguments cannot be read.
    :param alone: whether nothing but other such calls stands on its lines, or in the fence around it.
    """

    start: int
    end: int
    call: ToolCall | None
    alone: bool


def find_python_calls(
    text: str, known: Collection[str], blocks: Sequence[Block], fences: Sequence[Span]
) -> list[PythonCall]:
    """Return the calls of known tools. Takes time linear in the text.

    Without literal keyword arguments (or one dictionary) a name before a parenthesis is no call that can be read. Nor
    is what is left of a text that was given up because it is too hostile to go on.

    :param blocks: the JSON values in the text; no call is looked for inside them.
    """
    readable = [b for b in blocks if b.value is not BROKEN]
    read: list[tuple[int, int, ToolCall | None]] = []
    budget, position = _PASSES * len(text) + 10_000, 0
    while opener := _OPEN.search(text, position):
        if budget < 0 or len(read) == _MAX_CALLS:
            return [*_placed(text, read, fences), PythonCall(opener.start(), len(text), None, alone=True)]
        position = leave(opener.start(), readable)
        if position > opener.start():
            continue
        position = opener.end()
        if opener[1] in known:
            arguments, end = _read_arguments(text, opener.end(), readable)
            budget -= end - opener.start()
            call = None if arguments is None else ToolCall(opener[1], arguments)
            read.append((opener.start(), end if call else opener.end(), call))
            position = read[-1][1]
    return _placed(text, read, fences)


def _read_arguments(text: str, position: int, blocks: Sequence[Block]) -> tuple[dict[str, Any] | None, int]:
    """Return the arguments, or None where they are no literals, and where reading ended."""
    arguments: dict[str, Any] = {}
    while not (close := _CLOSE.match(text, position)):
        key = _KEY.match(text, position)
        value, position = _read_value(text, key.end() if key else position, blocks)
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


def _read_value(text: str, position: int, blocks: Sequence[Block]) -> tuple[Any, int]:
    space = _SPACE.match(text, position)
    position = space.end() if space else position
    if text[position : position + 1] in ("{", "["):
        block = starting_at(position, blocks)
        return (BROKEN, position) if block is None else (block.value, block.end)
    scalar = _SCALAR.match(text, position)
    if scalar is None or scalar[0] in ('"""', "'''"):
        return BROKEN, position
    return parse_json(scalar[0]), scalar.end()


def _placed(text: str, read: list[tuple[int, int, ToolCall | None]], fences: Sequence[Span]) -> list[PythonCall]:
    found: list[PythonCall] = []
    for index, (start, end, call) in enumerate(read):
        behind = max(read[index - 1][1], found[-1].end) if index else 0
        ahead = read[index + 1][0] if index + 1 < len(read) else len(text)
        left = text[max(behind, start - _LINE) : start].rpartition("\n")[2]
        right = text[end : min(ahead, end + _LINE)].partition("\n")[0]
        ends = _AFTER.fullmatch(right) if call else right.rstrip(" \t;.,`")[-1:] in ("", ")", "]", ">")
        alone = bool(ends) and bool(_BEFORE.fullmatch(left))
        if alone and call is not None:
            start, end = start - len(left), end + len(right)
        found.append(PythonCall(start, end, call, alone))
    programs = _find_programs(text, fences, found)
    return [c._replace(alone=False) if around(c.start, fences) in programs else c for c in found]


def _find_programs(text: str, fences: Sequence[Span], calls: Sequence[PythonCall]) -> set[Span]:
    """Return the fences that hold more than calls and comments: they show a program, and ask for nothing."""
    inside: defaultdict[Span, list[PythonCall]] = defaultdict(list)
    for call in calls:
        fence = around(call.start, fences) or around(call.end - 1, fences)
        if fence is not None:
            inside[fence].append(call)
    return {fence for fence, own in inside.items() if _holds_more(text, fence, own)}


def _holds_more(text: str, fence: Span, calls: Sequence[PythonCall]) -> bool:
    position, rest = fence.start, []
    for call in calls:
        rest.append(text[position : max(position, call.start)])
        position = max(position, call.end)
    rest.append(text[position : fence.end])
    return bool(_WORD.search(_COMMENT.sub("", "\n".join(rest))))
