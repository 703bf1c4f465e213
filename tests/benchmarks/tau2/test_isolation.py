"""Every trial starts from the state that a fresh process of stock tau2 has, whatever this process did before."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import tau2_probe
from trials import RunTrials

from pytest_a2a_bench.benchmarks.tau2 import index, upstream
from pytest_a2a_bench.config.settings import Settings
from pytest_a2a_bench.model import TrialKey

DOMAINS = [
    "mock",
    "telecom",
    pytest.param("airline", marks=pytest.mark.slow),
    pytest.param("retail", marks=pytest.mark.slow),
]


def fresh_process(domain: str) -> dict[str, Any]:
    """Return what stock tau2 is in a process in which nothing happened before, and nothing of ours is."""
    environ = {**os.environ, "LITELLM_LOCAL_MODEL_COST_MAP": "True"}
    command = [sys.executable, str(Path(tau2_probe.__file__)), domain]
    done = subprocess.run(command, env=environ, capture_output=True, text=True, check=True)
    found: dict[str, Any] = json.loads(done.stdout)[domain]
    return found


@pytest.mark.parametrize("domain", DOMAINS)
def test_what_was_done_before_leaves_nothing(domain: str) -> None:
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


def test_stock_tau2_still_needs_it() -> None:
    """If this fails, upstream has mended issue 154, and ``isolation`` has one reason less."""
    upstream.load()
    construct = tau2_probe.stock_constructor("telecom")
    first = construct()
    shared = first.user_tools.default_vpn_details
    assert construct().user_tools.default_vpn_details is shared


def rewards(run_trials: RunTrials, keys: list[TrialKey], concurrency: int, seed: int, agent: str) -> dict[str, Any]:
    shuffled = random.Random(seed).sample(keys, len(keys))
    results = run_trials(agent, Settings(concurrency=concurrency, tag_trials=True, max_steps=60), shuffled)
    return {str(r.key): (r.status, r.reward_info and r.reward_info.breakdown) for r in results}


def check_orders(run_trials: RunTrials, keys: list[TrialKey], agent: str) -> None:
    alone = rewards(run_trials, keys, 1, 0, agent)
    assert len({str(v) for v in alone.values()}) > 1 or agent == "oracle"
    for seed in (1, 2):
        assert rewards(run_trials, keys, 8, seed, agent) == alone


def vpn_tasks() -> list[TrialKey]:
    return [t.key() for t in index.load_tasks("telecom") if "vpn" in t.task_id]


@pytest.mark.slow
@pytest.mark.parametrize("agent", [pytest.param("oracle", marks=pytest.mark.slow), "noop"])
def test_order_and_concurrency_change_no_reward(agent: str, run_trials: RunTrials) -> None:
    others = [t.key() for t in index.load_tasks("telecom") if "vpn" not in t.task_id]
    check_orders(run_trials, [*vpn_tasks()[:3], *others[:2], *(t.key() for t in index.load_tasks("mock")[:3])], agent)


@pytest.mark.slow
@pytest.mark.parametrize("agent", ["oracle", "noop", "readonly"])
def test_order_and_concurrency_change_no_reward_in_any_domain(agent: str, run_trials: RunTrials) -> None:
    keys = [t.key() for domain in index.available_domains() for t in index.load_tasks(domain)[::12]]
    check_orders(run_trials, [*vpn_tasks(), *keys], agent)
