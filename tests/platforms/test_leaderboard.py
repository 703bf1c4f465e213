"""What DuckDB makes of leaderboards' files, by the query that the documentation gives."""

import json
from pathlib import Path
from typing import Any

import duckdb
import pytest
from commands import Printed, command
from finished_runs import write_run
from made_trials import made_error, made_trial

from pytest_a2a_bench.model import TrialResult
from pytest_a2a_bench.platforms.once import make_file

QUERY = (Path(__file__).parents[2] / "deploy" / "leaderboard.sql").read_text()

RUN = [
    made_trial("tau2/airline/1#0", started_at="2026-01-02T03:04:05+00:00"),
    made_trial("tau2/airline/2#0", success=False, started_at="2026-01-02T03:04:15+00:00"),
    made_error("tau2/airline/3#0"),
    made_trial("tau2/retail/7#0", dialect="data"),
]


def export(
    tmp_path: Path, name: str, results: list[TrialResult], *more: str, absent: tuple[str, ...] = (), code: int = 0
) -> Printed:
    run = write_run(tmp_path / f"run-{name}", results, absent=absent)
    output = tmp_path / "results" / f"{name}.json"
    output.parent.mkdir(exist_ok=True)
    return command("export", "leaderboard", run, "-o", output, "--id", name, *more, code=code)


def asked(tmp_path: Path) -> list[tuple[Any, ...]]:
    connection = duckdb.connect()
    files = f"read_json_auto('{tmp_path}/results/*.json')"
    connection.execute(f"CREATE VIEW results AS SELECT * FROM {files}")
    found = connection.execute(QUERY)
    assert found.description[0][0] == "id"
    rows: list[tuple[Any, ...]] = found.fetchall()
    return rows


def test_files_of_runs_and_of_launches_are_one_table(tmp_path: Path) -> None:
    assert "airline: 1 of 3, 1 error\nretail: 1 of 1, 0 errors\n" in export(tmp_path, "0190-first", RUN).out
    export(tmp_path, "0191-second", RUN[:2])
    # As it comes over A2A: numbers without a fraction have one, and the protocol has other members.
    checks = {"domain": "conformance", "score": 5.0, "max_score": 8.0, "errors": {"count": 0.0}, "time_used": 2.5}
    shards = [{**checks, "task_rewards": {"1.0/GET-001[JSONRPC]": 1.0}}, {**checks, "is_clean": False, "results": []}]
    (tmp_path / "results" / "third.json").write_text(json.dumps(make_file({"agent": "0192-third"}, shards)))

    assert asked(tmp_path) == [
        ("0191-second", "airline", 50.0, 1.0, 2, 0, 11.5),
        ("0190-first", "airline", 33.3, 1.0, 3, 1, 11.5),
        ("0192-third", "conformance", 62.5, 10.0, 16, 0, 5.0),
        ("0190-first", "retail", 100.0, 1.0, 1, 0, 0.0),
    ]


def test_a_file_has_the_shape_of_agentbeats_and_no_golds(tmp_path: Path) -> None:
    export(tmp_path, "0190-first", RUN, "--role", "purple_agent")
    text = (tmp_path / "results" / "0190-first.json").read_text()
    message = json.loads(text)

    assert message["participants"] == {"purple_agent": "0190-first"}
    airline, retail = message["results"]
    assert (airline["domain"], airline["score"], airline["max_score"], airline["pass_rate"]) == (
        "airline",
        1.0,
        3,
        33.333333,
    )
    assert airline["task_rewards"] == {"1": 1.0, "2": 0.0}
    assert retail["metrics"]["pass@1"] == 1.0
    # One trial was an error: no rate is without it.
    assert {airline["metrics"][name] for name in ("accuracy", "pass@1", "pass^1")} == {0.333333}
    # What the reward's check expected.
    assert "the agent says 42" not in text


def test_agent_and_interface_are_apart_as_an_assessor_has_them(tmp_path: Path) -> None:
    run = write_run(tmp_path / "run", RUN[:2])
    stored = json.loads((run / "run.json").read_text())
    (run / "run.json").write_text(json.dumps({**stored, "agent": "Airline, the agent 1.0, A2A 1.0 jsonrpc"}))
    command("export", "leaderboard", run, "-o", tmp_path / "file.json", "--id", "0190-first")
    (result,) = json.loads((tmp_path / "file.json").read_text())["results"]
    about = result["assessment"]
    assert (about["agent"], about["interface"]) == ("Airline, the agent 1.0", "A2A 1.0 jsonrpc")


def test_missing_trials_are_refused_or_counted(tmp_path: Path) -> None:
    absent = ("tau2/airline/9#0",)
    said = export(tmp_path, "a", RUN, absent=absent, code=2).err
    assert "1 of 5 trials have no result (tau2/airline/9#0); run pytest again" in said
    export(tmp_path, "a", RUN, "--allow-incomplete", absent=absent)
    assert asked(tmp_path)[0][:6] == ("a", "airline", 25.0, 1.0, 4, 2)


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["tau2", "--id", "x"], "--id is for leaderboard; leave it out"),
        (["html", "--domain", "airline"], "a page is of the whole run; leave out --domain"),
        (
            ["leaderboard", "--id", "x", "--domain", "mock"],
            "no trials of the domain 'mock'; there are: airline, retail",
        ),
    ],
)
def test_trouble_is_one_line(arguments: list[str], complaint: str, tmp_path: Path) -> None:
    run = write_run(tmp_path / "run", RUN)
    assert complaint in command("export", arguments[0], run, "-o", tmp_path / "x.json", *arguments[1:], code=2).err


def test_trials_that_were_chosen_are_no_result(tmp_path: Path) -> None:
    run, output = write_run(tmp_path / "run", RUN, named=True), tmp_path / "x.json"
    words = ("export", "leaderboard", run, "-o", output, "--id", "x")
    assert "these trials were named one by one" in command(*words, code=2).err
    assert command(*words, "--allow-incomplete").out
