"""The built-in agent for demonstrations speaks A2A without a finding at MUST; a2a-sdk alone has several."""

from __future__ import annotations

import json

import pytest

from pytest_a2a_bench.cli.main import main


@pytest.mark.parametrize(
    "spec",
    [
        "echo?reply=task",
        *(
            pytest.param(f"echo?{o}", marks=pytest.mark.slow)
            for o in ("", "protocol=0.3", "transport=rest&protocol=1.0")
        ),
    ],
)
def test_echo_has_no_finding_at_must(spec: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", f"builtin:{spec}", "--profile", "full", "--format", "json"]) == 0
    results = json.loads(capsys.readouterr().out)["results"]

    assert sum(r["status"] == "passed" for r in results) > 90
    assert [r["id"] for r in results if r["level"] == "MUST" and r["status"] not in ("passed", "skipped")] == []
