"""Agents on other frameworks, judged whole: their true defects, each read against the specification, and no others.

google-adk 2.13 serves A2A through a2a-sdk 1.3 and strands 1.62 through a2a-sdk 0.3.26, so most of these are the SDK's.
fasta2a 2.1.1 is an implementation of its own.
"""

import json
from pathlib import Path

import pytest
from peers import peer

from pytest_a2a_bench.cli.main import main

MORE = (
    "XCARD-001 SEND-008 GET-005 GET-006 CAN-007 PUSH-008 ERR-JSON-PushNotificationNotSupported ERR-008 ERR-009 ERR-010 "
    "ERR-011 ERR-012 ERR-014 VER-001 VER-002 VER-004 VER-007"
).split()
DEFECTS = {
    "adk": {
        "CARD-013": "warned",  # the card has no Cache-Control
        "SEND-009": "warned",  # media types that the card does not list are accepted
        "VAL-006": "failed",  # a part without content is accepted
        "VAL-010": "failed",  # what is no base64 is accepted
        "LIST-013": "failed",  # an unknown status lists everything
        "VER-004": "failed",  # 1.5 is taken for 1.0
    },
    # What is malformed, unknown or not offered is mostly answered with a plain-text 500; the version is not looked at.
    "fasta2a": {
        "CARD-004": "failed",  # no skills
        "CARD-013": "warned",  # neither Cache-Control nor ETag
        "CARD-014": "warned",
        "SEND-002": "failed",  # a blocking send does not wait
        "SEND-007": "failed",  # a taskId in a message is not looked at: there is always a new task
        "SEND-009": "warned",
        "SEND-010": "failed",  # historyLength of a message is for its worker, not for the answer
        **{f"VAL-{n:03}": "failed" for n in range(1, 12)},
        "STREAM-014": "failed",  # as SEND-008
        "STREAM-016": "failed",  # the artifact of a worker that only stores it is not streamed
        "SUB-003": "failed",  # a terminal task can be subscribed to
        "GET-003": "failed",  # historyLength 0 is taken for none given
        **{f"LIST-{n:03}": "failed" for n in range(1, 17)},  # tasks cannot be listed
        "CAN-002": "failed",  # a terminal task is "cancelled"
        "DM-010": "failed",  # timestamps without a zone
        "MT-005": "failed",  # as SEND-008
        "ERR-003": "warned",  # no ErrorInfo
        "ERR-015": "failed",  # a 500 has no id
        **dict.fromkeys(MORE, "failed"),
    },
    "strands": {
        "V03-CARD-015": "failed",  # "text" is not a media type
        "V03-RPC-003": "warned",  # no id in the answer to what is no JSON
        "V03-PUSH-004": "failed",  # InternalError where the capability is missing
    },
}


@pytest.mark.parametrize("name", sorted(DEFECTS))
def test_a_peer_has_its_true_defects_and_no_others(name: str, tmp_path: Path) -> None:
    report = tmp_path / "report.json"
    with peer(name, f"peer_{name}.py") as url:
        assert main(["check", url, "--format", "json", "-o", str(report)]) == 1
    results = json.loads(report.read_text())["results"]
    found = {r["id"]: r["status"] for r in results if r["status"] not in ("passed", "skipped")}
    # What another row explains is a defect all the same.
    assert {id: "failed" if status == "explained" else status for id, status in found.items()} == DEFECTS[name]


# -- the built-in agent for demonstrations has no finding at MUST --


@pytest.mark.slow
@pytest.mark.parametrize("options", ["reply=task", "", "protocol=0.3", "transport=rest&protocol=1.0"])
def test_echo_has_no_finding_at_must(options: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", f"builtin:echo?{options}", "--profile", "full", "--format", "json"]) == 0
    results = json.loads(capsys.readouterr().out)["results"]
    assert sum(r["status"] == "passed" for r in results) > 90
    assert [r["id"] for r in results if r["level"] == "MUST" and r["status"] not in ("passed", "skipped")] == []
