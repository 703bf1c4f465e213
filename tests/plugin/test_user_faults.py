"""What a run tells of users that were at fault, and of trials that were run again for it."""

import dataclasses
from pathlib import Path

import pytest
from harness import Bench, junit_cases, junit_properties, log_of, verdict_of

from pytest_a2a_bench.a2a.requests import RetryPolicy
from pytest_a2a_bench.model import ExtraTurn, TrialKey, TrialResult, Usage, UserFault
from pytest_a2a_bench.reports import summary
from pytest_a2a_bench.reports.reported import load_reported
from pytest_a2a_bench.results.store import load_trial
from pytest_a2a_bench.trials import runner

DESK_TASKS = "ok bad left leaves"


def trials_of(run: Bench) -> dict[str, object]:
    found: dict[str, object] = verdict_of(run)["trials"]
    return found


def test_every_place_tells_it_and_no_number_changes(desk: Bench) -> None:
    result = desk("--a2a-html=page.html", "--a2a-markdown=run.md", "--junitxml=junit.xml")
    result.assert_outcomes(passed=1, failed=3)
    said = "user, not the agent, was at fault in 2 of 4 trials, which count as they came out: 2x ended_before_the_write"
    shown = result.stdout.str()
    assert "success rate 0.25 of 4 trials (official), 0.50 of 2 trials whose user did its part" in shown
    assert f"the {said}; --a2a-set user-retry=N holds such trials again" in shown
    assert "reward 0 = DB 0, ended by user_stop, user at fault: ended_before_the_write" in shown
    assert (
        "the user was at fault (ended_before_the_write): it ended the conversation before the agent could finish"
        in shown
    )
    assert "the agent asked whether to go on" in shown
    result.stdout.fnmatch_lines(["*domain*evaluated*reward*user faults*infra errors*", "*front*4*0.250*2*0*"])
    assert said in (desk.path / "page.html").read_text()
    markdown = (desk.path / "run.md").read_text()
    assert "was at fault in 2 of 4 trials" in markdown
    assert "user at fault" in markdown
    properties = {name: junit_properties(case) for name, case in junit_cases(Path("junit.xml")).items()}
    assert properties["test_desk[left-t0]"]["a2a.user_fault"] == "ended_before_the_write"
    assert "a2a.user_fault" not in properties["test_desk[bad-t0]"]
    assert "a2a.user_retries" not in properties["test_desk[left-t0]"]
    counted = trials_of(desk)
    assert (counted["missed"], counted["user_faults"], counted["user_retries"]) == (3, 2, 0)


def test_both_rates_stand_everywhere_and_floors_may_name_either(desk: Bench) -> None:
    given = ("--a2a-min-pass=0.3,@blameless=0.5", "--a2a-set=max-user-faults=0.4")
    result = desk("--a2a-html=page.html", "--a2a-markdown=run.md", "--junitxml=junit.xml", *given)
    assert result.ret == 1
    both = "0.50 of 2 trials whose user did its part"
    assert f"success rate 0.25 of 4 trials (official), {both}" in result.stdout.str()
    for name in ("page.html", "run.md", "junit.xml", "a2a-results/verdict.json"):
        assert both in (desk.path / name).read_text(), name
    verdicts = {gate["name"]: gate["verdict"] for gate in verdict_of(desk)["gates"]}
    assert verdicts == {"min_pass": "failed", "min_pass[@blameless]": "pass", "max_user_faults": "failed"}


def test_they_are_held_again_where_that_is_asked_for_and_a_try_that_breaks_costs_no_result(desk: Bench) -> None:
    desk.tasks(f"{DESK_TASKS} vain")
    options = ("--a2a-set=user-retry=2", "--a2a-html=page.html", "--a2a-markdown=run.md", "--junitxml=junit.xml")
    result = desk(*options)
    result.assert_outcomes(passed=2, failed=3)
    shown = result.stdout.str()
    assert "at fault in 2 of 5 trials, which count as they came out: 2x ended_before_the_write" in shown
    assert "holds such trials again" not in shown
    again_said = "3 trials were run again, because the user was at fault (user-retry): 4x ended_before_the_write"
    in_vain = "1 of them in vain (1x TransportError): what was evaluated before it counts"
    broke = "run again in vain, so that the conversation before it counts: TransportError: connection reset by peer"
    for said in (again_said, in_vain, broke):
        assert said in shown
    assert "run again, as the user was at fault in conversation 2 (ended_before_the_write)" in shown
    assert sorted(log_of(desk)) == ["bad", "leaves", "leaves", "leaves", "left", "left", "ok", "vain", "vain"]
    page = (desk.path / "page.html").read_text()
    assert again_said in page
    assert in_vain in page
    assert "1 of them in vain" in (desk.path / "run.md").read_text()
    again = {name: junit_properties(case) for name, case in junit_cases(Path("junit.xml")).items()}
    assert again["test_desk[left-t0]"]["a2a.user_retries"] == "1"
    assert "a2a.user_fault" not in again["test_desk[left-t0]"]
    assert again["test_desk[leaves-t0]"]["a2a.user_retries"] == "2"
    assert again["test_desk[left-t0]"]["a2a.held_again"] == "0"
    counted = trials_of(desk)
    assert (counted["missed"], counted["user_faults"], counted["user_retries"]) == (3, 2, 3)
    vain = again["test_desk[vain-t0]"]
    assert (vain["a2a.status"], vain["a2a.user_fault"]) == ("evaluated", "ended_before_the_write")
    # Both were paid for.
    assert (vain["a2a.user_retries"], vain["a2a.retry_error"], vain["a2a.cost_usd"]) == ("1", "TransportError", "0.5")
    [left] = (desk.path / "a2a-results" / "trials").glob("*left*")
    assert [fault.kind for fault in load_trial(left).user_retries] == ["ended_before_the_write"]
    # What was held before was paid for, too.
    assert load_trial(left).agent_usage.cost_usd == 0.5


def test_overwritten_results_are_still_counted(pytester: pytest.Pytester) -> None:
    reported = {"desk/front/a#0": {"status": "evaluated", "reward": 0.0, "user_fault": "never_stopped"},
                "desk/front/b#0": {"status": "evaluated", "reward": 1.0, "user_retries": 2,
                                   "retry_error": "LLMError", "held_again": 1}}  # fmt: skip
    results, _ = load_reported(pytester.path, "run", reported)
    message = "\n".join(summary.caveats(results))
    assert "was at fault in 1 of 2 trials, which count as they came out: 1x never_stopped" in message
    assert "1 trial was run again, because the user was at fault" in message
    assert "1 of them in vain (1x LLMError)" in message
    assert "1 conversation was run again" in message


def test_a_kind_that_only_a_benchmark_knows_is_shown_as_it_is() -> None:
    fault = UserFault("fell-asleep")
    assert fault.words == "fell-asleep"
    message = list(summary.caveats([TrialResult(TrialKey("x", "y", "z"), "evaluated", user_fault=fault)]))
    assert any("1x fell-asleep" in line for line in message)


def test_extra_turns_have_a_line_and_no_place_in_other_numbers() -> None:
    key = TrialKey("x", "y", "z")
    none = TrialResult(key, "evaluated")
    extra = [
        ExtraTurn(1.0, requests=2, agent_usage=Usage(10, 2, 0.5)),
        ExtraTurn(0.0, requests=1, judge_usage=Usage(1, 1)),
        ExtraTurn(None, "the agent opened a new context", requests=1),
    ]
    results = [none, *(dataclasses.replace(none, extra_turn=each) for each in extra)]
    message = list(summary.caveats(results))
    assert (
        "extra turns: 3 trials that the user ended (1 proven, 1 not reached, 1 not provable), 4 requests, 11/3 tokens, "
        "$0.50; in no other number"
    ) in message
    assert not any(line.startswith(("cost", "extra")) for line in summary.caveats([none]))
    assert sum(line.startswith("cost") for line in message) == 0


# Conversations that are run again because a message may have arrived or not.


def test_every_place_tells_how_many_were_held_again_and_why(desk: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    desk.tasks("ok lost gone")
    monkeypatch.setattr(runner, "_PAUSE", RetryPolicy(base=0.001, maximum=0.01))
    files = ("--a2a-html=page.html", "--a2a-markdown=run.md", "--junitxml=junit.xml")
    result = desk(*files)
    result.assert_outcomes(passed=2, errors=1)
    assert result.ret == 1
    message = (
        "2 conversations were run again, because a message may have arrived or not (redeliver): "
        "2x HTTP 502, 1x reset after delivery"
    )
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
