"""The oracle reaches reward 1 under tau2's own evaluator, over every wire and dialect."""

import itertools
import json
import os
import random
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import tau2_probe
from examples import sampled
from trials import RunTrials, some_keys

from pytest_a2a_bench.benchmarks.tau2 import index, upstream
from pytest_a2a_bench.config.settings import Settings
from pytest_a2a_bench.model import TrialKey

WIRES = itertools.product(("jsonrpc", "rest", "grpc"), ("1.0", "0.3"), ("on", "off"))
DIALECTS = ("tool_call", "agentbeats", "sierra", "data", "auto")
CONFIGURATIONS = [
    (*wire, DIALECTS[number % 5], ("delta", "full")[number // 5 % 2], ("task", "message")[number // 3 % 2])
    for number, wire in enumerate(WIRES)
]
"""Every wire, and every dialect with both histories."""


def settings(**options: object) -> Settings:
    return Settings(tag_trials=True, concurrency=4, **options)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("transport", "protocol", "streaming", "dialect", "history", "reply"), sampled(CONFIGURATIONS, 12)
)
def test_every_wire_and_dialect(
    transport: str, protocol: str, streaming: str, dialect: str, history: str, reply: str, run_trials: RunTrials
) -> None:
    wire = settings(transport=transport, protocol=protocol, streaming=streaming, dialect=dialect, history=history)
    keys = [*some_keys("mock", count=3), *some_keys("telecom", count=1)]
    results = run_trials(f"oracle?reply={reply}", wire, keys)
    assert [r for r in results if not r.success] == []
    assert all(not r.findings for r in results)


# Every trial starts from the state that a fresh process of stock tau2 has, whatever this process did before.


def fresh_process(domain: str) -> dict[str, Any]:
    """Return what stock tau2 is in a process in which nothing happened before, and nothing of ours is."""
    environ = {**os.environ, "LITELLM_LOCAL_MODEL_COST_MAP": "True"}
    command = [sys.executable, str(Path(tau2_probe.__file__)), domain]
    done = subprocess.run(command, env=environ, capture_output=True, text=True, check=True)
    found: dict[str, Any] = json.loads(done.stdout)[domain]
    return found


@pytest.mark.slow
@pytest.mark.parametrize("domain", ["mock", "telecom", "airline", "retail"])
def test_earlier_writes_leave_nothing_in_a_new_environment(domain: str) -> None:
    tau2 = upstream.load()
    tasks = [tau2.task_class.model_validate(index.load_task_json(domain, t.task_id)) for t in index.load_tasks(domain)]
    construct = tau2.registry.get_env_constructor(domain)
    environment = construct()
    done = tau2_probe.use_everything(environment, tasks)
    writes = {
        name
        for toolkit in tau2_probe.toolkits(environment)
        for name in toolkit.tools
        if toolkit.tool_type(name).value == "write"
    }
    assert writes <= done, "no task does this: find arguments for it"
    assert tau2_probe.state(environment) != tau2_probe.state(construct())
    # The registry's constructor is also what upstream's evaluator replays in.
    assert json.loads(json.dumps(tau2_probe.probe(construct))) == fresh_process(domain)


def test_broken_vpn_stays_broken_in_its_own_environment_only() -> None:
    """Upstream issue 154, as it was found."""
    construct = upstream.load().registry.get_env_constructor("telecom")
    first, second = construct(), construct()
    for environment in (first, second):
        environment.user_tools.connect_vpn()
    first.user_tools.break_vpn()
    third = construct()
    third.user_tools.connect_vpn()
    speeds = [e.user_tools.device.vpn_details.server_performance.value for e in (first, second, third)]
    assert speeds == ["poor", "excellent", "excellent"]


def rewards(run_trials: RunTrials, keys: list[TrialKey], concurrency: int, seed: int, agent: str) -> dict[str, Any]:
    shuffled = random.Random(seed).sample(keys, len(keys))
    results = run_trials(agent, Settings(concurrency=concurrency, tag_trials=True, max_steps=60), shuffled)
    return {str(r.key): (r.status, r.reward_info and r.reward_info.breakdown) for r in results}


@pytest.mark.slow
@pytest.mark.parametrize("agent", ["oracle", "noop"])
def test_order_and_concurrency_change_no_reward(agent: str, run_trials: RunTrials) -> None:
    telecom = [t.key() for t in index.load_tasks("telecom")]
    vpn, others = ([key for key in telecom if ("vpn" in key.task_id) is is_vpn] for is_vpn in (True, False))
    keys = [*vpn[:3], *others[:2], *(t.key() for t in index.load_tasks("mock")[:3])]
    alone = rewards(run_trials, keys, 1, 0, agent)
    assert len({str(v) for v in alone.values()}) > 1 or agent == "oracle"
    for seed in (1, 2):
        assert rewards(run_trials, keys, 8, seed, agent) == alone
