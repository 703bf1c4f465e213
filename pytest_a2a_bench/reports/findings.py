"""The text of conformance findings, and the matrix of checks by group and binding (pure)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence

from pytest_a2a_bench.conformance.finding import BINDINGS, CARD, CheckResult, Exchange, Finding
from pytest_a2a_bench.conformance.report import STATUSES, CheckRow, Compliance, Judgement, counts
from pytest_a2a_bench.conformance.wire.exchange import curl_line, listener_line
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


def title(result: CheckResult) -> str:
    """Return one line that names a check: ``SEND-003 [JSONRPC] MUST (1.0.1 §3.1.1): ...``."""
    entry = result.requirement
    return f"{entry.id} [{result.binding}] {entry.level} ({entry.spec}): {one_line(entry.text)}"


def headline(judgement: Judgement, *, named: bool = True) -> str:
    """Return the outcome of a check in one line.

    :param named: whether the line begins with the check's id.
    """
    result = judgement.result
    first = next((f for f in result.findings if f.severity == "error"), next(iter(result.findings), None))
    what = one_line(first.found, 160) if first else one_line(result.reason or result.outcome, 160)
    entry = result.requirement
    name = f"{entry.id} [{result.binding}] " if named else ""
    return f"{name}{what} ({entry.level}, {entry.spec})"


def explain(judgement: Judgement) -> list[str]:
    """Return a check that was not passed with all of its findings, as lines."""
    result = judgement.result
    lines = [title(result)]
    if judgement.waiver is not None:
        until = f", expired on {judgement.waiver.expires}" if judgement.expired else ""
        lines.append(f"  waiver{until}: {one_line(judgement.waiver.reason)}")
    if result.reason:
        lines.append(f"  reason: {one_line(result.reason)}")
    if result.explains:
        lines.append(f"  explains {len(result.explains)} more:")
        lines += [f"    {one_line(line)}" for line in result.explains[:CONSEQUENCES_SHOWN]]
        if len(result.explains) > CONSEQUENCES_SHOWN:
            lines.append(f"    ... and {len(result.explains) - CONSEQUENCES_SHOWN} more")
    return [*lines, *found_lines(result.findings)]


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
    """Say why checks were skipped, the commonest reason first."""
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
