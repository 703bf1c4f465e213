"""tau2's rewards through a network that fails are those through one that does not."""

from __future__ import annotations

import json
import random
import threading
import uuid
from pathlib import Path

import pytest
from fault_proxy import AFTER, BEFORE, Fault, fault_proxy

from pytest_a2a_bench.a2a.card import load_card
from pytest_a2a_bench.a2a.client import AgentConnection
from pytest_a2a_bench.a2a.config import ClientConfig
from pytest_a2a_bench.agents.launcher import start_builtin
from pytest_a2a_bench.benchmarks.tau2 import index
from pytest_a2a_bench.config.settings import Settings
from pytest_a2a_bench.model import TrialKey, TrialResult
from pytest_a2a_bench.results.store import Store
from pytest_a2a_bench.trials.pool import Pool
from pytest_a2a_bench.trials.runner import Runner
from pytest_a2a_bench.trials.trial import Client


@pytest.mark.slow
@pytest.mark.parametrize("transport", ["jsonrpc", "rest"])
def test_rewards_are_those_without_faults(tmp_path: Path, transport: str) -> None:
    source, lock = random.Random(transport), threading.Lock()
    faulty = threading.Event()

    def choose(number: int) -> Fault | None:
        with lock:
            return source.choice((*AFTER, *BEFORE)) if faulty.is_set() and source.random() < 0.1 else None

    every = index.load_tasks("mock")
    keys = [TrialKey("tau2", "mock", task.task_id, n) for task in every for n in range(4)]
    with start_builtin("oracle?dedupe=off") as agent:
        port = int(agent.url.rstrip("/").rpartition(":")[2])
        with AgentConnection(ClientConfig(agent.url)) as direct:
            card = json.dumps(dict(direct.card().raw))
        with fault_proxy(port, choose) as proxy:
            told = load_card(card.replace(f":{port}", f":{proxy.port}").encode(), agent.url)
            config = ClientConfig(f"http://127.0.0.1:{proxy.port}", transport=transport, backoff_base=0.01)
            settings = Settings(endpoint=config.endpoint, tag_trials=True, concurrency=4)
            with AgentConnection(config, told) as connection:

                def hold(folder: str) -> list[TrialResult]:
                    runner = Runner(settings, Client(connection), Store(tmp_path / folder), uuid.uuid4().hex)
                    pool = Pool(runner.run, settings.concurrency, runner.cancel_all)
                    try:
                        return [f.result() for f in [pool.submit(k) for k in keys]]
                    finally:
                        pool.close()

                usual = hold("usual")
                faulty.set()
                held = hold("held")
    assert {r.error_type for r in held} <= {None, "DeliveryUncertain"}
    evaluated = [(now, before) for now, before in zip(held, usual, strict=True) if now.status == "evaluated"]
    assert [str(now.key) for now, before in evaluated if now.reward != before.reward] == []
    assert sum(bool(r.held_again) for r in held) >= 3
    assert len(evaluated) >= len(keys) * 0.8
