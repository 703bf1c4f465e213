import json
import math

import pytest
from fake_llm import FakeLLM
from harness import Bench, log_of
from one_test import in_one_test

from pytest_a2a_bench.plugin import schedule
from pytest_a2a_bench.plugin.terminal import Reporting, looks_like_trial

DESK_TASKS = "ok bad"


def test_header_and_summary(desk: Bench, noop_url: str) -> None:
    result = desk("--a2a-trials=2")
    result.stdout.fnmatch_lines(
        [
            f"a2a: {noop_url} (pytest-a2a-bench noop *), A2A 1.0 jsonrpc; scripted user: not leaderboard numbers; *",
            "*a2a benchmark summary*",
            "domain * tasks * trials * reward * pass^1 * pass^2 * infra errors * turns * p50 * p95 * tokens * cost",
            "desk/front * 2 * 4 * 0.500 * 0.500 * 0.500 * 0 * 2.0 *40/20 * $1.00",
            "user simulator: scripted (not comparable with leaderboard numbers, which need an LLM user)",
            "judge: none needed; evaluation type: all",
            "benchmark: desk 1; dialect: tool_call",
            "results: a2a-results",
        ]
    )


def test_calls_that_a_task_begins_with_are_not_the_agents(bench: Bench, noop_url: str) -> None:
    # An earlier agent created a task in what this one goes on with.
    result = bench("--a2a-endpoint", noop_url, "-k", "update_task_with_message_history", "--a2a-trials=3")
    result.stdout.fnmatch_lines(["the agent called no tool in any of 3 conversations, of which 0 passed*"])


def test_a_narrow_terminal_gets_a_column_per_domain(desk: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "60")
    result = desk()
    result.stdout.fnmatch_lines(["domain * desk/front", "tasks * 2", "reward * 0.500"])
    start = result.outlines.index(next(line for line in result.outlines if line.startswith("domain")))
    assert all(len(line) <= 60 for line in result.outlines[start : start + 8])


def test_the_first_of_many_misses_are_shown_in_full(desk: Bench) -> None:
    advice, section = "10 of 21 misses are shown in full (-v: all;", "a2a trial desk/front"
    result = desk("--a2a-trials=21")
    result.assert_outcomes(passed=21, failed=21)
    text = result.stdout.str()
    assert (advice in text, text.count(section)) == (True, 10)
    again = ("--a2a-trials=21", "--a2a-resume")
    assert desk(*again, "-v").stdout.str().count(section) == 21
    assert advice not in desk(*again, "--a2a-min-pass=0").stdout.str()


@pytest.mark.usefixtures("litellm")
def test_the_llm_user_and_judge_are_named(desk: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "key")
    with FakeLLM([]) as llm:
        reach = json.dumps({"api_base": llm.api_base})
        result = desk("--a2a-user=llm:openai/a", "--a2a-judge-llm=openai/b", f"--a2a-set=user-llm-args={reach}")
    result.stdout.fnmatch_lines(["a2a: *; user openai/a; judge openai/b"])
    assert "not leaderboard numbers" not in result.outlines[2]


def test_nothing_evaluated_is_said(desk: Bench) -> None:
    desk.tasks("down bug")
    result = desk()
    assert result.ret == 1
    result.stdout.fnmatch_lines(["no trial was evaluated: these results say nothing about the agent"])
    # A skip is no failure to pytest, and so not to us; it is said, with -q and in every other place, too.
    desk.tasks("skip skip-b")
    result = desk("-q", "--a2a-markdown=run.md", "--a2a-html=page.html")
    assert result.ret == 0
    why = "2 trials skipped, such as needs a judge; pass --a2a-judge-llm"
    message = f"no trial was evaluated: these results say nothing about the agent ({why})"
    assert result.outlines.count(message) == 1
    assert message[1:] in (desk.path / "page.html").read_text()
    assert "these results say nothing about the agent" in (desk.path / "run.md").read_text()


@pytest.mark.slow
@pytest.mark.parametrize("arguments", [(), ("-s",)])
def test_progress_has_lines_of_its_own(
    desk: Bench, monkeypatch: pytest.MonkeyPatch, arguments: tuple[str, ...]
) -> None:
    desk.tasks("ok-0-a bad-0 ok-0.7 ok-0-b")
    # It is time for a line as soon as the third trial runs, however long the others took.
    interval = property(lambda _: 0.0 if "ok-0.7" in log_of(desk) else math.inf)
    monkeypatch.setattr(Reporting, "interval_in_logs", interval)
    monkeypatch.setattr(schedule, "_TICK", 0.05)
    result = desk(*arguments)
    result.assert_outcomes(passed=3, failed=1)
    progress = [line for line in result.outlines if line.startswith("a2a: ") and " of 4 trials" in line]
    assert progress[0].startswith("a2a: 2 of 4 trials, 1 of 2 passed (50%), 1 in flight, cost $0.50, ")
    if not arguments:
        assert "test_desk.py .F" in [line.rstrip() for line in result.outlines]


def test_quiet_keeps_the_table_and_a_line_a_minute(desk: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    assert Reporting.interval_if_quiet == 60
    desk.tasks("ok-0-a ok-0.7 ok-0-b")
    interval = property(lambda _: 0.0 if "ok-0.7" in log_of(desk) else math.inf)
    monkeypatch.setattr(Reporting, "interval_if_quiet", interval)
    monkeypatch.setattr(schedule, "_TICK", 0.05)
    quiet = desk("-q").stdout
    quiet.fnmatch_lines(["*a2a benchmark summary*", "desk/front*"])
    assert "a2a: 1 of 3 trials, 1 of 1 passed (100%), 1 in flight" in quiet.str()
    for left_out in ("user simulator", "not leaderboard numbers"):
        assert left_out not in quiet.str()
    silent = desk("-qq").stdout.str()
    assert " of 3 trials" not in silent
    assert "a2a benchmark summary" not in silent
    desk.tasks("ok")
    assert "a2a benchmark summary" not in desk("--no-summary").stdout.str()


@in_one_test(
    ("nodeid", "expected"),
    [
        ("a2a/airline::test_airline[12-t0]", True),
        ("test_x.py::test_x[update_task_1-t0-q]", True),
        ("test_x.py::test_x[q-update_task_1-t10]", True),
        ("test_x.py::test_x[12-t0-1.5]@group", True),
        ("test_x.py::test_x[12-t0]@group", True),
        ("test_x.py::test_x[a-b]", False),
        ("test_x.py::test_x[top-ten]", False),
        ("test-t0.py::test_x", False),
    ],
)
def test_trials_are_known_by_their_ids(nodeid: str, expected: bool) -> None:
    assert looks_like_trial(nodeid) is expected


@pytest.mark.slow
def test_an_interrupted_run_says_what_ends_and_how_to_go_on(desk: Bench) -> None:
    desk.makepyfile(
        test_desk="""
        import pytest

        @pytest.mark.desk("front")
        def test_desk(trial):
            raise KeyboardInterrupt
        """
    )
    result = desk()
    assert result.ret == 2
    result.stdout.fnmatch_lines(
        [
            "a2a: interrupted; ending * in flight, finished trials are kept",
            "a2a: 1 of 2 trials ended; to go on, run the same command with --a2a-resume",
        ]
    )


def test_files_that_another_run_overwrote_cost_no_numbers(desk: Bench) -> None:
    desk.add_to_conftest("""
import json
def pytest_runtest_teardown(item):
    for file in item.config.rootpath.glob("a2a-results/trials/*.json"):
        data = json.loads(file.read_text())
        changed = {"run_id": "other", "reward": 0.0, "success": False}
        file.write_text(json.dumps({**data, **changed, "reward_info": {**data["reward_info"], "value": 0.0}}))
""")
    result = desk()
    result.stdout.fnmatch_lines(
        [
            "desk/front * 2 * 2 * 0.500 * 0.500 * 0 * 2.0 * 20/10 * $0.50",
            "user simulator: scripted *",
            "a2a: 2 trial files in * were overwritten by run other, so this *use another --a2a-results*",
        ]
    )
    assert "no trial was evaluated" not in result.stdout.str()
