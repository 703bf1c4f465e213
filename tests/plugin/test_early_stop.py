"""Runs that end once every gate is decided: alone, with workers, resumed, and with conversations ahead."""

import json
from pathlib import Path
from typing import Any

import pytest
from commands import command
from harness import Bench, junit_cases, log_of, verdict_of


def named(kind: str, process: tuple[str, ...] = ()) -> str:
    """Return thirty tasks; those held ahead or by workers take longer than what decides, as conversations do."""
    seconds = 0.3 if process else 0.02
    return " ".join(f"{kind}-{seconds}-x{i}" for i in range(30))


def gate_of(run: Bench, name: str) -> dict[str, Any]:
    [gate] = [gate for gate in verdict_of(run)["gates"] if gate["name"] == name]
    return dict(gate)


@pytest.mark.parametrize(
    "process", [(), pytest.param(("-n2", "--a2a-concurrency=3"), marks=pytest.mark.slow)], ids=["alone", "workers"]
)
@pytest.mark.parametrize(("kind", "word", "code"), [("ok", "pass", 0), ("bad", "below the floor", 1)])
def test_a_decided_floor_ends_the_run(desk: Bench, process: tuple[str, ...], kind: str, word: str, code: int) -> None:
    desk.tasks(named(kind, process))
    result = desk(*process, "--a2a-min-pass=0.5", "--a2a-trials=auto:1", "--junitxml=j.xml", "--a2a-html=page.html")
    assert result.ret == code
    held, data, gate = len(log_of(desk)), verdict_of(desk), gate_of(desk, "min_pass")
    # Decided after about eight; each worker may have begun what it runs ahead and the next item.
    assert 4 <= gate["decided_after"] <= held <= 24
    assert gate["word"] == word
    assert f"decided after {gate['decided_after']} of 30 trials" in gate["sentence"]
    assert gate["numbers"]["trials"] == held, "what was not held is in no denominator"
    assert (data["trials"]["decided"], data["trials"]["skipped"], data["errors"]) == (30 - held, 30 - held, 0)
    result.stdout.fnmatch_lines([f"*decided: {30 - held} trials did not have to run, and are in no rate*"])
    result.stdout.fnmatch_lines(
        [f"*spent: {held} of 30 trials, 1 on each of {held} tasks*", "*learned: success rate *"]
    )
    skipped = [c for c in junit_cases(desk.path / "j.xml").values() for child in c if child.tag == "skipped"]
    reasons = [child.get("message") or "" for case in skipped for child in case]
    assert sum("decided: min_pass" in reason for reason in reasons) == 30 - held
    page = (desk.path / "page.html").read_text()
    assert "did not have to run" in page
    assert "of 30 trials did not run: every gate was decided before" in page
    assert "they need a judge" not in page
    command("gate", "a2a-results", "--write-baseline", "b.json")  # the run did end
    kept = json.loads(Path("b.json").read_text())["tasks"]
    assert sum(len(t["outcomes"]) for t in kept.values()) == held
    # What is stored is judged as the run was; what was not asked then may not be told by what was held.
    command("gate", "a2a-results", "--min-pass", "0.5", code=code)
    assert gate_of(desk, "min_pass") == gate
    command("gate", "a2a-results", code=1)
    assert gate_of(desk, "every_trial")["verdict"] == ("failed" if code else "inconclusive")
    command("gate", "a2a-results", "--min-pass", "0.5", "--min-pass-k", "1=0.5", code=1)
    assert gate_of(desk, "min_pass") == gate
    assert gate_of(desk, "min_pass_k[1]")["verdict"] == "inconclusive"


@pytest.mark.slow
def test_a_resumed_run_goes_on_in_the_same_order(desk: Bench) -> None:
    desk.tasks(named("ok"))
    options = ("--a2a-min-pass=0.5", "--a2a-trials=auto:1")
    assert desk(*options).ret == 0
    first, after = log_of(desk), gate_of(desk, "min_pass")["decided_after"]
    run = json.loads((desk.path / "a2a-results" / "run.json").read_text())
    assert desk(*options, "--a2a-resume").ret == 0
    assert log_of(desk) == first, "all that it takes was held"
    assert gate_of(desk, "min_pass")["decided_after"] == after
    again = json.loads((desk.path / "a2a-results" / "run.json").read_text())
    assert (again["order"], again["keys"]) == (run["order"], run["keys"])


def test_a_run_file_of_another_run_decides_nothing(desk: Bench) -> None:
    desk.tasks(named("ok"))
    desk.add_to_conftest("""
import json, pathlib

def pytest_runtest_setup(item):
    path = pathlib.Path("a2a-results/run.json")
    run = json.loads(path.read_text())
    path.write_text(json.dumps({**run, "run_id": "another"}))
""")
    result = desk("--a2a-min-pass=0.5", "--a2a-trials=auto:1")
    assert len(log_of(desk)) == 30
    result.stdout.fnmatch_lines(["*could decide nothing early: *run.json is of another run (another)*"])


@pytest.mark.slow
def test_no_trial_begins_that_could_cost_more_than_is_left(desk: Bench) -> None:

    desk.tasks(" ".join(f"ok-0-x{i}" for i in range(30)))
    result = desk("--a2a-min-pass=0.9", "--a2a-trials=auto:2", "--a2a-max-cost=1.6")
    assert result.ret == 1
    assert len(log_of(desk)) == 6, "each costs 0.25"
    data, floor, cost = verdict_of(desk), gate_of(desk, "min_pass"), gate_of(desk, "max_cost")
    assert (data["trials"]["decided"], data["trials"]["reported"]) == (54, 60)
    # The order of trials is drawn, so all of them succeed; six successes do not decide a floor of 0.9.
    assert (floor["verdict"], floor["decided_after"]) == ("inconclusive", None)
    assert (cost["numbers"]["cost_usd"], cost["verdict"]) == (1.5, "inconclusive")
    result.stdout.fnmatch_lines(
        ["*--a2a-max-cost: the money was spent, so that 54 trials did not run, and are in no rate*"]
    )
    command("gate", "a2a-results", "--min-pass", "0.9", "--max-cost", "1.6", code=1)
    assert gate_of(desk, "min_pass") == floor
