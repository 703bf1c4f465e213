"""``--reruns`` of pytest-rerunfailures: a miss is never repeated, trouble is, and every report tells the same."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from xml.etree import ElementTree

import pytest
from harness import Bench, junit_properties, log_of, verdict_of

from pytest_a2a_bench.results.store import Store

pytest.importorskip("pytest_rerunfailures")
RERUNS = ("-ppytest_rerunfailures", "--reruns=2", "--junitxml=j.xml")


def told_of(path: Path) -> dict[str, tuple[str | None, str | None]]:
    """Return status and reward by trial, as the files and as junit have them, which must be the same, once each."""
    stored = {
        str(r.key): (r.status, None if r.reward_info is None else str(r.reward))
        for r in Store(path / "a2a-results").read_all()
    }
    cases = [case for case in ElementTree.parse(path / "j.xml").iter("testcase") if "t0]" in case.attrib["name"]]
    names = Counter(case.attrib["name"] for case in cases)
    assert set(names.values()) == {1}, names
    properties = [junit_properties(case) for case in cases]
    assert {p["a2a.key"]: (p["a2a.status"], p.get("a2a.reward")) for p in properties} == stored
    return {key.removeprefix("desk/front/"): told for key, told in stored.items()}


# By the name of its entry point, by which pytest-rerunfailures looks for it.
XDIST = ("-pxdist", "--numprocesses")
WAYS = [
    pytest.param((), marks=pytest.mark.slow),
    (*XDIST, "2"),
    pytest.param((*XDIST, "2", "--a2a-concurrency=4"), marks=pytest.mark.slow),
]


@pytest.mark.parametrize("workers", WAYS, ids=["alone", "workers", "ahead"])
@pytest.mark.parametrize("gate", [(), ("--a2a-min-pass=0.5",)], ids=["no gate", "gate"])
def test_trouble_is_repeated_and_a_miss_never(
    pytester: pytest.Pytester,
    desk: Bench,
    monkeypatch: pytest.MonkeyPatch,
    workers: tuple[str, ...],
    gate: tuple[str, ...],
) -> None:
    monkeypatch.setenv("DESK_TASKS", "flaky bad ok-a ok-b down")
    result = desk(*RERUNS, *workers, *gate)
    assert result.ret == 1
    assert Counter(log_of(pytester)) == {"flaky": 2, "bad": 1, "ok-a": 1, "ok-b": 1, "down": 3}
    assert told_of(pytester.path) == {
        "flaky#0": ("evaluated", "1.0"),
        "bad#0": ("evaluated", "0.0"),
        "ok-a#0": ("evaluated", "1.0"),
        "ok-b#0": ("evaluated", "1.0"),
        "down#0": ("infrastructure_error", None),
    }
    verdict = verdict_of(pytester)
    counts = {"reported": 5, "succeeded": 3, "missed": 1, "skipped": 0, "errors": 1, "not_run": 0, "cut_short": False}
    counts |= {"decided": 0}
    assert verdict["trials"] == counts | {"user_faults": 0, "user_retries": 0, "blameless": 5, "blameless_succeeded": 3}
    assert verdict["verdict"] == ("inconclusive" if gate else "failed")
    result.assert_outcomes(passed=3 + len(gate), errors=1, failed=0 if gate else 1)


@pytest.mark.parametrize("ahead", ["1", "3"])
def test_a_crash_is_repeated_and_told_once(
    pytester: pytest.Pytester, desk: Bench, monkeypatch: pytest.MonkeyPatch, ahead: str
) -> None:
    source = (pytester.path / "desk.py").read_text()
    once = 'if kind == "crash" and not (HERE / key.file_stem).exists():\n            (HERE / key.file_stem).touch()\n'
    (pytester.path / "desk.py").write_text(source.replace('if kind == "crash":\n', once))
    monkeypatch.setenv("DESK_TASKS", "crash-0.2 ok-a ok-b ok-c ok-d")
    result = desk(*RERUNS, *XDIST, "1", f"--a2a-concurrency={ahead}", "--a2a-min-pass=0.5")
    told = told_of(pytester.path)
    assert set(told.values()) == {("evaluated", "1.0")}, result.stdout.str()
    assert len(told) == 5
    assert result.ret == 0
    assert log_of(pytester).count("crash-0.2") == 2
