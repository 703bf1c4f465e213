"""Delivering push notifications: one webhook after the other event, in order, without holding up the task."""

from __future__ import annotations

import asyncio
import ipaddress
import json
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from faulty import old
from faulty.fault import Fault, Json, Packet
from faulty.problems import Violation, invalid

if TYPE_CHECKING:
    from faulty.store import Record

_TIMEOUT = 5.0
_TRIES = 2


def refuse_internal(url: str, *, allowed: bool = False) -> None:
    """Refuse webhooks that an agent should not be talked into calling. Loopback is allowed: tests live there.

    :raises OperationError: for a private or link-local address, or what is no web address at all.
    """
    try:
        parts = urlsplit(url)
        host = parts.hostname or ""
    except ValueError:
        parts, host = urlsplit(""), ""
    if parts.scheme not in ("http", "https") or not host:
        raise invalid([Violation("webhook-url", "url", "must be an absolute http(s) URL")])
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return
    if not allowed and not address.is_loopback and (address.is_private or address.is_link_local):
        raise invalid([Violation("webhook-address", "url", "must not be a private address")])


class Notifier:
    """Sends events to the webhooks of their tasks."""

    def __init__(self, fault: Fault, version: str = "1.0") -> None:
        self._fault = fault
        self._version = version
        self._drops_query = "push-calls-no-query" in fault.switches
        self._queues: dict[str, asyncio.Queue[tuple[Json, Json]]] = {}
        self._held: dict[str, tuple[Json, Json]] = {}
        self._senders: set[asyncio.Task[None]] = set()

    def tell(self, record: Record, event: Json) -> None:
        """Send one event to every webhook of a task, soon."""
        # 0.3 sends the whole task, whatever happened to it.
        message = old.spelled(record.task, proto=False) if self._version == "0.3" else event
        first = 1 if "first-webhook-only" in self._fault.switches else None
        for config in list(record.configs.values())[:first]:
            self._put(f"{record.task['id']}/{config['id']}", config, json.loads(json.dumps(message)))
        waits = record.state == "TASK_STATE_INPUT_REQUIRED" and "forgets-configs-waiting" in self._fault.switches
        if waits or "forgets-configs" in self._fault.switches:
            record.configs.clear()

    def _put(self, key: str, config: Json, event: Json) -> None:
        if "push-reordered" in self._fault.switches and "artifactUpdate" in event and key not in self._held:
            self._held[key] = (config, event)
            return
        self._queue(key).put_nowait((config, event))
        if key in self._held:
            self._queue(key).put_nowait(self._held.pop(key))

    async def drained(self, record: Record) -> None:
        """Wait until every webhook of a task has heard everything (a fault)."""
        for key in [key for key in self._queues if key.startswith(f"{record.task['id']}/")]:
            await self._queues[key].join()

    def _queue(self, key: str) -> asyncio.Queue[tuple[Json, Json]]:
        if key not in self._queues:
            self._queues[key] = asyncio.Queue()
            sender = asyncio.create_task(self._send_all(key))
            self._senders.add(sender)
            sender.add_done_callback(self._senders.discard)
        return self._queues[key]

    async def _send_all(self, key: str) -> None:
        import httpx

        queue = self._queues[key]
        # Its webhooks are this machine's, by HTTP: certificates would be read for nothing.
        async with httpx.AsyncClient(timeout=_TIMEOUT, trust_env=False, verify=False) as client:
            while True:
                try:
                    config, event = await asyncio.wait_for(queue.get(), 30.0)
                except TimeoutError:
                    del self._queues[key]
                    return
                packet = self._fault.delivery(_packet(config, event, self._version))
                for _ in range(2 if "notifies-twice" in self._fault.switches else 1):
                    if packet is not None:
                        url = config.get("url", "")
                        verb = "PUT" if "push-put" in self._fault.switches else "POST"
                        await _send(client, verb, url.partition("?")[0] if self._drops_query else url, packet)
                queue.task_done()


async def _send(client: object, verb: str, url: str, packet: Packet) -> None:
    import httpx

    assert isinstance(client, httpx.AsyncClient)
    for _ in range(_TRIES):
        try:
            response = await client.request(verb, url, content=packet.body, headers=dict(packet.headers))
        except (httpx.HTTPError, httpx.InvalidURL):
            continue
        if response.status_code < 500:
            return


def _packet(config: Json, event: Json, version: str) -> Packet:
    headers = {"content-type": "application/a2a+json", "a2a-version": "1.0"}
    if version == "0.3":
        headers = {"content-type": "application/json"}
    authentication = config.get("authentication") or {}
    if authentication.get("scheme"):
        headers["authorization"] = f"{authentication['scheme']} {authentication.get('credentials', '')}".strip()
    if config.get("token"):
        headers["x-a2a-notification-token"] = str(config["token"])
    return Packet(0, headers, json.dumps(event).encode())
