"""Named faults, which request meets which of them, and what they do to the content of an answer (pure)."""

from __future__ import annotations

import hashlib
import json
import re
import urllib.parse
from collections.abc import AsyncIterator, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from pytest_a2a_bench.a2a.proxying import CARD_METHODS, CARD_PATHS
from pytest_a2a_bench.errors import ConfigurationError
from pytest_a2a_bench.text import did_you_mean

FAULTS = {
    "reset": "resets the connection before the agent gets the request",
    "after-delivery": "lets the agent answer, drops its answer and resets the connection",
    "half-close": "ends the connection (FIN) in the middle of the answer",
    "hang-before": "delivers the request and is silent before the answer's headers",
    "hang-after": "is silent after the answer's headers, or after a stream's first event",
    "429": "429 Too Many Requests with Retry-After; the agent does not get the request",
    "503": "503 Service Unavailable; the agent does not get the request",
    "500-late": "500 Internal Server Error after the agent got the request",
    "503-late": "503 Service Unavailable with Retry-After after the agent got the request",
    "504-late": "504 Gateway Timeout after the agent got the request",
    "truncate": "cuts the answer (of a stream: its last event) in the middle and ends it properly",
    "duplicate": "sends every event of a stream twice",
    "reorder": "swaps the first two events of a stream",
    "wrong-id": "answers with another JSON-RPC id",
    "wrong-context": "answers with other contextIds, once the conversation has one",
    "wrong-task": "answers with other task ids",
}

# What the parties say is theirs: only the envelope's ids are changed.
_CONTENT = frozenset({"parts", "content", "metadata", "data"})
_EVENT_END = re.compile(rb"\r\n\r\n|\n\n|\r\r")
_SENDS = ("SendMessage", "SendStreamingMessage", "message/send", "message/stream")
_TASKS = ("GetTask", "SubscribeToTask", "tasks/get", "tasks/resubscribe")
_REST = (("send", re.compile(r"/message:(send|stream)$")), ("task", re.compile(r"/tasks/[^/:]+(:subscribe)?$")))


def parse_faults(texts: Iterable[str]) -> dict[str, float]:
    """Read ``NAME=PROBABILITY`` for each fault.

    :raises ConfigurationError: for unknown names, and probabilities that are none or sum to more than 1.
    """
    rates: dict[str, float] = {}
    for name, _, text in (text.partition("=") for text in texts):
        if name not in FAULTS:
            raise ConfigurationError(f"there is no fault {name!r}{did_you_mean(name, tuple(FAULTS))} (see --help)")
        try:
            rates[name] = float(text)
        except ValueError:
            rates[name] = -1.0
        if not 0 <= rates[name] <= 1:
            raise ConfigurationError(f"--fault {name}={text}: give a probability from 0 to 1")
    # Ten rates of 0.1 are 1, whatever binary fractions make of it.
    if sum(rates.values()) > 1 + 1e-9:
        raise ConfigurationError(f"the probabilities sum to {sum(rates.values()):g}; a request meets one fault at most")
    return rates


@dataclass(frozen=True, slots=True)
class Call:
    """One request of a client.

    :param method: JSON-RPC's name, or HTTP's method and path.
    :param kind: ``send``, ``task``, ``card`` or ``other``.
    :param begins: whether it sends a message that names no conversation, so that the answer does.
    """

    method: str
    kind: str
    message_id: str = ""
    begins: bool = False


def read_call(method: str, target: str, body: bytes) -> Call:
    """Read an HTTP request.

    :param target: the request's path with its query.
    """
    path = target.partition("?")[0]
    content = _read_json(body)
    name, params = f"{method} {path}", content
    kind = next((kind for kind, pattern in _REST if pattern.search(path)), "other")
    if path.endswith(CARD_PATHS):
        kind = "card"
    elif isinstance(content, dict) and isinstance(content.get("method"), str):
        name, params = content["method"], content.get("params")
        kinds = (("send", _SENDS), ("task", _TASKS), ("card", CARD_METHODS))
        kind = next((kind for kind, names in kinds if name in names), "other")
    message = params.get("message") if isinstance(params, dict) else None
    message = message if isinstance(message, dict) else {}
    return Call(name, kind, str(message.get("messageId", "")), kind == "send" and not message.get("contextId"))


class Draws:
    """Chooses a fault for each request: the n-th meets the same one for the same seed.

    :param rates: fault -> probability.
    :param kinds: of the requests that may meet one.
    """

    def __init__(self, rates: dict[str, float], seed: int = 0, kinds: tuple[str, ...] = ("send", "task")) -> None:
        self._rates, self._seed, self._kinds = rates, seed, kinds
        self.requests = 0

    def __call__(self, call: Call) -> str | None:
        """Return the fault of the next request, or None."""
        if call.kind not in self._kinds:
            return None
        self.requests += 1
        digest = hashlib.blake2b(f"{self._seed}\0{self.requests}".encode(), digest_size=8).digest()
        left = int.from_bytes(digest) / 2**64
        for name, rate in self._rates.items():
            if left < rate:
                return name
            left -= rate
        return None


async def split_events(chunks: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    """Split an event stream into its events, each with the empty line that ends it."""
    rest = b""
    async for chunk in chunks:
        rest += chunk
        while end := _EVENT_END.search(rest):
            yield rest[: end.end()]
            rest = rest[end.end() :]
    if rest:
        yield rest


def distort(fault: str, pieces: Sequence[bytes], *, is_stream: bool) -> list[bytes]:
    """Return an answer as a fault leaves it; the same pieces where there is nothing that it could change.

    :param pieces: the events of a stream, or the one body of another answer.
    """
    if fault == "duplicate" and is_stream:
        return [piece for piece in pieces for _ in range(2)]
    if fault == "reorder" and is_stream:
        return [*pieces[1:2], *pieces[:1], *pieces[2:]]
    if fault == "truncate" and pieces:
        return [*pieces[:-1], pieces[-1][: len(pieces[-1]) // 2]]
    if fault.startswith("wrong-"):
        return [change_ids(fault, piece) for piece in pieces]
    return list(pieces)


def change_ids(fault: str, piece: bytes) -> bytes:
    """Return a JSON body, or a server-sent event with JSON, with the ids changed that the fault is about."""
    lines = [line for line in piece.splitlines() if line.startswith(b"data:")]
    text = b"\n".join(line[5:].strip() for line in lines) if lines else piece
    value = _read_json(text)
    if fault == "wrong-id":
        is_rpc = isinstance(value, dict) and "jsonrpc" in value and value.get("id") is not None
        changed = {**value, "id": f"chaos-{value['id']}"} if is_rpc else value
    else:
        changed = _change(fault, value)
    if changed == value:
        return piece
    written = json.dumps(changed).encode()
    return b"data: " + written + b"\n\n" if lines else written


def _change(fault: str, value: Any) -> Any:
    if isinstance(value, list):
        return [_change(fault, item) for item in value]
    if not isinstance(value, dict):
        return value
    wrong = {"contextId"} if fault == "wrong-context" else {"taskId"}
    if fault == "wrong-task" and isinstance(value.get("status"), dict):
        wrong.add("id")
    return {
        key: f"chaos-{item}" if key in wrong else item if key in _CONTENT else _change(fault, item)
        for key, item in value.items()
    }


def origin_of(url: str) -> str:
    """Return scheme, host and port of a URL; of a relative one ``://``."""
    parts = urllib.parse.urlsplit(url)
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}".lower()


def _read_json(body: bytes) -> Any:
    try:
        return json.loads(body)
    except (ValueError, RecursionError):
        return None
