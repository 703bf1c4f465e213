"""One command from the start of both to the result, with real processes; assessors are scripted, or our own."""

import contextlib
import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from commands import Printed, command, refused
from controlled import PYTHON, Control
from harness import ROOT, wait_for
from one_test import in_one_test

from pytest_a2a_bench.platforms.process import free_port
from pytest_a2a_bench.results.store import is_alive

AGENTS = Path(__file__).parent.parent / "agents"
WHITE = f"{PYTHON} -I -S {AGENTS / 'kept_agent.py'}"


def green(*words: str) -> str:
    return " ".join([PYTHON, "-I", "-S", str(AGENTS / "scripted_assessor.py"), "{port}", *words])


def launch(*arguments: str, code: int = 0) -> Printed:
    return command("assess", "--once", *arguments, code=code)


def request_of(printed: Printed) -> dict[str, Any]:
    """Return what the assessor was asked, which shows it in its log."""
    return next(json.loads(line) for line in printed.err.splitlines() if line.startswith("{"))


def test_a_started_agent_is_asked_followed_and_stopped(tmp_path: Path) -> None:
    output = tmp_path / "results" / "mine.json"
    asked = ("domain=retail", "max_tasks=2", "seed=7", "-o", str(output), "--id", "0190-mine", "--show-logs")
    printed = launch(WHITE, "--assessor", green("good"), *asked)
    assert printed.out == f"airline: 1 of 2\nwritten to {output}\n"
    assert "working: 0 of 2 done\n" in printed.err
    request = request_of(printed)
    assert request["config"] == {"domain": "retail", "max_tasks": 2, "seed": 7}
    assert list(request["participants"]) == ["agent"]
    message = json.loads(output.read_text())
    assert message["participants"] == {"agent": "0190-mine"}
    assert [one["score"] for one in message["results"]] == [1.0]


@pytest.mark.slow
def test_a_built_in_agent_is_asked_for_conformance_with_nothing_that_is_about_tasks() -> None:
    for domain, more in (("conformance", {}), ("mock", {"tag_trials": True})):
        printed = launch("builtin:oracle", "--assessor", green("good"), f"domain={domain}", "--show-logs")
        assert request_of(printed)["config"] == {"domain": domain, **more}


@pytest.mark.parametrize(
    ("words", "code", "out", "err"),
    [
        (["break"], 0, "airline: 1 of 2\n", ""),
        pytest.param(["silent"], 0, "airline: 1 of 2\n", "", marks=pytest.mark.slow),
        pytest.param(["text"], 0, "airline: 1 of 2\n", "", marks=pytest.mark.slow),
        (["errors"], 1, "airline: 1 of 2\n", "1 could not be evaluated\n"),
        pytest.param(["empty"], 1, "", "the assessor completed its task without a result\n", marks=pytest.mark.slow),
        (["fail"], 1, "why it ended\n", "the assessment ended as failed\n"),
        pytest.param(["reject"], 1, "why it ended\n", "the assessment ended as rejected\n", marks=pytest.mark.slow),
    ],
)
def test_the_exit_code_is_the_outcome(words: list[str], code: int, out: str, err: str) -> None:
    printed = launch(WHITE, "--assessor", green(*words), code=code)
    assert printed.out == out
    assert printed.err.endswith(err)


def test_a_process_that_does_not_start_is_reported_and_the_other_stopped(tmp_path: Path) -> None:
    pid, begun, ended = tmp_path / "pid", tmp_path / "begun.py", tmp_path / "ended.py"
    begun.write_text(f"import os, time\nopen({str(pid)!r}, 'w').write(str(os.getpid()))\ntime.sleep(600)\n")
    wait = f"import os, sys, time\nwhile not os.path.exists({str(pid)!r}) or not open({str(pid)!r}).read():\n"
    ended.write_text(f"{wait}    time.sleep(0.01)\nsys.exit('no key')\n")
    printed = launch(f"{PYTHON} -I -S {ended}", "--assessor", f"{PYTHON} -I -S {begun}", code=2)
    assert printed.err.splitlines()[-1] == "a2a-bench: agent ended with exit code 1 at its start: no key"
    assert not is_alive(int(pid.read_text()))


@pytest.mark.parametrize("white", ["false", "no-such-program"])
def test_an_agent_that_ends_at_once_leaves_no_assessor(white: str, tmp_path: Path) -> None:
    """The assessor has only just been started when it is told to stop."""
    begun = tmp_path / "begun.py"
    begun.write_text(
        f"import os, pathlib, time\npathlib.Path({str(tmp_path)!r}, f'{{os.getpid()}}.pid').touch()\ntime.sleep(600)\n"
    )
    assert "agent ended with exit code " in launch(white, "--assessor", f"{PYTHON} -I -S {begun}", code=2).err
    assert [pid for pid in (int(path.stem) for path in tmp_path.glob("*.pid")) if is_alive(pid)] == []


def test_an_assessment_that_takes_too_long_is_canceled() -> None:
    printed = launch(WHITE, "--assessor", green("wait"), "--max-seconds", "0.5", "--show-logs", code=1)
    assert "canceled\n" in printed.err
    assert "took more than 0.5 s and was canceled; raise --max-seconds" in printed.err
    assert printed.err.endswith("the assessment ended as canceled\n")


@pytest.mark.slow
@pytest.mark.parametrize(("number", "expected"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_cancels_the_assessment_and_stops_everything(number: int, expected: int) -> None:
    port = free_port()
    with (
        subprocess.Popen(
            [*green("wait").replace("{port}", str(port)).split()], stdout=subprocess.PIPE, text=True
        ) as at,
        contextlib.ExitStack() as stack,
    ):
        # Whatever comes out below: a process that runs on would be waited for without end.
        stack.callback(at.terminate)
        waiting = ("--start-timeout", "60")  # the assessor has only just been started
        command = ["assess", "--assessor", f"http://127.0.0.1:{port}", "--once", WHITE, "--show-logs", *waiting]
        with subprocess.Popen(
            [sys.executable, "-m", "pytest_a2a_bench.cli", *command],
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
            # A shell's background job, as CI may be, ignores Ctrl-C, and its children inherit that.
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
        ) as process:
            stack.callback(process.kill)
            assert process.stderr is not None
            assert at.stdout is not None
            white = next(line for line in process.stderr if line.startswith("listening on ")).split()[2]
            assert json.loads(at.stdout.readline())["participants"] == {"agent": f"http://127.0.0.1:{white}"}
            wait_for(lambda: "working" in (process.stderr.readline() if process.stderr else ""))
            process.send_signal(number)
            code = process.wait()
        # It runs on, hosted as it is, and has been told.
        assert at.stdout.readline() == "canceled\n"

    assert code == expected


def test_a_scenario_file_is_read_as_agentbeats_reads_it(tmp_path: Path) -> None:
    ports = free_port(), free_port()
    scenario = tmp_path / "scenario.toml"
    scenario.write_text(
        f'''
[green_agent]
endpoint = "http://127.0.0.1:{ports[0]}"
cmd = "{green("good").replace("{port}", str(ports[0]))}"

[[participants]]
role = "agent"
endpoint = "http://127.0.0.1:{ports[1]}"
cmd = "{WHITE}"
agentbeats_id = "0190-of-the-file"

[config]
domain = "airline"
num_tasks = 4
'''
    )
    output = tmp_path / "out.json"
    printed = command("assess", "--scenario", scenario, "-o", output, "--show-logs", "max_tasks=1")
    assert request_of(printed) == {
        "participants": {"agent": f"http://127.0.0.1:{ports[1]}"},
        "config": {"domain": "airline", "num_tasks": 4, "max_tasks": 1},
    }
    assert json.loads(output.read_text())["participants"] == {"agent": "0190-of-the-file"}


@pytest.mark.slow
def test_an_agent_of_a_controller_is_reset_first(control: Control) -> None:
    at = control()
    at.wait("running")
    for generation in (2, 3):
        printed = launch(f"controller:{at.url}", "--assessor", green("good"), "--show-logs")
        assert request_of(printed)["participants"] == {"agent": at.agent.url}
        assert at.agent.generation == generation


def test_an_agent_of_a_controller_that_does_not_come_up_is_reported(control: Control) -> None:
    at = control("crash")
    assert (
        "is finished(3) after its reset, saying 'cannot go on'"
        in launch(f"controller:{at.url}", "--assessor", green("good"), code=2).err
    )


@in_one_test(
    ("arguments", "complaint"),
    [
        (["--once", "builtin:nobody"], "nobody"),
        (["--once", "'"], "No closing quotation"),
        (["--once", "x", "--scenario", "deploy/scenario.toml"], "--once contradicts --scenario"),
        (
            ["--once", "x", "airline", "--start-timeout", "0"],
            "'airline' is not KEY=VALUE, such as domain=retail\na2a-bench: assess: --start-timeout 0",
        ),
        (["--once", "x", "domain=mock", "domain=airline"], "domain is given twice"),
        (["-o", "y.json"], "--output goes with --once AGENT"),
        (["domain=airline"], "KEY=VALUE goes with --once AGENT"),
        (["--once", "x", "-o", "y.json"], "--output needs --id"),
        (["--scenario", "nowhere.toml"], "nowhere.toml cannot be read: No such file or directory"),
        (["--once", "x", "--assessor-auth-env", "NOT_SET"], "--assessor-auth-env names NOT_SET, which is not set"),
    ],
)
def test_trouble_is_one_line_and_exit_code_2(arguments: list[str], complaint: str) -> None:
    assert complaint in refused("assess", *arguments, lines=complaint.count("\n") + 1)


@pytest.mark.slow
def test_our_own_assessor_holds_trials_of_tau2_and_of_crmarena(tmp_path: Path) -> None:
    keeps = ("--results", str(tmp_path / "kept"))
    assert "mock: 2 of 2 trials passed" in launch("builtin:oracle", "domain=mock", "max_tasks=2", *keeps).out
    assert "mini: 3 of 3 trials passed" in launch("builtin:oracle", "task_category=all", "max_tasks=3", *keeps).out
    org = ("org_type=mini", "interactive=true", "max_tasks=2")
    assert " of 2 trials passed" in launch("builtin:noop", *org, *keeps).out


def test_an_address_at_which_nothing_answers_is_reported_after_one_try() -> None:
    """Formerly after two minutes of silence, with the advice to use an option that the command did not have."""
    error = launch(f"http://127.0.0.1:{free_port()}", "--assessor", green("wait"), code=2).err
    assert "a2a-bench: agent: nothing answers at http://127.0.0.1:" in error
    assert "start it first, or wait for it with --start-timeout SECONDS" in error
    assert "--a2a-wait" not in error
