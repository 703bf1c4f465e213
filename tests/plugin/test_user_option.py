"""``--a2a-user a2a:URL`` as a run has it: found before the first item, told everywhere, and part of what is reused."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from harness import Bench
from tau2_verification import verify_stored
from user_agents import ScriptedUsers, Speaker, served_brain

TASK = "a2a/mock::test_mock[create_task_1-t0]"
ORACLE = ("--a2a-endpoint=builtin:oracle", TASK)


@pytest.mark.slow
def test_a_run_says_who_played_the_user(pytester: pytest.Pytester, bench: Bench) -> None:
    with served_brain(Speaker(ScriptedUsers())) as url:
        result = bench(*ORACLE, f"--a2a-user=a2a:{url}", "--a2a-html=page.html")
        result.assert_outcomes(passed=1)
        shown = result.stdout.str()
        assert f"user played by the agent at {url}: not leaderboard numbers" in shown
        assert "user simulator: pytest-a2a-bench noop" in shown
        assert "not comparable with leaderboard numbers" in shown
        assert [v.status for v in verify_stored(pytester.path / "a2a-results")] == ["verified"]
        assert "An A2A agent plays the user." in Path("page.html").read_text()
        (stored,) = (pytester.path / "a2a-results" / "trials").glob("*.json")
        trial = json.loads(stored.read_text())
        assert [(p["role"], p["turns"] > 1, p["usage"]["input_tokens"] > 0) for p in trial["parties"]] == [
            ("user", True, True)
        ]
        again = bench(*ORACLE, f"--a2a-user=a2a:{url}", "--a2a-resume")
        assert "reused, not run again (--a2a-resume): 1 of 1 trials" in again.stdout.str()
    with served_brain(Speaker(ScriptedUsers())) as elsewhere:
        other = bench(*ORACLE, f"--a2a-user=a2a:{elsewhere}", "--a2a-resume")
        other.assert_outcomes(passed=1)
        assert "reused, not run again" not in other.stdout.str()


@pytest.mark.parametrize(
    "option",
    [
        "--a2a-user=a2a:http://127.0.0.1:9",
        pytest.param("--a2a-set=colleague=ann=http://127.0.0.1:9", marks=pytest.mark.slow),
    ],
)
def test_an_agent_that_is_not_there_is_missed_before_the_first_item(bench: Bench, noop_url: str, option: str) -> None:
    result = bench("--a2a-endpoint", noop_url, TASK, option)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines([f"ERROR: {option.replace('--a2a-set=', '--a2a-set ')}: *"])


def test_a_variable_that_is_not_set_is_named(bench: Bench, noop_url: str) -> None:
    result = bench(
        "--a2a-endpoint", noop_url, TASK, "--a2a-user=a2a:http://127.0.0.1:9", "--a2a-set=user-auth-env=NOBODYS_TOKEN"
    )
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["ERROR: user-auth-env*NOBODYS_TOKEN*"])
    assert "--a2a-endpoint" not in result.stderr.str()


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (("--a2a-user=somebody",), "'somebody' is not one of scripted, llm:MODEL, a2a:URL"),
        (("--a2a-user=a2a:ftp://x",), "is not an endpoint"),
        (("--a2a-user=a2a:builtin:oracle",), "no built-in agent plays a user"),
        (("--a2a-set=user-auth-env=TOKEN",), "user-auth-env is for an agent that plays the user"),
        (("--a2a-set=colleague=http://x",), "expected NAME=URL"),
        (("--a2a-set=colleague=user=http://x",), "expected NAME=URL"),
        (("--a2a-set=colleague=ann=builtin:oracle",), "no built-in agent is a colleague"),
        (
            ("--a2a-set=colleague=ann=http://x", "--a2a-set=colleague=Ann=http://y"),
            "two colleagues have one name (ann, Ann)",
        ),
        (("--a2a-set=colleague-auth-env=TOKEN",), "colleague-auth-env is for an agent that may be asked"),
        (("--a2a-set=colleague=ann=http://x", "--a2a-dialect=crm_action"), "no word for a colleague"),
    ],
)
def test_wrong_options_are_refused_in_one_line(bench: Bench, options: tuple[str, ...], told: str) -> None:
    result = bench(*ORACLE, *options)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    assert told in result.stderr.str()
