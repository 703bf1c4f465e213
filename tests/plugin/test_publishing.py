"""Markdown, job summary and annotations of real runs."""

from pathlib import Path

import pytest
from harness import Bench, verdict_of


@pytest.fixture
def job_summary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = tmp_path / "job-summary.md"
    monkeypatch.setenv("GITHUB_ACTIONS", "true")
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(path))
    monkeypatch.setenv("DESK_TASKS", "ok-a bad-b down-c skip-d")
    return path


def test_a_job_summary_and_annotations(desk: Bench, job_summary: Path) -> None:
    job_summary.write_text("of an earlier command\n")
    result = desk()
    result.assert_outcomes(passed=1, failed=1, errors=1, skipped=1)
    commands = sorted(line for line in result.outlines if line.startswith("::"))
    assert commands == [
        "::error title=error%3A desk/front/down-c#0::infrastructure error, the agent was not judged: "
        "TransportError: connection reset by peer",
        "::error title=failed%3A desk/front/bad-b#0::reward 0 = DB 0, ended by user_stop",
    ]
    text = job_summary.read_text()
    assert text.startswith("of an earlier command\n# A2A benchmark: failed\n")
    assert "| desk/front | 4 | 4 | 2 | 0.500 |" in text
    assert "1 failed" in text
    assert "1 error" in text
    assert "never communicated:\n  the price is 42" in text
    assert "\x1b" not in text
    assert "\x07" not in text


def test_an_outcome_that_the_test_expects_is_no_miss(desk: Bench, job_summary: Path) -> None:
    desk.tasks("ok bad")
    test = (desk.path / "test_desk.py").read_text()
    desk.makepyfile(test_desk=test.replace("def test_desk", "@pytest.mark.xfail(reason='missed')\ndef test_desk"))
    result = desk("--runxfail")
    result.assert_outcomes(passed=1, failed=1)
    assert "failed" in job_summary.read_text()

    job_summary.unlink()
    result = desk()
    result.assert_outcomes(xfailed=1, xpassed=1)
    assert not any(line.startswith("::") for line in result.outlines)
    assert "missed" not in job_summary.read_text()
    verdict = verdict_of(desk)
    assert (verdict["trials"]["missed"], verdict["missed"]) == (0, [])

    job_summary.unlink()
    result = desk("--a2a-min-pass=0.4")
    # The mark of the test comes first: what it expects, no gate has to excuse.
    assert "missed" not in job_summary.read_text()


def test_elsewhere_nothing_is_said(desk: Bench, job_summary: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GITHUB_ACTIONS", "")
    result = desk()
    assert not any(line.startswith("::") for line in result.outlines)
    assert not job_summary.exists()
    result = desk("--a2a-set=github=on")
    assert any(line.startswith("::error") for line in result.outlines)
    assert job_summary.exists()


def test_markdown_for_a_merge_request_has_the_verdict_as_its_title(desk: Bench) -> None:
    for names, options, said in (
        ("ok-a down-b", (), "inconclusive"),
        ("ok-a bad-b", ("--a2a-min-pass=0.9",), "failed"),
        ("ok-a", (), "passed"),
    ):
        desk.tasks(names)
        assert desk(*options, "--a2a-markdown=out/report.md").ret == (said != "passed")
        text = (desk.path / "out" / "report.md").read_text()
        assert text.startswith(f"# A2A benchmark: {said}\n")
        assert text.count("# A2A benchmark") == 1, "the file of an earlier run is replaced"
        assert verdict_of(desk)["verdict"] == said.replace("passed", "pass")
        assert ("- 1 trial could not be evaluated, so this run does not pass" in text) == (said == "inconclusive")
    assert "user simulator: scripted" in text
    assert "<details>" not in text
