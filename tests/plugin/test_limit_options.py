"""``--a2a-reply-limits`` and ``--a2a-env-file`` on the command line: refused in one line, or in force."""

from __future__ import annotations

import os

import pytest
from harness import Bench, log_of


@pytest.mark.parametrize(
    ("option", "complaint"),
    [
        ("--a2a-reply-limits=calls=none", "--a2a-reply-limits: 'none' is not a number*"),
        ("--a2a-reply-limits=rows=3", "--a2a-reply-limits: 'rows' is no limit of a reply; the limits are calls, *"),
        ("--a2a-env-file=absent.env", "--a2a-env-file=*absent.env: No such file or directory"),
        ("--a2a-env-file=wrong.env", "--a2a-env-file=*wrong.env, line 2: expected NAME=VALUE, as OPENAI_API_KEY=..."),
    ],
)
def test_wrong_values_are_usage_errors(pytester: pytest.Pytester, desk: Bench, option: str, complaint: str) -> None:
    (pytester.path / "wrong.env").write_text("A=b\nsk-secret\n")
    result = desk(option)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines([f"ERROR: {complaint}"])
    assert "sk-secret" not in result.stderr.str() + result.stdout.str()
    assert log_of(pytester) == []


@pytest.mark.parametrize("workers", [[], ["-n1"]], ids=["alone", "xdist"])
def test_variables_of_the_file_are_there_for_the_run(
    pytester: pytest.Pytester, desk: Bench, monkeypatch: pytest.MonkeyPatch, workers: list[str]
) -> None:
    monkeypatch.setenv("DESK_TASKS", "ok")
    monkeypatch.setenv("A2A_CANARY_KEPT", "mine")
    pytester.makefile(".env", canary="export A2A_CANARY_KEY='sung'\nA2A_CANARY_KEPT=theirs\n")
    pytester.makepyfile(
        test_variables="""
            import os

            def test_variables():
                assert (os.environ["A2A_CANARY_KEY"], os.environ["A2A_CANARY_KEPT"]) == ("sung", "mine")
        """
    )
    desk("--a2a-env-file=canary.env", *workers).assert_outcomes(passed=2)
    assert "A2A_CANARY_KEY" not in os.environ
