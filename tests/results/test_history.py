"""What runs measured over time: kept as lines, and what they show."""

import json
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest
from commands import command
from finished_runs import write_run
from hypothesis import given
from hypothesis import strategies as st
from made_trials import made_trial

from pytest_a2a_bench.errors import ConfigurationError
from pytest_a2a_bench.reports import summary
from pytest_a2a_bench.results import history
from pytest_a2a_bench.results.history import Entry


def entry(number: int, user: str = "scripted", **tasks: tuple[int, int]) -> Entry:
    found = {f"tau2/mock/{name}": (won, every, 0) for name, (won, every) in tasks.items()}
    return Entry(f"r{number}", f"2026-11-{number:02}T10:00:00+00:00", "desk", f"c{number}", "pass",
                 {"tau2/mock": {"user": (user,)}}, found)  # fmt: skip


def shown(*entries: Entry) -> list[str]:
    found = history.trend(entries)
    assert found is not None
    return list(summary.trend_lines(found))


def test_a_run_is_a_line_and_comes_back_as_it_was(tmp_path: Path) -> None:
    path = tmp_path / "new" / "runs.jsonl"
    one, two = entry(2, a=(1, 4)), entry(1, a=(4, 4))
    for each in (one, two, one):
        assert history.append(path, each) == path
    assert history.read(path) == [two, one]
    assert path.read_text().count("\n") == 3
    # As an editor may leave it.
    path.write_text(path.read_text().rstrip("\n"))
    history.append(path, entry(3, a=(0, 4)))
    assert len(history.read(path)) == 3


def test_a_directory_has_a_file_for_each(tmp_path: Path) -> None:
    runs = [entry(n, a=(n, 9)) for n in range(1, 9)]
    with ThreadPoolExecutor(8) as pool:
        assert len(set(pool.map(lambda e: history.append(tmp_path, e), runs))) == 8
    assert history.read(tmp_path) == runs


@given(st.text(max_size=60))
def test_a_damaged_line_is_one_error_that_names_it(damage: str) -> None:
    line = json.dumps(
        {"schema": history.HISTORY.schema, "schema_version": 1, "run_id": "r", "at": "", "tasks": {damage: [2, 1, 0]}}
    )
    with pytest.raises(ConfigurationError, match=r"runs\.jsonl:1 is no run of a history") as refused:
        history.HISTORY.parse(line.encode(), Path("runs.jsonl:1"))
    assert "\n" not in str(refused.value)


def test_regressed_and_flaky_tasks_of_runs_measured_alike() -> None:
    runs = (
        entry(1, a=(4, 4), b=(4, 4), c=(4, 4), d=(0, 4)),
        entry(2, a=(4, 4), b=(0, 4), c=(4, 4), d=(0, 4)),
        entry(3, a=(1, 4), b=(4, 4), c=(4, 4), d=(0, 4)),
        entry(4, a=(0, 4), b=(1, 4), c=(4, 4), d=(0, 4)),
    )
    assert shown(*runs) == [
        "success rate of the last 4 of 4 runs, the newest last: 0.750 0.500 0.562 0.312",
        "went bad: mock/a since 2026-11-03 c3 (good in 2026-11-02 c2)",
        "flaky: mock/b 9/16",
    ]
    # What was fixed did not go bad; and a run that says nothing of a task is none of its runs.
    assert shown(entry(1, a=(0, 4)), entry(2, b=(1, 1)), entry(3, a=(4, 4))) == [
        "success rate of the last 3 of 3 runs, the newest last: 0.000 1.000 1.000"
    ]
    assert shown(entry(1, "gpt", a=(4, 4)), entry(2, a=(1, 4)), entry(3, a=(2, 4))) == [
        "success rate of the last 2 of 2 runs, the newest last: 0.250 0.500; 1 more run measured otherwise"
    ]


def test_the_command_lists_them_and_known_costs(tmp_path: Path) -> None:
    path = tmp_path / "runs.jsonl"
    assert "there is no run in it" in command("compare", "--history", path, code=2).err
    one, two = entry(1, a=(4, 4)), replace(entry(2, a=(0, 4)), cost_usd=0.0131)
    assert not [line for line in shown(one) if "cost" in line]
    assert "a conversation cost: - $0.0131" in shown(one, two)
    for each in (one, two):
        history.append(path, each)
    assert history.read(path) == [one, two]
    first, second, *message = command("compare", "--history", path).out.splitlines()
    assert first == "2026-11-01T10:00:00+00:00  1.000  4/4  pass  c1  desk"
    assert second.startswith("2026-11-02")
    assert second.endswith("  $0.0131 each")
    assert message[1:] == [
        "a conversation cost: - $0.0131",
        "went bad: mock/a since 2026-11-02 c2 (good in 2026-11-01 c1)",
    ]
    # A line of an earlier version has no cost.
    line = json.loads(path.read_text().splitlines()[0])
    path.write_text(json.dumps({name: value for name, value in line.items() if name != "cost_usd"}))
    assert history.read(path) == [one]
    path.write_text("{}\n")
    assert command("compare", "--history", path, code=2).err.startswith(
        f"a2a-bench: {path}:1 is no run of a history that this version reads"
    )


def test_a_run_that_is_added_later_has_the_time_of_its_trials(tmp_path: Path) -> None:
    path = tmp_path / "runs.jsonl"
    for day, success in (("02", False), ("01", True)):
        trial = made_trial("tau2/mock/a#0", success=success, started_at=f"2026-11-{day}T10:00:00.25+00:00")
        run = write_run(tmp_path / day, [trial], run_id=f"r{day}")
        command("compare", "--history", path, "--add", run)
    assert [run.at for run in history.read(path)] == ["2026-11-01T10:00:01+00:00", "2026-11-02T10:00:01+00:00"]
    assert "went bad: mock/a since 2026-11-02" in command("compare", "--history", path).out
