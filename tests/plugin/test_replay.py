"""``--a2a-record`` and ``--a2a-replay``: a suite run again without its agent."""

import json
from pathlib import Path
from typing import Any

import pytest
from harness import Bench, junit_cases, junit_properties

# What tells two runs apart, and says nothing about what was said or judged.
RUN = ("run_id", "started_at", "duration", "metrics", "fingerprint", "provenance")
SIMULATION = ("id", "start_time", "end_time", "duration", "timestamp")


def without_times(value: Any) -> Any:
    if isinstance(value, list):
        return [without_times(v) for v in value]
    if isinstance(value, dict):
        return {k: without_times(v) for k, v in value.items() if k not in SIMULATION}
    return value


def trials(directory: Path) -> dict[str, dict[str, Any]]:
    found = {}
    for path in (directory / "trials").iterdir():
        data = json.loads(path.read_text())
        found[path.name] = {k: without_times(v) for k, v in data.items() if k not in RUN}
    return found


@pytest.mark.slow
def test_a_suite_is_replayed_bit_for_bit(bench: Bench) -> None:
    # The reference agent without its writes.
    first = bench("--a2a-endpoint=builtin:readonly", "-k", "mock", "-n2", "--a2a-record=tapes", "-q")
    again = bench("--a2a-replay=tapes", "-k", "mock", "-n2", "--a2a-results=r2", "--junitxml=j.xml")
    bench("--a2a-replay=tapes", "-k", "mock", "--a2a-results=r3", "-q")
    assert first.parseoutcomes() == again.parseoutcomes()
    again.stdout.fnmatch_lines(
        ["a2a: builtin:readonly *replayed*", "replayed from cassettes, the agent was not asked *"]
    )
    assert all(
        junit_properties(case).get("a2a.replayed") == "True"
        for case in junit_cases(bench.path / "j.xml").values()
        if "a2a.run_id" in junit_properties(case)
    )
    # Under a judge's absence some trials are skipped, and trouble of the evaluator is no conversation's fault.
    recorded = trials(bench.path / "a2a-results")
    assert trials(bench.path / "r2") == recorded == trials(bench.path / "r3")
    assert len(recorded) >= 9


def test_a_changed_request_is_an_error_with_its_diff_and_no_recording_is_judged(bench: Bench, oracle: Bench) -> None:
    only = "a2a/mock::test_mock[create_task_1-t0]"
    oracle(only, "--a2a-record=tapes").assert_outcomes(passed=1)
    result = bench("--a2a-replay=tapes", only, "--a2a-set=tag-trials=on", "--a2a-set=history=full")
    result.assert_outcomes(errors=1)
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    result.stdout.fnmatch_lines(
        ["*tau2/mock/create_task_1#0: request 2 is not the one that *.json recorded*", "--- recorded*"]
    )
    result = bench("--a2a-replay=tapes", "a2a/mock::test_mock[update_task_1-t0]")
    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines(["*has no cassette of it; record it with --a2a-record*"])
    bench.refused("--a2a-replay=tapes", "-m", "conformance").fnmatch_lines(
        ["*the protocol is judged on a real agent, not on recordings*"]
    )
