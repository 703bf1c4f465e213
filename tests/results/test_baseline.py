"""Baselines, comparisons, and the commands that make and print them."""

import dataclasses
import json
import tempfile
from pathlib import Path
from typing import Any

import pytest
from commands import command
from finished_runs import write_run
from hypothesis import given, settings
from hypothesis import strategies as st
from made_trials import made_error, made_trial
from one_test import in_one_test

from pytest_a2a_bench.errors import ConfigurationError
from pytest_a2a_bench.model import Reward, TrialKey, TrialResult, TrialStatus
from pytest_a2a_bench.reports.contents import gather
from pytest_a2a_bench.results.baseline import Baseline, TaskRecord, differences, load, measured_by
from pytest_a2a_bench.results.compare import compare, judge_drop
from pytest_a2a_bench.results.lock import locked
from pytest_a2a_bench.results.store import Store


def stored(directory: Path, outcomes: dict[str, list[int]], **provenance: Any) -> Path:
    """Write trial files; -1 is a trial that the infrastructure failed."""
    store = Store(directory)
    for task, values in outcomes.items():
        for number, value in enumerate(values):
            status: TrialStatus = "evaluated" if value >= 0 else "infrastructure_error"
            store.write(
                TrialResult(
                    TrialKey("tau2", "airline", task, number),
                    status,
                    run_id="run-1",
                    reward_info=Reward(float(value)) if value >= 0 else None,
                    provenance={"user": "scripted", "benchmark": "tau2 1", **provenance},
                    dialect="tool_call",
                )
            )
    return directory


@pytest.mark.slow
@settings(deadline=None)
@given(
    st.dictionaries(
        st.text(min_size=1, max_size=8).map(lambda t: f"tau2/airline/{t}"),
        st.builds(TaskRecord, st.lists(st.booleans(), max_size=4).map(tuple), st.integers(0, 3)),
        max_size=6,
    )
)
def test_a_baseline_survives_its_file(tasks: dict[str, TaskRecord]) -> None:
    baseline = Baseline(tasks, {"tau2": {"user": ("scripted",)}}, ("r",), "2026-01-01T00:00:00+00:00")
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory, "b.json")
        path.write_text(json.dumps(baseline.to_json()))
        if baseline.trials:
            assert load(path) == dataclasses.replace(baseline, source=str(path))
        else:
            with pytest.raises(ConfigurationError, match="no trial in it was evaluated"):
                load(path)


def test_a_directory_and_its_promoted_file_are_the_same(tmp_path: Path) -> None:
    directory = stored(tmp_path / "run", {"1": [1, 0], "2[a]": [1, 1], "3": [-1, 1]})
    printed = command("gate", directory, "--write-baseline", tmp_path / "sub" / "b.json")
    assert "b.json: 3 tasks, 4 of 5 trials succeeded (0.800)" in printed.out
    assert "1 trial could not be evaluated and is not part of it" in printed.err
    file, whole = load(tmp_path / "sub" / "b.json"), load(directory)
    assert (file.tasks, file.measured, file.run_ids) == (whole.tasks, whole.measured, ("run-1",))
    assert file.tasks["tau2/airline/3"] == TaskRecord((True,), 1)
    assert file.measured == {
        "tau2/airline": {"benchmark": ("tau2 1",), "dialect": ("tool_call",), "user": ("scripted",)}
    }


def test_promoting_fewer_tasks_over_more_needs_force(tmp_path: Path) -> None:
    target = tmp_path / "b.json"
    command("gate", stored(tmp_path / "a", {"1": [1], "2": [1]}), "--write-baseline", target)
    fewer = stored(tmp_path / "b", {"1": [1]})
    said = command("gate", fewer, "--write-baseline", target, code=2).err
    assert "has 1 task that the new results have not (tau2/airline/2)" in said
    command("gate", fewer, "--write-baseline", target, "--force")
    assert len(load(target).tasks) == 1


HEAD = '{"schema": "a2a-bench/baseline", "schema_version": 1, '


@in_one_test(
    ("content", "complaint"),
    [
        (HEAD.replace("1,", "2,") + '"tasks": {}}', "schema_version is 2; this version reads 1"),
        (HEAD + '"tasks": []}', "tasks should be an object, found a list"),
        (HEAD + '"tasks": {"t": {"outcomes": [2]}}}', "tasks.t.outcomes.0 should be less than or equal to 1, found 2"),
        (HEAD + '"tasks": {}}', "no trial in it was evaluated"),
        (HEAD + '"measured": {"x": {"user": 5}}}', "measured.x.user should be a valid array, found 5"),
        (HEAD + '"run_ids": 5}', "run_ids should be a valid array, found 5"),
        (
            HEAD + '"tasks": {"t": {"outcomes": [1], "errors": true}}}',
            "tasks.t.errors should be a valid integer, found true",
        ),
    ],
)
def test_an_invalid_baseline_is_reported(tmp_path: Path, content: str, complaint: str) -> None:
    path = tmp_path / "b.json"
    path.write_text(content)
    with pytest.raises(ConfigurationError) as caught:
        load(path)
    assert complaint in str(caught.value)
    assert str(path) in str(caught.value)


def test_a_directory_is_what_its_last_run_was_asked_for(tmp_path: Path) -> None:
    whole = [made_trial(f"made/even/{task}#{number}", success=task < 6) for task in range(9) for number in range(2)]
    directory = write_run(tmp_path / "run", whole, run_id="run-1")
    write_run(directory, [made_trial(f"made/even/{task}#0", success=task == 1) for task in range(9)], run_id="run-2")
    found = load(directory)
    assert [sum(r.outcomes) for r in found.tasks.values()] == [0, 1, 0, 0, 0, 0, 0, 0, 0]
    assert (found.trials, found.run_ids) == (9, ("run-2",))
    assert found.notes == ("9 trial files are of other runs or selections and do not count",)
    note = f"The baseline {directory}: 9 trial files are of other runs or selections and do not count."
    contents = gather(directory, directory, None)
    assert note in contents.notes
    # So is the page.
    assert {result.run_id for result in contents.trials} == {"run-2"}
    assert "9 trial files are of other runs or selections and do not count." in contents.notes
    # Without a verdict, as merged results are, the plan of the run names the agent.
    assert (contents.agent, contents.endpoint) == ("Readonly 1.0", "http://127.0.0.1:1")
    assert command("compare", directory, directory).err.count(f"{directory}: 9 trial files are of other runs") == 2


def test_a_run_that_was_interrupted_is_no_baseline_by_accident(tmp_path: Path) -> None:
    done = [made_trial(f"made/even/{task}#0") for task in range(60)]
    absent = ["made/even/1#1", "made/odd/1#0"]
    directory = write_run(tmp_path / "run", done, absent=absent)
    target = tmp_path / "b.json"
    said = command("gate", directory, "--write-baseline", target, "--force", code=2).err
    assert "2 of the run's 62 trials have no result (made/even/1#1, made/odd/1#0)" in said
    assert "--a2a-resume" in said
    assert "--allow-incomplete" in said
    assert not target.exists()
    said = command("gate", directory, "--write-baseline", target, "--allow-incomplete").err
    assert "2 of the run's 62 trials have no result" in said
    assert load(target).tasks["made/even/1"] == TaskRecord((True,), 1)
    assert load(target).tasks["made/odd/1"] == TaskRecord((), 1)
    whole = write_run(tmp_path / "whole", done, run_id="other")
    printed = command("compare", whole, directory, "--max-drop", "0.1")
    assert "2 of the run's 62 trials have no result" in printed.err
    assert "verdict: pass" in printed.out, "one more miss of 60 would be no drop of 0.1"


@in_one_test(("floor", "verdict"), [("0.1", "inconclusive"), ("0.7", "inconclusive"), ("0.9", "failed")])
def test_a_run_that_was_interrupted_is_judged_as_such(tmp_path: Path, floor: str, verdict: str) -> None:
    done = [made_trial(f"made/even/{task}#0", success=task != 1) for task in range(3)]
    kind = "TrialCancelledError" if floor == "0.1" else "RunTimeoutError"
    stopped = dataclasses.replace(made_error("made/even/9#0"), error_type=kind)
    directory = write_run(tmp_path / "run", [made_trial("made/odd/1#0")], run_id="earlier")
    write_run(directory, [*done, stopped], absent=["made/odd/1#0"])
    printed, remark = command("gate", directory, "--min-pass", floor, code=1)
    assert remark == "1 trial file is of other runs or selections and does not count\n"
    assert "the run was cut short; so far: 2 of 3 trials succeeded" in printed
    said = "missing inconclusive 2 trials not run: no result is stored; run the same command with --a2a-resume"
    assert said in " ".join(printed.split())
    assert "breaker" not in printed
    assert "2 trials were not run, so this run does not pass\n" in printed
    assert printed.endswith(f"\nverdict: {verdict}\n")
    printed = command("show", "--results", directory).out
    assert "1 more trial without a result: run the same command with --a2a-resume" in printed
    assert "1x unproven: was stopped before its end [made/even/9]" in printed
    assert "network" not in printed
    with locked(directory, "pytest"):
        assert "1 more trial without a result: the run goes on" in command("show", "--results", directory).out


def test_a_run_whose_user_is_a_model_is_compared_from_its_files(tmp_path: Path) -> None:
    measured = {"user": "llm", "user_llm": "m", "benchmark": "made 1.0"}
    directory = write_run(
        tmp_path / "run", [made_trial(f"made/even/{task}#0", provenance=measured) for task in range(60)]
    )
    assert "verdict: pass" in command("gate", directory, "--baseline", directory).out


def test_a_task_that_changed_since_the_baseline_is_not_compared(tmp_path: Path) -> None:
    def of(name: str, versions: tuple[str, ...]) -> Path:
        measured = [{"user": "scripted", "benchmark": "made 1.0", "task_version": version} for version in versions]
        return write_run(
            tmp_path / name, [made_trial(f"made/even/{n}#0", provenance=one) for n, one in enumerate(measured)]
        )

    before, target = of("before", ("1",) * 60), tmp_path / "b.json"
    command("gate", before, "--write-baseline", target)
    changed = of("changed", ("2", *("1",) * 59))
    for baseline in (before, target):
        printed = command("gate", changed, "--baseline", baseline).out
        assert "1.000 now over 59 tasks" in printed
        assert "1 task changed since the baseline and is not compared" in printed
        assert "changed, and not compared (1): made/even/0" in printed
    printed = command("gate", of("other", ("2",)), "--baseline", target, code=1).out
    assert "no task was evaluated both in this run and in the baseline; 1 task changed since" in " ".join(
        printed.split()
    )


def test_a_missing_or_empty_baseline_is_said(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="cannot be read: No such file"):
        load(tmp_path / "none.json")
    with pytest.raises(ConfigurationError, match="holds no trial files"):
        load(tmp_path)
    said = command("gate", tmp_path / "none", "--write-baseline", tmp_path / "x", code=2).err
    assert "is not a results directory" in said


def test_a_comparison_by_domain_and_task() -> None:
    def of(**rates: tuple[int, int]) -> Baseline:
        return Baseline(
            {
                f"tau2/{n.replace('_', '/')}": TaskRecord((True,) * ok + (False,) * (of - ok))
                for n, (ok, of) in rates.items()
            }
        )

    before = of(airline_1=(4, 4), airline_2=(2, 4), retail_1=(1, 1), retail_9=(1, 1))
    after = of(airline_1=(2, 4), airline_2=(3, 4), retail_1=(1, 1), retail_8=(0, 1))
    found = compare(before, after)
    assert [(t.name, t.drop) for t in found.tasks] == [
        ("tau2/airline/1", 0.5),
        ("tau2/retail/1", 0.0),
        ("tau2/airline/2", -0.25),
    ]
    assert [(g.name, g.tasks, g.better, g.worse, g.drop) for g in found.domains] == [
        ("tau2/airline", 2, 1, 1, 0.125),
        ("tau2/retail", 1, 0, 0, 0.0),
    ]
    assert found.overall is not None
    assert (found.overall.before.ok, found.overall.before.trials, found.overall.after.ok) == (7, 9, 6)
    assert (found.only_before, found.only_after) == (("tau2/retail/9",), ("tau2/retail/8",))
    assert judge_drop(found.overall, 0.05) == "inconclusive"
    assert compare(before, Baseline({})).overall is None


def test_conditions_that_matter_for_comparing() -> None:
    one = {"a/b": {"user": ("scripted",), "judge": ("m",), "tagged": ("True",)}, "c/d": {"user": ("llm",)}}
    two = {"a/b": {"user": ("scripted",), "dialect": ("data",)}, "e/f": {"user": ("x",)}}
    assert list(differences(one, two)) == ["a/b: tagged was on and is off"]
    assert list(differences(one, one)) == []
    first = {"a/b": {"dialect": ("data", "tool_call"), "judge": ("m",)}}
    assert list(differences(first, {"a/b": {"dialect": ("tool_call",)}})) == [], "the agent chooses among several"
    second = {"a/b": {"dialect": ("sierra",), "judge": ("n",)}}
    assert list(differences(first, second)) == [
        "a/b: dialect was data + tool_call and is sierra",
        "a/b: judge was m and is n",
    ]
    # What no reward depends on is none.
    other = dict.fromkeys(("defects", "user_judgement", "retrieval_why", "agent_model"), "x")
    plain, more = (
        TrialResult(TrialKey("tau2", "mock", "1"), "evaluated", provenance={"user": "scripted", **p})
        for p in ({}, other)
    )
    assert measured_by([plain]) == measured_by([more])


def test_trials_that_errored_are_reported_from_tasks_that_are_not_there() -> None:
    before = Baseline({n: TaskRecord((True,)) for n in ("a/b/1", "a/b/2", "a/b/3", "a/c/1")})
    after = Baseline({"a/b/1": TaskRecord((True,), 3), "a/b/2": TaskRecord((), 2), "a/c/1": TaskRecord((), 1)})
    found = compare(before, after)
    assert (found.only_before, found.only_after, found.errored) == (("a/b/3",), (), ("a/b/2", "a/c/1"))
    assert (found.errors_before, found.errors_after) == (0, 6)
    turned = compare(after, before)
    assert (turned.only_after, turned.errored, turned.errors_before) == (("a/b/3",), ("a/b/2", "a/c/1"), 6)
    data = found.to_json()
    assert (data["errored"], data["errors_after"]) == (("a/b/2", "a/c/1"), 6)
    assert data["tasks"][0]["after_errors"] == 3


def test_a_run_with_other_limits_another_history_or_other_data_is_another_measurement(tmp_path: Path) -> None:
    def of(name: str, revision: str = "1", **provenance: Any) -> Baseline:
        source = {"source": "directory", "name": "org", "files": {"rows.db": revision}}
        given = {"max_steps": 30, "history": "delta", "drift": None, "rot": 0, "aided": False, **provenance}
        return load(stored(tmp_path / name, {"1": [1], "2": [0]}, source=source, **given))

    one = of("a")
    assert compare(one, of("b")).differences == ()
    assert compare(one, of("c", max_steps=200, history="full")).differences == (
        "tau2/airline: max_steps was 30 and is 200",
        "tau2/airline: history was delta and is full",
    )
    [difference] = compare(one, of("d", "2")).differences
    assert difference.startswith("tau2/airline: source was org ")


def test_what_happened_in_a_trial_is_no_condition(tmp_path: Path) -> None:
    def of(name: str, calls: int, rate: float = 0.1) -> Baseline:
        noise = {"rates": {"wrong": rate, "user": "terse"}, "events": [{"kind": "wrong", "call": calls}]}
        counted = {"native_calls": calls, "native_calls_refused": calls, "org_day": [calls, 9], "shortcut": f"{calls}"}
        return load(stored(tmp_path / name, {"1": [1]}, noise=noise, **counted))

    one = of("a", 1)
    assert compare(one, of("b", 2)).differences == ()
    assert compare(one, of("c", 1, 0.2)).differences == (
        "tau2/airline: noise was user=terse, wrong=0.1 and is user=terse, wrong=0.2",
    )


class TestCompareCommand:
    def test_a_regression(self, tmp_path: Path) -> None:
        before = stored(tmp_path / "a", {str(i): [1] for i in range(20)})
        after = stored(tmp_path / "b", {str(i): [int(i < 12)] for i in range(20)})
        printed = command("compare", before, after, code=1).out
        assert "tau2/airline" in printed
        assert "1.000 (20/20)" in printed
        assert "worse   1/1 -> 0/1  airline/12" in printed
        assert printed.startswith("verdict: regressed (allowed drop 0.05)\n")
        command("compare", after, before)

    @pytest.mark.slow
    def test_errors_may_hide_a_drop(self, tmp_path: Path) -> None:
        before = stored(tmp_path / "a", {str(i): [1] for i in range(123)})
        after = stored(tmp_path / "b", {str(i): [1 if i < 82 else -1] for i in range(123)})
        printed = command("compare", before, after).out
        assert "verdict: inconclusive (allowed drop 0.05)\n41 trials of B could not be evaluated" in printed
        assert "could not be evaluated in one of the runs (41): airline/82, " in printed
        assert "and 21 more" in " ".join(printed.split())
        assert "only in" not in printed
        command("compare", before, after, "--strict", code=1)
        assert json.loads(command("compare", before, after, "--format", "json").out)["verdict"] == "inconclusive"

    @pytest.mark.slow
    def test_a_long_list_says_how_many_more_there_are(self, tmp_path: Path) -> None:
        before = stored(tmp_path / "a", {str(i): [1] for i in range(115)})
        after = stored(tmp_path / "b", {"0": [1]})
        printed = command("compare", before, after).out
        assert "only in the baseline (114): airline/1, " in printed
        assert "and 94 more" in printed
        assert "about " in printed
        assert "would be enough (there is 1)" in printed
        command("compare", before, after, "--strict", code=1)

    def test_json_and_what_does_not_compare(self, tmp_path: Path) -> None:
        before = stored(tmp_path / "a", {"1": [1]})
        after = stored(tmp_path / "b", {"1": [0]}, user="llm")
        data = json.loads(command("compare", before, after, "--format", "json").out)
        assert (data["verdict"], data["differences"]) == (
            "inconclusive",
            ["tau2/airline: user was scripted and is llm"],
        )
        assert "not comparable: tau2/airline: user was scripted and is llm" in command("compare", before, after).out

    @in_one_test(
        ("arguments", "complaint"),
        [
            (["--max-drop", "0"], "above 0"),
            (["--max-drop", "x"], "is not a number"),
            ([], "no evaluated task in common"),
        ],
    )
    def test_wrong_use(self, tmp_path: Path, arguments: list[str], complaint: str) -> None:
        before, after = stored(tmp_path / "a", {"1": [1]}), stored(tmp_path / "b", {"2": [1]})
        assert complaint in command("compare", before, after, *arguments, code=2).err
        gone = command("compare", before, tmp_path / "gone", code=2).err
        assert gone == f"a2a-bench: {tmp_path}/gone: cannot be read: No such file or directory\n"


def test_a_task_that_is_called_as_an_agent_may_be_is_no_agent(tmp_path: Path) -> None:
    plain = Baseline.of(Store(stored(tmp_path / "plain", {"pay:card": [1], "pay:cash": [0]})).read_all())
    assert plain.agents == ()
    assert plain.only("card").tasks == plain.tasks
    named = plain.named("left")
    assert named.agents == ("left",)
    assert named.only("left").tasks == plain.tasks


def test_a_baseline_that_does_not_say_how_it_was_measured_does_not_compare(tmp_path: Path) -> None:
    run = Baseline.of(Store(stored(tmp_path / "run", {"1": [1], "2": [1]})).read_all())
    without = dataclasses.replace(run, measured={})
    found = compare(without, run)
    assert sorted(found.differences) == [
        "tau2/airline: benchmark was none and is tau2 1",
        "tau2/airline: user was none and is scripted",
    ]
    assert compare(run, without).differences
    # Where neither says anything, or nothing of the domain was evaluated before, there is no difference.
    assert compare(without, without).differences == ()
    errors = dataclasses.replace(without, tasks={"tau2/airline/1": TaskRecord((), 1), "a/b/1": TaskRecord((True,))})
    both = dataclasses.replace(run, tasks={**run.tasks, "a/b/1": TaskRecord((True,))})
    assert compare(errors, both).differences == ()
