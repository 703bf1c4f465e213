"""A report in the form of the official TCK's ``compatibility.json``, under its own requirement ids (pure).

``conformance/data/tck.jsonl`` says which of our requirements each of the TCK's is. What has no check here, such as
rules for clients, is ``NOT TESTED``, which the TCK counts as not kept; so do we, as percentages are to be comparable.
"""

from __future__ import annotations

import datetime
import json
from collections import defaultdict
from collections.abc import Iterable, Sequence
from functools import cache
from importlib.resources import files
from typing import Any, NamedTuple

from pytest_a2a_bench.conformance.report import Judgement, Report
from pytest_a2a_bench.redact import one_line

_TRANSPORTS = {"JSONRPC": "jsonrpc", "HTTP+JSON": "http_json", "GRPC": "grpc", "card": "agent_card"}
_ONE_BINDING = {"JSONRPC-": "JSONRPC", "HTTP_JSON-": "HTTP+JSON", "GRPC-": "GRPC"}
_LEVELS = {"overall": "", "must": "MUST", "should": "SHOULD", "may": "MAY"}


class TckRequirement(NamedTuple):
    """One requirement of the TCK.

    :param ours: ids of the requirements that it comes to; empty where there is no check.
    """

    id: str
    level: str
    ours: tuple[str, ...]

    @property
    def binding(self) -> str:
        """The only binding that it is about; empty for all."""
        return next((binding for prefix, binding in _ONE_BINDING.items() if self.id.startswith(prefix)), "")


@cache
def load_tck() -> tuple[TckRequirement, ...]:
    """Return the TCK's requirements in its own order."""
    text = (files("pytest_a2a_bench.conformance") / "data" / "tck.jsonl").read_text(encoding="utf-8")
    rows = map(json.loads, text.splitlines())
    return tuple(TckRequirement(row["id"], row["level"], tuple(row["ours"])) for row in rows)


def render(report: Report) -> str:
    """Return the report as JSON; the TCK is about 1.0, and so is this."""
    found: defaultdict[str, list[Judgement]] = defaultdict(list)
    for judgement in report.judgements:
        if judgement.result.requirement.version == "1.0":
            found[judgement.result.requirement.id].append(judgement)
    each = {r.id: _result(r, [j for id in r.ours for j in found[id]]) for r in load_tck()}
    shares = {f"{name}_compatibility": _share(each.values(), level) for name, level in _LEVELS.items()}
    document = {
        "summary": {
            "timestamp": datetime.datetime.now(tz=datetime.UTC).isoformat(),
            "sut_url": report.endpoint,
            "spec_version": "1.0",
            **{name: f"{share:.1f}%" for name, share in shares.items()},
        },
        "per_requirement": each,
        "per_transport": _transports(each.values()),
    }
    return json.dumps(document, indent=2, ensure_ascii=False) + "\n"


def _result(requirement: TckRequirement, judgements: Sequence[Judgement]) -> dict[str, Any]:
    by_transport: defaultdict[str, list[Judgement]] = defaultdict(list)
    for judgement in judgements:
        if requirement.binding in ("", judgement.result.binding):
            by_transport[_TRANSPORTS.get(judgement.result.binding, judgement.result.binding)].append(judgement)
    transports = {name: status for name, found in by_transport.items() if (status := _status(found))}
    errors = {name: _errors(by_transport[name]) for name, status in transports.items() if status == "FAIL"}
    return {
        "level": requirement.level,
        "status": _overall(set(transports.values())),
        "transports": transports,
        "errors": [error for found in errors.values() for error in found],
        "test_ids": sorted({f"{j.result.requirement.id}[{j.result.binding}]" for j in judgements}),
    }


def _status(judgements: Iterable[Judgement]) -> str:
    """Return what several checks on one transport come to; empty where nobody knows."""
    found = set()
    for judgement in judgements:
        # A MUST that is only warned about is one on which the specification contradicts itself: no failure.
        soft = judgement.result.outcome == "warned" and judgement.result.requirement.level == "MUST"
        # What another check explains is not right for that.
        is_explained = judgement.result.outcome == "explained" and judgement.result.findings
        found.add("passed" if soft else "failed" if is_explained else judgement.result.outcome)
    if found & {"failed", "warned"}:
        return "FAIL"
    if found & {"error", "inconclusive", "explained"}:
        return ""
    return "PASS" if "passed" in found else "SKIPPED"


def _overall(statuses: set[str]) -> str:
    for status in ("FAIL", "PASS", "SKIPPED"):
        if status in statuses:
            return status
    return "NOT TESTED"


def _errors(judgements: Iterable[Judgement]) -> list[str]:
    return [
        one_line(f"{j.result.requirement.id}: {finding.found}", 500)
        for j in judgements
        if j.result.outcome in ("failed", "warned")
        for finding in j.findings
    ]


def _share(results: Iterable[dict[str, Any]], level: str) -> float:
    counted = [r for r in results if r["status"] != "SKIPPED" and level in ("", r["level"])]
    passed = sum(r["status"] == "PASS" for r in counted)
    return 100.0 * passed / len(counted) if counted else 100.0


def _transports(results: Iterable[dict[str, Any]]) -> dict[str, dict[str, int]]:
    found: defaultdict[str, list[str]] = defaultdict(list)
    for result in results:
        for transport, status in result["transports"].items():
            found[transport].append(status)
    return {
        name: {
            "total": len(statuses),
            "passed": statuses.count("PASS"),
            "failed": statuses.count("FAIL"),
            "skipped": statuses.count("SKIPPED"),
        }
        for name, statuses in found.items()
    }
