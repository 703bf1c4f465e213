"""Read the body of an answer, JSON or server-sent events, within the limits of a reply.

A :class:`Meter` counts depth, CPU seconds, and bytes of a whole trial.
"""

from __future__ import annotations

import contextlib
import json
import re
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, NoReturn

from pytest_a2a_bench.errors import AgentOutcomeError, ProtocolError, ReplyLimitError
from pytest_a2a_bench.model import DialectFinding
from pytest_a2a_bench.model.messages import DEFAULT_BOUNDS, Bounds, is_deeper

_EXCERPT = 200


def parse_json(body: bytes | str) -> Any:
    """Parse JSON; no NaN, no invalid UTF-8, no nesting that exhausts the stack, no half surrogates.

    :raises ProtocolError: with the problem (a :class:`ReplyLimitError` for the nesting); nothing else is raised.
    """
    try:
        text = body.decode("utf-8-sig") if isinstance(body, bytes) else body
        value = _load(text)
        return _mend(value) if "\\ud" in text.lower() else value
    except UnicodeDecodeError as error:
        raise ProtocolError(f"not UTF-8: {error.reason} at byte {error.start}") from error
    except RecursionError as error:
        raise ReplyLimitError("nested too deeply", limit="depth") from error
    except ValueError as error:
        raise ProtocolError(f"malformed JSON: {error}") from error


def _load(text: str) -> Any:
    try:
        return json.loads(text, parse_constant=_refuse_constant)
    except json.JSONDecodeError:
        raise
    except ValueError:
        # Python reads no integer of more than 4,300 digits, although that is JSON; they are read as infinite floats.
        return json.loads(text, parse_constant=_refuse_constant, parse_int=_read_integer)


def _read_integer(digits: str) -> int | float:
    try:
        return int(digits)
    except ValueError:
        return float(digits)


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not a JSON value")


def _mend(value: Any) -> Any:
    """Replace escaped half surrogates, which cannot be written to files and terminals, by U+FFFD."""
    if isinstance(value, str):
        return value.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    if isinstance(value, list):
        return [_mend(v) for v in value]
    if isinstance(value, dict):
        return {_mend(k): _mend(v) for k, v in value.items()}
    return value


_BRACKETS = re.compile(r'"(?:[^"\\]|\\.)*+"|[{}\[\]"]', re.DOTALL)


def is_cut(body: bytes | str) -> bool:
    """Return whether a JSON text ends before its first object or list does, as one whose rest was lost."""
    text = body.decode("utf-8", "replace") if isinstance(body, bytes) else body
    depth = 0
    for token in _BRACKETS.finditer(text):
        if token[0] == '"':  # a string that does not end
            return depth > 0
        depth += {"{": 1, "[": 1, "}": -1, "]": -1}.get(token[0], 0)
        if depth <= 0 and token[0] in "}]":
            return False
    return depth > 0


def as_object(value: Any) -> Mapping[str, Any]:
    """Return a JSON object, or an empty one in place of anything else: a peer may send any type."""
    return value if isinstance(value, Mapping) else {}


def as_objects(value: Any) -> list[Mapping[str, Any]]:
    """Return the objects of a JSON list; nothing in place of anything else."""
    return [v for v in value if isinstance(v, Mapping)] if isinstance(value, list) else []


def as_list(value: Any) -> list[Any]:
    """Return a JSON list, or an empty one in place of anything else."""
    return value if isinstance(value, list) else []


def as_text(value: Any) -> str:
    """Return a JSON string, or an empty one in place of anything else."""
    return value if isinstance(value, str) else ""


def excerpt(body: bytes | str, limit: int = _EXCERPT) -> str:
    """Return how a body begins, as a quoted, printable, bounded text."""
    text = body[: limit * 4].decode("utf-8", "replace") if isinstance(body, bytes) else body
    return repr(text[:limit]) + ("..." if len(text) > limit else "")


@dataclass(frozen=True, slots=True)
class ServerSentEvent:
    """One dispatched event."""

    data: str
    event: str = "message"


class SSEParser:
    """Feed it chunks cut anywhere; it returns the events that became complete.

    Lines may end in CR, LF or CRLF. Comments and unknown fields are skipped, as the standard demands.

    :param limit: most bytes that one event, or one unfinished line, may have.
    """

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._buffer = bytearray()
        self._data: list[bytes] = []
        self._size = 0
        self._event = ""
        self._first = True
        self._skip_lf = False

    def feed(self, chunk: bytes) -> list[ServerSentEvent]:
        """Take some bytes and return the events that they complete.

        :raises ProtocolError: if an event is not UTF-8, or (:class:`ReplyLimitError`) too large.
        """
        if self._skip_lf and chunk:
            chunk = chunk.removeprefix(b"\n")
            self._skip_lf = False
        self._buffer += chunk
        events: list[ServerSentEvent] = []
        # A line that never ends would otherwise be searched from its beginning with every chunk.
        for line in self._lines() if b"\n" in chunk or b"\r" in chunk else ():
            event = self._take(line)
            if event is not None:
                events.append(event)
        self._check_size(len(self._buffer))
        return events

    def close(self) -> list[ServerSentEvent]:
        """End the stream; return an event that a server did not finish with a blank line.

        The standard throws such an event away, but some servers leave the last blank line out.
        """
        line = bytes(self._buffer)
        self._buffer.clear()
        event = self._take(line) if line else None
        last = event or self._dispatch()
        return [last] if last is not None else []

    def _lines(self) -> list[bytes]:
        parts = bytes(self._buffer).replace(b"\r\n", b"\n").replace(b"\r", b"\n").split(b"\n")
        # A CR at the very end ends its line now; should the next chunk begin with LF, it belongs to that CR.
        self._skip_lf = self._buffer.endswith(b"\r")
        self._buffer = bytearray(parts.pop())
        return parts

    def _take(self, line: bytes) -> ServerSentEvent | None:
        if self._first:
            line = line.removeprefix(b"\xef\xbb\xbf")
            self._first = False
        if not line:
            return self._dispatch()
        name, _, value = line.partition(b":")
        value = value.removeprefix(b" ")
        if name == b"data":
            self._size += len(value) + 1
            self._check_size(self._size)
            self._data.append(value)
        elif name == b"event":
            self._event = value.decode("utf-8", "replace")
        return None

    def _dispatch(self) -> ServerSentEvent | None:
        data, name = self._data, self._event or "message"
        self._data, self._event, self._size = [], "", 0
        if not data:
            return None
        try:
            return ServerSentEvent(b"\n".join(data).decode("utf-8"), name)
        except UnicodeDecodeError as error:
            raise ProtocolError(f"a server-sent event is not UTF-8: {error}") from error

    def _check_size(self, size: int) -> None:
        if size > self._limit:
            message = f"a server-sent event is larger than {self._limit} bytes; the stream was dropped"
            raise ReplyLimitError(message, limit="bytes")


ENVELOPE = 16
"""Levels of nesting that A2A itself puts around an agent's data (JSON-RPC, task, artifact, part, Struct)."""


class Meter:
    """Counts for one conversation; the event loop serves many, so the thread's CPU time is measured."""

    def __init__(self, bounds: Bounds = DEFAULT_BOUNDS) -> None:
        self.bounds = bounds
        self._seconds = 0.0
        self._bytes = 0

    def begin_turn(self) -> None:
        """Count CPU seconds anew."""
        self._seconds = 0.0

    def take(self, size: int) -> None:
        """Count bytes that arrived; raises ReplyLimitError if they are more than a trial may have."""
        self._bytes += size
        if self._bytes > self.bounds.total:
            message = f"the answers of this conversation are larger than {self.bounds.total} bytes together"
            raise self.error("total", message)

    @contextlib.contextmanager
    def reading(self) -> Iterator[None]:
        """Count the CPU seconds of the block, in which nothing must wait.

        :raises ReplyLimitError: if the turn's answers have now taken too many.
        """
        started = time.thread_time()
        try:
            yield
        finally:
            self._seconds += time.thread_time() - started
        if self._seconds > self.bounds.cpu:
            raise self.error("cpu", f"reading the answer took more than {self.bounds.cpu:g} s of CPU time")

    def parse(self, text: bytes | str) -> Any:
        """Parse JSON; raises ProtocolError if it is none, or (:class:`ReplyLimitError`) is nested too deeply."""
        try:
            value = parse_json(text)
        except ReplyLimitError as error:
            raise self.error(error.limit, str(error)) from error
        self.check_depth(value)
        return value

    def check_depth(self, value: object) -> None:
        """Refuse a value that is nested too deeply; raises ReplyLimitError if it is."""
        if is_deeper(value, self.bounds.depth + ENVELOPE):
            raise self.error("depth", "nested too deeply")

    def error(self, limit: str, message: str) -> ReplyLimitError:
        """Return an error that names the bound and its option."""
        return ReplyLimitError(f"{message} ({self.bounds.show(limit)})", limit=limit)


def ended_by(error: ReplyLimitError, turn: int) -> tuple[DialectFinding, AgentOutcomeError]:
    """Return how an answer beyond a bound ends a conversation, which is the agent's doing, and the finding about it."""
    return DialectFinding(f"limit-{error.limit}", str(error), turn=turn), AgentOutcomeError(str(error), state="failed")
