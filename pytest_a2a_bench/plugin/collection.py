"""Conclude collection: problems that forbid the run, the order of trials, and the shard that this run does."""

from __future__ import annotations

import dataclasses
import os
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import pytest

from pytest_a2a_bench.benchmarks import registry
from pytest_a2a_bench.config.settings import DIALECTS, NOISY, PLAIN
from pytest_a2a_bench.config.values import shard_of
from pytest_a2a_bench.errors import ConfigurationError
from pytest_a2a_bench.plugin import state
from pytest_a2a_bench.plugin.items import uses_agent
from pytest_a2a_bench.plugin.selection import runs_last_failed
from pytest_a2a_bench.plugin.shim import (
    SuiteModule,
    all_modules,
    describe_fixture,
    fixture_definition,
    is_below,
    judge_protocol,
)
from pytest_a2a_bench.plugin.state import TRIAL, BenchRun, ends_at_collection
from pytest_a2a_bench.results import manifest
from pytest_a2a_bench.results.gates.early import draw_order
from pytest_a2a_bench.results.gates.files import set_aside
from pytest_a2a_bench.results.gates.terms import NOTHING_MISSED, groups_of, quarantine_of, thresholds_of
from pytest_a2a_bench.results.manifest import Manifest
from pytest_a2a_bench.results.stats import task_name
from pytest_a2a_bench.results.store import StoreError
from pytest_a2a_bench.text import did_you_mean, listed

SESSION_SCOPED = ("a2a_client_config", "a2a_message_metadata")
"""Fixtures that shape a conversation, which starts before any function-scoped fixture of its item."""


def conclude(session: pytest.Session, run: BenchRun) -> None:
    """Check the collected items; raises pytest.UsageError with everything that is wrong with them."""
    # Misses first: what is dropped here must not be compared or divided.
    _keep_missed(session, run)
    _leave_out_doubles(session, run)
    run.collected.used = bool(census(session.items).users)
    problems = find_problems(session, run)
    # Only where an item uses the agent: an endpoint that is down is no trouble of a run without such items.
    if not problems and run.collected.used and run.plan.endpoint_problem and not session.config.option.collectonly:
        problems = [run.plan.endpoint_problem]
    if problems:
        state.refuse(session, run, problems)
        return
    if run.collected.used or run.settings.shard:
        divide(session, run)
        draw(session, run)
        # A part without trials is a part of the run, too: it leaves a file that says so, with the agent's name in it.
        run.collected.used = bool(census(session.items).users or run.collected.whole)


class Census(NamedTuple):
    """The needs of the collected items: an agent, trials, checks."""

    trials: list[pytest.Item]
    users: list[pytest.Item]


def census(items: Iterable[pytest.Item]) -> Census:
    """Sort the items out."""
    every = list(items)
    return Census(
        trials=[item for item in every if TRIAL in item.stash], users=[item for item in every if uses_agent(item)]
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
        *_unused_suites(session.config, run),
        *_doubled_keys(found.trials),
        *_scopes(found.users),
        *_one_for_several(found.users, run),
        *_floors(found.trials, run),
        *_dialects(found.trials, run),
        *_transfers(found.trials, run),
    ]
    if found.users:
        # Wrong options only matter where a test uses the agent.
        problems += run.plan.problems
        if not run.settings.endpoint and not session.config.option.collectonly:
            problems.append(_no_endpoint(found.users))
    if not session.config.option.collectonly:
        problems += _preconditions(found.trials, run)
    # One problem may be found at several items.
    return list(dict.fromkeys(problems))


def _dialects(trials: list[pytest.Item], run: BenchRun) -> Iterator[str]:
    """Yield a problem for each suite whose trials the chosen dialect cannot express."""
    dialect = run.settings.dialect
    if trials and dialect not in DIALECTS:
        yield from _own_dialect(dialect)
    for name, items in _by_suite(trials).items():
        suite = registry.load(name, run.settings)
        # None: every dialect will do.
        # What another's dialect can say, its author knows.
        if suite.dialects is not None and dialect in DIALECTS and dialect not in suite.dialects:
            *most, last = suite.dialects
            yield (
                f"{listed([item.nodeid for item in items], 1)}: --a2a-dialect={dialect} {suite.why_no_dialect}; "
                f"choose {', '.join(most)} or {last}"
            )


def _own_dialect(name: str) -> Iterator[str]:
    """Yield a problem for a dialect of another package or the project that cannot be loaded, or is none."""
    from pytest_a2a_bench import dialects

    try:
        found = dialects.get(name)
    except ConfigurationError as error:
        yield f"--a2a-dialect: {error}"
        return
    methods = [method for method in vars(dialects.Dialect) if not method.startswith("_")]
    if lacking := [method for method in methods if not callable(getattr(found, method, None))]:
        yield f"--a2a-dialect: the object of {name!r} is no dialect; it lacks {', '.join(lacking)}"


def _transfers(trials: list[pytest.Item], run: BenchRun) -> Iterator[str]:
    """Yield a problem for each suite whose agents transfer no conversation."""
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
    yield from floor_problems(trials, run, part_of(trials, run))


def _no_endpoint(users: list[pytest.Item]) -> str:
    return (
        f"{listed([item.nodeid for item in users], 1)}: no agent to test; pass --a2a-endpoint URL (or builtin:NAME), "
        "or set A2A_ENDPOINT, or endpoint in [tool.a2a-bench]"
    )


def _missing_ids(run: BenchRun) -> Iterator[str]:
    for wanted in run.plan.selection.ids:
        # The reason that keeps a module out is a problem of its own.
        if wanted in run.collected.found_ids or run.collected.problems:
            continue
        if judge_protocol((wanted,)):
            why = "the agent's card gives no such check"
        else:
            why = f"no such item with --a2a-split={run.settings.split}"
            if not run.settings.noise and re.search(rf"\[(?:{PLAIN}|{NOISY})-", wanted):
                why += " and without --a2a-noise"
        yield f"not found: {wanted} ({why}; pytest --co lists what there is)"


def _unused_suites(config: pytest.Config, run: BenchRun) -> Iterator[str]:
    """Yield a problem for each name of ``--a2a-suite`` that only tests could use, and none does.

    A table's names are for every run of a project, also of a part of its tests.
    """
    if run.plan.named or not config.getoption("a2a_suite", None) or any("::" in each for each in config.args):
        return
    built_in = {name for module in all_modules() for name in (module.suite, module.domain)}
    for name in run.settings.suite:
        if name not in built_in | run.collected.groups:
            yield f"--a2a-suite={name}: nothing built-in runs it, and no collected test has its marker{_to_write(name)}"


def _to_write(name: str) -> str:
    """Return, as the end of a message, the marker of a test that runs a suite or domain."""
    for suite in registry.known():
        if name in (suite.name, *suite.domains):
            domain = name if name in suite.domains else suite.domains[0]
            arguments = "..." if suite.from_test is not None else f'"{domain}"'
            return f"; write a test that takes trial, with @pytest.mark.{suite.name}({arguments})"
    return ""


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
    # Only where an expression chose: a module that is named is meant.
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
    """Yield a problem for a fixture that configures the connection to one agent, where there are several."""
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


# -- values of ``--a2a-min-pass`` that no agent could reach, refused before anything is paid for --


def floor_problems(trials: list[pytest.Item], run: BenchRun, part: list[pytest.Item]) -> Iterator[str]:
    """List the floors that match nothing, and the pass^k with too few trials.

    :param part: those of the trials that this shard runs.
    """
    # Chosen trials say nothing about a rate, so their number is no objection.
    if run.plan.named or not (run.settings.min_pass or run.settings.min_pass_k):
        return
    yield from _unknown(trials, run)
    # Quarantined trials count in no rate.
    wrong = list(_hopeless([i for i in part if quarantine_of(i.stash[TRIAL].key, run.plan.quarantine) is None], run))
    # Each on a line of its own.
    yield from wrong
    if wrong and run.settings.shard:
        yield f"gates judge shard {run.settings.shard} alone; to judge the whole, join the parts with a2a-bench merge"


def _hopeless(counted: list[pytest.Item], run: BenchRun) -> Iterator[str]:
    tasks: dict[str, int] = {}
    for item in counted:
        key = item.stash[TRIAL].key
        # A label makes a task of its own, as in the gates.
        name = task_name(key)
        tasks[name] = tasks.get(name, 0) + 1
    fewest = min(tasks.values(), default=0)
    for k, rate in run.settings.min_pass_k.items():
        if tasks and fewest < int(k):
            yield f"--a2a-min-pass-k {k}={rate:g} needs --a2a-trials {k}; there are tasks with {fewest} here"


def _unknown(trials: list[pytest.Item], run: BenchRun) -> Iterator[str]:
    """List the floors whose name nothing has: most likely it is misspelt, and would gate nothing."""
    here = {group for item in trials for group in _groups(item)}
    missing = {
        group: rate for group, rate in thresholds_of(run.settings).min_pass.items() if group and group not in here
    }
    if not missing:
        return
    # Names of other suites are right, although nothing of theirs runs here.
    known = here | registry.group_names()
    for group, rate in missing.items():
        if group not in known:
            hint = did_you_mean(group, sorted(known))
            yield f"--a2a-min-pass {group}={rate:g}: no suite, domain or category has that name{hint}"


def _groups(item: pytest.Item) -> tuple[str, ...]:
    trial = item.stash[TRIAL]
    every = groups_of(trial.key.suite, trial.key.domain, trial.task.category or None)
    # A suite's keywords name the category of a task, where it has categories.
    return tuple(dict.fromkeys([*every, *trial.task.keywords]))


# -- the order of trials from which gates are decided early: random for each run, kept by a resumed one --


def decides_early(run: BenchRun) -> bool:
    """Return whether this run may end before all of its trials had run; trials that the command line names all run."""
    return run.settings.auto and not run.plan.named


def seed_of(run: BenchRun) -> str:
    """Return the seed of the trials' order.

    No fixed seed: where an unlucky order puts the easy tasks first, every run of an agent would be judged wrongly.
    """
    if run.settings.resume:
        try:
            return manifest.load(run.plan.results).order or run.plan.run_id
        except StoreError:  # nothing to go on with
            pass
    return run.plan.run_id


def draw(session: pytest.Session, run: BenchRun) -> None:
    """Put this run's trials into the drawn order; other items keep their places."""
    if not decides_early(run):
        return
    items = {item.stash[TRIAL].key: item for item in session.items if TRIAL in item.stash}
    drawn = iter(draw_order(items, run.plan.order))
    session.items[:] = [items[next(drawn)] if TRIAL in item.stash else item for item in session.items]


# -- the shard of the items that this run does, and the manifest --


def divide(session: pytest.Session, run: BenchRun) -> None:
    """Leave out the trials that belong to other shards, and note the whole selection.

    Checks of the protocol are divided by their node ids; the user's own tests stay, in every shard.
    """
    # Before anything is left out: the whole is what merge compares.
    run.collected.whole = tuple(str(item.stash[TRIAL].key) for item in session.items if TRIAL in item.stash)
    mine = set(part_of(session.items, run))
    others = [item for item in session.items if item not in mine]
    if others:
        session.items[:] = [item for item in session.items if item in mine]
        session.config.hook.pytest_deselected(items=others)


def part_of(items: Sequence[pytest.Item], run: BenchRun) -> list[pytest.Item]:
    """Return those of the items that this shard runs; all of them without shards."""
    # The failures of this very part are all its own: divided again, most of them would never run.
    if run.settings.shard in (None, run.plan.missed_shard) or any(runs_last_failed(i.config) for i in items[:1]):
        return list(items)
    # What is compared with each other stays together.
    names = {item: str(item.stash[TRIAL].key.of_any_agent) for item in items if TRIAL in item.stash}
    # The user's own tests have no part of the division.
    names |= {i: i.nodeid for i in items if i not in names and judge_protocol((i.nodeid,))}
    mine = manifest.members(names.values(), shard_of(run.settings.shard))
    return [item for item in items if item not in names or names[item] in mine]


def trials_elsewhere(run: BenchRun) -> int:
    """Return how many trials there are, where this shard has none of them; else 0.

    The file of this run decides, which under xdist the workers wrote.
    """
    try:
        found = manifest.load(run.plan.results)
    except StoreError:
        return 0
    # A file of an earlier run says nothing about this one.
    return len(found.whole) if found.run_id == run.plan.run_id and not found.keys else 0


def write_manifest(session: pytest.Session, run: BenchRun) -> None:
    """Write the plan of this run, if trials were selected, if only for other shards, and there is an agent."""
    if not run.collected.whole or run.plan.endpoint is None or session.config.option.collectonly:
        return
    # The last run is still the one to look at.
    if ends_at_collection(session):
        return
    nodeids = {item.nodeid: str(item.stash[TRIAL].key) for item in session.items if TRIAL in item.stash}
    settings = dataclasses.asdict(run.settings)
    # Flat, as files of the first versions are.
    settings |= settings.pop("benchmark_options")
    # Paths are left out: two machines have different ones.
    for name in ("endpoint", "agents", "agent", "results"):
        del settings[name]
    if settings["transfer"] is None:
        del settings["transfer"]
    manifest = Manifest(
        run_id=run.plan.run_id,
        endpoint=run.plan.shown_endpoint,
        agent=run.plan.agent_identity,
        whole=run.collected.whole,
        keys=tuple(nodeids.values()),
        shard=run.settings.shard,
        settings=settings,
        nodeids=nodeids,
        order=run.plan.order,
        named=run.plan.named,
        categories=categories_of(session),
    )
    try:
        # Before run.json, so that no verdict stands beside that of another run.
        set_aside(run.plan.results, run.plan.run_id)
        manifest.write(run.plan.results)
    except (StoreError, OSError) as error:
        raise pytest.UsageError(str(error)) from None


def categories_of(session: pytest.Session) -> dict[str, str]:
    """Return the categories of the tasks of this process's items, as far as they have one."""
    trials = [item.stash[TRIAL] for item in session.items if TRIAL in item.stash]
    return {trial.key.task_key: trial.task.category for trial in trials if trial.task.category}
