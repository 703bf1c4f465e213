"""``a2a-bench card FILE|URL``: judge an agent card. Exit code 0 is clean, 1 has findings, 2 could not run."""

from __future__ import annotations

import os
import sys
from argparse import ArgumentParser, Namespace
from collections.abc import Mapping
from typing import Any

from pytest_a2a_bench.a2a.card import narrow_to_endpoint
from pytest_a2a_bench.a2a.config import ClientConfig
from pytest_a2a_bench.cli import _connection
from pytest_a2a_bench.cli._connection import read_config
from pytest_a2a_bench.cli._served import served
from pytest_a2a_bench.conformance.card import ALGORITHMS, CardHttp, card_versions, check_card, check_online, fetch_card
from pytest_a2a_bench.conformance.card.document import Ledger
from pytest_a2a_bench.conformance.card.fetch import is_url, load_jwks, read_card_file
from pytest_a2a_bench.conformance.card.judge import check_served
from pytest_a2a_bench.conformance.card.render import render, to_text
from pytest_a2a_bench.conformance.finding import Finding
from pytest_a2a_bench.conformance.wire.exchange import Redactor
from pytest_a2a_bench.errors import ConfigurationError, ProtocolError, raise_errors
from pytest_a2a_bench.redact import redact_url


def configure(parser: ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument(
        "source", metavar="FILE|URL", help="The card, an agent's base URL, or builtin:NAME; - is standard input"
    )
    parser.add_argument("--version", choices=("auto", "1.0", "0.3"), default="auto", help="Rules to apply (auto)")
    parser.add_argument("--jwks", metavar="FILE|URL", help="Verify the signatures with these keys")
    parser.add_argument("--algorithms", metavar="A,B", default="", help="Signature algorithms to accept")
    parser.add_argument("--online", action="store_true", help="Check that the agent keeps what the card promises")
    parser.add_argument("--allow-http", action="store_true", help="Accept interfaces without TLS on any host")
    parser.add_argument("--timeout", metavar="SECONDS", type=float, default=10.0, help="For fetching the card (10)")
    parser.add_argument("--format", choices=("text", "json", "sarif", "markdown"), default="text", help="Output (text)")
    parser.add_argument("--strict", action="store_true", help="Exit with 1 for warnings too")
    _connection.add_arguments(parser)


def run(namespace: Namespace) -> int:
    """Judge the card and print what was found."""
    with served(namespace.source) as namespace.source:
        return _judge(namespace)


def _judge(namespace: Namespace) -> int:
    _check_arguments(namespace)
    config = _config(namespace)
    raw, http, duplicates = _load(namespace, config)
    versions = card_versions(raw) if namespace.version == "auto" else (namespace.version,)
    findings: list[Finding] = []
    if http is None or not http.problem:
        findings += check_card(
            raw,
            version=namespace.version,
            http=http,
            jwks=_jwks(namespace, config),
            allow_http=namespace.allow_http,
            duplicates=duplicates,
            **_algorithms(namespace.algorithms),
        )
    else:
        findings += _unserved(http, versions[0])
    if namespace.online and raw is not None:
        found_at = http.url if http is not None else namespace.source
        meant = narrow_to_endpoint(raw, namespace.source, found_at) if isinstance(raw, Mapping) else raw
        findings += check_online(meant, namespace.source, config=config, timeout=namespace.timeout)
    findings = Redactor(config.secrets).findings(findings)
    if namespace.format == "text":
        colour = sys.stdout.isatty() and "NO_COLOR" not in os.environ
        sys.stdout.write(to_text(_shown(namespace.source), versions, findings, colour=colour))
    else:
        sys.stdout.write(render(namespace.format, _shown(namespace.source), versions, findings))
    failing = ("error", "warning") if namespace.strict else ("error",)
    return int(any(f.severity in failing for f in findings))


def _check_arguments(namespace: Namespace) -> None:
    keys = namespace.jwks
    raise_errors(
        lambda: _check_values(namespace),
        lambda: _algorithms(namespace.algorithms),
        lambda: load_jwks(keys, timeout=namespace.timeout) if keys and not is_url(keys) else None,
        lambda: _config(namespace),
    )


def _check_values(namespace: Namespace) -> None:
    wrong = []
    if namespace.online and not is_url(namespace.source):
        wrong.append(f"--online needs the agent's URL; {namespace.source} is a file")
    if not 0 < namespace.timeout < float("inf"):
        wrong.append(f"--timeout is {namespace.timeout}; give a number of seconds above 0")
    if wrong:
        raise ConfigurationError("; ".join(wrong))


def _config(namespace: Namespace) -> ClientConfig:
    # A file has no endpoint, but its keys may be asked for in a private network.
    return read_config(namespace, namespace.source if is_url(namespace.source) else "http://localhost")


def _load(namespace: Namespace, config: ClientConfig) -> tuple[Any, CardHttp | None, tuple[str, ...]]:
    if is_url(namespace.source):
        raw, http, _ = fetch_card(namespace.source, config=config, timeout=namespace.timeout)
        return raw, http, ()
    try:
        document = read_card_file(namespace.source)
    except ProtocolError as error:
        return None, CardHttp(namespace.source, 200, problem=f"the card is not JSON: {error}"), ()
    return document.raw, None, document.duplicates


def _jwks(namespace: Namespace, config: ClientConfig) -> Mapping[str, Any] | None:
    if not namespace.jwks:
        return None
    return load_jwks(namespace.jwks, timeout=namespace.timeout, network=config.network)


def _unserved(http: CardHttp, version: str) -> list[Finding]:
    ledger = Ledger()
    check_served(http, version, ledger)
    return ledger.findings()


def _algorithms(given: str) -> dict[str, Any]:
    names = tuple(name.strip() for name in given.split(",") if name.strip())
    unknown = [name for name in names if name not in ALGORITHMS]
    if unknown:
        known = ", ".join(ALGORITHMS)
        raise ConfigurationError(f"--algorithms names {', '.join(unknown)}, which is no asymmetric one; use {known}")
    return {"algorithms": names} if names else {}


def _shown(source: str) -> str:
    return redact_url(source) if "://" in source else source
