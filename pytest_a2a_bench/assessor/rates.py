"""How often a caller may ask: a bucket of requests for each, filled again evenly. Of this process alone."""

from __future__ import annotations

import ipaddress
import math
import time
from collections import OrderedDict
from collections.abc import Callable

from starlette.responses import JSONResponse

from pytest_a2a_bench.assessor.asgi import App, Receive, Scope, Send
from pytest_a2a_bench.assessor.monitoring import Monitor

_MINUTE = 60.0
_MOST = 10_000
"""Most callers that are remembered; beyond them, the one that has not asked for longest begins anew."""


class Rates:
    """The buckets of all callers. Belongs to one event loop.

    :param per_minute: requests that each bucket holds, and that flow into it in a minute.
    """

    def __init__(self, per_minute: int, clock: Callable[[], float] = time.monotonic) -> None:
        self.per_minute = per_minute
        self._clock = clock
        self._buckets: OrderedDict[str, tuple[float, float]] = OrderedDict()

    def take(self, who: str) -> float:
        """Take one request out of somebody's bucket, and return 0, or the seconds until there is one."""
        now = self._clock()
        left, since = self._buckets.pop(who, (float(self.per_minute), now))
        left = min(self.per_minute, left + (now - since) * self.per_minute / _MINUTE)
        may = left >= 1
        self._buckets[who] = (left - 1 if may else left, now)
        if len(self._buckets) > _MOST:
            self._buckets.popitem(last=False)
        return 0.0 if may else (1 - left) * _MINUTE / self.per_minute


def address_of(scope: Scope) -> str:
    """Return where a request comes from; of IPv6 the network, since one machine has all addresses of it."""
    host = str((scope.get("client") or ("",))[0])
    try:
        found = ipaddress.ip_address(host.partition("%")[0])
    except ValueError:
        return host
    if isinstance(found, ipaddress.IPv6Address) and found.ipv4_mapped is None:
        return str(ipaddress.ip_network((found, 64), strict=False))
    return str(getattr(found, "ipv4_mapped", None) or found)


class Limit:
    """Lets requests through, as many in a minute as one may send.

    :param rates: None lets all of them through.
    """

    def __init__(self, rates: Rates | None, monitor: Monitor) -> None:
        self._rates, self._monitor = rates, monitor

    async def check(self, app: App, scope: Scope, receive: Receive, send: Send, caller: str | None = None) -> None:
        """Hand a request on, or answer that it comes too early.

        :param caller: who asks; None for somebody unknown, whose address counts.
        """
        wait = 0.0
        if self._rates is not None:
            wait = self._rates.take(f"address {address_of(scope)}" if caller is None else f"caller {caller}")
        if not wait:
            await app(scope, receive, send)
            return
        self._monitor.note_limited("address" if caller is None else "caller")
        seconds = math.ceil(wait)
        told = (
            f"more than {self._rates.per_minute if self._rates else 0} requests in a minute; ask again in {seconds} s"
        )
        await JSONResponse({"error": told}, 429, {"Retry-After": str(seconds)})(scope, receive, send)
