"""``a2a-bench check URL|FILE``: check an agent's card and protocol, or a card alone.

Without an argument it checks the configured endpoint. ``--direct URL`` names the agent behind a gateway, with which the
gateway at the endpoint is compared. ``--client HOST:PORT`` checks a client instead: it serves an agent whose tasks are
situations for it. ``--listen HOST:PORT`` receives push notifications, and prints them. Exit code 0 is clean, 1 has
findings, 2 could not run, or not all of it.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import sys
from argparse import ArgumentParser, Namespace
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pytest_a2a_bench.a2a.config import ClientConfig
from pytest_a2a_bench.cli import _protocol, _settings
from pytest_a2a_bench.cli._settings import check_numbers, check_output, deliver, read_config, served, terminable
from pytest_a2a_bench.config.settings import BUILTIN_PREFIX, Settings
from pytest_a2a_bench.conformance.card import ALGORITHMS, CardHttp, check_card
from pytest_a2a_bench.conformance.card.document import lines_of
from pytest_a2a_bench.conformance.card.fetch import is_url, load_jwks, read_card_file
from pytest_a2a_bench.conformance.clients.agent import CARDS, SITUATIONS
from pytest_a2a_bench.conformance.clients.observed import ObservedAgent
from pytest_a2a_bench.conformance.clients.rules import requirement_ids
from pytest_a2a_bench.conformance.finding import VERSIONS, CheckResult
from pytest_a2a_bench.conformance.subject import Subject, check_online, look_at
from pytest_a2a_bench.conformance.waivers import read_waivers
from pytest_a2a_bench.conformance.wire.webhook import Delivery, Hook, WebhookReceiver
from pytest_a2a_bench.errors import ConfigurationError, ProtocolError, Terminated, raise_errors
from pytest_a2a_bench.listener import BindAddress, read_bind_address
from pytest_a2a_bench.redact import redact_url
from pytest_a2a_bench.reports.findings import FORMATS
from pytest_a2a_bench.text import one_line, refusing, sanitise

_LEVELS = ("MUST", "SHOULD", "MAY")
_BINDINGS = ("JSONRPC", "HTTP+JSON", "GRPC", "card")
_SETTINGS = ("strict", "waivers", "scenarios", "conformance_profile", "direct")
"""Settings that have an option of their own here."""
_AGENT_ONLY = ("group", "level", "id", "binding", "accept")
_CARD_ONLY = ("algorithms", "allow_http", "online")


def configure(parser: ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument(
        "target", metavar="URL|FILE", nargs="?", help="an agent's URL, builtin:NAME, or a card (- is stdin)"
    )
    several: dict[str, Any] = {"action": "append", "default": []}
    which = parser.add_argument_group("checks of an agent")
    which.add_argument("--group", metavar="NAME", help="only this group, such as send (repeatable)", **several)
    which.add_argument("--level", choices=_LEVELS, help="only this level (repeatable)", **several)
    which.add_argument("--id", metavar="ID", help="only this requirement, such as SEND-003 (repeatable)", **several)
    which.add_argument("--binding", choices=_BINDINGS, help="only this binding (repeatable)", **several)
    which.add_argument("--version", choices=VERSIONS, help="only this protocol version (repeatable)", **several)
    which.add_argument("--accept", metavar="REASON", help="add failures to the file of --waivers, and exit with 0")
    which.add_argument("--timeout", metavar="SECONDS", type=float, default=10.0, help="of one answer (10)")
    which.add_argument("--concurrency", metavar="N", type=int, default=16, help="checks at once (16)")
    card = parser.add_argument_group("checks of a card")
    card.add_argument("--card", action="store_true", help="check only the card of a URL")
    card.add_argument("--online", action="store_true", help="check that the interfaces are what the card declares")
    card.add_argument("--algorithms", metavar="A,B", default="", help="signature algorithms to accept")
    card.add_argument("--allow-http", action="store_true", help="accept interfaces without TLS on any host")
    parser.add_argument("--format", choices=FORMATS, default="text", help="output (text)")
    parser.add_argument("-o", "--output", metavar="FILE", help="write the report there")
    _settings.add_arguments(parser, _SETTINGS)
    group = parser.add_argument_group("clients and push notifications")
    group.add_argument("--client", metavar="HOST:PORT", help="serve an agent here that judges its client (port 0: any)")
    group.add_argument("--listen", metavar="HOST:PORT", help="receive notifications here, such as 127.0.0.1:8099")
    group.add_argument("--count", metavar="N", type=int, default=0, help="end after so many requests (never)")
    group.add_argument("--status", metavar="CODE", type=int, default=200, help="answer each with this status (200)")
    group.add_argument("--delay", metavar="SECONDS", type=float, default=0.0, help="wait before each answer (0)")


def run(namespace: Namespace) -> int:
    """Check, or listen."""
    if namespace.target is not None and (namespace.listen or namespace.client):
        option = "--listen" if namespace.listen else "--client"
        raise ConfigurationError(f"{option} checks no agent; leave out {namespace.target}")
    if namespace.listen is not None:
        return receive_notifications(namespace)
    loaded = _settings.load_settings(namespace, names=_SETTINGS)
    settings = _settings.checked(loaded)
    if namespace.client is not None:
        _take(namespace, settings)
        return judge_clients(namespace)
    target = namespace.target or settings.endpoint
    if target is None:
        raise ConfigurationError("name an agent's URL or a card's file, or configure an endpoint")
    _take(namespace, settings)
    if namespace.card or not (is_url(target) or target.startswith(BUILTIN_PREFIX)):
        _refuse(namespace, _AGENT_ONLY, "belongs to the check of an agent; leave out --card, or give a URL")
        namespace.source = target
        return judge_card(namespace)
    _refuse(namespace, _CARD_ONLY, "belongs to the check of a card; add --card")
    namespace.url = str(target)
    return _protocol.run(namespace)


def _take(namespace: Namespace, settings: Settings) -> None:
    """Put the settings that the checks read into the namespace."""
    namespace.jwks = settings.card_jwks
    namespace.profile = settings.conformance_profile
    for name in ("strict", "waivers", "scenarios", "direct", "acts", "acts_behaviors", "webhook_bind", "webhook_url"):
        setattr(namespace, name, getattr(settings, name))


def _refuse(namespace: Namespace, names: tuple[str, ...], why: str) -> None:
    for name in names:
        if getattr(namespace, name):
            raise ConfigurationError(f"--{name.replace('_', '-')} {why}")


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
    with refusing(f"cannot listen on {namespace.client}"), ObservedAgent(place) as agent:
        with contextlib.suppress(KeyboardInterrupt, Terminated), terminable():
            sys.stderr.write(_introduction(agent))
            sys.stderr.flush()
            agent.wait(namespace.count)
        report = agent.report(waivers, strict=bool(namespace.strict))
    if not agent.requests:
        what = "a client read the card and made no request" if report.rows else "no client came"
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
    """Print notifications until Ctrl-C, or until enough have come."""
    check_numbers(namespace, "count", "status", "delay")
    place = read_bind_address(namespace.listen, None, "the listener", any_port=True)
    if place is None:
        raise ConfigurationError("name where to listen: HOST:PORT")
    with refusing(f"cannot listen on {namespace.listen}"):
        asyncio.run(_listen(place, namespace))
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
    """Return a notification as text: request line, headers, and body, indented where it is JSON."""
    lines = [f"--- {number}: {one_line(delivery.method, 20)}"]
    lines += [f"{k}: {one_line(v, 400)}" for k, v in delivery.headers.items() if k not in _NOISE]
    body = delivery.json
    text = (
        json.dumps(body, indent=2, ensure_ascii=False) if body is not None else delivery.body.decode("utf-8", "replace")
    )
    return "\n".join([*lines, "", sanitise(text[:_SHOWN])]) + "\n"


def judge_card(namespace: Namespace) -> int:
    """Judge the card and print the findings."""
    with served(namespace.source) as namespace.source:
        return _judge(namespace)


def _judge(namespace: Namespace) -> int:
    _check_arguments(namespace)
    config = _config(namespace)
    keys = load_jwks(namespace.jwks, timeout=namespace.timeout, network=config.network) if namespace.jwks else None
    rules: dict[str, Any] = {"jwks": keys, "version": _version(namespace), "allow_http": namespace.allow_http}
    rules |= _algorithms(namespace.algorithms)
    lines: Mapping[str, int] = {}
    results: list[CheckResult] = []
    if is_url(namespace.source):
        subject = look_at(config, timeout=namespace.timeout, **rules)
    else:
        subject, text = _read(namespace.source, rules)
        lines = lines_of(text) if namespace.format == "sarif" else {}
    versions = tuple(namespace.version)
    results += subject.card_results(versions, served=is_url(namespace.source))
    if namespace.online:
        left: list[str] = []
        results += check_online(subject, config, namespace.timeout, left)
        for line in left:
            print(f"a2a-bench: {one_line(line)}", file=sys.stderr)
    waivers = read_waivers(namespace.waivers) if namespace.waivers else ()
    report = subject.report(
        redact_url(namespace.source) if is_url(namespace.source) else namespace.source,
        results,
        waivers=waivers,
        strict=namespace.strict,
        # Else the verdict on a part reads as one on the whole protocol.
        planned=tuple(subject.planned) if namespace.online else (),
        lines=lines,
    )
    deliver(namespace, report)
    if any(row.status == "failed" for row in report.rows):
        return 1
    return 2 if any(row.status == "error" for row in report.rows) else 0


def _read(path: str, rules: Mapping[str, Any]) -> tuple[Subject, str]:
    """Return the card of a file, judged, and its text."""
    verified = rules["jwks"] is not None
    try:
        document = read_card_file(path)
    except ProtocolError as error:
        http = CardHttp(path, 200, problem=str(error))
        return Subject(path, None, tuple(check_card(None, http=http, version=rules["version"])), verified), ""
    findings = check_card(document.raw, duplicates=document.duplicates, **rules)
    return Subject(path, document.raw, tuple(findings), verified), document.text


def _check_arguments(namespace: Namespace) -> None:
    keys = namespace.jwks
    raise_errors(
        lambda: _check_online(namespace),
        lambda: check_numbers(namespace, "timeout"),
        lambda: _algorithms(namespace.algorithms),
        lambda: load_jwks(keys, timeout=namespace.timeout) if keys and not is_url(keys) else None,
        lambda: read_waivers(namespace.waivers) if namespace.waivers else None,
        lambda: _config(namespace),
    )


def _check_online(namespace: Namespace) -> None:
    if namespace.online and not is_url(namespace.source):
        raise ConfigurationError(f"--online needs the agent's URL; {namespace.source} is a file")


def _config(namespace: Namespace) -> ClientConfig:
    # A file has no endpoint, but its keys may be asked for in a private network.
    return read_config(namespace, namespace.source if is_url(namespace.source) else "http://localhost")


def _algorithms(given: str) -> dict[str, Any]:
    names = tuple(name.strip() for name in given.split(",") if name.strip())
    unknown = [name for name in names if name not in ALGORITHMS]
    if unknown:
        known = ", ".join(ALGORITHMS)
        raise ConfigurationError(f"--algorithms names {', '.join(unknown)}, which is no asymmetric one; use {known}")
    return {"algorithms": names} if names else {}


def _version(namespace: Namespace) -> str:
    if len(namespace.version) > 1:
        raise ConfigurationError("--version: a card is checked by the rules of one version; give one")
    return namespace.version[0] if namespace.version else "auto"
