"""Tasks with long ids have short names, and lists of them end."""

from pathlib import Path

import pytest
from commands import command
from finished_runs import write_run
from made_trials import made_trial

from pytest_a2a_bench.benchmarks import registry
from pytest_a2a_bench.benchmarks.tau2 import index
from pytest_a2a_bench.reports import summary, trial_text
from pytest_a2a_bench.reports.contents import Contents
from pytest_a2a_bench.reports.html import records, render
from pytest_a2a_bench.results.gates.files import StoredGate, StoredVerdict

LONG = [task.task_id for task in index.load_tasks("telecom")]


def test_a_task_with_a_long_id_is_named_by_its_place() -> None:
    assert registry.short_name(f"tau2/telecom/{LONG[17]}") == "telecom/17"
    assert registry.short_name(f"tau2/telecom/{LONG[17]}#3@label:b") == "telecom/17#3@label:b"
    assert registry.short_name("tau2/airline/12#0") == ""
    assert registry.short_name("tau2/telecom/no such task") == ""
    assert registry.short_name("unknown/front/1") == ""
    assert registry.shown_name("tau2/airline/12#0") == "airline/12#0"
    names = [registry.short_name(f"tau2/telecom/{id}") for id in LONG]
    assert len({*names}) == len(LONG)
    telecom, airline, other = (made_trial(k) for k in (f"tau2/telecom/{LONG[17]}#0", "tau2/airline/12#0", "made/x/1#0"))
    assert [records.row(r).get("h") for r in (telecom, airline, other)] == ["telecom/17#0", "airline/12#0", None]
    assert records.row(telecom)["k"] == str(telecom.key)


def test_causes_and_missed_tasks_are_listed_by_short_names_and_the_lists_end() -> None:
    results = [made_trial(f"tau2/telecom/{id}#0", success=False) for id in LONG]
    [cluster] = trial_text.clusters(results)
    assert list(cluster.tasks)[:3] == ["telecom/0", "telecom/1", "telecom/2"]
    lines = list(summary.missed_lines(results, {str(r.key): "" for r in results}, 80))
    assert lines[0].startswith("  telecom: 0 0/1, 1 0/1, ")
    assert len(lines) == summary.MISSED + 1
    assert lines[-1] == f"  ... {len(LONG)} tasks in all; a2a-bench show --why has their causes"


def test_tasks_are_listed_by_number_as_show_takes_them_and_lines_break_between_tasks_only() -> None:
    [cluster] = trial_text.clusters(
        [made_trial(f"made/{name}", success=False) for name in ("odd/11#0", "even/11#0", "even/2#0", "even/2#1")]
    )
    assert list(cluster.tasks.items()) == [("made/even/2", 2), ("made/even/11", 1), ("made/odd/11", 1)]
    trials = [made_trial(f"made/even/{number}#0", success=False) for number in range(30)]
    lines = list(summary.missed_lines(trials, {str(trial.key): "" for trial in trials}, 40))
    assert lines[0].startswith("  made/even: 0 0/1, 1 0/1, 2 0/1")
    assert all(line.strip().removesuffix(",").endswith("0/1") and len(line) <= 40 for line in lines)
    assert " ".join(line.strip() for line in lines).count("0/1") == 30


def test_show_takes_a_short_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    results = [made_trial(f"tau2/telecom/{id}#0", success=False) for id in LONG[:3]]
    write_run(tmp_path / "run", results)
    assert f"{LONG[2]}#0 (telecom/2#0)" in command("show", "telecom/2", "--results", "run").out


def test_the_page_says_what_is_next_and_has_no_verdict_where_nothing_was_asked() -> None:
    silent = [
        made_trial(f"tau2/airline/{n}#0", success=False, transcript=(), provenance={"dialect_option": "auto"})
        for n in range(3)
    ]
    page = render(Contents(trials=silent))
    assert "<strong>Next: </strong>the agent called no tool in any of 3 conversations" in page
    for minimum, there in ((0, False), (0.4, True)):
        floor = StoredGate("min_pass", "pass", {"minimum": minimum, "rate": 0.5}, "1 of 2 trials succeeded")
        verdict = StoredVerdict("r1", "pass", False, gates=(floor,), missed=())
        page = render(Contents(trials=silent, verdict=verdict))
        assert ("banner good" in page) == there
        assert ("<h2>Verdict</h2>" in page) == there
