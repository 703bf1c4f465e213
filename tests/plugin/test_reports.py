import json

import pytest
from harness import Bench, junit_cases, junit_properties, kinds, log_of

DESK_TASKS = "ok bad down skip bug"


@pytest.mark.parametrize("process", [(), pytest.param(("-n2", "--a2a-concurrency=8"), marks=pytest.mark.slow)])
def test_each_kind_of_end_is_reported_apart(desk: Bench, process: tuple[str, ...]) -> None:
    result = desk(*process, "--junitxml=j.xml", "-ra")
    result.assert_outcomes(passed=1, failed=1, errors=2, skipped=1)
    assert result.ret == 1
    assert sorted(log_of(desk)) == sorted(DESK_TASKS.split())
    assert kinds(desk.path / "j.xml") == {
        "test_desk[ok-t0]": [],
        "test_desk[bad-t0]": ["failure"],
        "test_desk[down-t0]": ["error"],
        "test_desk[skip-t0]": ["skipped"],
        "test_desk[bug-t0]": ["error"],
    }
    for line in (  # workers end in any order
        "*desk/front/down#0: infrastructure error, the agent was not judged: TransportError: connection reset*",
        "*desk/front/bug#0: an error in the suite 'desk', or in pytest-a2a-bench",
        "*ValueError: a bug in the benchmark",
        "SKIPPED*needs a judge; pass --a2a-judge-llm",
        "FAILED test_desk.py::test_desk[[]bad-t0[]] - reward 0 = DB 0, ended by user_stop",
    ):
        result.stdout.fnmatch_lines([line])


def test_a_broken_evaluator_is_neither_the_agents_fault_nor_ours(desk: Bench) -> None:
    desk.tasks("broken")
    result = desk()
    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines(["desk/front/broken#0: tau2's evaluator raised KeyError: 'seat'"])
    for word in ("a bug in pytest-a2a-bench", "infrastructure error", "Traceback"):
        assert word not in result.stdout.str()


def test_scalars_and_explanations_reach_every_report(desk: Bench) -> None:
    pytest.importorskip("pytest_jsonreport")
    pytest.importorskip("pytest_reportlog")
    result = desk(
        *("-ppytest_metadata.plugin", "-ppytest_jsonreport.plugin", "-ppytest_reportlog.plugin"),
        *("--json-report", "--report-log=log.jsonl", "--junitxml=j.xml"),
    )
    properties = junit_properties(junit_cases(desk.path / "j.xml")["test_desk[ok-t0]"])
    expected = {
        "a2a.key": "desk/front/ok#0",
        "a2a.task": "desk/front/ok",
        "a2a.trial": "0",
        "a2a.status": "evaluated",
        "a2a.reward": "1.0",
        "a2a.success": "True",
        "a2a.turns": "2",
        "a2a.tokens_in": "10",
        "a2a.tokens_out": "5",
        "a2a.cost_usd": "0.25",
        "a2a.user": "scripted",
        "a2a.benchmark": "desk 1",
        "a2a.termination_reason": "user_stop",
    }
    assert properties.items() >= expected.items()
    transcript = json.loads((desk.path / properties["a2a.transcript"]).read_text())
    assert transcript["key"] == "desk/front/ok#0"
    down = junit_properties(junit_cases(desk.path / "j.xml")["test_desk[down-t0]"])
    assert down["a2a.error_type"] == "TransportError"
    assert "a2a.reward" not in down
    report = json.loads((desk.path / ".report.json").read_text())
    rewards = {}
    for test in report["tests"]:
        values = {name: value for pair in test["user_properties"] for name, value in pair.items()}
        rewards[values["a2a.key"]] = values.get("a2a.reward")
    assert rewards == {f"desk/front/{k}#0": {"ok": 1.0, "bad": 0.0}.get(k) for k in DESK_TASKS.split()}
    lines = [json.loads(line) for line in (desk.path / "log.jsonl").read_text().splitlines()]
    calls = [dict(line["user_properties"]) for line in lines if line.get("when") == "call"]
    assert {c["a2a.key"]: c["a2a.success"] for c in calls} == {"desk/front/ok#0": True, "desk/front/bad#0": False}
    # A failure explains itself, without the agent's control characters.
    result.stdout.fnmatch_lines(
        [
            "*a2a trial desk/front/bad#0*",
            "desk/front/bad#0: reward 0 = DB 0, ended by user_stop",
            "what differs in the database:",
            "  db.x: expected 1, found 2",
            "never communicated:",
            "  the price is 42",
            "last 4 of 4 messages (2 turns of the agent):",
            "  user: help me",
            "  agent: look(at=1)",
            "  tool look: nothing",
            "  agent: sorry",
            "transcript: a2a-results/trials/desk-front-bad-t0-*.json",
        ]
    )
    text = (desk.path / "j.xml").read_text()
    assert "never communicated" in text
    assert "\x1b" not in result.stdout.str() + text


def test_a_failed_assertion_on_a_good_trial_keeps_its_own_message(desk: Bench) -> None:
    desk.makepyfile(
        test_desk="""
        import pytest
        @pytest.mark.desk("front", tasks="ok")
        def test_desk(trial):
            assert trial.turns < 2, "too talkative"
        """
    )
    result = desk()
    result.stdout.fnmatch_lines(
        ["*AssertionError: too talkative*", "*a2a trial desk/front/ok#0*", "FAILED*too talkative*"]
    )
