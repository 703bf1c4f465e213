"""Runs that are stopped: because they are hopeless, or because their time is up."""

import json

import pytest
from commands import command
from fake_llm import FakeLLM, say, status
from harness import EXPECTED_TO_FAIL, Bench, junit_cases, junit_properties, kinds, log_of, verdict_of
from jsonschema import Draft202012Validator
from one_test import in_one_test
from raw_agent import Request, raw_agent, response

from pytest_a2a_bench import schemas
from pytest_a2a_bench.results.stats import count
from pytest_a2a_bench.results.store import Store

OPEN = "the breaker is open since desk/front/refused#0: HTTP 401 Unauthorized"


def test_a_refused_token_ends_the_run_at_once(bench: Bench) -> None:
    # The card is public.
    with raw_agent(lambda request: response({"error": "who are you?"}, "401 Unauthorized")) as agent:
        result = bench("--a2a-endpoint", agent.url, "--a2a-suite=mock", "--junitxml=j.xml", "-rs")
    assert result.ret == 1
    assert [r.json["method"] for r in agent.messages] == ["GetTask", "SendMessage"]
    text = result.stdout.str()
    assert text.count("This opened the breaker: trials that had not begun are not run") == 1
    assert "A2A_AUTH_TOKEN" in text
    assert "--a2a-resume: only missing trials run" in text
    (why,) = [line for line in result.outlines if line.startswith("inconclusive: 8 trials not run")]
    assert ": the breaker is open since mock/" in why
    assert why.count("--a2a-auth-env") == 1, "what to do is said once"
    for line in ("*not run: the breaker is open since mock/*: POST *HTTP 401*", "*a2a verdict: inconclusive*"):
        result.stdout.fnmatch_lines([line])
    (last,) = [line for line in result.outlines if line.startswith("=") and " not run" in line]
    assert "1 error" in last
    cases = kinds(bench.path / "j.xml")
    assert cases["breaker"] == ["failure"]
    trials = [found for name, found in cases.items() if name.startswith("test_mock[")]
    assert sorted(trials) == [["error"], *[["skipped"]] * (len(trials) - 1)]
    assert len(trials) > 3
    assert f"{len(trials) - 1} not run" in last
    assert len(list(Store(bench.path / "a2a-results").trials.glob("*.json"))) == 1


def test_a_file_that_cannot_be_imported_leaves_the_last_run_the_last(desk: Bench) -> None:
    desk.tasks("ok")
    desk()
    last = verdict_of(desk)
    broken = desk.path / "test_broken.py"
    broken.write_text("import no_such_module")
    result = desk(broken.name, "test_desk.py")
    assert result.ret == pytest.ExitCode.INTERRUPTED
    assert "--a2a-resume" not in result.stdout.str()
    assert verdict_of(desk) == last
    assert "verdict: pass" in command("gate", "a2a-results", "--min-pass=1").out


@pytest.mark.parametrize("options", [(), pytest.param(("--a2a-concurrency=3",), marks=pytest.mark.slow)])
def test_a_stopped_run_is_told_everywhere_and_the_rest_is_run_by_a_resumed_run(
    desk: Bench, options: tuple[str, ...]
) -> None:
    # Long enough that not all are over, on a busy machine, when one of them is refused.
    seconds = 0.7 if options else 0
    tasks = ["ok-0-a", "refused", *(f"ok-{seconds}-{c}" for c in "bcdefgh")]
    desk.tasks(" ".join(tasks))
    reports = ("--junitxml=j.xml", "--a2a-html=page.html", "--a2a-markdown=summary.md")
    first = desk(*options, *reports, "--a2a-min-pass=0.1", "--a2a-set=inconclusive=pass")
    assert first.ret == 1
    cases = junit_cases(desk.path / "j.xml")
    not_run = [n for n, c in cases.items() if junit_properties(c).get("a2a.status") == "not_run"]
    held = set(log_of(desk))
    # With several in flight, those finish.
    assert len(not_run) == len(tasks) - len(held)
    assert (len(not_run) == 7) if not options else not_run
    verdict = verdict_of(desk)
    gates = {gate["name"]: gate for gate in verdict["gates"]}
    assert gates["breaker"]["failed"]
    assert OPEN in gates["breaker"]["sentence"]
    # One of so few may be below any floor, but nothing is said of an agent that was not asked.
    assert gates["min_pass"]["verdict"] == "inconclusive"
    assert "the run was cut short" in gates["min_pass"]["sentence"]
    assert verdict["errors"] == len(not_run) + 1
    assert verdict["trials"]["not_run"] == len(not_run)
    first.stdout.fnmatch_lines(["domain*not run*", f"desk/front*  {len(not_run)}  *"])
    assert "are gone or cannot be read" not in first.stdout.str()

    results = desk.path / "a2a-results"
    for name in ("breaker", "verdict"):
        data = json.loads((results / f"{name}.json").read_text())
        assert [e.message for e in Draft202012Validator(schemas.load(name)).iter_errors(data)] == []
    page = (desk.path / "page.html").read_text()
    assert f"1 error, {len(not_run)} not run" in page
    assert f"{len(not_run)} of {len(tasks)} trials were not run and count as not passed: the run was stopped." in page
    assert OPEN in (desk.path / "summary.md").read_text()
    later = command("export", "html", results).out
    assert f"goes on or was stopped: there is no result of {count(len(not_run), 'trial')} of {len(tasks)}" in later

    second = desk(*options, "--a2a-resume")
    second.assert_outcomes(passed=len(tasks))
    second.stdout.fnmatch_lines([f"reused, not run again (--a2a-resume): {len(held) - 1} of {len(tasks)} trials *"])
    assert sorted(log_of(desk)) == sorted([*tasks, "refused"])
    assert not (desk.path / "a2a-results" / "breaker.json").exists()


@pytest.mark.slow
def test_workers_hear_of_each_others_breaker(desk: Bench) -> None:
    # The first worker's first item waits until the second's has begun, so that both have something to do.
    desk.tasks(" ".join(["refused", "meet-2", *(f"ok-0.3-{i}" for i in range(14))]))
    result = desk("-n2", "--junitxml=j.xml")
    assert result.ret == 1
    cases = kinds(desk.path / "j.xml")
    assert cases["breaker"] == ["failure"]
    assert list(cases.values()).count(["error"]) == 1
    assert list(cases.values()).count(["skipped"]) == 16 - len(log_of(desk)) > 5
    assert OPEN in result.stdout.str()


def test_an_agent_that_is_gone(bench: Bench) -> None:
    def leave(request: Request) -> bytes:
        if b"GetTask" in request.body:  # whether anybody is there
            return response("what?", "400 Bad Request")
        agent.card = {}
        return response("gone", "404 Not Found" if request.method == "GET" else "200 OK")

    with raw_agent(leave) as agent:
        result = bench("--a2a-endpoint", agent.url, "--a2a-suite=mock", "--junitxml=j.xml")
    assert result.ret == 1
    found = [k for n, k in kinds(bench.path / "j.xml").items() if n.startswith("test_mock[")]
    assert found.count(["error"]) == 3
    assert found.count(["skipped"]) == len(found) - 3 > 0
    result.stdout.fnmatch_lines(
        ["*3 trials in a row ended with ProtocolError, and the agent does not answer a new request: no agent card*"]
    )
    assert "start the agent again" in result.stdout.str()


@pytest.mark.slow
@in_one_test("option", ["off", "1"])
def test_trouble_of_an_agent_that_is_there_is_reported_of_each_trial(desk: Bench, option: str) -> None:
    desk.tasks(" ".join(f"down-0-{i}" for i in range(7)))
    desk(f"--a2a-set=breaker={option}").assert_outcomes(errors=7)


def test_neither_a_rerun_nor_an_expected_failure_hides_it(desk: Bench) -> None:
    pytest.importorskip("pytest_rerunfailures")
    desk.tasks("refused ok")
    assert desk("-ppytest_rerunfailures", "--reruns=2", "--junitxml=j.xml").ret == 1
    assert log_of(desk) == ["refused"]
    assert kinds(desk.path / "j.xml")["test_desk[refused-t0]"] == ["error"]
    desk.tasks("refused-b ok")
    desk.makepyfile(test_desk=EXPECTED_TO_FAIL)
    result = desk()
    assert result.ret == 1
    assert OPEN.replace("refused", "refused-b") in result.stdout.str()


@pytest.mark.usefixtures("litellm")
@pytest.mark.parametrize(
    ("player", "model", "key", "code", "problem", "workers"),
    [
        ("user", "gpt4.1", "key", 200, "LLM Provider NOT provided", ()),
        ("user", "openai/unknown", "key", 404, "NotFoundError", ()),
        pytest.param("user", "openai/unknown", "key", 404, "NotFoundError", ("-n2",), marks=pytest.mark.slow),
        ("judge", "openai/judge", "wrong", 401, "AuthenticationError", ()),
    ],
)
def test_a_model_that_cannot_be_used_stops_the_run_before_the_first_trial(
    bench: Bench,
    noop_url: str,
    monkeypatch: pytest.MonkeyPatch,
    player: str,
    model: str,
    key: str,
    code: int,
    problem: str,
    workers: tuple[str, ...],
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", key)
    option = "--a2a-user" if player == "user" else "--a2a-judge-llm"
    with FakeLLM(lambda request: status(code) if code != 200 else say("ready"), greets=False) as llm:
        arguments = json.dumps({"api_base": llm.api_base, "num_retries": 0})
        result = bench(
            *("--a2a-endpoint", noop_url, "--a2a-suite=mock", f"{option}={'llm:' if player == 'user' else ''}{model}"),
            *(f"--a2a-set=user-llm-args={arguments}", *workers),
        )
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    (line,) = [line for line in result.errlines if line.strip()]
    assert line.startswith(f"ERROR: {option}: the model {model!r} failed: ")
    assert problem in line
    # Once, and not by each worker.
    assert len(llm.requests) == (0 if model == "gpt4.1" or not key else 1)


@pytest.mark.usefixtures("litellm")
def test_a_model_that_is_busy_stops_no_run(bench: Bench, noop_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "key")
    steps = iter([status(429), say("Hello"), say("###STOP###")])
    with FakeLLM(lambda request: next(steps), greets=False) as llm:
        arguments = json.dumps({"api_base": llm.api_base, "num_retries": 0, "max_retries": 0})
        result = bench(
            *("--a2a-endpoint", noop_url, "--a2a-suite=mock", "-k", "create_task_1-t0", "--a2a-user=llm:openai/user"),
            f"--a2a-set=user-llm-args={arguments}",
        )
    result.assert_outcomes(failed=1)


def test_a_trial_that_was_cancelled_is_on_the_page_and_not_missing_from_it(desk: Bench) -> None:
    desk.tasks("ok-a ok-b ok-c")
    desk()
    ended, gone, _ = sorted((desk.path / "a2a-results" / "trials").iterdir())
    error = {"status": "infrastructure_error", "error_type": "TrialCancelledError", "error": "cancelled"}
    ended.write_text(json.dumps({**json.loads(ended.read_text()), "reward_info": None, **error}))
    gone.unlink()
    assert "2 trials not run" in command("gate", "a2a-results", code=1).out
    said = command("export", "html", "a2a-results").out
    assert "2 trials" in said
    assert "there is no result of 1 trial of 3" in said


# -- time --


@pytest.mark.slow
def test_a_run_whose_time_is_up(desk: Bench) -> None:
    desk.tasks("ok-0 " + " ".join(f"ok-{3000 + i}" for i in range(6)))
    result = desk("--junitxml=j.xml", "-rs", "--a2a-run-timeout=1.5")
    assert result.ret == 1
    cases = junit_cases(desk.path / "j.xml")
    found = [junit_properties(case).get("a2a.error_type") for case in cases.values()]
    in_flight = len(log_of(desk)) - len(log_of(desk, "end"))
    assert found.count("RunTimeoutError") == in_flight
    ends = kinds(desk.path / "j.xml")
    assert ends["breaker"] == ["failure"]
    assert list(ends.values()).count(["skipped"]) == 7 - len(log_of(desk))
    result.stdout.fnmatch_lines(["*not run: the run took longer than --a2a-run-timeout (* s)*"])
    result.stdout.fnmatch_lines(["*raise --a2a-run-timeout, then run again with --a2a-resume*"])
    # On a very busy machine the time may be up before the first begins.
    desk.tasks("ok-0 ok-1")
    desk("--a2a-resume").assert_outcomes(passed=2)
    assert log_of(desk).count("ok-0") == 1


@pytest.mark.slow
def test_sigterm_while_the_summary_is_written_costs_neither_it_nor_the_exit_code(desk: Bench) -> None:
    desk.tasks("ok-a")
    desk.add_to_conftest("""
import os, signal
import pytest

@pytest.hookimpl(tryfirst=True)
def pytest_terminal_summary(terminalreporter):
    os.kill(os.getpid(), signal.SIGTERM)
""")
    process = desk.popen()
    out = process.communicate(timeout=120)[0].decode()
    assert process.returncode == 0, out
    assert "a2a benchmark summary" in out
    assert "1 passed" in out.splitlines()[-1]
    assert "Traceback" not in out
