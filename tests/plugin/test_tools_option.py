"""``--a2a-tools mcp`` as a user has it: what may be combined, what is kept, and what is not repeated in vain."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from harness import Bench
from tau2_verification import verify_stored

ORACLE = ("--a2a-endpoint", "builtin:oracle", "--a2a-suite", "mock", "-k", "update_task_1", "-q")


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (("--a2a-tools", "native"), "--a2a-tools: 'native' is not one of text, mcp"),
        (("--a2a-set", "mcp-bind=127.0.0.1:1"), "add --a2a-tools mcp"),
        (("--a2a-tools=mcp", "--a2a-dialect=sierra"), "--a2a-dialect=sierra says how calls are written in messages"),
        (("--a2a-tools=mcp", "--a2a-record=tapes"), "--a2a-record and --a2a-tools=mcp exclude each other"),
        (
            ("--a2a-tools=mcp", "--a2a-set=mcp-url=http://x"),
            "says where it listens; give HOST:PORT (mcp-bind",
        ),
        (("--a2a-tools=mcp", "--a2a-set=mcp-bind=0.0.0.0:80"), "which is no address to call; give its URL too"),
        (("--a2a-tools=mcp", "--a2a-set=mcp-bind=here"), "is to listen on 'here'; give HOST:PORT"),
        (
            ("--a2a-tools=mcp", "--a2a-set=mcp-bind=127.0.0.1:81", "-n2"),
            "-n starts several processes, each with a server",
        ),
    ],
)
def test_what_does_not_go_together_is_told_at_once(bench: Bench, options: tuple[str, ...], says: str) -> None:
    result = bench(*ORACLE, *options)
    assert result.ret == 4
    (line,) = [line for line in result.errlines if line.startswith("ERROR")]
    assert says in line


@pytest.mark.slow
def test_a_run_keeps_no_token_and_says_how_tools_were_called(bench: Bench, pytester: pytest.Pytester) -> None:
    result = bench(*ORACLE, "--a2a-tools", "mcp", "--junitxml=junit.xml", "--a2a-html=page.html")
    result.assert_outcomes(passed=1)
    trials = [json.loads(path.read_text()) for path in Path(pytester.path, "a2a-results", "trials").rglob("*.json")]
    assert len(trials) == 1
    for trial in trials:
        assert trial["dialect"] == "mcp"
        assert (trial["provenance"]["tools"], trial["provenance"]["native_calls"]) == ("mcp", 1)
    # The calls that the agent made by itself, played back by tau2's own code.
    assert [v.status for v in verify_stored(pytester.path / "a2a-results")] == ["verified"]
    for path in Path(pytester.path).rglob("*"):
        if path.is_file() and path.suffix in (".json", ".html", ".xml"):
            assert "Bearer " not in path.read_text().replace("Bearer ***", "")

    # The same question is answered already; asked by the other door it is another one.
    again = bench(*ORACLE, "--a2a-tools", "mcp", "--a2a-resume")
    again.assert_outcomes(passed=1)
    assert reused(pytester) == [True]
    bench(*ORACLE, "--a2a-resume").assert_outcomes(passed=1)
    assert reused(pytester) == [False]


def reused(pytester: pytest.Pytester) -> list[bool]:
    paths = Path(pytester.path, "a2a-results", "trials").rglob("*.json")
    return [bool(json.loads(path.read_text())["reused_from"]) for path in paths]


def test_a_benchmark_that_offers_no_tools_says_so(desk: Bench) -> None:
    # Apart: pytester forgets what a run in this process imported, and what is left of MCP then closes the capture.
    result = desk("--a2a-tools", "mcp")
    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines(["*the suite 'desk' does not offer its tools over MCP*TrialContext.native*"])
