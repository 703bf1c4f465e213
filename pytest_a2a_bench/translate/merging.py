"""Join the calls that an agent wrote in data parts and in texts. Pure, and linear in their number."""

from __future__ import annotations

from collections import Counter, defaultdict, deque
from collections.abc import Hashable, Mapping, Sequence
from typing import Any

from pytest_a2a_bench.model import ToolCall


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
