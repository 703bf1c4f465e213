"""The record of one request while it is under way."""

from __future__ import annotations

import datetime
import time
from dataclasses import dataclass, field

from pytest_a2a_bench.model import ProtocolMetrics, Usage

_RAW_LIMIT = 64 * 1024


@dataclass(slots=True)
class Call:
    """What happens to one request; a wire fills it in, a session turns it into :class:`ProtocolMetrics`.

    :param method: as the wire calls it, such as ``SendMessage`` or ``POST /message:send``.
    :param answered: whether an answer had begun to arrive.
    :param raw: what arrived, bounded.
    :param headers: what goes with the request beside what the protocol wants: HTTP headers, gRPC metadata.
    """

    request_id: str
    endpoint: str
    method: str = ""
    attempt: int = 1
    status_code: int | None = None
    answered: bool = False
    notes: list[str] = field(default_factory=list)
    headers: dict[str, str] = field(default_factory=dict)
    timestamp: str = field(default_factory=lambda: datetime.datetime.now(datetime.UTC).isoformat())
    _raw: list[str] = field(default_factory=list)
    _raw_size: int = 0
    _started: float = field(default_factory=time.perf_counter)

    def keep(self, document: bytes | str) -> None:
        """Keep what arrived, as long as it is not too much."""
        room = _RAW_LIMIT - self._raw_size
        if room > 0:
            text = document[:room].decode("utf-8", "replace") if isinstance(document, bytes) else document[:room]
            self._raw.append(text)
            self._raw_size += len(text)

    @property
    def raw(self) -> str:
        """What arrived, one document a line."""
        return "\n".join(self._raw)

    def lasted(self, seconds: float) -> None:
        """Let the request have begun that long ago (a replayed one takes no time of its own)."""
        self._started = time.perf_counter() - seconds

    def metrics(self, context_id: str | None, usage: Usage | None = None, error: str | None = None) -> ProtocolMetrics:
        """Close the record."""
        return ProtocolMetrics(
            request_id=self.request_id,
            endpoint=self.endpoint,
            method=self.method,
            status_code=self.status_code,
            latency_ms=round((time.perf_counter() - self._started) * 1000, 3),
            timestamp=self.timestamp,
            context_id=context_id,
            input_tokens=usage.input_tokens if usage else None,
            output_tokens=usage.output_tokens if usage else None,
            error=error,
            attempt=self.attempt,
        )
