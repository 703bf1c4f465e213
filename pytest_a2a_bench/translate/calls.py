"""Tell whether a JSON value is a call of tools, in whichever of the many shapes that agents write.

And join those of an agent's data parts with those of its texts: pure, and linear in their number.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict, deque
from collections.abc import Callable, Collection, Hashable, Mapping, Sequence
from typing import Any, Final, Literal, NamedTuple

from pytest_a2a_bench.model import ToolCall
from pytest_a2a_bench.model.bounds import DEFAULT_BOUNDS, is_deeper
from pytest_a2a_bench.translate.json_blocks import BROKEN, parse_json

Shape = Literal["wrapped", "bare", "kwargs", "tagged", "listed", "message", "foreign"]
"""How a call was written.

``wrapped``: ``{"tool_call": ...}`` and OpenAI's shapes; ``bare``: ``{"name", "arguments"}``; ``kwargs``: the same with
that key; ``tagged``: bare, in ``<json>`` tags; ``listed``: ``{"tool_calls": [...]}``; ``message``: no call, but
``{"message": ...}``; ``foreign``: in a form that no dialect asks for (:mod:`~pytest_a2a_bench.translate.foreign`).
"""

RESPOND: Final = "respond"
"""The tool of the AgentBeats and Sierra formats that speaks to the user."""

# tau2-bench's own A2A experiment shows the literal placeholder in its example, and agents copy it.
_RESPOND_NAMES = frozenset({RESPOND, "{RESPOND_ACTION_NAME}", "respond_to_user"})
_CONTENT_KEYS = ("content", "message", "text", "response")
_WRAPPERS: dict[str, Shape] = {
    "tool_calls": "listed",
    "function_calls": "listed",
    "tool_call": "wrapped",
    "function_call": "wrapped",
}
# Common words: a wrapper only where what they hold is a call.
_WEAK_WRAPPERS = ("action", "actions")
_ARGUMENT_KEYS = ("arguments", "kwargs")
_WEAK_ARGUMENT_KEYS = ("parameters", "args", "input", "params")
_NAME_KEYS = ("name", "tool_name", "tool", "function")
# OpenAI's {"tool_calls": [{"function": ...}]} inside one more wrapper; deeper than that nobody means a call.
_MAX_NESTING = 3
# An id goes back with the result: what is longer is no id but text that happens to be under that key.
_MAX_ID = 256


class Reading(NamedTuple):
    """What a value that means to be a call says.

    :param bad: how many calls in it could not be read.
    :param message: what it says to the user besides (``content`` of an OpenAI message).
    :param form: which foreign form it is written in, if it is in one.
    :param untyped: True where all arguments are texts, because the form knows nothing else.
    """

    calls: tuple[ToolCall, ...]
    shape: Shape
    bad: int = 0
    message: str | None = None
    form: str = ""
    untyped: bool = False


_BAD = Reading((), "bare", bad=1)


def read_calls(value: Any, known: Collection[str], depth: int = DEFAULT_BOUNDS.depth) -> Reading | None:
    """Read the calls in a JSON value, or return None if it does not mean to be a call.

    :param known: names of the tools that exist; a looser spelling is accepted for them.
    :param depth: how deep the value, and the arguments of a call, may be nested.
    """
    if is_deeper(value, depth):
        return _BAD
    reading = _read(value, known, wrapped=False, nesting=0)
    if reading is None:
        return None
    return keep_sane(reading, depth)


def keep_sane(reading: Reading, depth: int = DEFAULT_BOUNDS.depth) -> Reading:
    """Return a reading in which calls with arguments that no tool can be given count as bad."""
    # Arguments may have come as a text of their own, whose levels have not been counted yet.
    good = tuple(c for c in reading.calls if not is_deeper(c.arguments, depth) and _is_finite(c.arguments))
    return reading._replace(calls=good, bad=reading.bad + len(reading.calls) - len(good))


def _is_finite(value: Any) -> bool:
    """Tell whether no number in a JSON value is infinite, as ``1e999`` is once it is read; no tool can mean that."""
    waiting = [value]
    while waiting:
        inner = waiting.pop()
        if isinstance(inner, float) and not math.isfinite(inner):
            return False
        if isinstance(inner, Mapping):
            waiting.extend(inner.values())
        elif isinstance(inner, list):
            waiting.extend(inner)
    return True


def _read(value: Any, known: Collection[str], *, wrapped: bool, nesting: int) -> Reading | None:
    if nesting > _MAX_NESTING:
        return None
    if isinstance(value, str) and wrapped:
        value = parse_json(value)
    if isinstance(value, list):
        return _read_list(value, known, wrapped=wrapped, nesting=nesting)
    if isinstance(value, Mapping):
        return _read_wrapper(value, known, nesting) or _read_one(value, known, wrapped=wrapped)
    return _BAD if wrapped else None


def _read_list(items: list[Any], known: Collection[str], *, wrapped: bool, nesting: int) -> Reading | None:
    readings = [
        r
        for item in items
        if wrapped or isinstance(item, Mapping)
        if (r := _read(item, known, wrapped=wrapped, nesting=nesting + 1))
    ]
    if not readings:
        return None
    return Reading(tuple(c for r in readings for c in r.calls), readings[0].shape, sum(r.bad for r in readings))


def _read_wrapper(value: Mapping[str, Any], known: Collection[str], nesting: int) -> Reading | None:
    for key, shape in _WRAPPERS.items():
        if value.get(key):
            inner = _read(value[key], known, wrapped=True, nesting=nesting + 1) or _BAD
            return inner._replace(shape=shape, message=find_message(value))
    for key in _WEAK_WRAPPERS:
        if isinstance(value.get(key), Mapping | list):
            inner_or_none = _read(value[key], known, wrapped=False, nesting=nesting + 1)
            if inner_or_none is not None:
                return inner_or_none
    return None


def _read_one(value: Mapping[str, Any], known: Collection[str], *, wrapped: bool) -> Reading | None:
    function = value.get("function")
    if isinstance(function, Mapping) and "name" in function:
        reading = _read_one(function, known, wrapped=wrapped)
        return reading and _with_id(reading._replace(shape="wrapped"), value)
    if wrapped:
        return _read_named(value, "name" if "name" in value else _named_by(value, lambda _: True))
    if "name" in value and any(k in value for k in _ARGUMENT_KEYS):
        return _read_named(value, "name")
    key = _named_by(value, lambda name: name in known or name in _RESPOND_NAMES)
    # A tool's own schema, quoted back, is not a call of it.
    if key and not ("description" in value and "arguments" not in value):
        return _read_named(value, key)
    if any(name in known and isinstance(body, Mapping) for name, body in value.items()):
        return _BAD
    return None


def _named_by(value: Mapping[str, Any], accept: Callable[[str], bool]) -> str | None:
    for key in _NAME_KEYS:
        name = value.get(key)
        if isinstance(name, str) and accept(name):
            return key
    return None


def _read_named(value: Mapping[str, Any], name_key: str | None) -> Reading:
    name = value.get(name_key) if name_key else None
    if not isinstance(name, str) or not name:
        return _BAD
    key = next((k for k in (*_ARGUMENT_KEYS, *_WEAK_ARGUMENT_KEYS) if k in value), None)
    if key is None and set(value) - {name_key, "id", "call_id", "type", "thought", "reasoning"}:
        return _BAD
    arguments = _read_arguments(value[key] if key else None, speaks=name in _RESPOND_NAMES)
    if arguments is None:
        return _BAD
    reading = Reading((ToolCall(name, arguments),), "kwargs" if key == "kwargs" else "bare")
    return _with_id(reading, value)


def _read_arguments(value: Any, *, speaks: bool) -> Mapping[str, Any] | None:
    if isinstance(value, str):
        parsed = parse_json(value) if value.strip() else {}
        if speaks and not isinstance(parsed, Mapping):
            return {"content": value}
        value = parsed
    if value is None:
        return {}
    return value if value is not BROKEN and isinstance(value, Mapping) else None


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


def find_message(value: Any) -> str | None:
    """Return what ``{"message": ...}`` and its like say to the user, or None."""
    if not isinstance(value, Mapping):
        return None
    found = (value[k] for k in (*_CONTENT_KEYS, "answer") if isinstance(value.get(k), str))
    return next(found, None)


def is_respond(call: ToolCall, known: Collection[str]) -> bool:
    """Tell whether a call is no call, but words to the user."""
    return call.name in _RESPOND_NAMES and call.name not in known


def respond_content(call: ToolCall) -> str | None:
    """Return the words of a ``respond`` call, or None if it has none."""
    return find_message(call.arguments)


def drop_echoes(written: Sequence[tuple[str, ToolCall]]) -> list[ToolCall]:
    """Return the calls of texts, in order, those that are written in two forms only once.

    What is written twice in one form is meant twice; in another form besides, it was written for another reader.

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
    """Join the calls of both kinds of parts; a call that stands in both was written once for each kind of reader.

    A text's call is the echo of the first data call of the same name and arguments that no other one echoes, unless
    both have ids and these differ.
    """
    groups: defaultdict[Hashable, _Group] = defaultdict(_Group)
    for position, call in enumerate(data_calls if text_calls else ()):
        groups[_same(call)].add(position, call.id)
    return [*data_calls, *(c for c in text_calls if not groups[_same(c)].take(c.id))]


def drop_repeated(calls: Sequence[ToolCall]) -> list[ToolCall]:
    """Return the calls without those that have id, name and arguments of one before them: that is the same call."""
    kept: dict[Hashable, ToolCall] = {}
    for position, call in enumerate(calls):
        kept.setdefault((call.id, _same(call)) if call.id else position, call)
    return [*kept.values()]


class _Group:
    """The data calls of one name with the same arguments, of which each is echoed once at most."""

    def __init__(self) -> None:
        self._by_id: defaultdict[str, deque[int]] = defaultdict(deque)
        self._all: deque[int] = deque()
        self._taken: set[int] = set()

    def add(self, position: int, call_id: str) -> None:
        self._by_id[call_id].append(position)
        self._all.append(position)

    def take(self, call_id: str) -> bool:
        """Take the first call that one with this id echoes; False where there is none left."""
        # Without an id any of them will do; with one, those of the same id and those that have none.
        queues = [self._by_id.get(call_id), self._by_id.get("")] if call_id else [self._all]
        heads = [position for queue in queues if queue and (position := self._head(queue)) is not None]
        if not heads:
            return False
        self._taken.add(min(heads))
        return True

    def _head(self, queue: deque[int]) -> int | None:
        while queue and queue[0] in self._taken:
            queue.popleft()
        return queue[0] if queue else None


def _same(call: ToolCall) -> Hashable:
    return call.name, _freeze(call.arguments)


def _freeze(value: Any) -> Hashable:
    """Return something hashable that is equal for equal JSON values, as Python has it: ``2 == 2.0``."""
    if isinstance(value, Mapping):
        return frozenset((k, _freeze(v)) for k, v in value.items())
    if isinstance(value, list):
        return tuple(_freeze(v) for v in value)
    return value  # type: ignore[no-any-return]
