"""Runs whose conversations a budget gives out: alone, with workers, in shards, resumed, and judged again from disk."""

from __future__ import annotations

import json
from typing import Any

import pytest
from harness import Bench, junit_cases, verdict_of

from pytest_a2a_bench.cli.main import main
from pytest_a2a_bench.reports.gathering import gather

SURE = ["ok-0-x0", "ok-0-x1", "ok-0-x2", "bad-0-x3", "bad-0-x4", "bad-0-x5"]
UNSURE = ["odd-0-x6", "odd-0-x7"]
BUDGET = ("--a2a-baseline=b.json", "--a2a-budget=36")


@pytest.fixture
def bench(pytester: pytest.Pytester, desk: Bench, monkeypatch: pytest.MonkeyPatch) -> Bench:
    """A desk of eight tasks, two of which succeed every other time, and a baseline that knows them."""
    monkeypatch.setenv("DESK_TASKS", " ".join(SURE + UNSURE))
    outcomes = {"ok": [1] * 32, "bad": [0] * 32, "odd": [1, 0] * 16}
    write_baseline(pytester, {name: outcomes[name.partition("-")[0]] for name in SURE + UNSURE})
    return desk


def write_baseline(pytester: pytest.Pytester, tasks: dict[str, list[int]], **more: object) -> None:
    found = {f"desk/front/{name}": {"outcomes": outcomes, "errors": 0} for name, outcomes in tasks.items()}
    baseline = {"schema": "a2a-bench/baseline", "schema_version": 1, "measured": {}, "tasks": found, **more}
    (pytester.path / "b.json").write_text(json.dumps(baseline))


def gate_of(data: dict[str, Any], name: str) -> dict[str, Any]:
    [gate] = [gate for gate in data["gates"] if gate["name"] == name]
    return dict(gate)


def held(pytester: pytest.Pytester) -> dict[str, int]:
    """Return how many conversations each task had."""
    found: dict[str, int] = {}
    for line in (pytester.path / "log.txt").read_text().splitlines():
        what, key, *_ = line.split()
        if what == "start":
            name = key.partition("#")[0].rpartition("/")[2]
            found[name] = found.get(name, 0) + 1
    return found


@pytest.mark.parametrize(
    "process",
    [
        pytest.param((), id="alone"),
        pytest.param(("-n2",), id="workers", marks=pytest.mark.slow),
        pytest.param(("--a2a-concurrency=3",), id="ahead", marks=pytest.mark.slow),
    ],
)
def test_a_budget_goes_where_the_baseline_is_uncertain(
    pytester: pytest.Pytester, bench: Bench, process: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    result = bench.apart(*process, *BUDGET, "--a2a-min-pass=0.45", "--junitxml=j.xml", "--a2a-html=page.html")
    found = held(pytester)
    assert sum(found.values()) == 36
    assert {found[name] for name in UNSURE} == {6}
    assert {found[name] for name in SURE} == {4}
    data = verdict_of(pytester)
    assert (data["trials"]["beyond_budget"], data["trials"]["skipped"], data["errors"]) == (28, 28, 0)
    floor = gate_of(data, "min_pass")
    # 18 of 36 trials, and of the tasks three at 1, three at 0, and two at 0.5.
    assert (floor["numbers"]["rate"], floor["numbers"]["weighted"]) == (0.5, "by task")
    assert "8 tasks, each weighted the same whatever its 4 to 6 trials" in floor["sentence"]
    baseline = gate_of(data, "baseline")
    assert (baseline["numbers"]["before"]["rate"], baseline["numbers"]["after"]["rate"]) == (0.5, 0.5)
    assert "each task weighted the same" in baseline["sentence"]
    result.stdout.fnmatch_lines(
        ["*the budget holds 36 of 64 trials: 8 tasks, 4 to 6 trials each, more of uncertain ones; the rate will be*"]
    )
    result.stdout.fnmatch_lines(["*28 of 64 trials were beyond the budget (--a2a-budget) and are in no rate*"])
    skipped = [c for c in junit_cases(pytester.path / "j.xml").values() for child in c if child.tag == "skipped"]
    assert sum("beyond the budget" in (child.get("message") or "") for case in skipped for child in case) == 28
    assert "28 of 64 trials were beyond the budget" in (pytester.path / "page.html").read_text()
    # Whoever compares afterwards gets the limits of the gate.
    capsys.readouterr()
    main(["compare", "b.json", "a2a-results", "--format=json"])
    overall = json.loads(capsys.readouterr().out)["overall"]
    assert overall["drop_interval"] == baseline["numbers"]["drop_interval"]
    page = gather(pytester.path / "a2a-results", pytester.path / "b.json", None).comparison
    assert page is not None
    assert page.overall is not None
    assert [page.overall.low, page.overall.high] == overall["drop_interval"]


@pytest.mark.slow
def test_shards_share_a_budget_and_are_judged_as_the_whole(
    pytester: pytest.Pytester, bench: Bench, capsys: pytest.CaptureFixture[str]
) -> None:
    for number in (1, 2):
        bench(*BUDGET, "--a2a-min-pass=0.45", f"--a2a-shard={number}/2", f"--a2a-results=part{number}")
    assert sum(held(pytester).values()) == 36
    assert main(["merge", "part1", "part2", "-o", "joined"]) == 0
    assert main(["gate", "joined", "--min-pass", "0.45", "--baseline", "b.json"]) == 0
    joined = verdict_of(pytester, "joined")
    (pytester.path / "log.txt").unlink()
    bench(*BUDGET, "--a2a-min-pass=0.45")
    whole = verdict_of(pytester)
    for name in ("min_pass", "baseline"):
        assert gate_of(joined, name)["sentence"] == gate_of(whole, name)["sentence"]
    assert joined["trials"]["beyond_budget"] == whole["trials"]["beyond_budget"] == 28
    # Judged again from disk, a run says the same.
    assert main(["gate", "a2a-results", "--min-pass", "0.45", "--baseline", "b.json"]) == 0
    assert verdict_of(pytester)["gates"] == whole["gates"]
    capsys.readouterr()


@pytest.mark.slow
def test_a_larger_budget_goes_on_where_a_smaller_one_ended(pytester: pytest.Pytester, bench: Bench) -> None:
    bench("--a2a-baseline=b.json", "--a2a-budget=20")
    assert sum(held(pytester).values()) == 20
    bench(*BUDGET, "--a2a-resume")
    assert sum(held(pytester).values()) == 36, "only what the first budget had no room for"
    assert verdict_of(pytester)["trials"]["beyond_budget"] == 28


@pytest.mark.slow
def test_weak_tasks_may_come_first(pytester: pytest.Pytester, bench: Bench) -> None:
    bench("--a2a-baseline=b.json", "--a2a-budget=28", "--a2a-budget-first=weak", "--a2a-trials=6")
    found = held(pytester)
    assert min(found[name] for name in SURE[3:]) > max(found[name] for name in UNSURE)
    assert {found[name] for name in SURE[:3]} == {2}


@pytest.mark.slow
def test_a_baseline_that_never_failed_says_nothing_of_what_a_budget_gains(
    pytester: pytest.Pytester, bench: Bench
) -> None:
    write_baseline(pytester, {name: [1, 1, 1] for name in SURE + UNSURE})
    result = bench("--a2a-baseline=b.json", "--a2a-budget=16")
    result.stdout.fnmatch_lines(["*16 of 64 trials: 8 tasks, 2 each; these tasks are too few, or too alike, for a*"])
    result.stdout.no_fnmatch_line("*spread evenly*")


@pytest.mark.slow
def test_dollars_are_conversations_at_the_baselines_cost(pytester: pytest.Pytester, bench: Bench) -> None:
    write_baseline(pytester, {name: [1, 0] for name in SURE + UNSURE}, cost_usd=0.25)
    bench("--a2a-baseline=b.json", "--a2a-budget=$3")
    assert sum(held(pytester).values()) == 12
    assert set(held(pytester).values()) == {1, 2}, "what is alike is given alike"


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (("--a2a-budget=20",), "goes by what an earlier run measured of each task: add --a2a-baseline FILE"),
        (("--a2a-baseline=b.json", "--a2a-budget=7"), "7 conversations cannot hold one of each of 8 tasks; give 8"),
        pytest.param(
            (*BUDGET, "--a2a-min-pass-k=5=0.1"),
            "36 conversations cannot hold 5 of each, which --a2a-min-pass-k needs",
            marks=pytest.mark.slow,
        ),
        (("--a2a-baseline=b.json", "--a2a-budget=$5"), "b.json has no cost of a conversation"),
        pytest.param(
            ("--a2a-baseline=b.json", "--a2a-budget=many"),
            "'many' is not a number of conversations such as 200",
            marks=pytest.mark.slow,
        ),
        pytest.param(
            (*BUDGET, "--a2a-trials=auto"),
            "--a2a-budget and --a2a-stop decided (or --a2a-trials auto) exclude each",
            marks=pytest.mark.slow,
        ),
    ],
)
def test_a_budget_that_makes_no_sense_is_refused(
    pytester: pytest.Pytester, bench: Bench, options: tuple[str, ...], told: str
) -> None:
    result = bench(*options)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    assert told in " ".join((result.stdout.str() + result.stderr.str()).split())
    assert not (pytester.path / "log.txt").exists()
