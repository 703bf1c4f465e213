"""Damaged files behind options: one line, pytest's exit code for a wrong usage, and no request to the agent."""

from __future__ import annotations

import json

import pytest
from harness import Bench, log_of

DAMAGES = {
    "deep": b'{"a": ' + b"[" * 100_000,
    "null": b"null",
    "binary": b"\x89PNG\x00\xff",
}


@pytest.mark.parametrize("damage", DAMAGES)
@pytest.mark.parametrize(
    ("option", "name"),
    [
        ("--a2a-baseline=b.json", "b.json"),
        ("--a2a-missed", "a2a-results/verdict.json"),
        ("--a2a-set=durations=d.json", "d.json"),
        ("--a2a-replay=tapes", "tapes/agent.json"),
    ],
)
def test_a_damaged_file_is_a_usage_error(
    pytester: pytest.Pytester, desk: Bench, damage: str, option: str, name: str
) -> None:
    path = pytester.path / name
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(DAMAGES[damage])
    result = desk(option)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    said = [line for line in result.stderr.lines if line.startswith("ERROR: ")]
    assert len(said) == 1
    assert name in said[0]
    assert "; " in said[0]
    assert "Traceback" not in result.stderr.str() + result.stdout.str()
    assert log_of(pytester) == []


@pytest.mark.parametrize("damage", [*DAMAGES, "NaN", "another trial"])
def test_a_damaged_result_is_held_again_and_said(
    pytester: pytest.Pytester, desk: Bench, monkeypatch: pytest.MonkeyPatch, damage: str
) -> None:
    monkeypatch.setenv("DESK_TASKS", "ok-a ok-b")
    desk().assert_outcomes(passed=2)
    first, second = sorted((pytester.path / "a2a-results" / "trials").iterdir())
    data = json.loads(first.read_text())
    data["reward_info"]["value"] = float("nan")
    edited = {"NaN": json.dumps(data).encode(), "another trial": second.read_bytes()}
    first.write_bytes((edited | DAMAGES)[damage])
    result = desk("--a2a-resume")
    result.assert_outcomes(passed=2)
    result.stdout.fnmatch_lines([f"run again, because what was stored cannot be read: 1 of 2 trials (*{first.name}*)"])
    assert log_of(pytester).count("ok-a") == 2
    assert log_of(pytester).count("ok-b") == 1
