"""When collection is over: what forbids running the items, and which of them this process runs."""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

import pytest

from pytest_a2a_bench.benchmarks import registry
from pytest_a2a_bench.config.settings import DIALECTS
from pytest_a2a_bench.plugin.collect import floors, order, shards
from pytest_a2a_bench.plugin.collect.items import uses_agent
from pytest_a2a_bench.plugin.run import state
from pytest_a2a_bench.plugin.run.modules import judge_protocol
from pytest_a2a_bench.plugin.run.resolve import usage_text
from pytest_a2a_bench.plugin.run.state import TRIAL, BenchRun
from pytest_a2a_bench.plugin.shim import SuiteModule, describe_fixture, fixture_definition, is_below
from pytest_a2a_bench.results.gates.terms import NOTHING_MISSED

SESSION_SCOPED = ("a2a_client_config", "a2a_message_metadata")
"""Fixtures that shape a conversation, which starts before any function-scoped fixture of its item."""


def conclude(session: pytest.Session, run: BenchRun) -> None:
    """Check the collected items.

    :raises pytest.UsageError: with everything that is wrong with them.
    """
    # Misses first: what is dropped here must not be compared or divided.
    _keep_missed(session, run)
    _leave_out_doubles(session, run)
    run.collected.used = bool(census(session.items).users)
    problems = find_problems(session, run)
    # Only where an item uses the agent: an endpoint that is down is no trouble of a run without such items.
    if not problems and run.collected.used and run.plan.endpoint_problem and not session.config.option.collectonly:
        problems = [run.plan.endpoint_problem]
    if problems:
        # All of them in one text, because a usage error ends the session.
        state.refuse(session, run, "\n".join(problems))
        return
    if run.collected.used or run.settings.shard:
        shards.divide(session, run)
        order.draw(session, run)
        # A part without trials is a part of the run, too: it leaves a file that says so, with the agent's name in it.
        run.collected.used = bool(census(session.items).users or run.collected.whole)


class Census(NamedTuple):
    """What the collected items need."""

    trials: list[pytest.Item]
    users: list[pytest.Item]


def census(items: Iterable[pytest.Item]) -> Census:
    """Sort the items out."""
    every = list(items)
    return Census(
        trials=[item for item in every if TRIAL in item.stash],
        users=[item for item in every if uses_agent(item)],
    )


def find_problems(session: pytest.Session, run: BenchRun) -> list[str]:
    """Return everything that forbids running the collected items."""
    found = census(session.items)
    own = [
        # Problems of tests that are not selected do not concern this run.
        f"{where}: {problem}"
        for where, problem in run.collected.test_problems
        if any(is_below(item.nodeid, where) for item in session.items)
    ]
    problems = [
        *run.collected.problems,
        *own,
        *_missing_ids(run),
        *_doubled_keys(found.trials),
        *_scopes(found.users),
        *_one_for_several(found.users, run),
        *_floors(found.trials, run),
        *_dialects(found.trials, run),
        *_transfers(found.trials, run),
    ]
    if found.users:
        # What is wrong with the options only matters where somebody uses us.
        problems += run.plan.problems
        if not run.settings.endpoint and not session.config.option.collectonly:
            problems.append(_no_endpoint(found.users))
    if not session.config.option.collectonly:
        problems += _preconditions(found.trials, run)
    # One problem may be found at several items.
    return list(dict.fromkeys(problems))


def _dialects(trials: list[pytest.Item], run: BenchRun) -> Iterator[str]:
    """Tell of trials that the chosen dialect cannot hold."""
    dialect = run.settings.dialect
    for name, items in _by_suite(trials).items():
        suite = registry.load(name, run.settings)
        # None: every dialect will do.
        # What another's dialect can say, its author knows.
        if suite.dialects is not None and dialect in DIALECTS and dialect not in suite.dialects:
            more = f" and {len(items) - 1} more" if len(items) > 1 else ""
            *most, last = suite.dialects
            yield (
                f"{items[0].nodeid}{more}: --a2a-dialect={dialect} {suite.why_no_dialect}; "
                f"choose {', '.join(most)} or {last}"
            )


def _transfers(trials: list[pytest.Item], run: BenchRun) -> Iterator[str]:
    """Tell of trials in which nothing is ever transferred."""
    for name, items in _by_suite(trials).items() if run.settings.transfer else ():
        if not registry.load(name, run.settings).transfer_tool:
            yield f"{items[0].nodeid}: no agent of {name} transfers a conversation; run it without transfer"


def _by_suite(trials: Iterable[pytest.Item]) -> dict[str, list[pytest.Item]]:
    found: dict[str, list[pytest.Item]] = defaultdict(list)
    for item in trials:
        found[item.stash[TRIAL].key.suite].append(item)
    return found


def _preconditions(trials: list[pytest.Item], run: BenchRun) -> Iterator[str]:
    for name, items in _by_suite(trials).items():
        domains = sorted({item.stash[TRIAL].key.domain for item in items})
        yield from registry.load(name, run.settings).preconditions(domains, run.settings, os.environ)


def _floors(trials: list[pytest.Item], run: BenchRun) -> Iterator[str]:
    # Judged by the part that runs here: a shard must be able to prove its own floor.
    if wrong := tuple(floors.find_problems(trials, run, shards.part_of(trials, run))):
        yield usage_text(wrong)


def _no_endpoint(users: list[pytest.Item]) -> str:
    more = f" and {len(users) - 1} more" if len(users) > 1 else ""
    return (
        f"{users[0].nodeid}{more}: no agent to test; pass --a2a-endpoint URL (or builtin:NAME), "
        "or set A2A_ENDPOINT, or endpoint in [tool.a2a-bench]"
    )


def _missing_ids(run: BenchRun) -> Iterator[str]:
    for wanted in run.plan.selection.ids:
        # What keeps a module out has been told already.
        if wanted in run.collected.found_ids or run.collected.problems:
            continue
        if judge_protocol((wanted,)):
            why = "the agent's card gives no such check"
        else:
            why = f"no such item with --a2a-split={run.settings.split}"
        yield f"not found: {wanted} ({why}; pytest --co lists what there is)"


def _doubled_keys(trials: list[pytest.Item]) -> Iterator[str]:
    seen: dict[Any, pytest.Item] = {}
    for item in trials:
        key = item.stash[TRIAL].key
        if key in seen:
            yield f"{seen[key].nodeid} and {item.nodeid} are the same trial, {key}; {_way_out(seen[key], item)}"
            # One pair is enough: the others follow from it.
            return
        seen[key] = item


def _way_out(item: pytest.Item, other: pytest.Item) -> str:
    if item.parent is other.parent and _function_name(item) == _function_name(other):
        return (
            "a parametrized test would report one conversation several times: "
            "move the parameters into the test's body, or write a test with a label of its own for each"
        )
    return 'give one of their markers another name: label="..."'


def _function_name(item: pytest.Item) -> str:
    return getattr(item, "originalname", None) or item.name


def _leave_out_doubles(session: pytest.Session, run: BenchRun) -> None:
    """Drop built-in trials that only an expression chose where the user's own selected tests run the same ones."""
    # Only where an expression chose: somebody who names a module means it.
    if not run.plan.selection.candidates:
        return
    trials = census(session.items).trials
    own = {item.stash[TRIAL].key for item in trials if not _is_built_in(item)}
    doubles = [item for item in trials if _is_built_in(item) and item.stash[TRIAL].key in own]
    if not doubles:
        return
    run.collected.left_out = len(doubles)
    dropped = set(doubles)
    session.items[:] = [item for item in session.items if item not in dropped]
    # So that pytest's own count is right.
    session.config.hook.pytest_deselected(items=doubles)


def _is_built_in(item: pytest.Item) -> bool:
    return item.getparent(SuiteModule) is not None


def _scopes(users: list[pytest.Item]) -> Iterator[str]:
    for item in users:
        for name in SESSION_SCOPED:
            definition = fixture_definition(item, name)
            if definition is not None and definition.scope != "session":
                yield (
                    f"the fixture {name!r} at {describe_fixture(definition)} has scope {definition.scope!r}; "
                    "conversations start before their items do, so give it scope='session' "
                    "(for one trial, use the hook pytest_a2a_bench_prepare_trial)"
                )


def _one_for_several(users: list[pytest.Item], run: BenchRun) -> Iterator[str]:
    """Tell of a fixture that says how one agent is reached, where there are several."""
    for item in users if run.settings.agents else ():
        definition = fixture_definition(item, "a2a_client_config")
        if definition is not None and not definition.func.__module__.startswith("pytest_a2a_bench."):
            yield (
                f"the fixture 'a2a_client_config' at {describe_fixture(definition)} is for one agent, and the "
                f"endpoints have names ({', '.join(run.settings.agents)}); give one without a name, or use options"
            )


def _keep_missed(session: pytest.Session, run: BenchRun) -> None:
    """Keep only the items of the last run's misses, where that was asked for."""
    if run.plan.missed is None:
        return
    wanted = {missed.key for missed in run.plan.missed}
    # Checks of the protocol have no trial and are dropped, too.
    dropped = [i for i in session.items if TRIAL not in i.stash or str(i.stash[TRIAL].key) not in wanted]
    if not wanted:
        run.collected.notes.append(NOTHING_MISSED)
    if dropped:
        gone = set(dropped)
        session.items[:] = [item for item in session.items if item not in gone]
        session.config.hook.pytest_deselected(items=dropped)
