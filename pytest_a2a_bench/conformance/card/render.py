"""Findings about one card, as text, JSON, SARIF and Markdown (pure)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from types import MappingProxyType

from pytest_a2a_bench.conformance.finding import Finding, Severity
from pytest_a2a_bench.conformance.requirements import requirement
from pytest_a2a_bench.errors import ConfigurationError
from pytest_a2a_bench.redact import one_line
from pytest_a2a_bench.secret import dump_json

_ORDER: dict[Severity, int] = {"error": 0, "warning": 1, "note": 2}
_RED, _YELLOW, _DIM, _BOLD, _RESET = "\x1b[31m", "\x1b[33m", "\x1b[2m", "\x1b[1m", "\x1b[0m"
_COLOURS = {"error": _RED, "warning": _YELLOW, "note": _DIM}
SCHEMA = "a2a-bench/card"
SCHEMA_VERSION = 1
_SARIF = "https://json.schemastore.org/sarif-2.1.0.json"
_LONGEST = 300


# Stable: within a severity findings stay in the order of the card.
def by_severity(findings: Sequence[Finding]) -> list[Finding]:
    """Return errors first, then warnings, then notes; otherwise in the order given."""
    return sorted(findings, key=lambda f: _ORDER[f.severity])


def summary(findings: Sequence[Finding]) -> str:
    """Return the counts: ``2 errors, 1 warning``."""
    counts = Counter(f.severity for f in findings)
    parts = [f"{n} {kind}{'s' if n != 1 else ''}" for kind in _ORDER if (n := counts[kind])]
    return ", ".join(parts) or "no findings"


def to_text(source: str, versions: Sequence[str], findings: Sequence[Finding], *, colour: bool = False) -> str:
    """Render for a terminal: what, where, what was found, what is expected, and what to do."""

    def paint(code: str, text: str) -> str:
        return f"{code}{text}{_RESET}" if colour else text

    def lines() -> Iterator[str]:
        for f in by_severity(findings):
            place = _harmless(f.pointer) or "(the card)"
            yield f"{paint(_COLOURS[f.severity], f'{f.severity:<8}')}{paint(_BOLD, f'{f.rule:<13}')}{place}"
            yield f"        found     {_harmless(f.found)}"
            if f.expected:
                yield f"        expected  {_harmless(f.expected)}" + paint(_DIM, f"  [{f.spec}]" if f.spec else "")
            if f.fix:
                yield f"        fix       {_harmless(f.fix)}"
            yield ""
        yield f"{_harmless(source)}: A2A {' and '.join(versions)} card, {summary(findings)}"

    return "\n".join(lines()) + "\n"


def to_json(source: str, versions: Sequence[str], findings: Sequence[Finding]) -> str:
    """Render as one JSON object."""
    counts = Counter(f.severity for f in findings)
    document = {
        "schema": SCHEMA,
        "schema_version": SCHEMA_VERSION,
        "source": source,
        "versions": list(versions),
        "counts": {kind: counts[kind] for kind in ("error", "warning", "note")},
        "findings": [f.to_json() for f in by_severity(findings)],
    }
    return dump_json(document, indent=2) + "\n"


def to_markdown(source: str, versions: Sequence[str], findings: Sequence[Finding]) -> str:
    """Render as a Markdown table, such as for a pull request's comment."""
    head = f"### Agent card `{_code(source)}` (A2A {' and '.join(versions)}): {summary(findings)}\n"
    if not findings:
        return head
    rows = [
        f"| {f.severity} | {f.rule} | `{_code(f.pointer) or '/'}` | {_cell(f.found)} | {_cell(f.expected)}"
        f"{f' ({_cell(f.spec)})' if f.spec else ''} | {_cell(f.fix)} |"
        for f in by_severity(findings)
    ]
    return "\n".join([head, "| | rule | where | found | expected | fix |", "|---|---|---|---|---|---|", *rows]) + "\n"


def to_sarif(
    source: str, versions: Sequence[str], findings: Sequence[Finding], lines: Mapping[str, int] | None = None
) -> str:
    """Render as SARIF 2.1.0, which code hosts show beside the file.

    :param lines: JSON pointer -> line of the file; without them everything is in its first.
    """
    rules = [_sarif_rule(rule) for rule in dict.fromkeys(f.rule for f in findings)]
    run = {
        "tool": {"driver": {"name": "pytest-a2a-bench", "rules": rules}},
        "properties": {"protocolVersions": list(versions)},
        "results": [_sarif_result(source, f, lines or {}) for f in by_severity(findings)],
    }
    return dump_json({"$schema": _SARIF, "version": "2.1.0", "runs": [run]}, indent=2) + "\n"


def _sarif_rule(rule: str) -> dict[str, object]:
    entry = requirement(rule)
    return {"id": rule, "shortDescription": {"text": entry.text}, "help": {"text": f"{entry.level}, {entry.spec}"}}


def _sarif_result(source: str, finding: Finding, lines: Mapping[str, int]) -> dict[str, object]:
    fix = f" Fix: {finding.fix}." if finding.fix else ""
    # Code hosts show no result without a line. What is missing stands where its object begins.
    pointer = finding.pointer
    while pointer and pointer not in lines:
        pointer = pointer.rpartition("/")[0]
    location: dict[str, object] = {
        "physicalLocation": {"artifactLocation": {"uri": source}, "region": {"startLine": lines.get(pointer, 1)}}
    }
    if finding.pointer:
        location["logicalLocations"] = [{"fullyQualifiedName": finding.pointer, "kind": "member"}]
    return {
        "ruleId": finding.rule,
        "level": finding.severity,
        # SARIF has no members for these; viewers show the message alone.
        "message": {"text": f"{finding.found}. Expected: {finding.expected}.{fix}"},
        "locations": [location],
        # Code hosts tell by it whether a finding is new, wherever the line has moved.
        "partialFingerprints": {"ruleAndPointer/v1": f"{finding.rule}{finding.pointer}"},
    }


Renderer = Callable[[str, Sequence[str], Sequence[Finding]], str]

FORMATS: Mapping[str, Renderer] = MappingProxyType(
    {"text": to_text, "json": to_json, "sarif": to_sarif, "markdown": to_markdown}
)


def render(format: str, source: str, versions: Sequence[str], findings: Sequence[Finding]) -> str:
    """Render findings in one of the formats.

    :raises ConfigurationError: if there is no such format.
    """
    if format not in FORMATS:
        raise ConfigurationError(f"there is no format {format!r}; use one of {', '.join(FORMATS)}")
    return FORMATS[format](source, versions, findings)


def _harmless(text: str) -> str:
    # Everything that a card says may end in a terminal, so control characters are shown and not sent.
    return one_line(text, _LONGEST)


def _code(text: str) -> str:
    # A backtick ends inline code, a bar the cell.
    return _harmless(text).replace("`", "'").replace("|", "\\|")


def _cell(text: str) -> str:
    # Else a card could put links, images or HTML into a pull request.
    plain = _harmless(text).replace("&", "&amp;").replace("<", "&lt;")
    return "".join(f"\\{c}" if c in "\\|`*_[]!" else c for c in plain)
