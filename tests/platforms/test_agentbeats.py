"""AgentBeats' own programs against the assessor, and public agents made for it, all as they are published.

They are not part of this repository: ``A2A_AGENTBEATS`` names a directory with their checkouts, each with a ``.venv``
of its own (docs/guides/platforms.md says which). The agents' model is scripted; everything else is real.
"""

import contextlib
import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import httpx
import pytest
from assessor_server import Program, program
from fake_llm import FakeLLM, Step, say
from harness import wait_for

from pytest_a2a_bench.benchmarks.registry import Gold
from pytest_a2a_bench.benchmarks.tau2.index import load_task_json
from pytest_a2a_bench.benchmarks.tau2.player import read_gold
from pytest_a2a_bench.benchmarks.tau2.user.scenario import Scenario
from pytest_a2a_bench.platforms.process import free_port
from pytest_a2a_bench.results import manifest

VARIABLE = "A2A_AGENTBEATS"
CHECKOUTS = Path(os.environ.get(VARIABLE, ""))

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(VARIABLE not in os.environ, reason=f"{VARIABLE} names no directory with AgentBeats' checkouts"),
]

DOMAIN, TASKS = "airline", ("12", "14", "16", "19", "20", "30")
REFUSED = ("16", "20")
"""Tasks that the model does nothing for, so that there is something to tell apart."""

CONFIG = {"domain": DOMAIN, "task_ids": list(TASKS), "concurrency": 1}


# --- the model --------------------------------------------------------------------------------------------------------


class Model:
    """What the agents' model says: the reference solution of the task whose user it hears, a step at a time.

    It keeps nothing. Whatever the prompts of an agent look like, they show what its user said and what it did last.
    """

    def __init__(self) -> None:
        raw = {task: load_task_json(DOMAIN, task) for task in TASKS}
        self._golds = {task: read_gold(raw[task]) for task in TASKS}
        self._heard = {task: _squeeze(_opening(raw[task])) for task in TASKS}

    def __call__(self, request: dict[str, Any]) -> Step:
        texts = list(_texts(request["messages"]))
        done = [action for action in map(_read, texts) if action is not None]
        calls = [action for action in done if action["name"] != "respond"]
        gold = self._find(_squeeze(" ".join(texts)), calls)
        step = _place(gold, calls) if gold is not None else None
        if gold is None or step is None or any(action["name"] == "respond" for action in done):
            answer = gold.closing if gold is not None else "I cannot help you with that."
            return say(json.dumps({"name": "respond", "arguments": {"content": answer}}))
        call = gold.calls[step]
        return say(json.dumps({"name": call.name, "arguments": call.arguments}))

    def _find(self, text: str, calls: Sequence[Mapping[str, Any]]) -> Gold | None:
        heard = [task for task, opening in self._heard.items() if opening in text]
        # Agents that show a model the end of a conversation only show what was done last.
        found = heard or [task for task, gold in self._golds.items() if calls and _place(gold, calls[-1:]) != 0]
        return None if not found or found[0] in REFUSED else self._golds[found[0]]


def _place(gold: Gold, calls: Sequence[Mapping[str, Any]]) -> int | None:
    """Return which call of a solution is next after those; None where all are done."""
    if not calls:
        return 0 if gold.calls else None
    last = calls[-1]
    at = [i for i, call in enumerate(gold.calls) if (call.name, call.arguments) == (last["name"], last["arguments"])]
    following = at[-1] + 1 if at else 0
    return following if following < len(gold.calls) else None


def _opening(task: Mapping[str, Any]) -> str:
    said = task["user_scenario"]["instructions"]
    return Scenario.of(said if isinstance(said, str) else SimpleNamespace(**said)).opening()


def _texts(value: Any) -> Iterator[str]:
    """Yield every text in a request, those inside JSON texts too."""
    if isinstance(value, Mapping):
        for one in value.values():
            yield from _texts(one)
    elif isinstance(value, list):
        for one in value:
            yield from _texts(one)
    elif isinstance(value, str):
        yield value
        with contextlib.suppress(ValueError):
            read = json.loads(value)
            if isinstance(read, Mapping) and not {"name", "arguments"} <= set(read):
                yield from _texts(read)


def _read(text: str) -> dict[str, Any] | None:
    """Read an action that an agent took, where a text is one."""
    with contextlib.suppress(ValueError):
        found = json.loads(text)
        if isinstance(found, dict) and {"name", "arguments"} <= set(found):
            return found
    return None


def _squeeze(text: str) -> str:
    return re.sub(r"\W+", " ", text)


# --- who is there -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Purple:
    """A public agent.

    :param folder: of its checkout, in which its program is started.
    :param environ: how it is told its model; ``{base}`` is the URL of the model's server.
    """

    folder: str
    program: str
    environ: Mapping[str, str]
    arguments: tuple[str, ...] = ()


PURPLE = {
    "tutorial": Purple(
        "agentbeats-tutorial",
        "scenarios/tau2/tau2_agent.py",
        {"OPENAI_API_BASE": "{base}", "OPENAI_API_KEY": "scripted"},
        ("--agent-llm", "openai/scripted"),
    ),
    "VlaTz": Purple(
        "VlaTz-tau2-agentbeats-base-purple",
        "src/server.py",
        {"OPENAI_API_BASE": "{base}", "OPENAI_API_KEY": "scripted", "AGENT_LLM": "scripted"},
    ),
    "vvvgo": Purple(
        "vvvgo-tau2-purple-agent",
        "src/server.py",
        {"OPENAI_BASE_URL": "{base}", "OPENAI_API_KEY": "scripted", "AGENT_MODEL": "scripted"},
    ),
}


def python_of(folder: str) -> str:
    """Return the Python of a checkout's own environment; what is not there is not tried."""
    found = CHECKOUTS / folder / ".venv" / "bin" / "python"
    if not found.exists():
        pytest.skip(f"{found} is not there: make the checkout's environment (uv sync, or python -m venv and pip)")
    return str(found)


def answers(url: str) -> bool:
    try:
        return httpx.get(url, timeout=5).status_code == 200
    except httpx.HTTPError:
        return False


@contextlib.contextmanager
def process(
    command: Sequence[str], cwd: Path, environ: Mapping[str, str], log: Path
) -> Iterator[subprocess.Popen[str]]:
    """Run a program as long as the context lasts; its output is in ``log``."""
    # Of this process's environment it has what finds programs; no proxy, and nobody's keys.
    environ = {"PATH": os.environ["PATH"], "HOME": str(log.parent), "PYTHONUNBUFFERED": "1", **environ}
    with log.open("w") as output:
        running = subprocess.Popen(command, cwd=cwd, env=environ, stdout=output, stderr=output, text=True)
        try:
            yield running
        finally:
            running.terminate()
            try:
                running.wait(20)
            except subprocess.TimeoutExpired:
                running.kill()
                running.wait(20)


@pytest.fixture(scope="module")
def base() -> Iterator[str]:
    with FakeLLM(Model()) as llm:
        yield llm.api_base


@pytest.fixture(scope="module")
def assessor(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Program]:
    with program(tmp_path_factory.mktemp("agentbeats") / "results") as found:
        yield found


@pytest.fixture(params=list(PURPLE))
def agent(request: pytest.FixtureRequest, base: str, tmp_path: Path) -> Iterator[str]:
    """A public agent that is started, and its URL."""
    purple, port = PURPLE[request.param], free_port()
    command = [python_of(purple.folder), purple.program, "--host", "127.0.0.1", "--port", str(port), *purple.arguments]
    environ = {name: value.format(base=base) for name, value in purple.environ.items()}
    log = tmp_path / "agent.log"
    with process(command, CHECKOUTS / purple.folder, environ, log) as running:
        url = f"http://127.0.0.1:{port}"
        wait_for(lambda: answers(f"{url}/.well-known/agent-card.json") or running.poll() is not None)
        assert running.poll() is None, log.read_text()[-3000:]
        yield url


def direct(agent: str, pytester: pytest.Pytester) -> dict[str, float]:
    """Run the same tasks by pytest, and return their rewards."""
    chosen = " or ".join(f"[{task}-t0]" for task in TASKS)
    run = pytester.runpytest_subprocess(
        f"--a2a-endpoint={agent}",
        f"--a2a-suite={DOMAIN}",
        "--a2a-dialect=agentbeats",
        "--a2a-results=direct",
        "-k",
        chosen,
        timeout=540,
    )
    results = manifest.load_selected(pytester.path / "direct").results
    assert len(results) == len(TASKS), run.stdout.str()[-3000:]
    return {result.key.task_id: result.reward for result in results if result.status == "evaluated"}


# --- what is seen -----------------------------------------------------------------------------------------------------


def by_the_tutorial(green: str, agent: str, tmp_path: Path) -> dict[str, Any]:
    """Ask as the tutorial's client does, and return what it wrote for a leaderboard."""
    scenario, written = tmp_path / "scenario.toml", tmp_path / "results" / "out.json"
    config = "\n".join(f"{name} = {json.dumps(value)}" for name, value in CONFIG.items())
    scenario.write_text(
        f'[green_agent]\nendpoint = "{green}"\n\n[[participants]]\nrole = "agent"\nendpoint = "{agent}"\n'
        f'agentbeats_id = "0190-agent"\n\n[config]\n{config}\n'
    )
    folder = CHECKOUTS / "agentbeats-tutorial"
    log = tmp_path / "client.log"
    command = [python_of("agentbeats-tutorial"), "-m", "agentbeats.client_cli", str(scenario), str(written)]
    with process(command, folder, {"PYTHONPATH": "src"}, log) as client:
        assert client.wait(540) == 0, log.read_text()[-3000:]
    assert "[Status: working]" in log.read_text()
    found: dict[str, Any] = json.loads(written.read_text())
    return found


def by_the_gateway(green: str, agent: str, tmp_path: Path) -> dict[str, Any]:
    """Ask as the gateway does, with its proxy before the agent, and return what it answers at its results' port."""
    proxy, results = free_port(), free_port()
    environ = {
        "SERVICE_URLS": json.dumps({"green": {"url": green}, "slot-1": {"url": agent}}),
        "PARTICIPANT_ROLES": json.dumps({"slot-1": "agent", "green": "green"}),
        "ASSESSMENT_CONFIG": json.dumps(CONFIG),
    }
    ports = ["--proxy-port", str(proxy), "--results-port", str(results)]
    command = [python_of("agentbeats-gateway"), "src/main.py", *ports]
    log = tmp_path / "gateway.log"
    with process(command, CHECKOUTS / "agentbeats-gateway", environ, log) as gateway:
        found: dict[str, Any] = {"status": "running"}

        def has_ended() -> bool:
            assert gateway.poll() is None, log.read_text()[-3000:]
            with contextlib.suppress(httpx.HTTPError):
                found.update(httpx.get(f"http://127.0.0.1:{results}/", timeout=5).json())
            return bool(found["status"] != "running")

        wait_for(has_ended, 540)
    assert "PROXY agent/" in log.read_text(), "the agent was not asked through the gateway"
    return found


def test_their_clients_have_a_public_agent_assessed(
    agent: str, assessor: Program, pytester: pytest.Pytester, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    for folder in ("agentbeats-tutorial", "agentbeats-gateway"):
        python_of(folder)
    green = assessor.url.rstrip("/")
    leaderboard = by_the_tutorial(green, agent, tmp_path)
    served = by_the_gateway(green, agent, tmp_path)
    rewards = direct(agent, pytester)
    assert leaderboard["participants"] == {"agent": "0190-agent"}
    assert served["status"] == "completed"
    for found in (leaderboard["results"], served["results"]):
        [result] = found
        assert result["task_rewards"] == rewards
        assert (result["score"], result["max_score"]) == (sum(rewards.values()), len(TASKS))
        assert result["errors"]["count"] == 0
    assert all(rewards[task] == 0 for task in REFUSED), "the model does nothing for these"
    assert sum(rewards.values()) > 0, "nothing that the model calls comes through"
    received = f"{request.node.callspec.id}: {sum(rewards.values()):g} of {len(TASKS)}, {rewards}"
    sys.stderr.write(f"\n{received}\n")


def test_the_templates_conformance_tests_pass(assessor: Program, tmp_path: Path) -> None:
    folder = CHECKOUTS / "green-agent-template"
    url = assessor.url.rstrip("/")
    options = ["-q", "-p", "no:cacheprovider", "-o", "asyncio_mode=auto"]
    command = [python_of("green-agent-template"), "-m", "pytest", *options, "tests", f"--agent-url={url}"]
    log = tmp_path / "template.log"
    with process(command, folder, {}, log) as tests:
        assert tests.wait(300) == 0, log.read_text()[-3000:]
    passed = re.search(r"(\d+) passed", log.read_text())
    assert passed is not None
    assert int(passed[1]) >= 3
    assert "skipped" not in log.read_text()
