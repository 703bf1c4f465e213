"""What an assessment may cost in time, money, steps and size, and what comes of one that wants more."""

import re
import socket
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from assessor_server import LOCAL, Caller, asking, gen3, saying, served, wait_for_end
from builtin_server import served as agent_served
from raw_agent import Request, raw_agent, stream_head

from pytest_a2a_bench.a2a import client
from pytest_a2a_bench.assessor import assessment, executor
from pytest_a2a_bench.assessor.terms import Terms
from pytest_a2a_bench.config.settings import Settings


@pytest.mark.slow
def test_waiting_for_an_agent_is_said_and_ends_with_the_time(tmp_path: Path) -> None:
    gone = "http://127.0.0.1:9/"
    with served(Terms(tmp_path / "r", guard=LOCAL, seconds=6)) as url:
        with asking(Caller(url), gen3(gone, domain="mock", wait=600), f"waiting for the agent at {gone}") as received:
            pass
    assert (received.state, "cannot connect" in received.text) == ("failed", True), received


@pytest.mark.slow
@pytest.mark.parametrize("domain", ["mock", "conformance"])
def test_no_assessment_is_longer_than_allowed(tmp_path: Path, domain: str) -> None:
    with agent_served("oracle?latency=600") as agent, served(Terms(tmp_path / "r", guard=LOCAL, seconds=1)) as url:
        received = Caller(url).ask(gen3(agent.url, domain=domain))
        kept = wait_for_end(tmp_path / "r", received)
    assert (received.state, kept["state"], received.artifacts) == ("failed", "failed", []), received
    assert re.fullmatch(r"stopped after \d+ of \d+ .* passed.*: it took longer than the 1 s .*", received.text), (
        received.text
    )
    assert not list((tmp_path / "r" / received.task).glob("conformance.json"))


def test_no_assessment_costs_more_than_allowed(tmp_path: Path) -> None:
    terms = Terms(tmp_path / "r", guard=LOCAL, cost=0.5)
    with raw_agent(saying("I transfer you.", cost_usd=0.2, input_tokens=5)) as agent, served(terms) as url:
        received = Caller(url).ask(gen3(agent.url, domain="mock", concurrency=1))
        numbers = Caller(url).numbers()
    assert (received.state, received.artifacts) == ("failed", []), received
    assert "it cost more than the $0.5 that this assessor allows" in received.text
    done = int(received.text.split("stopped after ")[1].split()[0])
    # Three turns of the first trial cost $0.6, and no second one begins.
    assert done == 1
    cost = float(numbers["a2a_assessor_cost_dollars_total"])
    assert cost == pytest.approx(0.6)
    assert numbers['a2a_assessor_tokens_total{direction="input",of="agent"}'] == round(cost / 0.2) * 5


@pytest.mark.slow
def test_no_conversation_has_more_steps_than_allowed(tmp_path: Path) -> None:
    with (
        raw_agent(saying("Wait.")) as agent,
        served(Terms(tmp_path / "r", guard=LOCAL, settings=Settings(max_steps=2))) as url,
    ):
        received = Caller(url).ask(gen3(agent.url, domain="mock", task_ids=["create_task_1"]))
        turns = Caller(url).ask(gen3(agent.url, domain="mini", num_tasks=1))
    assert received.state == turns.state == "completed"
    assert received.result["failures"] == {"max_steps": 1}
    [entry] = turns.result["results"]
    assert (entry["termination_reason"], entry["num_turns"]) == ("max_turns", 2)
    assert (turns.result["pass_rate"], turns.result["errors"]["count"]) == (0, 0)


# --- while it runs ----------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_a_waiting_caller_gets_an_event_every_20_seconds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert executor.SILENCE + executor._TICK < 20
    monkeypatch.setattr(executor, "SILENCE", 0.05)
    with raw_agent(Endless(lambda: False)) as agent, served(Terms(tmp_path / "r", guard=LOCAL)) as url:
        with asking(Caller(url), gen3(agent.url, domain="mock", num_tasks=1)) as received:
            # The agent says nothing, and nothing changes.
            while sum("0 of 1 trials done" in text for _, text in received.updates) < 4:
                time.sleep(0.02)
            Caller(url).cancel(received.task)
    assert received.state == "canceled"


class Endless:
    """An agent that answers as long as it is received to, and then only says that it is still there."""

    def __init__(self, answers: Callable[[], bool]) -> None:
        self._answers, self._lock = answers, threading.Lock()
        self.asked = threading.Event()
        self.open = 0

    def __call__(self, request: Request) -> bytes | Iterator[bytes]:
        return saying("I transfer you.")(request) if self._answers() else self._go_on()

    def _go_on(self) -> Iterator[bytes]:
        with self._lock:
            self.open += 1
        self.asked.set()
        try:
            yield stream_head()
            while True:  # until the other side closes
                yield b": wait\n\n"
                time.sleep(0.02)
        finally:
            with self._lock:
                self.open -= 1


@pytest.mark.parametrize("domain", ["mock", "conformance"])
def test_a_cancellation_leaves_results_and_no_connection(tmp_path: Path, domain: str) -> None:
    stored = tmp_path / "r"
    config = {} if domain == "conformance" else {"concurrency": 1}
    agent_ = Endless(lambda: domain != "conformance" and not list(stored.glob("*/trials/*.json")))
    with raw_agent(agent_) as agent, served(Terms(stored, guard=LOCAL)) as url:
        with asking(Caller(url), gen3(agent.url, domain=domain, **config), "") as received:
            assert agent_.asked.wait(120)
            assert Caller(url).cancel(received.task) == "TASK_STATE_CANCELED"
            while agent_.open:
                time.sleep(0.02)
            kept = wait_for_end(stored, received)
    assert (received.state, kept["state"], received.artifacts) == ("canceled", "canceled", [])
    trials = list((stored / received.task / "trials").glob("*.json"))
    assert len(trials) >= (domain != "conformance")


@pytest.mark.parametrize("domain", ["mock", pytest.param("conformance", marks=pytest.mark.slow)])
def test_canceling_needs_no_card(tmp_path: Path, oracle_url: str, monkeypatch: pytest.MonkeyPatch, domain: str) -> None:
    for module, name in ((client, "_CARD_SECONDS"), (assessment, "_ANSWER_SECONDS")):
        monkeypatch.setattr(module, name, 300.0)
    terms = Terms(tmp_path / "r", guard=LOCAL, at_once=1)
    with socket.create_server(("127.0.0.1", 0)) as silent, served(terms) as url:
        request = gen3(f"http://127.0.0.1:{silent.getsockname()[1]}/", domain=domain)
        with asking(Caller(url), request, "") as received, silent.accept()[0] as card:
            assert card.recv(9) == b"GET /.wel"
            assert Caller(url).cancel(received.task) == "TASK_STATE_CANCELED"
            # Long before it is given up for its silence, and its place, the only one, is another's.
            card.settimeout(100)
            while card.recv(4096):
                pass
            again = gen3(oracle_url, domain="mock", num_tasks=1, tag_trials=True)
            assert Caller(url).ask(again).state == "completed"
    assert received.state == "canceled"


def test_an_agent_that_goes_away_is_an_error_and_no_score(tmp_path: Path) -> None:
    with raw_agent(lambda _: None) as agent, served(Terms(tmp_path / "r", guard=LOCAL)) as url:
        received = Caller(url).ask(gen3(agent.url, domain="mock", num_tasks=1))
    assert (received.state, received.artifacts) == ("failed", [])
    assert received.text.startswith("Agent error: none of 1 trials could be evaluated")
