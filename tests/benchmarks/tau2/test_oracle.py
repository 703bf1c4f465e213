"""The oracle reaches reward 1 under tau2's own evaluator, over every wire and dialect."""

from __future__ import annotations

import pytest
from examples import sampled
from pairwise import all_pairs, covering, pairs_of
from rotating import rotating
from trials import RunTrials

from pytest_a2a_bench.benchmarks.tau2 import index
from pytest_a2a_bench.config.settings import Settings
from pytest_a2a_bench.model import TrialKey

FACTORS = {
    "dialect": ("tool_call", "agentbeats", "sierra", "data", "auto"),
    "transport": ("jsonrpc", "rest", "grpc"),
    "protocol": ("1.0", "0.3"),
    "streaming": ("on", "off"),
    "history": ("delta", "full"),
}
CONFIGURATIONS = covering(FACTORS)
IDS = ["-".join(c.values()) for c in CONFIGURATIONS]


def keys(domain: str, split: str = "base", count: int | None = None) -> list[TrialKey]:
    """Return a fixed selection of tasks, spread over the split."""
    tasks = index.load_tasks(domain, split)
    step = max(1, len(tasks) // count) if count else 1
    return [t.key() for t in tasks[::step][:count]]


def settings(**options: object) -> Settings:
    return Settings(tag_trials=True, concurrency=4, **options)  # type: ignore[arg-type]


def test_the_configurations_cover_every_pair() -> None:
    covered = set().union(*(pairs_of(c) for c in CONFIGURATIONS))
    assert covered == all_pairs(FACTORS)
    assert len(CONFIGURATIONS) <= 20


@pytest.mark.parametrize("configuration", sampled(CONFIGURATIONS, 3), ids=IDS)
def test_every_pair_of_wire_choices(configuration: dict[str, str], run_trials: RunTrials) -> None:
    results = run_trials("oracle", settings(**configuration), [*keys("mock", count=3), *keys("telecom", count=1)])
    assert [r for r in results if not r.success] == []
    assert all(not r.findings for r in results)


@pytest.mark.slow
@pytest.mark.parametrize("configuration", CONFIGURATIONS, ids=IDS)
def test_every_pair_on_twenty_tasks_of_each_domain(configuration: dict[str, str], run_trials: RunTrials) -> None:
    selected = [k for d in ("airline", "retail", "telecom", "mock") for k in keys(d, count=20)]
    assert len(selected) == 69
    # Each configuration another quarter, so that they try all of them in every run.
    tried = rotating(selected, 4, CONFIGURATIONS.index(configuration))
    results = run_trials("oracle", settings(**configuration), tried)
    assert [(r, r.error) for r in results if not r.success] == []


def test_tasks_of_every_domain(run_trials: RunTrials) -> None:
    selected = [k for d in ("airline", "retail", "telecom") for k in keys(d, count=1)]
    assert all(r.success for r in run_trials("oracle?reply=task", settings(dialect="data"), selected))


@pytest.mark.slow
def test_integers_survive_data_parts_of_all_airline_tasks(run_trials: RunTrials) -> None:
    # Over 1.0 every number in a data part arrives as a float; unrestored, six of the fifty would score 0.
    results = run_trials("oracle", settings(dialect="data", protocol="1.0"), keys("airline"))
    assert sum(r.success for r in results) == 50
