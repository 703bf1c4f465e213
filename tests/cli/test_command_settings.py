"""Settings of commands: the environment, the table and ``--set``."""

import json
from pathlib import Path

import pytest
from commands import command

from pytest_a2a_bench.cli.main import make_parser
from pytest_a2a_bench.config.load import of_command


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "pyproject.toml").write_text('[tool.a2a-bench]\nmax-steps = 9\nca = "ca.pem"\nsuite = ["mock"]\n')
    return tmp_path


def test_doctor_shows_each_setting_and_its_source(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("A2A_SEED", "5")
    monkeypatch.setenv("A2A_ENDPOINT", "https://agent.example/?key=s3cret")
    shown = {
        row["setting"]: (row["value"], row["source"])
        for row in json.loads(
            command("doctor", "--settings", "--json", "--set", "max-steps=3", "--set", "crm-aided=on").out
        )
    }
    assert shown == {
        "endpoint": ("https://agent.example/", "A2A_ENDPOINT"),
        "ca": (str(project / "ca.pem"), "pyproject.toml: ca"),
        "suite": ('["mock"]', "pyproject.toml: suite"),
        "seed": ("5", "A2A_SEED"),
        "max-steps": ("3", "--set max-steps"),
        "crm-aided": ("true", "--set crm-aided"),
    }
    text = command("doctor", "--settings").out
    assert "s3cret" not in text
    assert "max-steps                 9  (pyproject.toml: max-steps)" in text


@pytest.mark.usefixtures("project")
def test_each_wrong_name_and_value_has_a_line() -> None:
    arguments = ("--set", "max-stps=3", "--set", "timeout=soon", "--set", "strict", "--config", "pyproject.toml")
    shown = command("doctor", "--settings", *arguments, code=2)
    assert shown.err.splitlines() == [
        "a2a-bench: --set max-stps: there is no such setting; did you mean 'max-steps'?",
        "a2a-bench: --set strict: expected KEY=VALUE, such as --set max-steps=50",
        "a2a-bench: --set timeout: 'soon' is not a number above 0",
    ]
    assert "timeout                   wrong: 'soon' is not a number above 0  (--set timeout)" in shown.out
    assert "nowhere.toml: no such file" in command("doctor", "--settings", "--config", "nowhere.toml", code=2).err


@pytest.mark.parametrize(
    ("command", "text", "expected"),
    [
        ("check", "the file of --a2a-scenarios", "the file of --scenarios"),
        ("check", "needs more time (--a2a-timeout SECONDS)", "needs more time (--timeout SECONDS)"),
        ("check", "need --a2a-conformance-profile full", "need --profile full"),
        ("check", "--a2a-proxy none or --a2a-set verify-ssl=off", "proxy none or --set verify-ssl=off"),
        ("gate", "--a2a-baseline: not comparable", "--baseline: not comparable"),
        ("gate", "run them with --a2a-resume", "run them with --a2a-resume"),
        ("tau2", "raise --a2a-timeout, --a2a-wait SECONDS", "raise --agent-a2a-timeout, --agent-a2a-set wait=SECONDS"),
    ],
)
def test_a_command_names_its_own_options(command: str, text: str, expected: str) -> None:
    assert of_command(make_parser(command).options).words(text) == expected
