"""``a2a-bench init``: the files that a project gets, and that they work."""

import ast
import io
import json
import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml
from commands import command, refused
from faulty_server import start_faulty
from hypothesis import example, given
from hypothesis import strategies as st
from one_test import in_one_test

from pytest_a2a_bench import __version__, installation
from pytest_a2a_bench.cli import _starter
from pytest_a2a_bench.conformance.waivers import read_waivers
from pytest_a2a_bench.errors import ConfigurationError
from pytest_a2a_bench.results.gates import terms

KEYS = {"endpoint": "http://127.0.0.1:1", "history-file": "a2a-history.jsonl"}


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "stdin", io.StringIO())
    return tmp_path


URL = "https://agent.example"


def init(*arguments: str, code: int = 0) -> str:
    return command("init", *arguments, code=code).out


def everything(directory: Path) -> dict[str, str]:
    found = (path for path in directory.rglob("*") if path.is_file())
    return {str(path.relative_to(directory)): path.read_text(encoding="utf-8") for path in found}


def test_a_project_is_set_up_once(project: Path) -> None:
    message = init(URL, "--offline", "--domain", "retail", "--min-pass", "0.6", "--trials", "4")
    first = everything(project)

    assert sorted(first) == [
        ".github/workflows/a2a.yml",
        "a2a-gate.sh",
        "a2a-quarantine.toml",
        "agent_tests/agent_checks.py",
        "pyproject.toml",
    ]
    table = tomllib.loads(first["pyproject.toml"])["tool"]["a2a-bench"]
    assert table["endpoint"] == URL
    assert "suite" not in table  # plain pytest goes on running the project's own tests
    steps = yaml.safe_load(first[".github/workflows/a2a.yml"])["jobs"]["gate"]["steps"]
    assert any(step.get("run") == "sh a2a-gate.sh" for step in steps)
    assert '@pytest.mark.tau2("retail", tasks=["0", "1"], label="starter")' in first["agent_tests/agent_checks.py"]
    ast.parse(first["agent_tests/agent_checks.py"])
    assert "--a2a-suite retail" in first["a2a-gate.sh"]
    assert "--a2a-trials 4 --a2a-concurrency 8 --a2a-min-pass 0.6" in first["a2a-gate.sh"]
    assert os.access(project / "a2a-gate.sh", os.X_OK)
    subprocess.run(["sh", "-n", "a2a-gate.sh"], check=True)
    assert terms.QUARANTINE_FILE.read(project / "a2a-quarantine.toml") == ()
    assert "4 *" in message

    (project / "agent_tests" / "agent_checks.py").write_text("# mine\n", encoding="utf-8")
    assert init(URL, "--offline").count("it is there already, and stays as it is") == 5
    assert everything(project) == {**first, "agent_tests/agent_checks.py": "# mine\n"}


def test_a_gate_of_the_protocol_has_no_tasks(project: Path) -> None:
    message = init(URL, "--offline", "--domain", "conformance")
    found = everything(project)

    assert sorted(found) == [".github/workflows/a2a.yml", "a2a-gate.sh", "a2a-waivers.toml", "pyproject.toml"]
    table = tomllib.loads(found["pyproject.toml"])["tool"]["a2a-bench"]
    assert table == {"endpoint": URL, "waivers": "a2a-waivers.toml"}
    assert "--a2a-suite conformance" in found["a2a-gate.sh"]
    assert "min-pass" not in found["a2a-gate.sh"]
    assert read_waivers(project / "a2a-waivers.toml") == ()
    steps = yaml.safe_load(found[".github/workflows/a2a.yml"])["jobs"]["gate"]["steps"]
    assert any(step.get("run", "").startswith('pip install "pytest-a2a-bench @ ') for step in steps)
    assert not any("cache/" in step.get("uses", "") for step in steps)  # there are no rates to keep
    assert "a2a-bench check https://agent.example --waivers a2a-waivers.toml --accept REASON" in message
    assert "conversations" not in message


@pytest.mark.parametrize(
    ("direct_url", "command"),
    [
        (None, f"pip install 'pytest-a2a-bench[tau2,xdist]=={__version__}'"),
        (
            {"url": "https://example.org/bench.whl", "archive_info": {}},
            "pip install 'pytest-a2a-bench[tau2,xdist] @ https://example.org/bench.whl'",
        ),
        (
            {"url": "file:///home/me/clone", "dir_info": {}},
            'pip install "pytest-a2a-bench[tau2,xdist] @ ${A2A_BENCH_SOURCE:?see the comment on it}"',
        ),
    ],
    ids=["index", "archive", "directory"],
)
def test_ci_installs_the_copy_that_is_here(
    project: Path, monkeypatch: pytest.MonkeyPatch, direct_url: dict[str, Any] | None, command: str
) -> None:
    class Installed:
        def read_text(self, name: str) -> str | None:
            assert name == "direct_url.json"
            return None if direct_url is None else json.dumps(direct_url)

    monkeypatch.setattr(installation, "distribution", lambda name: Installed())
    for ci in ("github", "gitlab"):
        init(URL, "--offline", "--ci", ci)
    found = everything(project)
    job = yaml.safe_load(found[".github/workflows/a2a.yml"])["jobs"]["gate"]
    assert {"run": command} in job["steps"]
    assert command in yaml.safe_load(found["a2a.gitlab-ci.yml"])["a2a-gate"]["script"]
    message = [text for text in found.values() if "A2A_BENCH_SOURCE" in text]
    assert len(message) == (2 if "file:" in str(direct_url) else 0)
    # A tag can be moved.
    used = [step["uses"] for step in job["steps"] if "uses" in step]
    assert all(re.fullmatch(r"actions/[\w/-]+@[0-9a-f]{40}", name) for name in used)
    assert job["steps"][0]["with"] == {"persist-credentials": False}


def test_an_agent_that_calls_no_tool_gets_no_gate(project: Path, noop_url: str) -> None:
    message = init(noop_url, "--domain", "mock", "--no-try", code=1)
    assert "called no tool" in message
    assert '"name": "get_status"' in message  # what it was sent
    assert "nothing was written" in message
    assert everything(project) == {}
    init(noop_url, "--domain", "mock", "--offline")
    assert "a2a-gate.sh" in everything(project)


@pytest.mark.slow
def test_init_does_not_try_the_dialect_of_a_built_in_agent(project: Path) -> None:
    message = init("builtin:oracle", "--domain", "mock", "--no-try", "--ci", "script")
    assert "pytest-a2a-bench oracle" in message
    assert "dialect" not in message
    assert "dialect" not in command("doctor", "builtin:oracle").out


def test_gitlab_and_dry_run(project: Path) -> None:
    arguments = ["http://127.0.0.1:1", "--offline", "--ci", "gitlab", "--set", "auth-env=SHOP_TOKEN"]
    assert init(*arguments, "--dry-run").count("would be written") == 5
    assert everything(project) == {}
    init(*arguments)
    found = everything(project)
    assert yaml.safe_load(found["a2a.gitlab-ci.yml"])["a2a-gate"]["script"][-1] == "sh a2a-gate.sh"
    assert 'auth-env = "SHOP_TOKEN"' in found["pyproject.toml"]


def test_init_writes_no_files_for_an_unreachable_agent(project: Path) -> None:
    assert "cannot connect" in init("http://127.0.0.1:9", code=1)
    assert everything(project) == {}


@in_one_test(
    ("arguments", "why"),
    [
        ([], "URL"),
        (["nonsense"], "nonsense"),
        (["http://127.0.0.1:1", "--domain", "airlien"], "did you mean 'airline'?"),
        (["http://127.0.0.1:1", "--domain", "protocol", "--trials", "2"], "leave out --min-pass, --trials"),
        (["http://127.0.0.1:1", "--min-pass", "2"], "lowest success rate"),
        (["http://127.0.0.1:1", "--trials", "0"], "attempts at each task"),
        (["http://127.0.0.1:1", "--directory", "nowhere"], "nowhere is no directory"),
    ],
)
def test_a_wrong_argument_is_one_line(project: Path, arguments: list[str], why: str) -> None:
    assert why in refused("init", *arguments, "--offline")
    assert everything(project) == {}


@pytest.mark.parametrize(
    "before",
    [
        "",
        "[project]\nname = 'x'",
        "[tool.a2a-bench]\ntrials = 2\n\n[tool.ruff]\nline-length = 3\n",
        "[tool.a2a-bench]  # ours",
        "[tool.pytest]\nminversion = '9.0'\n",
        "[tool.other]\ntext = '''\n[tool.a2a-bench]\n'''\n[tool.a2a-bench]\nendpoint = 'mine'\n",
    ],
)
def test_a_section_is_added_to_whatever_there_is(before: str) -> None:
    try:
        after = tomllib.loads(_starter.with_section(before, KEYS))
    except ConfigurationError as error:
        assert "'''" in before  # a header inside of a text
        assert "cannot be changed safely" in str(error)  # noqa: PT017
        return
    assert after["tool"]["a2a-bench"] == {**KEYS, **tomllib.loads(before).get("tool", {}).get("a2a-bench", {})}
    assert _starter.with_section(_starter.with_section(before, KEYS), KEYS) == _starter.with_section(before, KEYS)


@given(st.text(max_size=60))
@example('[tool.a2a-bench]\n"a\\"b" = "\\\\"')
@example("tool.a2a-bench.trials = 2")
@example("tool = 3")
@example("[tool]\na2a-bench = 'x'")
def test_any_text_is_changed_safely_or_refused(text: str) -> None:
    try:
        after = _starter.with_section(text, KEYS)
    except ConfigurationError as error:
        assert "pyproject.toml" in str(error)  # noqa: PT017
        return
    assert tomllib.loads(after)["tool"]["a2a-bench"]


@pytest.mark.slow
def test_the_written_project_works(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The whole way: met, judged, tried; then the gate passes, has a baseline, and passes with it."""

    def done(*command: str) -> str:
        result = subprocess.run(command, capture_output=True, text=True, check=False)
        assert result.returncode == 0, result.stdout + result.stderr
        return result.stdout

    python = sys.executable
    message = done(python, "-m", "pytest_a2a_bench.cli", "init", "builtin:oracle", "--domain", "mock", "--ci", "script")
    assert "3 passed" in message
    assert "MUST " in message
    monkeypatch.setenv("PATH", str(Path(python).parent), prepend=os.pathsep)
    first = done("sh", "a2a-gate.sh")
    assert "19 passed" in first  # the gate is one
    done(python, "-m", "pytest_a2a_bench.cli", "gate", "a2a-results", "--write-baseline", "a2a-baseline.json")
    assert "19 passed, 1 skipped" in done(
        "sh", "a2a-gate.sh"
    )  # 9 tasks are too few to tell; there is no sign of a drop
    judged = (project / "a2a-results" / "verdict.json").read_text(encoding="utf-8")
    starter = project / "agent_tests" / "agent_checks.py"
    command = next(line for line in starter.read_text(encoding="utf-8").splitlines() if line.startswith("pytest "))
    assert "passed" in done(python, "-m", *command.split())
    # The gate's results and history are its own, whatever else is run.
    assert (project / "a2a-results" / "verdict.json").read_text(encoding="utf-8") == judged
    assert len((project / "a2a-results" / "history.jsonl").read_text(encoding="utf-8").splitlines()) == 2
    assert (project / "a2a-results" / "report.html").is_file()
    assert "a2a-results/checks" in command


@pytest.mark.slow
def test_the_gate_of_the_protocol_works(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It fails for a defect, and passes when that one was accepted."""
    monkeypatch.setenv("PATH", str(Path(sys.executable).parent), prepend=os.pathsep)

    def code(*command: str) -> int:
        return subprocess.run(command, capture_output=True, check=False).returncode

    cli = (sys.executable, "-m", "pytest_a2a_bench.cli")
    with start_faulty("cancel-terminal") as agent:
        assert code(*cli, "init", agent.url, "--domain", "conformance", "--ci", "script") == 0
        assert code("sh", "a2a-gate.sh") == 1
        assert (project / "a2a-results" / "report.html").is_file()
        assert code(*cli, "check", agent.url, "--waivers", "a2a-waivers.toml", "--accept", "reported") == 0
        assert code("sh", "a2a-gate.sh") == 0
