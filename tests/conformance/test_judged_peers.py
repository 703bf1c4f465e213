"""Agents on other frameworks, judged whole: their true defects, each read against the specification, and no others.

google-adk 2.13 serves A2A through a2a-sdk 1.3 and strands 1.62 through a2a-sdk 0.3.26, so most of these are the SDK's.
"""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest

from pytest_a2a_bench.cli import main

AGENTS = Path(__file__).parent.parent / "agents"
DEFECTS = {
    "adk": {
        "CARD-013": "warned",  # the card has no Cache-Control
        "SEND-009": "warned",  # media types that the card does not list are accepted
        "VAL-006": "failed",  # a part without content is accepted
        "VAL-010": "failed",  # what is no base64 is accepted
        "LIST-013": "failed",  # an unknown status lists everything
        "VER-004": "failed",  # 1.5 is taken for 1.0
    },
    "strands": {
        "V03-CARD-015": "failed",  # "text" is not a media type
        "V03-RPC-003": "warned",  # no id in the answer to what is no JSON
        "V03-PUSH-004": "failed",  # InternalError where the capability is missing
    },
}


@pytest.mark.parametrize("peer", sorted(DEFECTS))
def test_a_peer_has_its_true_defects_and_no_others(peer: str, tmp_path: Path) -> None:
    named = json.loads(os.environ.get("A2A_BENCH_PEER_PYTHONS", "{}"))
    if peer not in named:
        pytest.skip(f"no environment with {peer}: A2A_BENCH_PEER_PYTHONS does not name one")
    environ = {k: v for k, v in os.environ.items() if k != "PYTHONPATH"}
    command = [named[peer], str(AGENTS / f"peer_{peer}.py")]
    report = tmp_path / "report.json"
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            url = json.loads(process.stdout.readline())["url"]
            assert main(["conformance", url, "--format", "json", "-o", str(report)]) == 1
        finally:
            process.stdin.close()
            process.wait(15)
    results = json.loads(report.read_text())["results"]
    found = {r["id"]: r["status"] for r in results if r["status"] not in ("passed", "skipped")}
    assert found == DEFECTS[peer]
