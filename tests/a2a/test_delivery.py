"""Nobody is blamed for a message that got lost or came twice: trials with an agent behind a network that fails.

The agent works on every message that it gets, however often it gets it, and answers with how many that were in this
context. So a conversation in which one came twice is worth nothing. ``tau2/test_fault_matrix.py`` has all bindings.
"""

import collections
import itertools
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from raw_agent import Answer, Request, raw_agent, response, stream_head

from pytest_a2a_bench import cassettes
from pytest_a2a_bench.a2a.client import AgentConnection
from pytest_a2a_bench.a2a.config import ClientConfig
from pytest_a2a_bench.a2a.requests import RetryPolicy
from pytest_a2a_bench.benchmarks.base import Outcome, TrialContext
from pytest_a2a_bench.config.settings import Settings
from pytest_a2a_bench.errors import InfrastructureError, TransportError
from pytest_a2a_bench.model import Part, Reward, TrialKey, TrialResult
from pytest_a2a_bench.results.store import Store
from pytest_a2a_bench.trials import runner as runner_module
from pytest_a2a_bench.trials.observers import Taped
from pytest_a2a_bench.trials.runner import Runner
from pytest_a2a_bench.trials.trial import Client

TURNS = 3
BEFORE = ("reset before", "503 before", "429 before")
AFTER = ("reset", "502", "503", "504", "cut")


class Counting:
    """Its agent must have heard each message once."""

    name = "counting"

    def run_trial(self, context: TrialContext) -> Outcome:
        said = []
        try:
            for _ in range(TURNS):
                said.append(context.session.send([Part.of_text("count")], context.checkpoint()).text)
        except InfrastructureError as error:
            return Outcome(error=error)
        return Outcome(reward=Reward(float(said == [str(n + 1) for n in range(TURNS)]), note=str(said)))


class Careless(Counting):
    """Catches what goes wrong, sends what comes next, and always finds the agent good."""

    def run_trial(self, context: TrialContext) -> Outcome:
        for _ in range(TURNS):
            try:
                context.session.send([Part.of_text("count")])
            except TransportError:
                continue
        return Outcome(reward=Reward(1.0), simulation={"messages": []})


class Agent:
    """Counts the messages of each context; what it answers may be lost.

    :param choose: the fault of the n-th message, one of ``BEFORE`` or ``AFTER``; empty for none.
    :ivar worked: context and id of each message that it worked on.
    """

    def __init__(self, choose: Callable[[int], str]) -> None:
        self._choose, self._numbers = choose, itertools.count(1)
        self.worked: list[tuple[str, str]] = []

    def __call__(self, request: Request) -> Answer:
        fault = self._choose(next(self._numbers))
        is_rpc = "jsonrpc" in request.json
        if "before" not in fault:
            message = (request.json["params"] if is_rpc else request.json)["message"]
            context = message.get("contextId") or f"context-{len(self.worked)}"
            self.worked.append((context, message["messageId"]))
            text = str([known for known, _ in self.worked].count(context))
            said = {"messageId": "m", "role": "ROLE_AGENT", "contextId": context, "parts": [{"text": text}]}
            result: Any = {"message": said}
            answer = {"jsonrpc": "2.0", "id": request.json["id"], "result": result} if is_rpc else result
        if not fault:
            return response(answer)
        if fault == "cut":
            return [stream_head("application/json"), json.dumps(answer)[:-8].encode()]
        return None if "reset" in fault else response("down", f"{fault[:3]} Down", "text/plain", Retry_After="0")


Hold = Callable[..., tuple[list[TrialResult], Agent]]


@pytest.fixture
def hold(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Hold:
    """Hold trials with an agent whose answers meet faults; the function returns their results and the agent."""
    monkeypatch.setattr(runner_module, "_PAUSE", RetryPolicy(base=0.001, maximum=0.01))
    runs = itertools.count()

    def run(
        choose: Callable[[int], str],
        count: int = 1,
        *,
        binding: str = "JSONRPC",
        benchmark: Any = None,
        tapes: Any = None,
        **options: Any,
    ) -> tuple[list[TrialResult], Agent]:
        monkeypatch.setattr(runner_module, "get_benchmark", lambda name: benchmark or Counting())
        agent = Agent(choose)
        with raw_agent(agent) as served:
            served.card["supportedInterfaces"][0]["protocolBinding"] = binding
            # A streamed answer that breaks off is asked for; nothing of a blocking one is known.
            config = ClientConfig(served.url, streaming="off", timeout=30.0, backoff_base=0.01)
            with AgentConnection(config) as connection:
                settings = Settings(endpoint=served.url, timeout=30.0, **options)
                observers = [Taped(tapes)] if tapes else []
                runner = Runner(settings, Client(connection), Store(tmp_path), str(next(runs)), observers)
                return [runner.run(TrialKey("counting", "desk", str(n))) for n in range(count)], agent

    return run


def assert_delivered_once(agent: Agent) -> None:
    assert agent.worked
    assert [message for message, times in collections.Counter(agent.worked).items() if times > 1] == []


@pytest.mark.parametrize("binding", ["JSONRPC", "HTTP+JSON"])
def test_no_message_is_delivered_twice_and_no_reward_is_wrong(hold: Hold, binding: str) -> None:
    kinds: Iterator[str] = itertools.cycle((*AFTER, *BEFORE))
    results, agent = hold(lambda n: next(kinds) if n % (TURNS + 1) == 2 else "", 10, binding=binding)
    assert [(r.status, r.error) for r in results if not r.success] == []
    assert_delivered_once(agent)
    again = {reason for r in results for reason in r.held_again}
    # A 503 that asks to come again is no promise; only after 429 the message is sent again within the conversation.
    assert again == {"reset after delivery", "HTTP 502", "HTTP 503", "HTTP 504", "answer broken off"}
    assert sum(r.wire.retries for r in results) > 0
    for result in results:
        # What was abandoned is still accounted for: its requests have another context or none.
        assert len({m.context_id for m in result.metrics if m.context_id}) <= len(result.held_again) + 1
        assert sum(m.error is not None for m in result.metrics) >= len(result.held_again)
        assert len(result.turn_latencies) == TURNS


@pytest.mark.parametrize("redeliver", [0, 1, 2])
def test_after_so_many_times_it_is_an_error_of_its_own(hold: Hold, redeliver: int) -> None:
    [result], agent = hold(lambda n: "502", redeliver=redeliver)
    assert (result.status, result.error_type) == ("infrastructure_error", "DeliveryUncertain")
    assert result.held_again == ("HTTP 502",) * redeliver
    assert result.reward_info is None
    assert len(agent.worked) == len(result.metrics) == redeliver + 1
    assert "the agent may have worked on the message" in str(result.error)
    assert "redeliver" in str(result.error)


@pytest.mark.parametrize("fault", ["502", "reset", "cut"])
def test_a_benchmark_that_overlooks_it_gives_no_reward(hold: Hold, fault: str) -> None:
    results, _ = hold(lambda n: fault if n <= 5 else "", 2, benchmark=Careless())
    assert [(r.status, r.error_type) for r in results] == [
        ("infrastructure_error", "DeliveryUncertain"),
        ("evaluated", None),
    ]
    assert results[0].simulation is None
    assert [len(r.held_again) for r in results] == [2, 2]


def test_only_the_conversation_that_counts_is_recorded(hold: Hold, tmp_path: Path) -> None:
    [result], _ = hold(lambda n: "reset" if n == 2 else "", tapes=cassettes.recorder(tmp_path / "tapes"))
    assert result.success
    [path] = (tmp_path / "tapes").glob("*.json")
    recorded = json.loads(path.read_text())["exchanges"]
    assert "context_id" not in recorded[0]["request"]["message"]
    assert [(e["error"], len(e["events"])) for e in recorded] == [(None, 1)] * TURNS
    [lost], _ = hold(lambda n: "reset", tapes=cassettes.recorder(tmp_path / "none"))
    assert lost.error_type == "DeliveryUncertain"
    assert not (tmp_path / "none").exists()


def test_a_run_that_stops_holds_nothing_again(hold: Hold) -> None:
    class Stopping(Counting):
        def run_trial(self, context: TrialContext) -> Outcome:
            outcome = super().run_trial(context)
            context.cancel.set()
            return outcome

    [result], _ = hold(lambda n: "502", benchmark=Stopping())
    assert (result.error_type, result.held_again) == ("DeliveryUncertain", ())
