"""Receive push notifications and print them, as a request that names a webhook needs it."""

from __future__ import annotations

import asyncio
import contextlib
import json
import sys
from argparse import Namespace, _ArgumentGroup
from dataclasses import dataclass

from pytest_a2a_bench.a2a.network import BindAddress, read_bind_address
from pytest_a2a_bench.conformance.wire.webhook import Delivery, Hook, WebhookReceiver
from pytest_a2a_bench.errors import ConfigurationError
from pytest_a2a_bench.text import one_line, sanitise

_SHOWN = 20_000
# Headers of the sender's HTTP client, which say nothing about the notification.
_NOISE = frozenset({"host", "connection", "accept", "accept-encoding", "content-length"})


def configure(group: _ArgumentGroup) -> None:
    """Declare the arguments."""
    group.add_argument("--listen", metavar="HOST:PORT", help="receive them here, such as 127.0.0.1:8099 (port 0: any)")
    group.add_argument("--count", metavar="N", type=int, default=0, help="end after so many (never)")
    group.add_argument("--status", metavar="CODE", type=int, default=200, help="answer each with this status (200)")
    group.add_argument("--delay", metavar="SECONDS", type=float, default=0.0, help="wait before each answer (0)")


def run(namespace: Namespace) -> int:
    """Print what arrives until Ctrl-C, or until enough came."""
    wrong = []
    if namespace.count < 0:
        wrong.append(f"--count is {namespace.count}; give a whole number, 0 for no end")
    if not 200 <= namespace.status <= 599:
        wrong.append(f"--status is {namespace.status}; give a status of HTTP from 200 to 599")
    if not 0 <= namespace.delay < float("inf"):
        wrong.append(f"--delay is {namespace.delay}; give a number of seconds")
    if wrong:
        raise ConfigurationError(*wrong)
    place = read_bind_address(namespace.listen, None, "the listener", any_port=True)
    if place is None:
        raise ConfigurationError("name where to listen: HOST:PORT")
    try:
        asyncio.run(_listen(place, namespace))
    except OSError as error:
        raise ConfigurationError(f"cannot listen on {namespace.listen}: {error}") from error
    return 0


@dataclass
class _Printer(Hook):
    """Prints each notification as it comes."""

    def add(self, delivery: Delivery) -> None:
        """Keep a delivery, and print it."""
        super().add(delivery)
        sys.stdout.write(show(len(self.deliveries), delivery))
        sys.stdout.flush()


async def _listen(place: BindAddress, namespace: Namespace) -> None:
    hook = _Printer("", status=namespace.status, delay=namespace.delay)
    async with WebhookReceiver(place, everything=hook) as receiver:
        where = f"http://{place.host}:{receiver.port}"
        print(f"listening on {where} (every path); Ctrl-C ends it", file=sys.stderr, flush=True)
        with contextlib.suppress(asyncio.CancelledError):
            while not namespace.count or len(hook.deliveries) < namespace.count:
                await hook.wait(lambda found: 0 < namespace.count <= len(found), timeout=3600.0)


def show(number: int, delivery: Delivery) -> str:
    """Return a notification as text: what was asked, its headers, and its body, laid out where it is JSON."""
    lines = [f"--- {number}: {one_line(delivery.method, 20)}"]
    lines += [f"{k}: {one_line(v, 400)}" for k, v in delivery.headers.items() if k not in _NOISE]
    body = delivery.json
    text = (
        json.dumps(body, indent=2, ensure_ascii=False) if body is not None else delivery.body.decode("utf-8", "replace")
    )
    return "\n".join([*lines, "", sanitise(text[:_SHOWN])]) + "\n"
