"""``a2a-bench check URL|FILE``: check an agent's card and protocol, or a card alone.

Without an argument it checks the configured endpoint. ``--direct URL`` names the agent behind a gateway, with which the
gateway at the endpoint is compared. ``--client HOST:PORT`` checks a client instead: it serves an agent whose tasks are
situations for it. ``--listen HOST:PORT`` receives push notifications, and prints them. Exit code 0 is clean, 1 has
findings, 2 could not run, or not all of it.
"""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from typing import Any

from pytest_a2a_bench.cli import _card, _listening, _protocol, _settings
from pytest_a2a_bench.config.settings import BUILTIN_PREFIX, Settings
from pytest_a2a_bench.conformance.card.fetch import is_url
from pytest_a2a_bench.conformance.finding import VERSIONS
from pytest_a2a_bench.errors import ConfigurationError
from pytest_a2a_bench.reports.findings import FORMATS

_LEVELS = ("MUST", "SHOULD", "MAY")
_BINDINGS = ("JSONRPC", "HTTP+JSON", "GRPC", "card")
_SETTINGS = ("strict", "waivers", "scenarios", "conformance_profile", "direct")
"""Settings that have an option of their own here."""
_AGENT_ONLY = ("group", "level", "id", "binding", "accept")
_CARD_ONLY = ("algorithms", "allow_http", "online")


def configure(parser: ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument(
        "target",
        metavar="URL|FILE",
        nargs="?",
        help="an agent's URL, builtin:NAME, or a card (- is stdin)",
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
        return _listening.receive_notifications(namespace)
    loaded = _settings.load_settings(namespace, names=_SETTINGS)
    settings = _settings.checked(loaded)
    if namespace.client is not None:
        _take(namespace, settings)
        return _listening.judge_clients(namespace)
    target = namespace.target or settings.endpoint
    if target is None:
        raise ConfigurationError("name an agent's URL or a card's file, or configure an endpoint")
    _take(namespace, settings)
    if namespace.card or not (is_url(target) or target.startswith(BUILTIN_PREFIX)):
        _refuse(namespace, _AGENT_ONLY, "belongs to the check of an agent; leave out --card, or give a URL")
        namespace.source = target
        return _card.run(namespace)
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
