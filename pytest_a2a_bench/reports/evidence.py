"""What a finding shows: the requirement, what was found, the wire and the line that repeats it (pure)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from pytest_a2a_bench.conformance.finding import CheckResult, Exchange, Finding
from pytest_a2a_bench.conformance.report import Judgement
from pytest_a2a_bench.conformance.wire.exchange import curl_line, listener_line
from pytest_a2a_bench.redact import one_line, sanitise

FINDINGS_SHOWN = 10
EXCHANGES_SHOWN = 3
CONSEQUENCES_SHOWN = 40
_BODY = 2_000
_LINES = 40
_EVENTS = 12
_CURL = 2_000
_HEADERS = 20
# What every HTTP client and server says of itself and of the connection: it tells nothing about a finding, and hides
# the headers that do. A report in JSON has it.
_NOISE = frozenset(
    {"host", "user-agent", "accept-encoding", "connection", "keep-alive", "content-length", "date", "x-powered-by"}
)


def title(result: CheckResult) -> str:
    """Return one line that names a check: ``SEND-003 [JSONRPC] MUST (1.0.1 §3.1.1): ...``."""
    entry = result.requirement
    return f"{entry.id} [{result.binding}] {entry.level} ({entry.spec}): {one_line(entry.text)}"


def headline(judgement: Judgement, *, named: bool = True) -> str:
    """Return one line that says what came of a check.

    :param named: whether it names the check; where something else does, there is more room for what is wrong.
    """
    result = judgement.result
    first = next((f for f in result.findings if f.severity == "error"), next(iter(result.findings), None))
    what = one_line(first.found, 160) if first else one_line(result.reason or result.outcome, 160)
    entry = result.requirement
    name = f"{entry.id} [{result.binding}] " if named else ""
    return f"{name}{what} ({entry.level}, {entry.spec})"


def explain(judgement: Judgement) -> list[str]:
    """Return everything that is to be said about a check that was not passed."""
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
    """Yield what was found and the exchanges behind it, each of these once."""
    shown: list[Exchange] = []
    for finding in findings[:FINDINGS_SHOWN]:
        yield from finding_lines(finding)
        for exchange in finding.exchanges[:EXCHANGES_SHOWN]:
            # By value, too: what was read from a file is never the same object.
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
