"""Runs the conformance checks against a server of a test, and sorts what came of them."""

import asyncio
import contextlib
import importlib
import pkgutil
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import httpx

from pytest_a2a_bench.a2a.config import ClientConfig
from pytest_a2a_bench.conformance import checks
from pytest_a2a_bench.conformance.catalogue import UNDECLARED, plan
from pytest_a2a_bench.conformance.engine import CONCURRENCY, run_checks
from pytest_a2a_bench.conformance.finding import CheckResult, Planned
from pytest_a2a_bench.conformance.scenarios import Scenarios
from pytest_a2a_bench.conformance.target import Target, targets_of

# Before any server runs: pytest parses what it imports, and CPython 3.11 breaks where two threads parse at a time, as
# a2a-sdk's does that logs a traceback.
for _module in pkgutil.iter_modules(checks.__path__):
    importlib.import_module(f"{checks.__name__}.{_module.name}")

SCRIPTED = {
    "default": "task hello",
    "task": "task hello",
    "message": "echo hi",
    "slow": "slow 0.8 done",
    "input": "ask what?",
    "input_answer": "fine",
    "auth": "auth log in",
    "reject": "reject no",
    "chunks": "chunks a|b|c",
    "data": 'data {"a": 1}',
}
"""What makes the scripted agent behave as the scenarios want."""


Select = Callable[[Planned], bool]


def planned_for(targets: Sequence[Target], select: Select | None = None) -> list[Planned]:
    """Return the checks that there are for some interfaces of one agent, or those of them that are selected."""
    pairs = {(t.binding, t.version) for t in targets}
    every = plan(targets[0].card, targets[0].endpoint) if targets else []
    here = [p for p in every if p.requirement.id == UNDECLARED or (p.binding, p.requirement.version) in pairs]
    return [p for p in here if select is None or select(p)]


async def collect(
    targets: Target | Iterable[Target], *, select: Select | None = None, concurrency: int = CONCURRENCY
) -> tuple[CheckResult, ...]:
    """Run the checks and return all results in the order of the catalogue."""
    several = (targets,) if isinstance(targets, Target) else tuple(targets)
    planned = planned_for(several, select)
    order = {p.name: n for n, p in enumerate(planned)}
    async with contextlib.aclosing(run_checks(several, planned, concurrency=concurrency)) as running:
        # Closed explicitly: an abandoned generator would clear away at some later time, when the loop may be gone.
        results = [r async for r in running]
    return tuple(sorted(results, key=lambda r: order[r.name]))


def judge(
    url: str,
    *,
    groups: Iterable[str] | None = None,
    ids: Iterable[str] | None = None,
    prompts: Mapping[str, str] | None = None,
    card: Mapping[str, Any] | None = None,
    config: ClientConfig | None = None,
    versions: Iterable[str] = ("1.0", "0.3"),
    timeout: float = 5.0,
) -> dict[str, CheckResult]:
    """Run the checks of some groups, or some checks, and return their results by name."""
    card = card if card is not None else httpx.get(f"{url}/.well-known/agent-card.json").json()
    scenarios = Scenarios(SCRIPTED if prompts is None else prompts)
    targets = targets_of(card, url, config=config, scenarios=scenarios, timeout=timeout)
    wanted = [target for target in targets if target.version in tuple(versions)]
    chosen, named = set(groups or ()), set(ids or ())

    def select(planned: Any) -> bool:
        return planned.requirement.group in chosen or planned.requirement.id in named

    results = asyncio.run(collect(wanted, select=select))
    return {result.name: result for result in results}


def faults(results: Mapping[str, CheckResult]) -> dict[str, str]:
    """Return what is neither passed nor skipped: name without version to outcome."""
    bad = {name: r.outcome for name, r in results.items() if r.outcome not in ("passed", "skipped")}
    return {name.partition("/")[2]: outcome for name, outcome in bad.items()}


def passed(results: Mapping[str, CheckResult]) -> set[str]:
    """Return the ids of the requirements that passed on a binding, and on every one on which they were judged."""
    ids = {r.requirement.id for r in results.values() if r.outcome == "passed"}
    return ids - {r.requirement.id for r in results.values() if r.outcome not in ("passed", "skipped")}
