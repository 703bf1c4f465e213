"""Check an agent's card alone: that of a URL, or a file."""

from __future__ import annotations

import sys
from argparse import Namespace
from collections.abc import Mapping
from typing import Any

from pytest_a2a_bench.a2a.config import ClientConfig
from pytest_a2a_bench.cli._reporting import check_numbers, deliver
from pytest_a2a_bench.cli._served import served
from pytest_a2a_bench.cli._settings import read_config
from pytest_a2a_bench.conformance.card import ALGORITHMS, CardHttp, check_card
from pytest_a2a_bench.conformance.card.document import lines_of
from pytest_a2a_bench.conformance.card.fetch import is_url, load_jwks, read_card_file
from pytest_a2a_bench.conformance.finding import CheckResult
from pytest_a2a_bench.conformance.subject import Subject, check_online, look_at
from pytest_a2a_bench.conformance.waivers import read_waivers
from pytest_a2a_bench.errors import ConfigurationError, ProtocolError, raise_errors
from pytest_a2a_bench.redact import redact_url
from pytest_a2a_bench.text import one_line


def run(namespace: Namespace) -> int:
    """Judge the card and print what was found."""
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
    if any(j.status == "failed" for j in report.judgements):
        return 1
    return 2 if any(j.status == "error" for j in report.judgements) else 0


def _read(path: str, rules: Mapping[str, Any]) -> tuple[Subject, str]:
    """Return the card of a file, judged, and its text."""
    verified = rules["jwks"] is not None
    try:
        document = read_card_file(path)
    except ProtocolError as error:
        http = CardHttp(path, 200, problem=f"the card is not JSON: {error}")
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
