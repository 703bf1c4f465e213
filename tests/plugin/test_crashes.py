"""Workers that are killed while several trials are in flight: nothing passes, and each lost trial is named once."""

from __future__ import annotations

from collections import Counter
from xml.etree import ElementTree

import pytest
from harness import Bench, junit_properties, verdict_of

from pytest_a2a_bench.results.store import Store

KILL = "import signal\n            os.kill(os.getpid(), signal.SIGKILL)"
FIXTURE = """
import os, signal
import pytest

@pytest.fixture
def killer(request, trial):
    yield
    if "ok-kill" in request.node.name:
        os.kill(os.getpid(), signal.SIGKILL)

@pytest.mark.desk("front")
def test_desk(trial, killer):
    assert trial.success
"""


def outcomes_of(pytester: pytest.Pytester, many: int) -> dict[str, str]:
    """Return what became of each trial, in junit as in the files, where each must be once."""
    cases = [c for c in ElementTree.parse(pytester.path / "j.xml").iter("testcase") if "-t0]" in c.attrib["name"]]
    names = Counter(case.attrib["name"] for case in cases)
    assert len(names) == many
    assert set(names.values()) == {1}, names
    told = {}
    for case in cases:
        properties = junit_properties(case)
        tags = {child.tag for child in case} - {"properties", "system-out", "system-err"}
        told[properties["a2a.key"]] = f"{properties['a2a.status']} {' '.join(tags)}".strip()
    stored = {str(r.key): r.status for r in Store(pytester.path / "a2a-results").read_all()}
    assert {key: text.split()[0] for key, text in told.items()} == stored
    return {key.removeprefix("desk/front/").removesuffix("#0"): text for key, text in told.items()}


@pytest.mark.parametrize("restart", ["4", "0"], ids=["replaced", "not replaced"])
def test_a_kill_with_several_trials_in_flight(
    pytester: pytest.Pytester, desk: Bench, monkeypatch: pytest.MonkeyPatch, restart: str
) -> None:
    source = (pytester.path / "desk.py").read_text()
    (pytester.path / "desk.py").write_text(source.replace("os._exit(9)", KILL))
    monkeypatch.setenv("DESK_TASKS", "crash-0.4 " + " ".join(f"ok-0.2-{i}" for i in range(11)))
    result = desk(
        *("-n2", "--a2a-concurrency=8", f"--max-worker-restart={restart}"),
        *("--a2a-min-pass=0.1", "--a2a-set=inconclusive=pass", "--junitxml=j.xml"),
    )
    assert result.ret not in (0, 5)
    told = outcomes_of(pytester, 12)
    assert told["crash-0.4"] == "infrastructure_error error"
    # Without a replacement, items of trials that had ended ahead of them do not run either.
    left = {"evaluated error"} if restart == "0" else set()
    assert set(told.values()) <= {"infrastructure_error error", "evaluated", *left}
    lost = [name for name, text in told.items() if text.startswith("infrastructure_error")]
    verdict = verdict_of(pytester)
    assert verdict["verdict"] != "pass"
    assert verdict["failed"] is True
    assert verdict["errors"] == len(lost)
    if restart == "0":
        assert sum(text != "evaluated" for text in told.values()) >= 2


@pytest.mark.parametrize("ahead", ["1", "8"])
def test_a_kill_after_a_trial_was_evaluated(
    pytester: pytest.Pytester, desk: Bench, monkeypatch: pytest.MonkeyPatch, ahead: str
) -> None:
    pytester.makepyfile(test_desk=FIXTURE)
    monkeypatch.setenv("DESK_TASKS", "ok-kill ok-a ok-b ok-c ok-d ok-e")
    result = desk("-n2", f"--a2a-concurrency={ahead}", "--a2a-min-pass=0.5", "--junitxml=j.xml")
    assert result.ret == 1
    told = outcomes_of(pytester, 6)
    assert told.pop("ok-kill") == "evaluated error"
    assert set(told.values()) == {"evaluated"}
    verdict = verdict_of(pytester)
    assert (verdict["verdict"], verdict["failed"]) == ("inconclusive", True)
    result.stdout.fnmatch_lines(["items *1 trial was evaluated, and its item ended in an error: desk/front/ok-kill#0"])
