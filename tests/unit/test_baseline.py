"""Baselines, comparisons, and the commands that make and print them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pytest_a2a_bench import cli
from pytest_a2a_bench.errors import ConfigurationError
from pytest_a2a_bench.model import Reward, TrialKey, TrialResult, TrialStatus
from pytest_a2a_bench.results.baseline import Baseline, TaskRecord, differences, load
from pytest_a2a_bench.results.compare import compare, judge_drop
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
    assert Baseline.from_json(json.loads(json.dumps(baseline.to_json()))) == baseline


def test_a_directory_and_its_promoted_file_are_the_same(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    directory = stored(tmp_path / "run", {"1": [1, 0], "2[a]": [1, 1], "3": [-1, 1]})
    assert cli.main(["promote", str(directory), "-o", str(tmp_path / "sub" / "b.json")]) == 0
    printed = capsys.readouterr()
    assert "b.json: 3 tasks, 4 of 5 trials succeeded (0.800)" in printed.out
    assert "1 trials could not be evaluated and are not part of it" in printed.err
    file, whole = load(tmp_path / "sub" / "b.json"), load(directory)
    assert (file.tasks, file.measured, file.run_ids) == (whole.tasks, whole.measured, ("run-1",))
    assert file.tasks["tau2/airline/3"] == TaskRecord((True,), 1)
    assert file.measured == {
        "tau2/airline": {"benchmark": ("tau2 1",), "dialect": ("tool_call",), "user": ("scripted",)}
    }


def test_promoting_fewer_tasks_over_more_needs_force(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    target = tmp_path / "b.json"
    assert cli.main(["promote", str(stored(tmp_path / "a", {"1": [1], "2": [1]})), "-o", str(target)]) == 0
    fewer = stored(tmp_path / "b", {"1": [1]})
    assert cli.main(["promote", str(fewer), "-o", str(target)]) == 2
    assert "has 1 tasks that the new results have not (tau2/airline/2)" in capsys.readouterr().err
    assert cli.main(["promote", str(fewer), "-o", str(target), "--force"]) == 0
    assert len(load(target).tasks) == 1


@pytest.mark.parametrize(
    ("content", "complaint"),
    [
        ("{", "Expecting"),
        ("[]", "it is not a baseline"),
        ('{"schema": "a2a-bench/baseline", "schema_version": 2}', "schema_version is 2; this version reads 1"),
        ('{"schema": "a2a-bench/baseline", "schema_version": 1, "tasks": []}', "tasks is not an object"),
        (
            '{"schema": "a2a-bench/baseline", "schema_version": 1, "tasks": {"t": {"outcomes": [2]}}}',
            "the outcomes of task 't' are not a list of 0 and 1",
        ),
        ('{"schema": "a2a-bench/baseline", "schema_version": 1, "tasks": {}}', "no trial in it was evaluated"),
    ],
)
def test_what_is_no_baseline_is_said(tmp_path: Path, content: str, complaint: str) -> None:
    path = tmp_path / "b.json"
    path.write_text(content)
    with pytest.raises(ConfigurationError) as caught:
        load(path)
    assert complaint in str(caught.value)
    assert str(path) in str(caught.value)


def test_a_missing_or_empty_baseline_is_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(ConfigurationError, match="cannot be read: No such file"):
        load(tmp_path / "none.json")
    with pytest.raises(ConfigurationError, match="holds no trial files"):
        load(tmp_path)
    assert cli.main(["promote", str(tmp_path / "none"), "-o", str(tmp_path / "x")]) == 2
    assert "is not a results directory" in capsys.readouterr().err


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


def test_what_matters_for_comparing() -> None:
    one = {"a/b": {"user": ("scripted",), "judge": ("m",), "tagged": ("True",)}, "c/d": {"user": ("llm",)}}
    two = {"a/b": {"user": ("scripted",), "dialect": ("data",)}, "e/f": {"user": ("x",)}}
    assert list(differences(one, two)) == ["a/b: tagged was True and is none"]
    assert list(differences(one, one)) == []
    first = {"a/b": {"dialect": ("data", "tool_call"), "judge": ("m",)}}
    assert list(differences(first, {"a/b": {"dialect": ("tool_call",)}})) == [], "the agent chooses among several"
    second = {"a/b": {"dialect": ("sierra",), "judge": ("n",)}}
    assert list(differences(first, second)) == [
        "a/b: dialect was data + tool_call and is sierra",
        "a/b: judge was m and is n",
    ]


def test_data_is_told_by_what_it_is(tmp_path: Path) -> None:
    def of(name: str, revision: str) -> Baseline:
        source = {"source": "hub", "name": "org", "revision": revision}
        return load(stored(tmp_path / name, {"1": [1], "2": [0]}, source=source, drift=None, rot=0, aided=False))

    assert compare(of("a", "1"), of("b", "1")).differences == ()
    [difference] = compare(of("a", "1"), of("c", "2")).differences
    assert difference.startswith("tau2/airline: source was org ")


class TestCompareCommand:
    def test_a_regression(self, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        before = stored(tmp_path / "a", {str(i): [1] for i in range(20)})
        after = stored(tmp_path / "b", {str(i): [int(i < 12)] for i in range(20)})
        assert cli.main(["compare", str(before), str(after)]) == 1
        printed = capsys.readouterr().out
        assert "tau2/airline" in printed
        assert "1.000 (20/20)" in printed
        assert "worse   1/1 -> 0/1  tau2/airline/12" in printed
        assert printed.endswith("verdict: regressed (allowed drop 0.05)\n")
        assert cli.main(["compare", str(after), str(before)]) == 0

    def test_too_few_trials(self, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        before, after = stored(tmp_path / "a", {"1": [1]}), stored(tmp_path / "b", {"1": [1]})
        assert cli.main(["compare", str(before), str(after)]) == 0
        assert "would be enough to tell (there are 1)" in capsys.readouterr().out
        assert cli.main(["compare", str(before), str(after), "--strict"]) == 1

    def test_json_and_what_does_not_compare(self, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        before = stored(tmp_path / "a", {"1": [1]})
        after = stored(tmp_path / "b", {"1": [0]}, user="llm")
        assert cli.main(["compare", str(before), str(after), "--format", "json"]) == 0
        data = json.loads(capsys.readouterr().out)
        assert (data["verdict"], data["differences"]) == (
            "inconclusive",
            ["tau2/airline: user was scripted and is llm"],
        )
        assert cli.main(["compare", str(before), str(after)]) == 0
        assert "not comparable: tau2/airline: user was scripted and is llm" in capsys.readouterr().out

    @pytest.mark.parametrize(
        ("arguments", "complaint"),
        [
            (["--max-drop", "0"], "above 0"),
            (["--max-drop", "x"], "is not a number"),
            ([], "no evaluated task in common"),
        ],
    )
    def test_wrong_use(
        self, tmp_path: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], complaint: str
    ) -> None:
        before, after = stored(tmp_path / "a", {"1": [1]}), stored(tmp_path / "b", {"2": [1]})
        assert cli.main(["compare", str(before), str(after), *arguments]) == 2
        assert complaint in capsys.readouterr().err
