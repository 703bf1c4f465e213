"""Which request meets which fault: the same for the same seed (pure)."""

from __future__ import annotations

import hashlib
from collections import Counter

from pytest_a2a_bench.chaos.calls import Call
from pytest_a2a_bench.chaos.spec import ChaosSpec

RESTART = "restart"
"""What a request meets that restarts the agent, beside the faults that have a probability."""


def draw(spec: ChaosSpec, key: str) -> str | None:
    """Return the fault of the request with that key, or None."""
    digest = hashlib.blake2b(f"{spec.seed}\0{key}".encode(errors="surrogatepass"), digest_size=8).digest()
    left = int.from_bytes(digest) / 2**64
    for name, rate in spec.rates:
        if left < rate:
            return name
        left -= rate
    return None


def is_hit(spec: ChaosSpec, call: Call) -> bool:
    """Tell whether faults may hit a request like this one."""
    return spec.on == "all" or call.kind == "send" or (spec.on == "messages" and call.kind == "task")


class Draws:
    """Numbers the requests that may be hit, and draws for each."""

    def __init__(self, spec: ChaosSpec) -> None:
        self._spec = spec
        self._attempts: Counter[str] = Counter()
        self.requests = 0

    def next(self, call: Call) -> str | None:
        """Return the next request's fault, :data:`RESTART`, or None."""
        self.requests += 1
        if self._spec.restart_after and self.requests % self._spec.restart_after == 0:
            return RESTART
        return draw(self._spec, self._key(call))

    def _key(self, call: Call) -> str:
        if self._spec.by == "order":
            return str(self.requests)
        # What has no message id is told apart by its order among its like: the agent chooses the ids of tasks.
        name = f"message\0{call.message_id}" if call.message_id else f"method\0{call.method}"
        self._attempts[name] += 1
        return f"{name}\0{self._attempts[name]}"
