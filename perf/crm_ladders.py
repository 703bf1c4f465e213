"""What rot and drift do to scripted agents, and how quick the mini org is: tables of docs/explanations/crm-scores.md.

    python perf/crm_ladders.py [--seed 1]

Times are CPU time of this process.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))

from pytest_a2a_bench.benchmarks.crmarena.domains import rotted  # noqa: E402
from pytest_a2a_bench.benchmarks.crmarena.mini.near_misses import chosen_rows, near_misses  # noqa: E402
from pytest_a2a_bench.benchmarks.crmarena.mini.org import MiniOrg, build  # noqa: E402
from pytest_a2a_bench.benchmarks.crmarena.org.base import OrgError  # noqa: E402
from pytest_a2a_bench.benchmarks.crmarena.org.drift import DriftLevel, drift_text, drifted  # noqa: E402
from pytest_a2a_bench.benchmarks.crmarena.org.local import LocalOrg  # noqa: E402
from pytest_a2a_bench.benchmarks.crmarena.org.soql import compile_soql  # noqa: E402
from pytest_a2a_bench.benchmarks.crmarena.solve import choose_steps  # noqa: E402
from pytest_a2a_bench.benchmarks.crmarena.solve.attentive import attentive  # noqa: E402
from pytest_a2a_bench.benchmarks.crmarena.solve.shortcuts import SHORTCUTS, take  # noqa: E402
from pytest_a2a_bench.benchmarks.crmarena.solve.task import AgentTask, Steps  # noqa: E402
from pytest_a2a_bench.benchmarks.crmarena.tasks import CrmTask  # noqa: E402

ROWS = (0, 100, 400, 1_600)
ROUNDS = 7
"""How often times are measured; the least counts."""
LEVELS: tuple[DriftLevel | None, ...] = (None, "low", "medium", "high")
Ask = Callable[[str], list[Any]]


def drive(steps: Steps, ask: Ask) -> str:
    """Return what steps come to; an agent that is refused a query has nothing to say."""
    try:
        query = next(steps)
        while True:
            query = steps.send(ask(query))
    except StopIteration as end:
        return str(end.value)
    except (OrgError, ValueError, KeyError, TypeError, IndexError):
        return "no answer"


def is_right(task: CrmTask, said: str) -> bool:
    if task.kind.answer in ("ids", "bant"):
        return sorted(said.split(", ")) == sorted(task.answers)
    return (said,) == task.answers


@contextmanager
def opened(mini: MiniOrg) -> Iterator[LocalOrg]:
    org = LocalOrg.from_rows(mini.rows, mini.schema, name=mini.name, today=mini.today)
    try:
        yield org
    finally:
        org.close()


def rot_ladder(mini: MiniOrg) -> None:
    """Print the share of tasks that each agent answers rightly, by the number of distractor rows."""
    agents: dict[str, Callable[[AgentTask], Steps]] = {"reference": choose_steps}
    for name, shortcut in SHORTCUTS.items():
        agents[name] = lambda task, taken=shortcut: take(taken, task)
    misses = near_misses(mini.rows, mini.tasks, mini.schema, mini.seed)
    tasks = [task for task in mini.tasks if task.answers]
    print(f"\nnear misses: {len(misses)}, of {sum(len(miss.rows) for miss in misses)} rows\n")
    print(f"| agent | {' | '.join(f'rot {rows}' for rows in ROWS)} |\n|---|{'---|' * len(ROWS)}")
    shares: dict[str, list[str]] = {name: [] for name in agents}
    with opened(mini) as plain:
        for rows in ROWS:
            org = rotted(plain, rows, mini.seed, chosen_rows(misses, rows))
            for name, steps in agents.items():
                shares[name].append(share(tasks, steps, lambda query, org=org: list(org.run(query).records)))
            org.close()
    for name, found in shares.items():
        print(f"| {name} | {' | '.join(found)} |")


def drift_ladder(mini: MiniOrg) -> None:
    """Print the share of tasks that an agent keeps that reads errors and descriptions, and one that does not."""
    tasks = [task for task in mini.tasks if task.answers]
    shares: dict[str, list[str]] = {"reads the schema": [], "remembers names": []}
    heads = " | ".join("drift " + (level or "none") for level in LEVELS)
    print(f"\n| agent | {heads} |\n|---|{'---|' * len(LEVELS)}")
    with opened(mini) as plain:
        for level in LEVELS:
            org = drifted(plain, level, mini.seed) if level else plain
            told = [
                (task, AgentTask(*(drift_text(t, mini.schema, org.schema) for t in (task.query, task.required))))
                for task in tasks
            ]
            reads = attentive(org.run, org.schema.to_json(), mini.schema.to_json())
            for name, ask in (
                ("reads the schema", reads),
                ("remembers names", lambda q, o=org: list(o.run(q).records)),
            ):
                right = sum(is_right(task, drive(choose_steps(seen), ask)) for task, seen in told)
                shares[name].append(f"{right / len(told):.0%}")
            if level:
                org.close()
    for name, found in shares.items():
        print(f"| {name} | {' | '.join(found)} |")


def share(tasks: list[CrmTask], steps: Callable[[AgentTask], Steps], ask: Ask) -> str:
    right = sum(is_right(task, drive(steps(AgentTask(task.query, task.required)), ask)) for task in tasks)
    return f"{right / len(tasks):.0%}"


def speed(mini: MiniOrg) -> None:
    """Print queries and tasks in a second of CPU time: what the solver asks, and all of its tasks."""
    asked: list[str] = []
    tasks = [task for task in mini.tasks if task.answers]
    with opened(mini) as org:

        def ask(query: str) -> list[Any]:
            asked.append(query)
            return list(org.run(query).records)

        solving = cpu_seconds(
            lambda: [drive(choose_steps(AgentTask(task.query, task.required)), ask) for task in tasks]
        )
        again = min(cpu_seconds(lambda: [org.run(query) for query in asked]) for _ in range(20))
    distinct = list(dict.fromkeys(asked))
    first, compiling, known = [], [], []
    for _ in range(ROUNDS):
        with opened(mini) as org:
            # A connection is made for this one.
            org.run("SELECT COUNT() FROM Account")
            first.append(cpu_seconds(lambda org=org: [org.run(query) for query in distinct]))
            known.append(cpu_seconds(lambda org=org: [org.run(query) for query in distinct]))
        soql = [query for query in distinct if not query.startswith("FIND")]
        compiling.append(
            cpu_seconds(lambda soql=soql: [compile_soql(query, mini.schema, mini.today) for query in soql])
        )
    print("\n| what | in a second of CPU time |\n|---|---|")
    print(f"| queries of the solver, as the trials of a run ask them again | {len(asked) / again:,.0f} |")
    print(f"| the same, each for the first time | {len(distinct) / min(first):,.0f} |")
    print(f"| the same, if each were compiled | {len(distinct) / (min(known) + min(compiling)):,.0f} |")
    print(f"| tasks of the solver, each for the first time | {len(tasks) / solving:,.0f} |")


def cpu_seconds(do: Callable[[], object]) -> float:
    clock = time.process_time()
    do()
    return time.process_time() - clock


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=1)
    mini = build(seed=parser.parse_args().seed)
    rot_ladder(mini)
    drift_ladder(mini)
    speed(mini)


if __name__ == "__main__":
    main()
