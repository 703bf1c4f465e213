"""``a2a-bench card FILE|URL``: judge an agent card. Exit code 0 is clean, 1 has findings, 2 could not run."""

from __future__ import annotations

import sys
from argparse import ArgumentParser, Namespace
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pytest_a2a_bench import __version__
from pytest_a2a_bench.a2a.card import narrow_to_endpoint
from pytest_a2a_bench.a2a.config import ClientConfig
from pytest_a2a_bench.cli import _connection
from pytest_a2a_bench.cli._connection import read_config
from pytest_a2a_bench.cli._served import served
from pytest_a2a_bench.conformance.card import ALGORITHMS, CardHttp, card_versions, check_card, check_online, fetch_card
from pytest_a2a_bench.conformance.card.document import Ledger, lines_of
from pytest_a2a_bench.conformance.card.fetch import is_url, load_jwks, read_card_file
from pytest_a2a_bench.conformance.card.judge import check_served
from pytest_a2a_bench.conformance.card.online import declared_interfaces
from pytest_a2a_bench.conformance.finding import Finding
from pytest_a2a_bench.conformance.report import Report, judge
from pytest_a2a_bench.conformance.subject import Subject
from pytest_a2a_bench.conformance.waivers import read_waivers
from pytest_a2a_bench.conformance.wire.exchange import Redactor
from pytest_a2a_bench.errors import ConfigurationError, ProtocolError, raise_errors
from pytest_a2a_bench.redact import one_line, redact_url
from pytest_a2a_bench.reports.conformance import FORMATS, render
from pytest_a2a_bench.secret import KNOWN


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
    parser.add_argument("--format", choices=FORMATS, default="text", help="Output (text)")
    parser.add_argument("-o", "--output", metavar="FILE", help="Write it there")
    parser.add_argument("--strict", action="store_true", help="Exit with 1 for warnings too")
    parser.add_argument("--waivers", metavar="FILE", help="TOML file of known defects, with reasons")
    _connection.add_arguments(parser)


def run(namespace: Namespace) -> int:
    """Judge the card and print what was found."""
    with served(namespace.source) as namespace.source:
        return _judge(namespace)


def _judge(namespace: Namespace) -> int:
    _check_arguments(namespace)
    config = _config(namespace)
    card = _load(namespace, config)
    raw, http = card.raw, card.http
    versions = card_versions(raw) if namespace.version == "auto" else (namespace.version,)
    findings: list[Finding] = []
    if http is None or not http.problem:
        findings += check_card(
            raw,
            version=namespace.version,
            http=http,
            jwks=_jwks(namespace, config),
            allow_http=namespace.allow_http,
            duplicates=card.duplicates,
            **_algorithms(namespace.algorithms),
        )
    else:
        findings += _unserved(http, versions[0])
    if namespace.online and raw is not None:
        found_at = http.url if http is not None else namespace.source
        meant = narrow_to_endpoint(raw, namespace.source, found_at) if isinstance(raw, Mapping) else raw
        findings += check_online(meant, namespace.source, config=config, timeout=namespace.timeout)
        # Without this line, a card without findings looks like a card that was not checked online.
        asked = [f"{i.binding} {i.version} at {i.url}" for i in declared_interfaces(meant)]
        print(
            f"a2a-bench: asked {one_line(KNOWN.hide(', '.join(asked) or 'no interface: none is declared'), 600)}",
            file=sys.stderr,
        )
    findings = Redactor(config.secrets).findings(findings)
    shown = _shown(namespace.source)
    subject = Subject(shown, raw, tuple(findings), bool(namespace.jwks), http.url if http is not None else "")
    waivers = read_waivers(namespace.waivers) if namespace.waivers else ()
    results = subject.card_results(versions, served=http is not None)
    report = Report(
        endpoint=shown,
        judgements=tuple(judge(results, waivers=waivers, strict=namespace.strict)),
        agent=subject.agent,
        interfaces=subject.interfaces,
        card_url=subject.card_url,
        waivers=waivers,
        strict=namespace.strict,
        tool={"name": "pytest-a2a-bench", "version": __version__},
        lines=lines_of(card.text) if namespace.format == "sarif" else {},
    )
    text = render(report, namespace.format)
    if namespace.output:
        _write(namespace.output, text)
    else:
        sys.stdout.write(text)
    return int(not report.is_clean)


def _write(path: str, text: str) -> None:
    try:
        Path(path).write_text(KNOWN.hide(text), encoding="utf-8")
    except OSError as error:
        raise ConfigurationError(f"-o {path}: cannot be written: {error.strerror or error}") from error


def _check_arguments(namespace: Namespace) -> None:
    keys = namespace.jwks
    raise_errors(
        lambda: _check_values(namespace),
        lambda: _algorithms(namespace.algorithms),
        lambda: load_jwks(keys, timeout=namespace.timeout) if keys and not is_url(keys) else None,
        lambda: read_waivers(namespace.waivers) if namespace.waivers else None,
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


@dataclass(frozen=True, slots=True)
class _Card:
    raw: Any
    http: CardHttp | None = None
    duplicates: tuple[str, ...] = ()
    text: str = ""


def _load(namespace: Namespace, config: ClientConfig) -> _Card:
    if is_url(namespace.source):
        raw, http, _ = fetch_card(namespace.source, config=config, timeout=namespace.timeout)
        return _Card(raw, http)
    try:
        document = read_card_file(namespace.source)
    except ProtocolError as error:
        return _Card(None, CardHttp(namespace.source, 200, problem=f"the card is not JSON: {error}"))
    return _Card(document.raw, None, document.duplicates, document.text)


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
