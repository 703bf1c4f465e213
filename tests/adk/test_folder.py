"""``a2a-bench adk``: the directory that it writes, as ADK loads it, and what it refuses."""

import json
import os
from pathlib import Path
from typing import Any

import pytest

from pytest_a2a_bench.cli.main import main
from pytest_a2a_bench.conformance.card import check_card
from pytest_a2a_bench.installation import install_command


def refusal(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    assert main(["adk", *arguments]) == 2
    message = capsys.readouterr().err
    assert all(line.startswith("a2a-bench: ") for line in message.splitlines())
    return message


@pytest.fixture(autouse=True)
def _needs_adk() -> None:
    pytest.importorskip("google.adk", reason="the extra adk is not installed")


def test_adk_loads_what_is_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any) -> None:
    folder = tmp_path / "agents"
    monkeypatch.setattr(os, "environ", dict(os.environ))  # ADK puts an agent's .env there, for good
    given = ("--model", "gemini-2.5-flash", "--wait", "7", "--crm-data", "it's here")
    assert main(["adk", "new", str(folder), *given]) == 0
    printed = capsys.readouterr().out
    assert f"adk run {folder / 'tau2_evaluator'}" in printed
    assert "its model is gemini-2.5-flash (A2A_ADK_MODEL); GOOGLE_API_KEY belongs into its .env" in printed
    from google.adk.cli.utils.agent_loader import AgentLoader

    loader = AgentLoader(str(folder))
    assert loader.list_agents() == ["tau2_evaluator"]
    assert loader.load_agent("tau2_evaluator").name == "tau2_evaluator"
    # Agents of one process are over the same evaluations.
    from pytest_a2a_bench.adk.agent import runs_of
    from pytest_a2a_bench.adk.options import AdkOptions

    options = AdkOptions.from_environment(os.environ)
    assert (options.wait, options.crm_data, options.results) == (7.0, "it's here", folder / "results")
    assert options.terms().settings.benchmark_options == {"crm_data": "it's here", "crm_org": "local"}
    assert runs_of(options) is runs_of(AdkOptions.from_environment(os.environ))
    runs_of(options).close()


def test_its_card_keeps_the_protocol(tmp_path: Path) -> None:
    assert main(["adk", "new", str(tmp_path), "--url", "https://adk.example.com/"]) == 0
    card = json.loads((tmp_path / "tau2_evaluator" / "agent.json").read_text())
    assert [one["protocolVersion"] for one in card["supportedInterfaces"]] == ["1.0", "0.3"]
    assert card["supportedInterfaces"][0]["url"] == "https://adk.example.com/a2a/tau2_evaluator"
    assert [one for one in check_card(card) if one.severity == "error"] == []


def test_nothing_is_written_over(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["adk", "new", str(tmp_path)]) == 0
    capsys.readouterr()
    assert "has tau2_evaluator already" in refusal(capsys, "new", str(tmp_path))
    assert "is 'adk.example.com'; expected http" in refusal(capsys, "new", str(tmp_path), "--url", "adk.example.com")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            ("new", "{}/x", "--timeout", "soon", "--tag-trials", "perhaps"),
            "--timeout is 'soon'; Input should be a valid number",
        ),
        (("new", "{}/x", "--credentials", "sk-live-123"), "expected NAME@ORIGIN"),
        (("new", "{}/x", "--model", "none"), "--model is 'none'; expected a model"),
        (("new", "{}/x", "--allow-cidr", "10.0.0.0/99"), "--allow-cidr"),
        (("new", "/proc/nowhere"), "cannot be written"),
        (("serve", "--model", "none"), "--model is 'none'; expected a model"),
        (("serve", "--host", "0.0.0.0"), "give tokens with --auth-file"),
        (("serve", "--port", "-1", "--card-url", "x"), "--port is -1"),
        pytest.param(
            ("serve", "--port", "0", "--model", "openai/x", "--results", "/proc/nowhere"),
            "cannot be written",
            marks=pytest.mark.slow,
        ),
    ],
)
def test_refusals(tmp_path: Path, capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...], message: str) -> None:
    found = refusal(capsys, *(one.format(tmp_path) for one in arguments))
    assert message in found
    assert "sk-live" not in found


def test_a_missing_google_adk_is_named(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr("pytest_a2a_bench.cli.adk.find_spec", lambda name: None)
    assert install_command("adk") in refusal(capsys, "new", "x")
