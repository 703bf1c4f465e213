"""What a run makes of lint: citations where trials fail, and tasks that a floor leaves out, named and counted."""

from __future__ import annotations

import json

import pytest
from harness import Bench, verdict_of

LINT = """

from pathlib import Path

from pytest_a2a_bench.benchmarks.lint import DomainLint, Linter, LintFinding, Rule

LOOKS = Path(__file__).with_name("looks.txt")


def lint(request, domain):
    with LOOKS.open("a") as stream:
        print(domain, file=stream)
    return DomainLint(domain, 10, tuple(LintFinding("too-easy", domain, t, "anybody can") for t in ("ok-a", "bad-h")))


LINTER = Linter(
    rules=(Rule("too-easy", "warning", "It is too easy.", "Think."), Rule("too-hard", "note", "Hard.", "Rest.")),
    domains=lambda request: ("front",),
    lint=lint,
    recognises=lambda path: False,
    glance=lambda request, domain, task: [LintFinding("too-hard", domain, task, "nobody can")],
    digest=lambda request, domain: "1",
)
"""

CONFTEST = """
import dataclasses

def pytest_a2a_bench_suites():
    import desk
    return [dataclasses.replace(desk.SUITE, linter="desk_lint")]
"""


@pytest.fixture(autouse=True)
def _linted(pytester: pytest.Pytester, desk: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let lint find the tasks ``ok-a`` and ``bad-h`` of the desk benchmark too easy."""
    monkeypatch.setenv("DESK_TASKS", " ".join(["ok-" + c for c in "abcdefg"] + ["bad-" + c for c in "hij"]))
    monkeypatch.setenv("XDG_CACHE_HOME", str(pytester.path / "cache"))
    pytester.makepyfile(desk_lint=LINT)
    pytester.makeconftest(CONFTEST)


WITHOUT = ("--a2a-min-pass=0.5", "--a2a-min-pass-without=lint:too-easy")


def looks(pytester: pytest.Pytester) -> int:
    path = pytester.path / "looks.txt"
    return len(path.read_text().splitlines()) if path.exists() else 0


@pytest.mark.parametrize("workers", [(), pytest.param(("-n2",), marks=pytest.mark.slow)], ids=["alone", "workers"])
def test_a_floor_leaves_tasks_out_and_says_so(pytester: pytest.Pytester, desk: Bench, workers: tuple[str, ...]) -> None:
    result = desk.apart(*workers, *WITHOUT, "--a2a-markdown=m.md")
    assert result.ret == 0
    said = " ".join(result.stdout.str().split())
    assert "min_pass pass 6 of 8 trials succeeded, 0.750; the minimum is" in said
    assert "(95 % interval 0.409 to 0.929); 2 trials of 2 tasks are left out (lint:too-easy 2)" in said
    assert "bad-h 0/1 (left out of --a2a-min-pass: lint too-easy)" in said
    verdict = verdict_of(pytester)
    assert verdict["left_out"] == {"desk/front/bad-h": ["too-easy"], "desk/front/ok-a": ["too-easy"]}
    [gate] = verdict["gates"]
    assert gate["numbers"]["left_out"] == {"trials": 2, "tasks": 2, "rules": {"too-easy": 2}}
    assert verdict["trials"]["reported"] == 10, "what is left out of a rate is still a trial"
    assert "are left out" in (pytester.path / "m.md").read_text()
    assert looks(pytester) == 1


def test_what_was_found_is_looked_at_once_and_cited(pytester: pytest.Pytester, desk: Bench) -> None:
    first = desk.apart()
    assert looks(pytester) == 0, "no run waits for a remark"
    first.stdout.fnmatch_lines(["*lint of this task: too-hard (nobody can)*"])
    desk.apart(*WITHOUT)
    again = desk.apart("--a2a-html=p.html")
    assert looks(pytester) == 1
    again.stdout.fnmatch_lines(["*lint of this task: too-easy (anybody can)*"])
    again.stdout.no_fnmatch_line("*lint of this task: too-hard*")
    stored = [json.loads(p.read_text()) for p in (pytester.path / "a2a-results" / "trials").glob("*.json")]
    cited = {t["task"]["id"]: t["provenance"]["lint"] for t in stored if "lint" in t["provenance"]}
    assert cited == {task: {"too-easy": "anybody can"} for task in ("ok-a", "bad-h")}


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (("--a2a-min-pass=0.5", "--a2a-min-pass-without=lint:nope"), "there is no rule nope; a2a-bench lint has: "),
        (("--a2a-min-pass=0.5", "--a2a-min-pass-without=nope"), "names no rule of a2a-bench lint; write lint:RULE"),
        (("--a2a-min-pass=0.5", "--a2a-min-pass-without=,"), "the value is empty; it names no rule"),
        (("--a2a-min-pass-without=lint:too-easy",), "add --a2a-min-pass RATE"),
    ],
)
def test_what_cannot_be_is_refused(desk: Bench, options: tuple[str, ...], expected: str) -> None:
    result = desk(*options)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    assert expected in " ".join((result.stdout.str() + result.stderr.str()).split())


def test_off_leaves_nothing_out(pytester: pytest.Pytester, desk: Bench) -> None:
    desk.apart("--a2a-min-pass=0.5", "--a2a-min-pass-without=off")
    assert verdict_of(pytester)["left_out"] == {}
    assert looks(pytester) == 0


SPLIT_CONFTEST = """
import dataclasses

from pytest_a2a_bench.model import BenchTask

SPLITS = {
    "base": ["ok-b", "bad-i"],
    "more": ["ok-a", "ok-b", "bad-h", "bad-i"],
    "full": ["x-1", "x-2", "ok-a", "bad-h", "x-3"],
}

def pytest_a2a_bench_suites():
    import desk
    tasks = lambda domain, split: [BenchTask("desk", "front", t, (split,)) for t in SPLITS[split]]
    return [dataclasses.replace(
        desk.SUITE, linter="desk_lint", splits=lambda domain: tuple(SPLITS), split_names=tuple(SPLITS), load_tasks=tasks
    )]
"""

SPLIT_LINT = (
    LINT.replace("print(domain, file=stream)", "print(request.split, file=stream)")
    .replace(
        'for t in ("ok-a", "bad-h")', 'for t in (("bad-i",) if request.split == "base" else ("ok-a", "bad-h", "x-1"))'
    )
    .replace('request, domain: "1"', "request, domain: request.split")
)

SPLIT_TESTS = """
import pytest

@pytest.mark.desk("front")
def test_base(trial):
    assert trial.success

@pytest.mark.desk("front", split="full", tasks=["ok-a", "bad-h"])
def test_marked(trial):
    assert trial.success
"""


@pytest.mark.parametrize("workers", [(), pytest.param(("-n2",), marks=pytest.mark.slow)], ids=["alone", "workers"])
def test_tasks_of_a_split_that_a_marker_chose_are_left_out_and_cited(
    pytester: pytest.Pytester, desk: Bench, workers: tuple[str, ...]
) -> None:
    pytester.makepyfile(desk_lint=SPLIT_LINT, test_desk=SPLIT_TESTS)
    pytester.makeconftest(SPLIT_CONFTEST)
    result = desk.apart(*workers, "--a2a-min-pass=0.2", WITHOUT[1])
    assert result.ret == 0
    found = verdict_of(pytester)
    # The split that has them and is the smallest was looked at, and nothing was made of its other tasks.
    assert found["left_out"] == {f"desk/front/{task}": ["too-easy"] for task in ("bad-h", "bad-i", "ok-a")}
    [gate] = found["gates"]
    assert gate["numbers"]["trials"] == 1
    assert (pytester.path / "looks.txt").read_text().split() == ["base", "more"]
    again = desk.apart(*workers)
    again.stdout.fnmatch_lines(["*lint of this task: too-easy (anybody can)*"])
    stored = [json.loads(p.read_text()) for p in (pytester.path / "a2a-results" / "trials").glob("*.json")]
    assert sorted(t["task"]["id"] for t in stored if "too-easy" in t["provenance"].get("lint", {})) == [
        "bad-h",
        "bad-i",
        "ok-a",
    ]
