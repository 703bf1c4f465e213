"""Servers of ``a2a-bench check``: an agent that judges its clients, and a receiver of push notifications."""

from __future__ import annotations

import asyncio
import contextlib
import json
import sys
from argparse import Namespace
from dataclasses import dataclass
from pathlib import Path

from pytest_a2a_bench.cli._reporting import check_numbers, check_output, deliver
from pytest_a2a_bench.cli._served import terminable
from pytest_a2a_bench.conformance.clients.agent import CARDS, SITUATIONS
from pytest_a2a_bench.conformance.clients.observed import ObservedAgent
from pytest_a2a_bench.conformance.clients.rules import requirement_ids
from pytest_a2a_bench.conformance.waivers import read_waivers
from pytest_a2a_bench.conformance.wire.webhook import Delivery, Hook, WebhookReceiver
from pytest_a2a_bench.errors import ConfigurationError, Terminated
from pytest_a2a_bench.listener import BindAddress, read_bind_address
from pytest_a2a_bench.text import one_line, sanitise

_SHOWN = 20_000
# Headers of the sender's HTTP client, which say nothing about the notification.
_NOISE = frozenset({"host", "connection", "accept", "accept-encoding", "content-length"})


def judge_clients(namespace: Namespace) -> int:
    """Serve the agent that judges its client until Ctrl-C, SIGTERM or enough requests, and print the report."""
    check_numbers(namespace, "count")
    if namespace.output:
        check_output(Path(namespace.output))
    waivers = read_waivers(namespace.waivers, requirement_ids()) if namespace.waivers else ()
    place = read_bind_address(namespace.client, None, "the agent", any_port=True)
    try:
        with ObservedAgent(place) as agent:
            with contextlib.suppress(KeyboardInterrupt, Terminated), terminable():
                sys.stderr.write(_introduction(agent))
                sys.stderr.flush()
                agent.wait(namespace.count)
            report = agent.report(waivers, strict=bool(namespace.strict))
    except OSError as error:
        raise ConfigurationError(f"cannot listen on {namespace.client}: {error}") from error
    if not agent.requests:
        what = "a client read the card and made no request" if report.judgements else "no client came"
        print(f"a2a-bench: {what}", file=sys.stderr)
        return 2
    deliver(namespace, report)
    return 0 if report.is_clean else 1


def _introduction(agent: ObservedAgent) -> str:
    said = [f"an agent that judges its client is at {agent.url}; Ctrl-C ends it and prints the report"]
    said += ["say one of these words in a task, or let each new conversation get the next situation:"]
    said += [f"  {word:<15} {what}" for word, what in SITUATIONS.items()]
    said += [f"other cards, below {agent.url}:", *(f"  /{name:<14} {what}" for name, what in CARDS.items())]
    said += ["  /GRPC/0.3       a binding or a version alone"]
    return "\n".join(said) + "\n"


# --- push notifications ----------------------------------------------------------------------------------------------


def receive_notifications(namespace: Namespace) -> int:
    """Print what arrives until Ctrl-C, or until enough came."""
    check_numbers(namespace, "count", "status", "delay")
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
        sys.stdout.write(_show(len(self.deliveries), delivery))
        sys.stdout.flush()


async def _listen(place: BindAddress, namespace: Namespace) -> None:
    hook = _Printer("", status=namespace.status, delay=namespace.delay)
    async with WebhookReceiver(place, everything=hook) as receiver:
        where = f"http://{place.host}:{receiver.port}"
        print(f"listening on {where} (every path); Ctrl-C ends it", file=sys.stderr, flush=True)
        with contextlib.suppress(asyncio.CancelledError):
            while not namespace.count or len(hook.deliveries) < namespace.count:
                await hook.wait(lambda found: 0 < namespace.count <= len(found), timeout=3600.0)


def _show(number: int, delivery: Delivery) -> str:
    """Return a notification as text: what was asked, its headers, and its body, laid out where it is JSON."""
    lines = [f"--- {number}: {one_line(delivery.method, 20)}"]
    lines += [f"{k}: {one_line(v, 400)}" for k, v in delivery.headers.items() if k not in _NOISE]
    body = delivery.json
    text = (
        json.dumps(body, indent=2, ensure_ascii=False) if body is not None else delivery.body.decode("utf-8", "replace")
    )
    return "\n".join([*lines, "", sanitise(text[:_SHOWN])]) + "\n"
