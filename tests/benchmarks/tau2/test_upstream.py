"""What is particular to upstream's own tau2 1.0, held with it: its tasks, banking_knowledge's documents, its judge.

Its code needs Python 3.12, so these tests run in an environment of their own: ``.ci/upstream.py`` makes one.
"""

import gc
import importlib
import json
import os
import stat
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from fake_llm import FakeLLM, Step, call, judge, say
from finished_runs import write_run
from llm_agent import as_user
from threaded_http import Handler, HttpServer
from trials import RunTrials
from user_agents import Speaker, served_brain

from pytest_a2a_bench.agents.brain import Conversation
from pytest_a2a_bench.benchmarks import registry
from pytest_a2a_bench.benchmarks.tau2 import index, retrieval, upstream
from pytest_a2a_bench.benchmarks.tau2.benchmark import Watch
from pytest_a2a_bench.cli.main import main
from pytest_a2a_bench.config.settings import Settings
from pytest_a2a_bench.errors import A2ABenchError, LLMError
from pytest_a2a_bench.model import ToolCall, ToolReturned, TrialKey, TrialResult, UserSaid

VARIABLE = "A2A_BENCH_TAU2_CHECKOUT"
GOLD = {"user_id": "user_1", "title": "Important Meeting"}


def is_upstream() -> bool:
    """Whether the installed tau2 is the checkout that the variable names."""
    named = os.environ.get(VARIABLE)
    try:
        return bool(named) and index.find_installation().package.resolve().is_relative_to(Path(str(named)).resolve())
    except A2ABenchError:
        return False


pytestmark = [
    pytest.mark.skipif(
        not is_upstream(), reason=f"needs upstream's tau2, installed from the checkout that {VARIABLE} names"
    ),
    pytest.mark.filterwarnings("ignore"),  # LiteLLM warns about much, in threads of its own
]

BANKING = retrieval.DOMAIN
DOMAINS = ("airline", "retail", "telecom", "mock", BANKING)
OFFLINE = ("no_knowledge", "bm25", "bm25_grep", "grep_only", "golden_retrieval", "full_kb")
# The user's part stands in the middle of the gold, and what comes after depends on it.
INTERLEAVED = TrialKey("tau2", BANKING, "task_061")


def settings(**options: Any) -> Settings:
    own = {name: options.pop(name) for name in ("retrieval",) if name in options}
    return Settings(tag_trials=True, benchmark_options=own, **options)


@pytest.fixture(autouse=True)
def _no_keys(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in ("OPENAI_API_KEY", "OPENROUTER_API_KEY", "OPENAI_BASE_URL"):
        monkeypatch.delenv(name, raising=False)
    # Upstream keeps embeddings below the working directory.
    monkeypatch.chdir(tmp_path)


# --- tasks ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("domain", DOMAINS)
def test_tasks_are_those_that_upstream_loads(domain: str) -> None:
    tau2 = upstream.load()
    ours = [t.task_id for t in index.load_tasks(domain)]
    theirs = {t.id: t for t in tau2.registry.get_tasks_loader(domain)("base")}
    assert sorted(ours) == sorted(theirs)
    times = {"timestamp", "turn_idx"}
    for task_id in ours:
        read = tau2.task_class.model_validate(index.load_task_json(domain, task_id))
        if read.initial_state is None or not read.initial_state.message_history:
            assert read == theirs[task_id]
        else:
            assert read.model_dump(exclude={"initial_state": times}).keys() == theirs[task_id].model_dump().keys()


def test_the_distribution_is_named() -> None:
    assert index.find_installation().distribution.startswith("tau2 1.")


# --- its own runner ---------------------------------------------------------------------------------------------------


def test_its_own_runner_takes_agents_on_both_sides(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One creates the task that another one asks for: right in that task, wrong in the other."""
    ours = importlib.import_module("pytest_a2a_bench.tau2")
    assert not any(getattr(of, "__abstractmethods__", None) for of in (ours.A2AAgent, ours.A2AUser))
    assert issubclass(ours.A2AUser, importlib.import_module("tau2.user.user_simulator_base").HalfDuplexUser)
    monkeypatch.setenv("OPENAI_API_KEY", "scripted")
    monkeypatch.chdir(tmp_path)
    with served_brain(Speaker(clerk)) as agent, served_brain(Speaker(customer)) as user:
        sides = ["--agent-a2a-endpoint", agent, "--user-a2a-endpoint", user]
        tasks = ["--task-ids", "create_task_1", "update_task_1", "--save-to", str(tmp_path / "out")]
        done = subprocess.run(
            [sys.executable, "-m", "pytest_a2a_bench.cli", "tau2", "run", "mock", *sides, *tasks, "--max-retries", "0"],
            capture_output=True,
            text=True,
            stdin=subprocess.DEVNULL,
            check=False,
        )
    assert done.returncode == 0, done.stdout + done.stderr
    (file,) = tmp_path.rglob("results.json")
    found = json.loads(file.read_text())
    rewards = {run["task_id"]: run["reward_info"]["reward"] for run in found["simulations"]}
    assert rewards == {"create_task_1": 1.0, "update_task_1": 0.0}
    assert (found["info"]["agent_info"]["implementation"], found["info"]["user_info"]["implementation"]) == (
        "a2a_agent",
        "a2a_user",
    )


def clerk(conversation: Conversation) -> str | ToolCall:
    """Create one task, whoever asks for whatever."""
    is_done = any(isinstance(event, ToolReturned) for event in conversation.history)
    return "I have done that for you." if is_done else ToolCall("create_task", dict(GOLD))


def customer(conversation: Conversation) -> str:
    """Want a task."""
    is_done = any(isinstance(e, UserSaid) and "I have done" in e.text for e in conversation.history)
    return "Thank you. ###STOP###" if is_done else "Please create a task for me."


# --- documents --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", OFFLINE)
def test_the_oracle_passes_with_every_configuration_that_asks_nobody(name: str, run_trials: RunTrials) -> None:
    [result] = run_trials("oracle", settings(retrieval=name), [INTERLEAVED])
    assert result.success, (result.error, result.reward_info)
    assert (result.provenance["retrieval"], registry.variant_of(result)) == (name, f"retrieval {name}")
    assert "retrieval_why" not in result.provenance


def test_the_default_without_keys_asks_nobody_and_says_so(run_trials: RunTrials) -> None:
    [result] = run_trials("noop", settings(), [INTERLEAVED])
    assert result.provenance["retrieval"] == "bm25_grep"
    [line] = retrieval.describe_results([result.provenance])
    assert "bm25_grep" in line
    assert "alltools, needs OPENAI_API_KEY in the environment" in line
    [announced] = retrieval.announce([BANKING], settings(), {})
    assert announced.startswith("banking_knowledge: retrieval bm25_grep (the best that asks nobody")
    assert list(retrieval.announce(["airline"], settings(), {})) == []


@pytest.fixture
def embeddings(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[int]]:
    """An embedding model over HTTP; what the list holds are the statuses of its next answers, then it is well."""
    statuses: list[int] = []

    class Embeddings(Handler):
        def do_POST(self) -> None:
            asked = json.loads(self.body())
            status = statuses.pop(0) if statuses else 200
            texts = asked["input"] if isinstance(asked["input"], list) else [asked["input"]]
            data = [
                {"object": "embedding", "index": n, "embedding": [float(len(text)), 1.0]}
                for n, text in enumerate(texts)
            ]
            usage = {"prompt_tokens": 1, "total_tokens": 1}
            answer = {"object": "list", "data": data, "model": asked["model"], "usage": usage}
            body = json.dumps(answer if status == 200 else {"error": {"message": "scripted"}}).encode()
            self.answer(status, body)

    with HttpServer(Embeddings) as server:
        monkeypatch.setenv("OPENAI_API_KEY", "scripted")
        monkeypatch.setenv("OPENAI_BASE_URL", f"{server.url}/v1")
        yield statuses


def test_a_model_of_embeddings_that_fails_is_infrastructure(embeddings: list[int], run_trials: RunTrials) -> None:
    wanted = settings(retrieval="openai_embeddings")
    embeddings.append(401)
    [refused] = run_trials("noop", wanted, [INTERLEAVED])
    assert (refused.status, refused.error_type) == ("infrastructure_error", "LLMError")
    assert "a model of the retrieval configuration 'openai_embeddings' failed" in str(refused.error)
    [result] = run_trials("oracle", wanted, [INTERLEAVED])
    assert result.success, (result.error, result.reward_info)
    # Documents are embedded once; a search asks again, and tau2 hands its trouble to the agent.
    tau2 = upstream.load()
    task = tau2.task_class.model_validate(index.load_task_json(BANKING, INTERLEAVED.task_id))
    watch = Watch(retrieval.choose(tau2, BANKING, wanted, os.environ))
    environment, _ = upstream.build_environment(tau2, BANKING, task, "openai_embeddings")
    watch.listen(environment.tools)
    search = tau2.messages.ToolCall(id="1", name="KB_search", arguments={"query": "cards"}, requestor="assistant")
    assert not environment.get_response(search).error
    watch.check()
    embeddings.append(401)
    other = search.model_copy(update={"arguments": {"query": "accounts"}})
    assert environment.get_response(other).error
    with pytest.raises(LLMError, match="openai_embeddings"):
        watch.check()


def test_a_sandbox_leaves_nothing(run_trials: RunTrials, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    programs = tmp_path / "programs"
    programs.mkdir()
    for name in ("srt", "rg", "bwrap", "socat"):
        program = programs / name
        program.write_text("#!/bin/sh\n")
        program.chmod(program.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setenv("PATH", f"{programs}:{os.environ['PATH']}")
    places = tmp_path / "places"
    places.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(places))
    [result] = run_trials("oracle", settings(retrieval="terminal_use"), [INTERLEAVED])
    assert result.success, (result.error, result.reward_info)
    # Tools refer to the toolkit that they are of, and it to them.
    gc.collect()
    assert list(places.glob("agentic_search_*")) == []


# --- models -----------------------------------------------------------------------------------------------------------


def judged_key(domain: str) -> TrialKey:
    """Return the first task of a domain that the judge is asked about."""
    for task in index.load_tasks(domain):
        criteria = index.load_task_json(domain, task.task_id)["evaluation_criteria"]
        if "NL_ASSERTION" in criteria["reward_basis"] and criteria.get("nl_assertions"):
            return task.key()
    raise AssertionError(f"no task of {domain} is judged")


@pytest.mark.parametrize("domain", ["retail", BANKING])
@pytest.mark.parametrize("met", [True, False])
def test_a_judge_decides_by_http(
    domain: str, met: bool, run_trials: RunTrials, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "scripted")
    with FakeLLM(judge(met)) as llm:
        wanted = settings(judge_llm="openai/judge", user_llm_args={"api_base": llm.api_base}, retrieval="no_knowledge")
        [result] = run_trials("oracle", wanted, [judged_key(domain)])
    assert (result.error, result.reward) == (None, float(met))
    assert len(llm.requests) == 1
    assert result.provenance["judge"] == "openai/judge"


def test_forty_retail_tasks_need_the_judge(run_trials: RunTrials) -> None:
    criteria = [index.load_task_json("retail", t.task_id)["evaluation_criteria"] for t in index.load_tasks("retail")]
    assert sum("NL_ASSERTION" in c["reward_basis"] and bool(c.get("nl_assertions")) for c in criteria) == 40
    [result] = run_trials("noop", settings(), [judged_key("retail")])
    assert result.status == "skipped"
    assert "--a2a-judge-llm" in str(result.error)


def user_of_its_own_accord(request: dict[str, Any]) -> Step:
    """The user that mock's own task asks for: looks, asks, and dismisses when it is done."""
    steps: list[Step] = [
        call("check_notifications", {}),
        say("I have completed task_1; please set its status to completed."),
        call("dismiss_notification", {"notification_id": "notif_1"}),
        say("###STOP###"),
    ]
    done = sum(m["role"] == "assistant" for m in request["messages"])
    step: Step = steps[min(done, len(steps) - 1)]
    return step


def test_an_llm_user_has_tools_and_one_task_of_mock_contradicts_itself(run_trials: RunTrials) -> None:
    # Its assertion wants the notification read, which only the user can do; its gold database has it unread.
    key = TrialKey("tau2", "mock", "update_task_with_user_tools")
    with FakeLLM(user_of_its_own_accord) as llm:
        [result] = run_trials("oracle", settings(**as_user(llm)), [key])
    assert result.reward_info is not None, result.error
    assert result.reward_info.breakdown == {"DB": 0.0, "ENV_ASSERTION": 1.0, "ACTION": 1.0}
    assert {tool["function"]["name"] for tool in llm.requests[0]["tools"]} == {
        "check_notifications",
        "dismiss_notification",
    }
    [scripted] = run_trials("oracle", settings(), [key])
    assert scripted.reward_info is not None, scripted.error
    assert scripted.reward_info.breakdown == {"DB": 1.0, "ENV_ASSERTION": 0.0, "ACTION": 1.0}
    assert "of its own accord" in scripted.provenance["user_judgement"]


# --- rewards ----------------------------------------------------------------------------------------------------------


def sample(domain: str, count: int) -> list[TrialKey]:
    tasks = index.load_tasks(domain)
    return [t.key() for t in tasks[:: max(1, len(tasks) // count)][:count]]


@pytest.fixture
def evaluate_trajectories(monkeypatch: pytest.MonkeyPatch) -> Callable[[Path, Path], None]:
    """Upstream's ``evaluate-trajs --fresh-tasks``; it only knows its default retrieval, which needs a key."""
    module = importlib.import_module("tau2.domains.banking_knowledge.environment")
    monkeypatch.setattr(module, "DEFAULT_RETRIEVAL_VARIANT", "no_knowledge")
    evaluate = importlib.import_module("tau2.scripts.evaluate_trajectories").evaluate_trajectories
    return lambda file, into: evaluate([str(file)], str(into), fresh_tasks=True)


@pytest.mark.parametrize("agent", ["oracle", "readonly", "noop"])
def test_upstream_evaluates_bankings_exports_to_the_same(
    agent: str, run_trials: RunTrials, tmp_path: Path, evaluate_trajectories: Callable[[Path, Path], None]
) -> None:
    results = run_trials(agent, settings(), [*sample(BANKING, 3), INTERLEAVED])
    held = [r for r in results if r.status == "evaluated"]
    directory = write_run(tmp_path / "run", held)
    exported = directory / "banking.json"
    assert main(["export", "tau2", str(directory), "-o", str(exported)]) == 0
    info = json.loads(exported.read_text())["info"]
    assert info["retrieval_config"] == "bm25_grep"
    assert info["environment_info"]["policy"]
    evaluate_trajectories(exported, tmp_path / "again")
    assert message(tmp_path / "again" / "updated_banking.json") == message(exported)
    assert {reward["reward"] for reward in message(exported).values()} <= {0.0, 1.0}


def message(path: Path) -> dict[tuple[str, int], dict[str, Any]]:
    """Return what a file says of each trial's reward."""
    found = json.loads(path.read_text(encoding="utf-8"))["simulations"]
    return {(s["task_id"], s["trial"]): {k: v for k, v in s["reward_info"].items() if k != "info"} for s in found}


def test_a_rescored_trial_has_the_documents_that_it_had(run_trials: RunTrials) -> None:
    from pytest_a2a_bench.benchmarks.tau2.evaluate import rescore

    [result] = run_trials("oracle", settings(retrieval="grep_only"), [INTERLEAVED])
    assert rescore(result, settings(retrieval="no_knowledge")).value == result.reward == 1.0


def test_no_trial_leaves_anything_to_the_next(run_trials: RunTrials) -> None:
    # Upstream's telecom shares its VPN between environments (issue 154).
    keys = sample("telecom", 12)

    def rewards(results: list[TrialResult]) -> list[float]:
        return [r.reward for r in results]

    assert rewards(run_trials("noop", settings(), keys)) == rewards(run_trials("noop", settings(), keys[::-1]))[::-1]
