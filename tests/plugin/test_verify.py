"""``--a2a-verify``: what the benchmark's own implementation says, beside the conversations and in every report."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from harness import DESK_TEST, Bench, junit_cases, junit_properties, log_of, verdict_of

from pytest_a2a_bench.cli.main import main

CHECK = '''
"""Says of desk's trials what their ids say: fine, or wrong, dead (trouble of the verifier's), raise (a bug of its)."""

import desk
from pytest_a2a_bench.model import Verification


class Check:
    def verify(self, result):
        desk.note("verify", result.key)
        task = result.key.task_id
        if "slowly" in task:
            while (desk.HERE / "log.txt").read_text().count("end ") < len(desk.TASKS):
                desk.time.sleep(0.02)
        if "raise" in task:
            raise KeyError("a bug of the verifier")
        if "dead" in task:
            return Verification("failed", "the process was ended by signal 9")
        if "wrong" in task:
            return Verification("differs", differences=("reward.value: stock 0.0, here 1.0",), by="desk 1")
        if result.status == "evaluator_error":
            return Verification("not_verifiable", "stock evaluator raises KeyError: 'seat'", by="desk 1")
        return Verification("verified", by="desk 1")

    def close(self):
        pass


def open_verifier(settings):
    if "closed" in desk.TASKS[0]:
        from pytest_a2a_bench.errors import ConfigurationError
        raise ConfigurationError("desk is not installed")
    return Check()
'''
CONFTEST = """
import dataclasses

def pytest_a2a_bench_suites():
    import desk
    return [dataclasses.replace(desk.SUITE, verifier="deskcheck")]
"""


@pytest.fixture
def verified(desk: Bench, pytester: pytest.Pytester) -> Bench:
    """Run pytest on a benchmark that can be verified."""
    pytester.makepyfile(deskcheck=CHECK)
    pytester.makeconftest(CONFTEST)
    pytester.makepyfile(test_desk=DESK_TEST)
    return desk


def stored(pytester: pytest.Pytester) -> dict[str, str | None]:
    """Return the status of each trial's verification, by task."""
    files = (pytester.path / "a2a-results" / "trials").glob("*.json")
    found = {data["task"]["id"]: data["verification"] for data in (json.loads(f.read_text()) for f in files)}
    return {task: verification and verification["status"] for task, verification in found.items()}


def gate(pytester: pytest.Pytester) -> dict[str, object]:
    verdict = verdict_of(pytester)
    [found] = [g for g in verdict["gates"] if g["name"] == "verify"]
    return dict(found)


@pytest.mark.parametrize(
    "how",
    [(), pytest.param(("--a2a-concurrency=3",), marks=pytest.mark.slow), ("-n2",)],
    ids=["one", "many", "workers"],
)
def test_every_finished_trial_is_verified_and_says_so(
    pytester: pytest.Pytester, verified: Bench, monkeypatch: pytest.MonkeyPatch, how: tuple[str, ...]
) -> None:
    monkeypatch.setenv("DESK_TASKS", "ok-a ok-b bad-c broken-d down-e")
    result = verified.apart("--a2a-verify", "--a2a-min-pass=0", "--junitxml=j.xml", "--a2a-breaker=off", *how)
    line = "verified 3 of 3 by the stock desk 1; 1 not verifiable: 1x stock evaluator raises KeyError: 'seat'"
    result.stdout.fnmatch_lines([line, f"verify *pass *{line[:30]}*"])
    assert stored(pytester) == {
        "ok-a": "verified",
        "ok-b": "verified",
        "bad-c": "verified",
        "broken-d": "not_verifiable",
        "down-e": None,
    }
    cases = junit_cases(pytester.path / "j.xml")
    told = {name[10:-4]: junit_properties(case).get("a2a.verified") for name, case in cases.items() if "-t0" in name}
    assert told == stored(pytester)
    assert list(cases["verify"]) == [] or cases["verify"].find("failure") is None
    assert gate(pytester)["numbers"] == {
        "verified": 3,
        "verifiable": 3,
        "differ": 0,
        "failed": 0,
        "missing": 0,
        "not_verifiable": 1,
    }
    assert len(log_of(pytester, "verify")) == 4


def test_a_difference_fails_the_run_and_every_report_shows_both_sides(
    pytester: pytest.Pytester, verified: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DESK_TASKS", "ok-a ok-wrong")
    reports = ("--junitxml=j.xml", "--a2a-html=page.html", "--a2a-markdown=run.md")
    result = verified("--a2a-verify", *reports)
    # The trials passed; that their rewards are not upstream's is no fault of the agent's.
    result.assert_outcomes(passed=2, failed=1)
    assert result.ret == 1
    both = "reward.value: stock 0.0, here 1.0"
    result.stdout.fnmatch_lines(["*_ verify _*", "desk/front/ok-wrong#0:", f"  {both}"])
    result.stdout.fnmatch_lines(["verified 1 of 2 by the stock desk 1; 1 differs: desk/front/ok-wrong#0"])
    cases = junit_cases(pytester.path / "j.xml")
    failure = cases["verify"].find("failure")
    assert failure is not None
    assert both in (failure.text or "")
    assert junit_properties(cases["test_desk[ok-wrong-t0]"])["a2a.verified"] == "differs"
    assert gate(pytester)["details"] == ["desk/front/ok-wrong#0:", f"  {both}"]
    for name in ("page.html", "run.md"):
        assert both in (pytester.path / name).read_text(), name


@pytest.mark.parametrize(
    ("task", "why"),
    [
        ("ok-dead", "the process was ended by signal 9"),
        ("ok-raise", "KeyError: 'a bug of the verifier'"),
        ("ok-closed", "desk is not installed"),
    ],
)
def test_trouble_of_the_verifier_is_an_error_and_loses_no_result(
    pytester: pytest.Pytester, verified: Bench, monkeypatch: pytest.MonkeyPatch, task: str, why: str
) -> None:
    monkeypatch.setenv("DESK_TASKS", task)
    # Nothing excuses it: neither a floor nor an option about what is inconclusive.
    result = verified("--a2a-verify", "--a2a-min-pass=0", "--a2a-inconclusive=pass")
    counts = result.parseoutcomes()
    assert counts["errors"] == 1
    assert result.ret == 1
    result.stdout.fnmatch_lines(
        [
            f"*desk/front/{task}#0: could not be verified (its reward is 1):*",
            f"verified 0 of 1*; 1 could not be verified: desk/front/{task}#0",
        ]
    )
    assert why in result.stdout.str()
    data = json.loads(next((pytester.path / "a2a-results" / "trials").glob("*.json")).read_text())
    assert (data["status"], data["reward"], data["verification"]["status"]) == ("evaluated", 1.0, "failed")
    assert gate(pytester)["verdict"] == "inconclusive"


def test_what_is_verified_is_not_verified_again(
    pytester: pytest.Pytester, verified: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DESK_TASKS", "ok-a ok-b")
    verified().assert_outcomes(passed=2)
    assert stored(pytester) == {"ok-a": None, "ok-b": None}
    result = verified("--a2a-resume", "--a2a-verify")
    result.stdout.fnmatch_lines(["reused, not held again (--a2a-resume): 2 of 2 trials *", "verified 2 of 2*"])
    verified("--a2a-resume", "--a2a-verify").assert_outcomes(passed=3)
    assert (len(log_of(pytester)), len(log_of(pytester, "verify"))) == (2, 2)


def test_conversations_go_on_while_a_trial_is_verified(
    pytester: pytest.Pytester, verified: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Whose verification lasts until all conversations have ended.
    monkeypatch.setenv("DESK_TASKS", "ok-slowly ok-a ok-b ok-c ok-d")
    verified("--a2a-verify", "--a2a-concurrency=2").assert_outcomes(passed=6)
    assert sorted(stored(pytester).values()) == ["verified"] * 5  # type: ignore[type-var]


def test_a_benchmark_without_a_second_implementation_says_so(
    pytester: pytest.Pytester, desk: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DESK_TASKS", "ok-a")
    desk("--a2a-verify").stdout.fnmatch_lines(
        ["verified 0 of 0; 1 not verifiable: 1x desk has no implementation but the one that was used"]
    )


def test_a_finished_run_is_verified_by_the_command(
    pytester: pytest.Pytester, verified: Bench, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("DESK_TASKS", "ok-a ok-wrong down-c")
    verified("--a2a-breaker=off")
    monkeypatch.syspath_prepend(pytester.path)
    import desk  # type: ignore[import-not-found]

    from pytest_a2a_bench.benchmarks import registry

    registry.register([__import__("dataclasses").replace(desk.SUITE, verifier="deskcheck")])
    capsys.readouterr()
    assert main(["verify", "a2a-results"]) == 1
    assert capsys.readouterr().out.splitlines() == [
        "desk/front/ok-wrong#0:",
        "  reward.value: stock 0.0, here 1.0",
        "verified 1 of 2 by the stock desk 1; 1 differs: desk/front/ok-wrong#0; 1 without a finished conversation",
    ]
    assert stored(pytester) == {"ok-a": "verified", "ok-wrong": "differs", "down-c": None}
    assert main(["verify", "a2a-results"]) == 1
    assert log_of(pytester, "verify").count("ok-a") == 1
    assert main(["verify", "--again", "a2a-results"]) == 1
    assert log_of(pytester, "verify").count("ok-a") == 2
    assert main(["verify", str(pytester.path)]) == 2
    assert "is not the results directory of a run" in capsys.readouterr().err
    assert not Path(pytester.path / "run.lock").exists()


@pytest.mark.slow
def test_tau2s_rewards_are_verified_by_the_stock_tau2(pytester: pytest.Pytester, bench: Bench) -> None:
    run = ("--a2a-endpoint", "builtin:oracle", "-k", "mock", "-n2", "--a2a-verify")
    result = bench.fresh(*run)
    assert result.ret == 0
    result.stdout.fnmatch_lines(["verified 9 of 9 by the stock *tau2 *"])


@pytest.mark.slow
def test_a_broken_evaluation_of_tau2_fails_the_run(pytester: pytest.Pytester, bench: Bench) -> None:
    pytester.makeconftest(
        """
        import dataclasses
        from pytest_a2a_bench.benchmarks.tau2 import evaluate

        real = evaluate.evaluate
        evaluate.evaluate = lambda *args: dataclasses.replace(real(*args), value=1.0)
        """
    )
    result = bench.fresh("--a2a-endpoint", "builtin:noop", "a2a/mock::test_mock[update_task_1-t0]", "--a2a-verify")
    assert result.ret == 1
    result.assert_outcomes(passed=1, failed=1)
    result.stdout.fnmatch_lines(["tau2/mock/update_task_1#0:", "  reward.value: stock 0.0, here 1.0"])
