"""Nobody is blamed for a message that got lost or came twice: trials through a network that fails, on every binding.

The agent is a2a-sdk's own server, which works on every message that it gets, however often it gets it, and answers with
how many that were in this context. So a conversation in which one came twice is worth nothing.
"""

from __future__ import annotations

import collections
import itertools
import json
import random
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from fault_proxy import AFTER, AFTER_GRPC, BEFORE, Fault, fault_proxy
from scripted import Scripted, scripted_agent

from pytest_a2a_bench import cassettes
from pytest_a2a_bench.a2a.card import load_card
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
TRANSPORTS = ("jsonrpc", "rest", "grpc")
WIRES = [(t, v) for t in TRANSPORTS for v in ("1.0", "0.3")]


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


@pytest.fixture(scope="module")
def agent() -> Iterator[Scripted]:
    with scripted_agent() as running:
        yield running


Choose = Callable[[int], Fault | None]
Hold = Callable[..., list[TrialResult]]


@pytest.fixture
def hold(agent: Scripted, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Hold:
    """Hold trials through a proxy; the function returns their results, and leaves the proxy in ``last``."""

    def run(
        choose: Choose,
        count: int,
        transport: str = "jsonrpc",
        protocol: str = "1.0",
        benchmark: Any = None,
        *,
        timeout: float = 30.0,
        tapes: Any = None,
        **options: Any,
    ) -> list[TrialResult]:
        used = benchmark or Counting()
        monkeypatch.setattr(runner_module, "_PAUSE", RetryPolicy(base=0.001, maximum=0.01))
        monkeypatch.setattr(runner_module, "get_benchmark", lambda name: used)
        agent.executor.received.clear()
        is_grpc = transport == "grpc"
        port = agent.grpc_port if is_grpc else int(agent.url.rpartition(":")[2])
        with fault_proxy(port, choose, grpc=is_grpc) as proxy:
            with AgentConnection(ClientConfig(agent.url)) as direct:
                card = direct.card().raw
            expected = load_card(json.dumps(dict(card)).replace(f":{port}", f":{proxy.port}").encode(), agent.url)
            config = ClientConfig(
                f"http://127.0.0.1:{proxy.port}",
                transport=transport,
                protocol=protocol,
                # A streamed answer that breaks off is asked for; nothing of a blocking one is known.
                streaming="off",
                timeout=timeout,
                backoff_base=0.01,
            )
            settings = Settings(endpoint=config.endpoint, timeout=timeout, **options)
            with AgentConnection(config, expected) as connection:
                observers = [Taped(tapes)] if tapes else []
                runner = Runner(settings, Client(connection), Store(tmp_path), str(len(last)), observers)
                results = [runner.run(TrialKey("counting", "desk", str(n))) for n in range(count)]
            last.append(proxy)
        return results

    last: list[Any] = []
    run.last = last  # type: ignore[attr-defined]
    return run


def every(number: int, faults: tuple[Fault, ...]) -> Choose:
    """Let every so many-th message have a fault, one kind after another."""
    kinds = itertools.cycle(faults)
    return lambda n: next(kinds) if n % number == 2 else None


def assert_delivered_once(agent: Scripted) -> None:
    sent = collections.Counter((m.get("contextId"), m["messageId"]) for m in agent.executor.received)
    assert sent
    assert [message for message, times in sent.items() if times > 1] == []


@pytest.mark.parametrize("transport", TRANSPORTS)
def test_no_message_is_delivered_twice_and_no_reward_is_wrong(hold: Hold, agent: Scripted, transport: str) -> None:
    faults = AFTER_GRPC if transport == "grpc" else (*AFTER, *BEFORE)
    count = 4 if transport == "grpc" else 10
    results = hold(every(TURNS + 1, faults), count, transport)
    assert [(r.status, r.error) for r in results if not r.success] == []
    assert_delivered_once(agent)
    again = collections.Counter(reason for r in results for reason in r.held_again)
    assert again["reset after delivery"] >= 1
    if transport != "grpc":
        assert {"HTTP 502", "HTTP 503", "HTTP 504", "answer broken off"} <= set(again)
    for result in results:
        # What was abandoned is still accounted for: its requests have another context or none.
        assert len({m.context_id for m in result.metrics if m.context_id}) <= len(result.held_again) + 1
        assert sum(m.error is not None for m in result.metrics) >= len(result.held_again)
        assert len(result.turn_latencies) == TURNS


@pytest.mark.parametrize("fault", BEFORE)
def test_an_undelivered_message_is_sent_again_within_the_conversation(
    hold: Hold, agent: Scripted, fault: Fault
) -> None:
    results = hold(lambda n: fault if n == 2 else None, 1)
    assert results[0].success
    assert_delivered_once(agent)
    if fault == "429":
        assert results[0].held_again == ()
        assert results[0].wire.retries == 1


def test_a_503_that_asks_to_come_again_is_no_promise(hold: Hold, agent: Scripted) -> None:
    results = hold(lambda n: "503 retry" if n == 2 else None, 1)
    assert results[0].held_again == ("HTTP 503",)
    assert_delivered_once(agent)


@pytest.mark.parametrize(("redeliver", "held"), [(0, 1), (1, 2), (2, 3)])
def test_after_so_many_times_it_is_an_error_of_its_own(hold: Hold, agent: Scripted, redeliver: int, held: int) -> None:
    [result] = hold(lambda n: "502", 1, redeliver=redeliver)
    assert (result.status, result.error_type) == ("infrastructure_error", "DeliveryUncertain")
    assert result.held_again == ("HTTP 502",) * redeliver
    assert result.reward_info is None
    assert len(agent.executor.received) == held
    assert "the agent may have worked on the message" in str(result.error)
    assert "redeliver" in str(result.error)
    assert len(result.metrics) == held


@pytest.mark.parametrize("fault", ["502", "reset", "cut"])
def test_a_benchmark_that_overlooks_it_gives_no_reward(hold: Hold, fault: Fault) -> None:
    results = hold(lambda n: fault if n <= 5 else None, 2, benchmark=Careless())
    assert [(r.status, r.error_type) for r in results] == [
        ("infrastructure_error", "DeliveryUncertain"),
        ("evaluated", None),
    ]
    assert results[0].simulation is None
    assert [len(r.held_again) for r in results] == [2, 2]


@pytest.mark.parametrize("transport", TRANSPORTS)
def test_a_connection_that_was_forgotten_costs_one_trial(hold: Hold, agent: Scripted, transport: str) -> None:
    results = hold(lambda n: "hang" if n == 1 else None, 4, transport, timeout=1.0, trial_timeout=600.0)
    assert results[0].error_type == "TurnTimeoutError"
    assert results[0].held_again == ()
    assert [r.status for r in results[1:]] == ["evaluated"] * 3
    assert all(r.success for r in results[1:])
    if transport == "grpc":
        assert hold.last[0].connections == 2  # type: ignore[attr-defined]


def test_only_the_conversation_that_counts_is_recorded(hold: Hold, tmp_path: Path) -> None:
    tapes = cassettes.recorder(tmp_path / "tapes")
    [result] = hold(lambda n: "reset" if n == 2 else None, 1, tapes=tapes)
    assert result.success
    [path] = (tmp_path / "tapes").glob("*.json")
    recorded = json.loads(path.read_text())["exchanges"]
    assert "context_id" not in recorded[0]["request"]["message"]
    assert [(e["error"], len(e["events"])) for e in recorded] == [(None, 1)] * TURNS
    [lost] = hold(lambda n: "reset", 1, tapes=cassettes.recorder(tmp_path / "none"))
    assert lost.error_type == "DeliveryUncertain"
    assert not (tmp_path / "none").exists()


def test_a_run_that_stops_holds_nothing_again(hold: Hold, agent: Scripted) -> None:
    class Stopping(Counting):
        def run_trial(self, context: TrialContext) -> Outcome:
            outcome = super().run_trial(context)
            context.cancel.set()
            return outcome

    [result] = hold(lambda n: "502", 1, benchmark=Stopping())
    assert (result.error_type, result.held_again) == ("DeliveryUncertain", ())


@pytest.mark.slow
@pytest.mark.parametrize(("transport", "protocol"), WIRES)
def test_many_trials_through_a_bad_network(hold: Hold, agent: Scripted, transport: str, protocol: str) -> None:
    source, lock = random.Random(f"{transport} {protocol}"), threading.Lock()
    faults = AFTER_GRPC if transport == "grpc" else (*AFTER, *BEFORE)

    def choose(number: int) -> Fault | None:
        with lock:
            return source.choice(faults) if source.random() < 0.15 else None

    results = hold(choose, 40, transport, protocol)
    wrong = [(r.status, r.error_type, r.error) for r in results if r.status == "evaluated" and not r.success]
    assert wrong == []
    assert {r.error_type for r in results} <= {None, "DeliveryUncertain"}
    assert sum(bool(r.held_again) for r in results) > 2
    assert_delivered_once(agent)
