"""Settings of commands: the environment, the table and ``--set``."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from pytest_a2a_bench.cli.main import main


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "pyproject.toml").write_text('[tool.a2a-bench]\nmax-steps = 9\nca = "ca.pem"\nsuite = ["mock"]\n')
    return tmp_path


def test_doctor_shows_each_setting_and_its_source(
    project: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("A2A_SEED", "5")
    monkeypatch.setenv("A2A_ENDPOINT", "https://agent.example/?key=s3cret")
    assert main(["doctor", "--settings", "--json", "--set", "max-steps=3", "--set", "crm-aided=on"]) == 0
    shown = {row["setting"]: (row["value"], row["source"]) for row in json.loads(capsys.readouterr().out)}
    assert shown == {
        "endpoint": ("https://agent.example/", "A2A_ENDPOINT"),
        "ca": (str(project / "ca.pem"), "pyproject.toml: ca"),
        "suite": ('["mock"]', "pyproject.toml: suite"),
        "seed": ("5", "A2A_SEED"),
        "max-steps": ("3", "--set max-steps"),
        "crm-aided": ("true", "--set crm-aided"),
    }
    assert main(["doctor", "--settings"]) == 0
    text = capsys.readouterr().out
    assert "s3cret" not in text
    assert "max-steps                 9  (pyproject.toml: max-steps)" in text


@pytest.mark.usefixtures("project")
def test_wrong_names_and_values_are_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ("--set", "max-stps=3", "--set", "timeout=soon", "--set", "strict", "--config", "pyproject.toml")
    assert main(["doctor", "--settings", *arguments]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert "--set max-stps: there is no such setting; did you mean 'max-steps'?" in line
    assert "--set timeout: 'soon': input should be a valid number" in line
    assert "--set strict: expected KEY=VALUE" in line
    assert main(["doctor", "--settings", "--config", "nowhere.toml"]) == 2
    assert "nowhere.toml: no such file" in capsys.readouterr().err
