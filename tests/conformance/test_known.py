"""Findings that an SDK itself makes are recognised by how the agent behaves."""

from __future__ import annotations

from pytest_a2a_bench.conformance.catalogue import requirement
from pytest_a2a_bench.conformance.report import CheckRow, Status, _known, sdk_of
from pytest_a2a_bench.reports.findings import known_lines


def row(id: str, status: Status) -> CheckRow:
    return CheckRow(id, "validation", "MUST", "1.0", "JSONRPC", status)


def test_an_agent_that_breaks_what_an_sdk_breaks_is_on_that_sdk() -> None:
    rows = [row("SEND-009", "warned"), *(row(id, "failed") for id in ("VAL-006", "VAL-010", "VER-004", "MT-001"))]
    sdk = sdk_of([*rows, row("LIST-013", "skipped"), row("VER-001", "passed")])
    assert sdk is not None
    assert sdk.name == "a2a-sdk 1.3.0"
    first, *known = known_lines(rows)
    assert "not yours" in first
    assert [line.split(":")[0].strip() for line in known] == ["SEND-009", "VAL-006", "VAL-010", "VER-004"]
    assert "a2a-python/issues/1204" in known[-1]


def test_one_check_that_is_kept_shows_another_sdk() -> None:
    broken = [row(id, "failed") for id in ("SEND-009", "VAL-006", "VAL-010", "VER-004")]
    assert sdk_of([*broken, row("LIST-013", "passed")]) is None
    assert sdk_of(broken[:2]) is None  # too few to tell
    assert known_lines([row("VAL-006", "passed")]) == []


def test_every_known_finding_is_of_a_requirement() -> None:
    for sdk in _known():
        assert [requirement(id).id for id in sdk.findings] == list(sdk.findings)
