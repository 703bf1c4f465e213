"""tau2's own runner and registry with an agent behind A2A; the rewards are the plugin's."""

import importlib
import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from fake_llm import FakeLLM, Step, call, say
from llm_agent import agents_model
from one_test import in_one_test
from trials import RunTrials
from user_agents import Speaker, heard, served_brain

from pytest_a2a_bench.agents.brain import Conversation
from pytest_a2a_bench.benchmarks.tau2 import index
from pytest_a2a_bench.cli.main import main
from pytest_a2a_bench.config.settings import Settings
from pytest_a2a_bench.errors import ConfigurationError, EndpointUnreachableError
from pytest_a2a_bench.model import TrialKey, UserSaid

pytestmark = pytest.mark.filterwarnings("ignore")  # LiteLLM warns about much, in threads of its own


class Module:
    """A module that the first test imports which needs it: all workers collect this file, and LiteLLM takes seconds."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):  # pytest asks each name of a file while it collects
            raise AttributeError(name)
        return getattr(importlib.import_module(self._name), name)


OURS, RUN = Module("pytest_a2a_bench.tau2"), Module("tau2.run")
GOLD = {"user_id": "user_1", "title": "Important Meeting"}
ARGS = {"num_retries": 0, "temperature": 0.0}


def agent_says(request: dict[str, Any]) -> Step:
    """Create one task, whoever asks for whatever; that is right in one task and wrong in others."""
    # Behind the system prompt stands tau2's greeting, unless the task has a history of its own.
    said = sum(m["role"] == "assistant" for m in request["messages"][2:])
    return call("create_task", GOLD) if said == 0 else say("I have done that for you.")


def user_says(request: dict[str, Any]) -> Step:
    said = sum(m["role"] == "assistant" for m in request["messages"])
    return say("Please create a task for me.") if said == 0 else say("Thank you. ###STOP###")


@pytest.fixture
def agent(builtin: Callable[[str], str]) -> str:
    """URL of an agent with a model of its own, which says what these tests are about."""
    agents_model().play(agent_says)
    return builtin(agents_model().spec)


@pytest.fixture
def user() -> Iterator[FakeLLM]:
    with FakeLLM(user_says) as llm:
        yield llm


@pytest.fixture
def registry() -> Iterator[Any]:
    """tau2's registry, which forgets afterwards what a test put into it."""
    found = RUN.registry
    places = [getattr(found, name) for name in ("_agents", "_agent_factories", "_users") if hasattr(found, name)]
    before = [dict(place) for place in places]
    yield found
    for place, old in zip(places, before, strict=True):
        place.clear()
        place.update(old)


def user_args(llm: FakeLLM) -> dict[str, Any]:
    return {"api_base": llm.api_base, "api_key": "test", **ARGS}


def customer(conversation: Conversation) -> str:
    """Say what ``user_says`` does, as an agent behind A2A."""
    is_first = not any(isinstance(e, UserSaid) and "I have done" in e.text for e in heard(conversation))
    return "Please create a task for me." if is_first else "Thank you. ###STOP###"


def run_mock(agent_name: str, llm: FakeLLM, **more: Any) -> dict[str, float]:
    """Run every task of the mock domain in tau2's own runner; return task -> reward."""
    tasks = RUN.get_tasks("mock", task_split_name="base", task_ids=more.pop("task_ids", None))
    config = {
        "user": "user_simulator",
        "max_steps": 30,
        "seed": 300,
        "llm_agent": "a2a",
        "llm_args_agent": {},
        "llm_user": "openai/fake",
        "llm_args_user": user_args(llm),
        "console_display": False,
        "log_level": "ERROR",
    }
    results = RUN.run_tasks(domain="mock", tasks=tasks, agent=agent_name, **(config | more))
    return {run.task_id: run.reward_info.reward for run in results.simulations}


@pytest.mark.slow
def test_an_agent_as_user_has_the_same_rewards(agent: str, user: FakeLLM, registry: Any, run_trials: RunTrials) -> None:
    speaker = Speaker(customer)
    with served_brain(speaker) as url:
        OURS.register(agent, "a2a_agent")
        OURS.register_user(url)
        there = run_mock("a2a_agent", user, user="a2a_user")
        message = [c.briefing.policy for c in speaker.conversations if c.briefing is not None]
        speaker.conversations.clear()
        keys = [TrialKey("tau2", "mock", task.task_id) for task in index.load_tasks("mock")]
        by_plugin = run_trials(agents_model().spec, Settings(user=f"a2a:{url}", max_steps=30), keys)
    assert there == {r.key.task_id: r.reward for r in by_plugin}
    assert set(there.values()) == {0.0, 1.0}
    assert sorted(message) == sorted(c.briefing.policy for c in speaker.conversations if c.briefing is not None)
    assert not user.requests


def test_a_user_that_is_not_there_is_reported_as_the_users_trouble(agent: str, user: FakeLLM, registry: Any) -> None:
    base = importlib.import_module("tau2.user.base").BaseUser
    assert issubclass(OURS.A2AUser, base)
    OURS.register(agent, "a2a_agent")
    OURS.register_user("http://127.0.0.1:9")
    with pytest.raises(EndpointUnreachableError, match="the agent that plays the user: "):
        run_mock("a2a_agent", user, user="a2a_user", task_ids=["create_task_1"])
    with pytest.raises(ConfigurationError, match="register_user"):
        OURS.A2AUser()
    with pytest.raises(ConfigurationError, match="already registered; give another name"):
        OURS.register_user("http://127.0.0.1:9")


def test_the_class_is_tau2s_and_keeps_to_its_interface(agent: str, registry: Any) -> None:
    base = importlib.import_module("tau2.agent.base").LocalAgent
    assert issubclass(OURS.A2AAgent, base)
    environment = RUN.registry.get_env_constructor("mock")()
    messages = importlib.import_module("tau2.data_model.message")
    mine = OURS.A2AAgent(environment.get_tools(), environment.get_policy(), endpoint=agent, timeout=60.0)
    mine.set_seed(7)
    state = mine.get_init_state()
    said, state = mine.generate_next_message(messages.UserMessage(role="user", content="A task, please."), state)
    assert [c.name for c in said.tool_calls] == ["create_task"]
    assert not OURS.A2AAgent.is_stop(said)
    result = messages.ToolMessage(id=said.tool_calls[0].id, role="tool", content="{}", requestor="assistant")
    said, _ = mine.generate_next_message(result, state)
    assert said.content == "I have done that for you."
    # From the middle of a conversation: the agent is told all of it.
    history = [messages.UserMessage(role="user", content="A task, please."), said]
    again = mine.get_init_state(history)
    assert [type(event).__name__ for event in again.events] == ["UserSaid", "AgentSaid"]
    mine.stop()


def test_names_and_settings_are_refused_in_our_words(agent: str, registry: Any, user: FakeLLM) -> None:
    OURS.register(agent, "one")
    OURS.register(agent, "two", dialect="data")
    with pytest.raises(ConfigurationError, match="already registered; give another name"):
        OURS.register(agent, "one")
    with pytest.raises(ConfigurationError, match="register"):
        OURS.A2AAgent([], "policy")
    with pytest.raises(ConfigurationError, match="MISSING_TOKEN"):
        OURS.register(agent, "three", auth_env="MISSING_TOKEN")
    OURS.register("http://127.0.0.1:9", "gone")
    with pytest.raises(EndpointUnreachableError):
        run_mock("gone", user, task_ids=["create_task_1"])


def test_models_of_tau2s_own_still_play(user: FakeLLM, registry: Any, agent: str) -> None:
    OURS.register(agent, "a2a_agent")
    with FakeLLM(agent_says) as model:
        own = {"llm_agent": "openai/own", "llm_args_agent": user_args(model)}
        assert run_mock("llm_agent", user, task_ids=["create_task_1"], **own) == {"create_task_1": 1.0}


def a2a_bench(*arguments: str, **environ: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "pytest_a2a_bench.cli", *arguments],
        capture_output=True,
        text=True,
        timeout=300,
        stdin=subprocess.DEVNULL,
        env={**os.environ, "OPENAI_API_KEY": "test", "COLUMNS": "200", **environ},
        check=False,
    )


@pytest.mark.slow
def test_the_command_line_is_tau2s_own(agent: str, user: FakeLLM, tmp_path: Path) -> None:
    done = a2a_bench(
        *("tau2", "run", "mock", "--agent-a2a-endpoint", agent, "--agent-a2a-timeout=60"),
        # As the design document of this integration calls it: ids with commas, and results as JSON.
        *("--task-ids", "create_task_1,update_task_1", "--output-format", "json", "--user-llm", "openai/fake"),
        *("--user-llm-args", json.dumps(user_args(user)), "--results-dir", str(tmp_path), "--save-to", "out"),
        *("--max-retries", "0", "--user-api-key", "OPENAI_API_KEY", "--log-level", "DEBUG"),
    )
    assert done.returncode == 0, done.stderr + done.stdout
    found = json.loads((tmp_path / "out.json").read_text())
    rewards = {run["task_id"]: run["reward_info"]["reward"] for run in found["simulations"]}
    assert rewards == {"create_task_1": 1.0, "update_task_1": 0.0}
    assert found["info"]["agent_info"]["implementation"] == "a2a_agent"
    assert found["info"]["agent_info"]["llm"].startswith("a2a-")
    contexts = {}
    for run in found["simulations"]:
        spoken = [m["raw_data"] for m in run["messages"][1:] if m["role"] == "assistant"]
        assert all(data["message_id"] and data["usage"]["prompt_tokens"] for data in spoken)
        [contexts[run["task_id"]]] = {data["context_id"] for data in spoken}
    metrics = json.loads(a2a_bench("export", "metrics", str(tmp_path)).stdout)
    assert metrics == json.loads((tmp_path / "out_metrics.json").read_text())
    assert {record["task_id"]: record["protocol_metrics"][-1]["context_id"] for record in metrics} == contexts
    for record in metrics:
        assert (record["agent_type"], record["trial"]) == ("a2a_agent", 0)
        assert record["summary"]["total_requests"] == len(record["protocol_metrics"])
        assert record["summary"]["total_tokens"] > 0
    assert "A2A SendStreamingMessage" in done.stdout + done.stderr


SCRIPT = "#!/usr/bin/python\nimport sys\nfrom tau2.cli import main\nif __name__ == '__main__':\n    sys.exit(main())\n"


def test_tau2s_own_command_takes_our_options_where_it_is_linked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    script = tmp_path / "tau2"
    script.write_text(SCRIPT)
    monkeypatch.setattr("sysconfig.get_path", lambda name: str(tmp_path))
    for command in ("link", "link", "unlink", "unlink"):
        assert main(["tau2", command]) == 0
        assert (script.read_text() == SCRIPT) is (command == "unlink")
    main(["tau2", "link"])
    arguments = ("run", "mock", "--agent", "a2a_agent")
    done = subprocess.run([sys.executable, str(script), *arguments], capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert done.stderr.endswith("a2a-bench: tau2: --agent a2a_agent needs --agent-a2a-endpoint URL\n")
    script.write_text("#!/bin/sh\n")
    assert main(["tau2", "link"]) == 2
    assert "is not the command that tau2's installation writes" in capsys.readouterr().err


def test_the_help_of_run_has_both(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["tau2", "run", "--help"])
    message = capsys.readouterr().out
    assert "--num-trials" in message
    assert "--agent-a2a-endpoint URL" in message
    assert "--user-a2a-endpoint URL" in message


def test_the_user_gets_the_credentials_named_for_it_only(monkeypatch: pytest.MonkeyPatch, registry: Any) -> None:
    monkeypatch.setenv("A2A_AUTH_TOKEN", "of-the-tested")
    monkeypatch.setenv("A2A_OAUTH_CLIENT_ID", "of-the-tested")
    monkeypatch.setenv("USERS_TOKEN", "of-the-user")
    for options, token in (({}, None), ({"auth_env": "USERS_TOKEN"}, "of-the-user")):
        found = OURS.register_user("http://127.0.0.1:9", f"user{len(options)}", **options)
        assert found._shared is not None
        config = found._shared[0].config
        assert (config.auth.token.reveal() if config.auth else None, config.oauth) == (token, None)
        assert "--user-a2a-auth-env" in config.token_advice


@pytest.mark.slow
def test_both_sides_are_agents(agent: str, user: FakeLLM, tmp_path: Path) -> None:
    with served_brain(Speaker(customer), token="of-the-user") as url:
        both = ("--agent-a2a-endpoint", agent, "--user-a2a-endpoint", url, "--max-retries", "0")
        arguments = ("tau2", "run", "mock", *both, "--results-dir", str(tmp_path), "--save-to", "out")
        tokens = {"USERS_TOKEN": "of-the-user", "A2A_AUTH_TOKEN": "of-the-tested", "A2A_AUTH_ENV": "A2A_AUTH_TOKEN"}
        done = a2a_bench(*arguments, "--user-a2a-auth-env=USERS_TOKEN", "--task-ids", "create_task_1", **tokens)
    assert done.returncode == 0, done.stderr + done.stdout
    found = json.loads((tmp_path / "out.json").read_text())
    assert [run["reward_info"]["reward"] for run in found["simulations"]] == [1.0]
    assert found["info"]["user_info"]["implementation"] == "a2a_user"
    assert found["info"]["user_info"]["llm"].startswith("a2a-")


@in_one_test(
    ("arguments", "message"),
    [
        (("run", "mock", "--user", "a2a_user"), "--user a2a_user needs --user-a2a-endpoint URL"),
        (("run", "mock", "--user-a2a-timeout", "5"), "--user-a2a-... needs --user-a2a-endpoint URL"),
        (("view", "--user-a2a-endpoint", "http://a.test"), "--user-a2a-... belongs to run; this is view"),
        (("run", "mock", "--agent", "a2a_agent"), "--agent a2a_agent needs --agent-a2a-endpoint URL"),
        (("view", "--agent-a2a-endpoint", "http://a.test"), "--agent-a2a-... belongs to run; this is view"),
        (("run", "mock", "--agent-a2a-endpoint", "http://a.test", "--agent-a2a-timeout", "soon"), "soon"),
    ],
)
def test_impossible_arguments(arguments: tuple[str, ...], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["tau2", *arguments]) == 2
    shown = capsys.readouterr().err
    assert message in shown
    assert shown.count("\n") == 1


def test_requests_that_cannot_be_written_are_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "out_metrics.json").write_text("[]")
    target = tmp_path / "out_metrics.json" / "below"
    assert main(["export", "metrics", str(tmp_path), "-o", str(target)]) == 2
    assert f"{target} cannot be written" in capsys.readouterr().err
