"""The agents as people start them: ``adk api_server`` and A2A, a model behind LiteLLM, and a restart in between.

What comes of it is what a run of pytest over the same tasks comes to.
"""

import contextlib
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

pytest.importorskip("google.adk", reason="the extra adk is not installed")

from assessor_server import Caller
from builtin_server import served
from fake_llm import FakeLLM, Step, call, say, status

from pytest_a2a_bench.adk.options import AdkOptions
from pytest_a2a_bench.adk.runs import Runs
from pytest_a2a_bench.cli.main import main
from pytest_a2a_bench.conformance.catalogue import requirement
from pytest_a2a_bench.platforms.process import free_port
from pytest_a2a_bench.results import manifest

pytestmark = pytest.mark.slow

PYTHON = str(Path(sys.prefix, "bin", "python"))
AIRLINE = ["41", "42", "43"]
MINI = ["handle_time-00", "case_routing-01", "private_customer_information-02"]

THEIRS = {
    "CARD-013": "google-adk: to_a2a serves the card without Cache-Control",
    "SEND-009": "google-adk: to_a2a has no validate_input_modes, and answers parts of any media type",
    "VAL-006": "a2a-sdk 1.3: a part without content is let through",
    "VAL-010": "a2a-sdk 1.3: base64 that is none is let through",
    "LIST-013": "a2a-sdk 1.3: an unknown status is no error",
    "VER-004": "a2a-sdk 1.3: 1.5 passes for 1.0",
}
"""What our conformance suite finds on the agent as it is served, and whose it is. None of it is ours."""


class Model:
    """A model behind an OpenAI-compatible server, which says a test's lines in order."""

    def __init__(self) -> None:
        self.lines: list[Step | Callable[[str], Step]] = []
        self.llm = FakeLLM(self._next)

    def _next(self, request: dict[str, Any]) -> Step:
        if not self.lines:
            return status(500)
        line = self.lines.pop(0)
        return line(_run_id(request)) if callable(line) else line

    @property
    def environ(self) -> dict[str, str]:
        return {"OPENAI_API_BASE": self.llm.api_base, "OPENAI_API_KEY": "sk-of-nobody"}


def _run_id(request: dict[str, Any]) -> str:
    """Return the run_id that a tool returned, as the conversation of the request has it."""
    for message in request["messages"]:
        if message["role"] == "tool" and '"run_id"' in str(message["content"]):
            return str(json.loads(message["content"])["run_id"])
    raise AssertionError("no tool returned a run_id")


@pytest.fixture
def model() -> Iterator[Model]:
    found = Model()
    yield found
    found.llm.close()


@contextlib.contextmanager
def program(*arguments: str, url: str, environ: dict[str, str]) -> Iterator[subprocess.Popen[bytes]]:
    """Start a server, wait until something answers, and kill it afterwards, as a restart does."""
    process = subprocess.Popen(
        [PYTHON, *arguments], env={**os.environ, **environ}, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE
    )
    try:
        while True:
            with contextlib.suppress(httpx.TransportError):
                httpx.get(url, trust_env=False)
                break
            assert process.poll() is None, process.stderr and process.stderr.read().decode()[-3000:]
            time.sleep(0.1)
        yield process
    finally:
        process.kill()
        process.communicate(timeout=30)


def begins(domain: str, agent: str, ids: list[str]) -> list[Step | Callable[[str], Step]]:
    return [
        call("register_agent", {"endpoint": agent}),
        call("task_selector", {"domain": domain, "request": "these", "count": len(ids)}),
        say(json.dumps({"task_ids": ids, "reasoning": "they fit"})),
        call("run_evaluation", {"domain": domain, "a2a_endpoint": agent, "task_ids": ids, "max_steps": 30}),
        say("It goes on."),
    ]


def ends(passed: int) -> list[Step | Callable[[str], Step]]:
    words = {"summary": f"{passed + 90} passed", "key_findings": [], "recommendations": []}
    return [
        lambda run_id: call("get_evaluation_status", {"run_id": run_id}),
        lambda run_id: call("results_interpreter", {"run_id": run_id}),
        say(json.dumps(words)),
        say("That is what it means."),
    ]


def numbers(directory: Path) -> dict[str, tuple[Any, ...]]:
    """Return what must be equal of a run's trials."""
    results = manifest.load_selected(directory).results
    return {str(r.key): (r.reward, r.status, r.turns, r.termination_reason, r.seed, r.fingerprint) for r in results}


def of_pytest(
    pytester: pytest.Pytester, agent: str, suite: str, ids: list[str], *more: str
) -> dict[str, tuple[Any, ...]]:
    run = pytester.runpytest_subprocess(
        f"--a2a-endpoint={agent}", "--a2a-set=tag-trials=on", f"--a2a-suite={suite}", *more,
        "--a2a-results=direct", "--a2a-concurrency=4", "-k", " or ".join(f"{task}-t0" for task in ids),
    )  # fmt: skip
    assert run.ret == 0, run.stdout.str()
    return numbers(pytester.path / "direct")


class AdksServer:
    """``adk api_server`` over a folder of ours, and sessions with the agent."""

    def __init__(self, place: Path, *arguments: str) -> None:
        folder = place / "agents"
        given = ("--model", "openai/scripted", "--results", str(place / "results"), "--tag-trials", "on", *arguments)
        assert main(["adk", "new", str(folder), *given]) == 0
        port = free_port()
        sessions = f"sqlite:///{place / 'sessions.db'}"
        self._url = f"http://127.0.0.1:{port}"
        self.answers = f"{self._url}/list-apps"
        self.command = ("-m", "google.adk.cli", "api_server", f"--port={port}",
                        f"--session_service_uri={sessions}", str(folder))  # fmt: skip

    def begin(self, session: str) -> None:
        assert httpx.get(self.answers, trust_env=False).json() == ["tau2_evaluator"]
        place = f"{self._url}/apps/tau2_evaluator/users/u/sessions/{session}"
        assert httpx.post(place, json={}, trust_env=False).status_code == 200

    def say(self, session: str, text: str) -> str:
        where = {"app_name": "tau2_evaluator", "user_id": "u", "session_id": session}
        body = {**where, "new_message": {"role": "user", "parts": [{"text": text}]}}
        answer = httpx.post(f"{self._url}/run", json=body, timeout=None, trust_env=False)
        assert answer.status_code == 200, answer.text
        return answer.text


DOMAINS = (("airline", AIRLINE, ("--a2a-set=max-steps=30",)), ("mini", MINI, ()))


def compare(results: Path, pytester: pytest.Pytester, agent: str) -> None:
    """Find the runs' numbers to be those of pytest."""
    runs = [path.parent for path in results.glob("*/assessment.json")]
    ours = {next(iter(found)).split("/")[1]: found for found in map(numbers, runs)}
    assert len(runs) == len(DOMAINS)
    assert ours == {domain: of_pytest(pytester, agent, domain, ids, *more) for domain, ids, more in DOMAINS}


def test_over_adks_own_server(model: Model, oracle_url: str, pytester: pytest.Pytester) -> None:
    server = AdksServer(pytester.path, "--wait", "60")
    with program(*server.command, url=server.answers, environ=model.environ):
        for domain, ids, _ in DOMAINS:
            model.lines = begins(domain, oracle_url, ids)
            server.begin(domain)
            assert "It goes on." in server.say(domain, "evaluate it")
    with program(*server.command, url=server.answers, environ=model.environ):
        for domain, *_ in DOMAINS:
            model.lines = ends(3)
            # Whatever the model says: the numbers are those of the files.
            assert f"{domain}: 3 of 3 trials passed" in server.say(domain, "how is it?")
            assert model.lines == []
    compare(pytester.path / "results", pytester, oracle_url)


def cancels(domain: str, agent: str, ids: list[str]) -> list[Step | Callable[[str], Step]]:
    return [
        call("run_evaluation", {"domain": domain, "a2a_endpoint": agent, "task_ids": ids, "max_steps": 30}),
        lambda run_id: call("get_evaluation_status", {"run_id": run_id}),
        lambda run_id: call("cancel_evaluation", {"run_id": run_id}),
        say("It is canceled."),
    ]


def state_of(directory: Path) -> str:
    return str(json.loads((directory / "assessment.json").read_text())["state"])


def serving(port: int, results: Path, *arguments: str) -> tuple[str, ...]:
    return ("-m", "pytest_a2a_bench.cli", "adk", "serve", f"--port={port}", "--model=openai/scripted",
            f"--results={results}", "--tag-trials=on", *arguments)  # fmt: skip


def test_canceling_over_a2a_is_the_callers_own(model: Model, tmp_path: Path) -> None:
    results, port = tmp_path / "results", free_port()
    url = f"http://127.0.0.1:{port}/"
    tokens = {"CALLERS": "ann=the-token-of-ann-1,bob=the-token-of-bob-2"}
    ann, bob = Caller(url, "the-token-of-ann-1"), Caller(url, "the-token-of-bob-2")
    command = serving(port, results, "--wait=0.1", "--auth-env=CALLERS")
    card = f"{url}.well-known/agent-card.json"
    with served("noop?latency=60") as agent, program(*command, url=card, environ={**model.environ, **tokens}):
        model.lines = [*cancels("airline", agent.url, AIRLINE)[:1], say("It goes on.")]
        ann.ask("evaluate it")
        [run_id] = [path.parent.name for path in results.glob("*/assessment.json")]
        refused = len(model.llm.requests)
        model.lines = [call("cancel_evaluation", {"run_id": run_id}), call("results_interpreter", {"run_id": run_id}),
                       say("That was nothing.")]  # fmt: skip
        bob.ask("stop hers")
        heard = json.dumps(model.llm.requests[refused:])
        assert heard.count(f"there is no evaluation '{run_id}'; there are none yet") >= 2
        assert state_of(results / run_id) in ("waiting", "running")
        model.lines = [call("get_evaluation_status", {"run_id": run_id}), say("It runs.")]
        ann.ask("how is it?")
        assert '"status": "running"' in json.dumps(model.llm.requests[-1]).replace("\\", "")
        model.lines = [call("cancel_evaluation", {"run_id": run_id}), say("It is canceled.")]
        ann.ask("stop it")
        model.lines = cancels("mini", agent.url, MINI)
        ann.ask("evaluate it, and stop")
        assert model.lines == []
    assert {state_of(path.parent) for path in results.glob("*/assessment.json")} == {"canceled"}


def test_over_a2a(model: Model, oracle_url: str, pytester: pytest.Pytester) -> None:
    results = pytester.path / "results"
    port = free_port()
    url = f"http://127.0.0.1:{port}/"
    command = serving(port, results, "--wait=60")
    card = f"{url}.well-known/agent-card.json"
    caller = Caller(url)
    received = {}
    with program(*command, url=card, environ=model.environ):
        for domain, ids, _ in DOMAINS:
            model.lines = begins(domain, oracle_url, ids)
            received[domain] = caller.ask("evaluate it")
            assert received[domain].state == "completed"
            assert "It goes on." in json.dumps(received[domain].artifacts)
    with program(*command, url=card, environ=model.environ):
        for first in received.values():
            model.lines = ends(3)
            # The task of the first process is still there; the conversation goes on in its context.
            assert caller.get(first.task).state == "completed"
            again = caller.ask_in(first.context, "how is it?")
            assert again.state == "completed"
            assert "That is what it means." in json.dumps(again.artifacts)
            assert model.lines == []
    compare(results, pytester, oracle_url)


def test_conformance_finds_nothing_of_ours(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    port = free_port()
    url = f"http://127.0.0.1:{port}/"
    with FakeLLM(lambda request: say("Which agent?")) as llm:
        environ = {"OPENAI_API_BASE": llm.api_base, "OPENAI_API_KEY": "sk-of-nobody"}
        card = f"{url}.well-known/agent-card.json"
        with program(*serving(port, tmp_path / "results"), url=card, environ=environ):
            main(["check", url, "--format", "json"])
    report = json.loads(capsys.readouterr().out)
    found = {one["id"] for one in report["results"] if one["status"] in ("failed", "warned", "error")}
    assert {(one["version"], one["binding"]) for one in report["results"] if one["status"] == "passed"} >= {
        ("1.0", "JSONRPC"),
        ("0.3", "JSONRPC"),
    }
    assert found <= set(THEIRS), {one: requirement(one).text for one in found - set(THEIRS)}


def test_the_protocol_is_evaluated_as_tasks_are(tmp_path: Path, noop_url: str) -> None:
    from adk_talk import answers, make_evaluator, scripted, talk

    options = AdkOptions(results=tmp_path / "results", wait=60)
    runs = Runs(options)
    run_id = runs.start("conformance", noop_url, []).record.name
    words = '{"summary": "It is good.", "key_findings": [], "recommendations": []}'
    model = scripted(
        ("get_evaluation_status", {"run_id": run_id}), ("results_interpreter", {"run_id": run_id}), words, "Done."
    )
    events = talk(make_evaluator(runs=runs, model=model), options.results, "how is it?")
    runs.close()
    assert answers(events, "get_evaluation_status")[0]["status"] == "completed"
    assert "kept by pytest-a2a-bench noop" in answers(events, "results_interpreter")[0]["numbers"]
