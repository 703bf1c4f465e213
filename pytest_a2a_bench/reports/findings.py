"""The findings of a conformance report, as text, JSON, SARIF or Markdown, and the matrix of checks (pure).

Every rendering is bounded, free of control characters, and escaped as its format requires.
"""

from __future__ import annotations

import hashlib
import re
import shlex
import urllib.parse
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from pytest_a2a_bench.conformance.finding import BINDINGS, CARD, Exchange, Finding
from pytest_a2a_bench.conformance.report import (
    STATUSES,
    CheckRow,
    Compliance,
    Report,
    counts,
    removable,
    sdk_of,
)
from pytest_a2a_bench.redact import dump_json
from pytest_a2a_bench.reports import markdown
from pytest_a2a_bench.results.stats import count
from pytest_a2a_bench.text import listed, one_line, sanitise

FINDINGS_SHOWN = 10
EXCHANGES_SHOWN = 3
CONSEQUENCES_SHOWN = 40
_BODY = 2_000
_LINES = 40
_EVENTS = 12
_CURL = 2_000
_HEADERS = 20
_REASONS = 12
_NOTED = ("failed", "error", "warned", "waived", "inconclusive")
"""Statuses that a cell of the matrix counts beside the passed checks."""
# Headers of every HTTP client and server, which say nothing about a finding. A report in JSON has them.
_NOISE = frozenset(
    {"host", "user-agent", "accept-encoding", "connection", "keep-alive", "content-length", "date", "x-powered-by"}
)


def title(row: CheckRow) -> str:
    """Return one line that names a check: ``SEND-003 [JSONRPC] MUST (1.0.1 §3.1.1): ...``."""
    return f"{row.id} [{row.binding}] {row.level} ({row.spec}): {one_line(row.requirement)}"


def headline(row: CheckRow, *, named: bool = True) -> str:
    """Return the outcome of a check in one line.

    :param named: whether the line begins with the check's id.
    """
    first = next((f for f in row.findings if f.severity == "error"), next(iter(row.findings), None))
    what = one_line(first.found, 160) if first else one_line(row.reason or row.status, 160)
    what += f", and {count(len(row.findings) - 1, 'more finding')}" if len(row.findings) > 1 else ""
    name = f"{row.id} [{row.binding}] " if named else ""
    return f"{name}{what} ({row.level}, {row.spec})"


def explain(row: CheckRow) -> list[str]:
    """Return a check that was not passed with all of its findings, as lines."""
    lines = [title(row)]
    if row.waiver is not None:
        until = f", expired on {row.waiver.expires}" if row.waiver.expired else ""
        lines.append(f"  waiver{until}: {one_line(row.waiver.reason)}")
    if row.reason:
        lines.append(f"  reason: {one_line(row.reason)}")
    if row.explains:
        lines.append(f"  explains {len(row.explains)} more:")
        lines += [f"    {one_line(line)}" for line in row.explains[:CONSEQUENCES_SHOWN]]
        if len(row.explains) > CONSEQUENCES_SHOWN:
            lines.append(f"    ... and {len(row.explains) - CONSEQUENCES_SHOWN} more")
    # The title says the requirement already.
    known = row.requirement
    return [*lines, *found_lines([replace(f, expected="") if f.expected == known else f for f in row.findings])]


def found_lines(findings: Sequence[Finding]) -> Iterator[str]:
    """Yield findings and the exchanges behind them, each exchange once."""
    shown: list[Exchange] = []
    for finding in findings[:FINDINGS_SHOWN]:
        yield from finding_lines(finding)
        for exchange in finding.exchanges[:EXCHANGES_SHOWN]:
            # By value: exchanges that were read from a file are never the same object.
            if exchange not in shown:
                shown.append(exchange)
                yield from (f"  {line}" for line in wire_lines(exchange))
    if len(findings) > FINDINGS_SHOWN:
        yield f"  ... and {len(findings) - FINDINGS_SHOWN} more findings"


def finding_lines(finding: Finding) -> list[str]:
    """Return a finding without its exchanges."""
    fields = (
        (finding.severity, finding.found),
        ("expected", finding.expected),
        ("at", finding.pointer),
        ("fix", finding.fix),
    )
    return [f"  {name}: {one_line(text)}" for name, text in fields if text]


def wire_lines(exchange: Exchange) -> Iterator[str]:
    """Yield the request, the answer and the command that repeats it."""
    target = f"{exchange.http_method} {exchange.url}" if exchange.http_method else f"{exchange.method} {exchange.url}"
    yield f"> {one_line(target)}"
    yield from _headers("> ", exchange.request_headers)
    yield from _body("> ", exchange.request)
    if exchange.problem:
        what = "no answer" if exchange.status is None else "no whole answer"
        yield f"< {what}: {one_line(exchange.problem)}"
    if exchange.status is not None:
        kind = "gRPC status" if exchange.binding == "GRPC" else "HTTP"
        yield f"< {kind} {exchange.status} ({exchange.seconds * 1000:.0f} ms)"
    yield from _headers("< ", exchange.response_headers)
    yield from _body("< ", exchange.response)
    for event in exchange.events[:_EVENTS]:
        yield f"< event: {one_line(event)}"
    if len(exchange.events) > _EVENTS:
        yield f"< ... and {len(exchange.events) - _EVENTS} more events"
    listener = listener_line(exchange)
    if listener:
        yield f"listen: {listener}"
    # What a client sent has no answer here, and is the client's to repeat.
    if exchange.status is not None or exchange.problem:
        yield f"repeat: {_command(exchange)}"


def _command(exchange: Exchange) -> str:
    line = curl_line(exchange)
    if len(line) > _CURL:
        return f"(the command is {len(line)} characters long; its request is above)"
    # In a shell's quotes a line break is part of the request: it must stay what it is.
    return sanitise(line)


def _headers(mark: str, headers: Mapping[str, str]) -> Iterator[str]:
    telling = [(name, value) for name, value in headers.items() if name.lower() not in _NOISE]
    for name, value in telling[:_HEADERS]:
        yield f"{mark}{one_line(name, 80)}: {one_line(value, 200)}"


def _body(mark: str, text: str) -> Iterator[str]:
    if not text:
        return
    lines = sanitise(text[:_BODY]).split("\n")
    yield from (f"{mark}{line}" for line in lines[:_LINES])
    if len(lines) > _LINES or len(text) > _BODY:
        yield f"{mark}... ({len(text)} characters in all)"


# --- commands that repeat a request -----------------------------------------------------------------------------------

# A webhook of ours: its last segment is a name that nobody can guess (WebhookReceiver.hook).
_HOOK = re.compile(r'"url": ?"(https?://[^"\s]+)/[\w-]{16}(?:\?[^"]*)?"')
# The client's own, which nobody needs to repeat a request; what a check sends on purpose is kept.
_CLIENTS_OWN = frozenset({"host", "accept-encoding", "connection", "user-agent", "content-length", "accept"})


def curl_line(exchange: Exchange) -> str:
    """Return the ``curl`` (or ``grpcurl``) command that repeats a request; secrets stay ``***``."""
    return _grpcurl(exchange) if exchange.binding == "GRPC" else _curl(exchange)


def listener_line(exchange: Exchange) -> str:
    """Return the command that must listen while a request is repeated that names a webhook of ours; else empty."""
    found = _HOOK.search(exchange.request)
    if found is None:
        return ""
    parts = urllib.parse.urlsplit(found.group(1))
    if parts.hostname in ("127.0.0.1", "localhost", "::1"):
        return f"a2a-bench check --listen {parts.netloc}"
    return f"a2a-bench check --listen HOST:PORT, where {parts.scheme}://{parts.netloc} leads to"


def _curl(exchange: Exchange) -> str:
    words = ["curl", "-sS", "-i"]
    # Without -N curl keeps events back until its buffer is full, and a stream looks dead.
    if exchange.events or "event-stream" in exchange.request_headers.get("accept", ""):
        words.append("-N")
    if exchange.http_method not in ("", "GET"):
        words += ["-X", exchange.http_method]
    words += _header_words(exchange.request_headers)
    if exchange.request:
        words += ["--data-raw", exchange.request]
    return " ".join(shlex.quote(w) for w in [*words, exchange.url])


def _grpcurl(exchange: Exchange) -> str:
    scheme, separator, rest = exchange.url.partition("://")
    address = (rest if separator else exchange.url).rstrip("/")
    # grpcurl speaks TLS without this option.
    words = ["grpcurl"] + ([] if scheme in ("https", "grpcs") else ["-plaintext"])
    words += _header_words(exchange.request_headers)
    if exchange.request:
        words += ["-d", exchange.request]
    return " ".join(shlex.quote(w) for w in [*words, address, exchange.method])


def _header_words(headers: Mapping[str, str]) -> list[str]:
    return [w for k, v in headers.items() if k.lower() not in _CLIENTS_OWN for w in ("-H", f"{k}: {v}")]


# --- the matrix -------------------------------------------------------------------------------------------------------


def matrix_cells(rows: Iterable[CheckRow]) -> list[list[str]]:
    """Return the table with its titles: a line for each group of each version, a column for each binding."""
    every = list(rows)
    versions = sorted({row.version for row in every}, reverse=True)
    columns = [b for b in (CARD, *BINDINGS) if any(row.binding == b for row in every)]
    columns += sorted({row.binding for row in every} - set(columns))
    table = [["group", *columns]]
    for version in versions:
        for group in dict.fromkeys(row.group for row in every if row.version == version):
            name = f"{group} ({version})" if len(versions) > 1 else group
            mine = [row for row in every if row.version == version and row.group == group]
            table.append([name, *(_cell([row for row in mine if row.binding == c]) for c in columns)])
    return table


def _cell(rows: Sequence[CheckRow]) -> str:
    """Return the result of one group on one binding: ``17/18 1 failed``, or ``skipped`` where nothing was checked."""
    if not rows:
        return ""
    found = Counter(row.status for row in rows)
    # What another check explains is counted there.
    checked = len(rows) - found["skipped"] - found["explained"]
    if not checked:
        return "explained" if found["explained"] else "skipped"
    notes = [f"{found[status]} {status}" for status in STATUSES if status in _NOTED and found[status]]
    return " ".join([f"{found['passed']}/{checked}", *notes])


def matrix_lines(rows: Iterable[CheckRow], levels: Iterable[Compliance]) -> list[str]:
    """Return the table as aligned text, and under it the compliance level of each version."""
    every = list(rows)
    table = matrix_cells(every)
    widths = [max(len(row[i]) for row in table) for i in range(len(table[0]))]
    text = ["  ".join(c.ljust(w) for c, w in zip(row, widths, strict=True)).rstrip() for row in table]
    return [*text, *map(level_line, levels)]


def level_line(level: Compliance) -> str:
    """Return the compliance level of one version in a line."""
    return f"A2A {level.version}: {level.text}"


def count_line(rows: Iterable[CheckRow]) -> str:
    """Return all counts in one line."""
    return ", ".join(f"{n} {status}" for status, n in counts(rows).items()) or "nothing was checked"


def skip_lines(rows: Iterable[CheckRow]) -> list[str]:
    """Explain why checks were skipped, the commonest reason first."""
    found: dict[str, list[str]] = {}
    for row in rows:
        if row.status == "skipped":
            found.setdefault(one_line(row.reason or "no reason given", 240), []).append(row.id)
    ordered = sorted(found.items(), key=lambda pair: (-len(pair[1]), pair[0]))
    text = [f"  {len(ids)} x {reason} ({listed(list(dict.fromkeys(ids)), 4)})" for reason, ids in ordered[:_REASONS]]
    if len(ordered) > _REASONS:
        rest = sum(len(ids) for _, ids in ordered[_REASONS:])
        text.append(f"  {rest} x for {len(ordered) - _REASONS} other reasons")
    return text


def known_lines(rows: Iterable[CheckRow]) -> list[str]:
    """Return the failures that are the SDK's own, with the issue's URL; none if no SDK is recognised."""
    every = list(rows)
    sdk = sdk_of(every)
    known = {row.id: sdk.deviation(row) for row in every if sdk and row.status in ("failed", "warned")}
    told = {id: found for id, found in known.items() if found}
    if sdk is None or not told:
        return []
    lines = [f"known of {sdk.name}, not yours (it counts all the same; a waiver excuses it):"]
    return [*lines, *(f"  {id}: {what}{f' ({url})' if url else ''}" for id, (what, url) in told.items())]


# --- whole reports ---

_TEXT = 8_000
"""Characters of one text in JSON and SARIF."""


def render(report: Report, format: str) -> str:
    """Return a report in one of :data:`FORMATS`, with a line break at its end."""
    return FORMATS[format](report)


# --- text -------------------------------------------------------------------------------------------------------------

_SHOWN = 100


def _render_text(report: Report) -> str:
    """Return the findings with their evidence, the matrix, and the skipped checks with their reasons."""
    lines = [_header(report), ""]
    shown = [row for row in report.rows if row.is_finding]
    sdk = sdk_of(report.rows)
    for row in shown[:_SHOWN]:
        first, *rest = explain(row)
        known = [f"  known of {sdk.name}, not yours"] if sdk and sdk.deviation(row) else []
        lines += [f"{row.status.upper()} {first}", *known, *rest, ""]
    if len(shown) > _SHOWN:
        lines += [f"... and {len(shown) - _SHOWN} more checks with findings", ""]
    lines += matrix_lines(report.rows, report.levels)
    return "\n".join([*lines, *_tail(report)]) + "\n"


def summary_lines(report: Report) -> list[str]:
    """Return the agent, the matrix, a line for each finding, waivers, skipped checks and counts."""
    return [_header(report), *matrix_lines(report.rows, report.levels), *_tail(report)]


def _header(report: Report) -> str:
    agent = f" ({one_line(report.agent, 80)})" if report.agent else ""
    spoken = f", {', '.join(one_line(i, 40) for i in report.interfaces[:8])}" if report.interfaces else ""
    elsewhere = report.card_url and not report.card_url.startswith(report.endpoint.rstrip("/"))
    found = f"; its card was found at {one_line(report.card_url)}" if elsewhere else ""
    changed = f"\n{one_line(report.gateway, 400)}" if report.gateway else ""
    return f"conformance of {one_line(report.endpoint)}{agent}{spoken}{found}{changed}"


def _tail(report: Report) -> list[str]:
    lines = [f"{row.status}: {headline(row)}" for row in report.rows if row.is_finding][:_SHOWN]
    lines += [
        f"waived: {row.id} [{row.binding}]: {one_line(row.waiver.reason, 160)}"
        for row in report.rows
        if row.status == "waived" and row.waiver is not None
    ][:_SHOWN]
    lines += [f"removable waiver: {w} (its check passes)" for w in removable(report.waivers, report.rows)]
    lines += known_lines(report.rows)
    if skips := skip_lines(report.rows):
        lines += ["skipped:", *skips]
    return [*lines, f"{count_line(report.rows)} in {report.seconds:.1f} s"]


# --- JSON -------------------------------------------------------------------------------------------------------------

_ITEMS = 100
_MOST = {"results": None, "findings": 20, "exchanges": 5}


def _render_json(report: Report) -> str:
    return dump_json(_bounded(report.to_json()), indent=2) + "\n"


def _bounded(value: Any, whole: bool = False) -> Any:
    if isinstance(value, str):
        plain = sanitise(value[: _TEXT + 1])
        return plain if len(plain) <= _TEXT else f"{plain[:_TEXT]}... ({len(value)} characters in all)"
    if isinstance(value, dict):
        return {
            sanitise(str(k)): _bounded(inner[: _MOST[k]] if k in _MOST else inner, k == "results")
            for k, inner in value.items()
        }
    if isinstance(value, (list, tuple)):
        return [_bounded(v) for v in (value if whole else value[:_ITEMS])]
    return value


# --- Markdown ---------------------------------------------------------------------------------------------------------

_FOLDED = 50


def _render_markdown(report: Report) -> str:
    """Return the verdict, the matrix and the findings, each of which can be unfolded."""
    lines = [f"# A2A conformance of {markdown.escape(report.endpoint)}", ""]
    if report.agent:
        lines += [f"Agent: {markdown.escape(report.agent)}", ""]
    lines += [f"- **{markdown.escape(report.gateway)}**"] if report.gateway else []
    lines += [f"- **A2A {level.version}**: {level.text}" for level in report.levels]
    lines += ["", count_line(report.rows), "", *markdown.table(matrix_cells(report.rows)), ""]
    shown = [row for row in report.rows if row.is_finding]
    if shown:
        lines += ["## Findings", ""]
    for row in shown[:_FOLDED]:
        summary = f"{row.status}: {headline(row)}"
        lines.append(markdown.folded(summary, "\n".join(explain(row))))
    if len(shown) > _FOLDED:
        lines += [f"... and {len(shown) - _FOLDED} more.", ""]
    first, *known = known_lines(report.rows) or [""]
    lines += (
        [markdown.escape(first), "", *(f"- {markdown.escape(line.strip())}" for line in known), ""] if first else []
    )
    lines += [
        f"- waiver {markdown.escape(str(w))} can be removed: its check passes"
        for w in removable(report.waivers, report.rows)
    ]
    return "\n".join(lines).rstrip() + "\n"


# --- SARIF 2.1.0 ------------------------------------------------------------------------------------------------------

_SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"
_INFORMATION = "https://github.com/pytest-a2a-bench/pytest-a2a-bench"
_RESULTS = 1_000
_LEVELS = {"MUST": "error", "SHOULD": "warning", "MAY": "note"}


def _render_sarif(report: Report) -> str:
    """Return one run whose results are the findings; a waived one is a suppressed result."""
    shown = [row for row in report.rows if row.status in ("failed", "warned", "waived", "error")]
    every = [result for row in shown for result in _sarif_results(row, report)]
    rules = [_rule(row) for row in {row.id: row for row in shown}.values()]
    places = {rule["id"]: place for place, rule in enumerate(rules)}
    invocation: dict[str, Any] = {"executionSuccessful": report.could_run}
    left_out = max(0, len(every) - _RESULTS)
    left_out += sum(max(0, len(_weighty(row)) - FINDINGS_SHOWN) for row in shown)
    if left_out:
        text = f"{left_out} more findings were left out; --format json has all of them"
        invocation["toolExecutionNotifications"] = [{"level": "note", "message": {"text": text}}]
    driver = {
        "name": report.tool.get("name", "pytest-a2a-bench"),
        "version": report.tool.get("version", "0"),
        "informationUri": _INFORMATION,
        "rules": rules,
    }
    run = {
        "tool": {"driver": driver},
        "invocations": [invocation],
        "results": [{**result, "ruleIndex": places[result["ruleId"]]} for result in every[:_RESULTS]],
        "columnKind": "unicodeCodePoints",
    }
    return dump_json({"$schema": _SCHEMA, "version": "2.1.0", "runs": [run]}, indent=2) + "\n"


def _rule(row: CheckRow) -> dict[str, Any]:
    return {
        "id": row.id,
        "shortDescription": {"text": one_line(row.requirement)},
        "fullDescription": {"text": f"A2A {one_line(row.spec)}, {row.level}: {one_line(row.requirement)}"},
        "defaultConfiguration": {"level": _LEVELS[row.level]},
        "properties": {"tags": ["a2a", row.group, row.level], "group": row.group, "version": row.version},
    }


def _weighty(row: CheckRow) -> list[Finding]:
    return [f for f in row.findings if f.severity != "note"]


def _sarif_results(row: CheckRow, report: Report) -> Iterator[dict[str, Any]]:
    shown: Iterable[Finding] = _weighty(row)[:FINDINGS_SHOWN]
    fallback = Finding(row.id, "error", row.reason or "the agent could not be asked")
    for finding in shown or [fallback]:
        lines = [f"{one_line(finding.found)} (on {row.binding})"]
        lines += [line.strip() for line in finding_lines(finding)[1:]]
        for exchange in finding.exchanges[:EXCHANGES_SHOWN]:
            lines += wire_lines(exchange)
        # Code scanning knows a finding by this, whichever line it is in.
        fingerprint = hashlib.sha256(f"{row.name} {finding.pointer}".encode("utf-8", "replace")).hexdigest()[:32]
        yield {
            "ruleId": row.id,
            "level": _sarif_level(row, finding),
            "message": {"text": sanitise("\n".join(lines))[:_TEXT]},
            "locations": [_location(row, finding, report)],
            "partialFingerprints": {"a2aCheck/v1": fingerprint},
            **_suppressions(row),
        }


def _sarif_level(row: CheckRow, finding: Finding) -> str:
    if row.status in ("failed", "error"):
        return "error"
    return {"error": "error", "warning": "warning"}.get(finding.severity, "note")


def _location(row: CheckRow, finding: Finding, report: Report) -> dict[str, Any]:
    # A missing member is shown where its object begins.
    at = finding.pointer
    while at and at not in report.lines:
        at = at.rpartition("/")[0]
    pointer = one_line(finding.pointer, 200)
    return {
        "physicalLocation": {
            "artifactLocation": {"uri": one_line(report.endpoint)},
            # Code scanning wants a line; an agent has none, and a card's file has one for each member.
            "region": {"startLine": report.lines.get(at, 1)},
        },
        "logicalLocations": [{"fullyQualifiedName": f"{row.version}/{row.binding}{pointer}", "kind": "member"}],
    }


def _suppressions(row: CheckRow) -> dict[str, Any]:
    if row.status != "waived" or row.waiver is None:
        return {}
    return {"suppressions": [{"kind": "external", "status": "accepted", "justification": one_line(row.waiver.reason)}]}


FORMATS: dict[str, Callable[[Report], str]] = {
    "text": _render_text,
    "json": _render_json,
    "sarif": _render_sarif,
    "markdown": _render_markdown,
}
