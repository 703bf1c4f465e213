"""What a run tells of conversations that were run again."""

from __future__ import annotations

from pathlib import Path

import pytest
from harness import Bench, junit_cases, junit_properties, log_of

from pytest_a2a_bench.a2a.requests import RetryPolicy
from pytest_a2a_bench.reports import summary
from pytest_a2a_bench.reports.reported import load_reported
from pytest_a2a_bench.results.store import load_trial
from pytest_a2a_bench.trials import runner

DESK_TASKS = "ok lost gone"
LINE = "2 conversations were run again, because a message may have arrived or not (redeliver): "


@pytest.fixture(autouse=True)
def _soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runner, "_PAUSE", RetryPolicy(base=0.001, maximum=0.01))


def test_every_place_tells_how_many_were_held_again_and_why(desk: Bench) -> None:
    files = ("--a2a-html=page.html", "--a2a-markdown=run.md", "--junitxml=junit.xml")
    result = desk(*files)
    result.assert_outcomes(passed=2, errors=1)
    assert result.ret == 1
    message = LINE + "2x HTTP 502, 1x reset after delivery"
    result.stdout.fnmatch_lines([message.replace("[", "[[]")])
    result.stdout.fnmatch_lines(["*gone*infrastructure error, the agent was not judged: DeliveryUncertain: *lost*"])
    assert "run 3 times, and none came to its end (HTTP 502, HTTP 502, HTTP 502)" in result.stdout.str()
    assert message in (desk.path / "page.html").read_text()
    assert "conversations were run again" in (desk.path / "run.md").read_text()
    again = {name: junit_properties(case)["a2a.held_again"] for name, case in junit_cases(Path("junit.xml")).items()}
    assert again == {"test_desk[ok-t0]": "0", "test_desk[lost-t0]": "1", "test_desk[gone-t0]": "2"}
    assert sorted(log_of(desk)) == ["gone", "gone", "gone", "lost", "lost", "ok"]
    [lost] = (desk.path / "a2a-results" / "trials").glob("*lost*")
    assert load_trial(lost).held_again == ("reset after delivery",)
    # What an abandoned conversation cost was paid.
    assert load_trial(lost).agent_usage.cost_usd == 0.5


def test_a_quiet_run_tells_it_too(desk: Bench) -> None:
    desk("-q").stdout.fnmatch_lines([(LINE + "2x HTTP 502, 1x reset after delivery").replace("[", "[[]")])


def test_overwritten_results_are_still_counted(desk: Bench) -> None:
    reported = {"desk/front/lost#0": {"status": "evaluated", "reward": 1.0, "held_again": 1}}
    results, _ = load_reported(desk.path, "run", reported)
    assert "1 conversation was run again" in "\n".join(summary.caveats(results))
