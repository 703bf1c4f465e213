"""A sample of all agents, domains and dialects, run against the stock tau2."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator

import pytest
from tau2_verified import AGENTS, DIALECTS, DOMAINS, Table

from pytest_a2a_bench.benchmarks.tau2 import index

SAMPLE = {"airline": 1, "retail": 1, "telecom": 3, "mock": 2}
"""Tasks of each agent and dialect: a database of airline's takes seconds to be built five times."""


@pytest.fixture(scope="module")
def table() -> Iterator[Table]:
    with Table(seed=1) as found:
        yield found


@pytest.mark.slow
@pytest.mark.parametrize("domain", DOMAINS)
@pytest.mark.parametrize("agent", AGENTS)
def test_the_stock_tau2_confirms_what_any_agent_came_to(agent: str, domain: str, table: Table) -> None:
    keys = [task.key() for task in index.load_tasks(domain)]
    counted: Counter[str] = Counter()
    for dialect in DIALECTS:
        chosen = random.Random(f"{agent} {dialect}").sample(keys, SAMPLE[domain])
        for result, verification in table.run(agent, chosen, dialect):
            assert result.status in ("evaluated", "evaluator_error"), result.error
            assert verification.status in ("verified", "not_verifiable"), (result.key, verification)
            # Only where upstream's own evaluator has nothing to say.
            assert (verification.status == "not_verifiable") == (result.status == "evaluator_error")
            counted[verification.status] += 1
    assert counted["verified"] > 0
