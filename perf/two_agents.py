"""Two agents compared of which one is the other with a known defect, and what simulation says of such a comparison.

    python perf/two_agents.py [--domain airline] [--defect 0.3] [--runs 4000]

Agent ``a`` plays the reference solutions. Agent ``b`` is the same, but in some conversations it forgets every call that
changes something: chosen with the chance of the defect, task by task, by a seed that the simulation does not know. Both
are spoken to over HTTP in one run of pytest. The simulation draws the same many times, from nothing but the chance and
the number of tasks whose reward depends on such a call, and says between which values p lies.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import random
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pytest_a2a_bench.a2a import loop
from pytest_a2a_bench.agents.brain import BrainReply, Conversation, bench_task_key
from pytest_a2a_bench.agents.options import parse_spec
from pytest_a2a_bench.agents.oracle import Oracle
from pytest_a2a_bench.agents.server import running
from pytest_a2a_bench.benchmarks.tau2.index import load_tasks
from pytest_a2a_bench.benchmarks.tau2.player import load_gold, write_tools
from pytest_a2a_bench.results.inference import LEVEL, PairedTask, paired_p

SEED = 7


class Forgetful:
    """Plays the reference solution, in some tasks without what changes something."""

    description = "Plays the reference solution of the task, and forgets some of it."

    def __init__(self, defect: float) -> None:
        self.defect = defect
        self._whole, self._without = Oracle(), Oracle(read_only=True)

    def forgets(self, task: str) -> bool:
        """Tell whether it does in a task."""
        return random.Random(f"{SEED}/{task}").random() < self.defect

    async def reply(self, conversation: Conversation) -> BrainReply:
        """Say the next line."""
        task = bench_task_key(conversation.metadata) or ""
        return await (self._without if self.forgets(task) else self._whole).reply(conversation)


@contextlib.contextmanager
def served(brain: Any) -> Iterator[str]:
    """Serve a brain, and yield its URL."""
    server = running(parse_spec("noop"), brain)
    found = loop.run(server.__aenter__())
    try:
        yield found.url
    finally:
        loop.run(_leave(server))


async def _leave(server: Any) -> None:
    await server.__aexit__(None, None, None)


def depending(domain: str) -> tuple[int, int]:
    """Return how many tasks a domain has, and of how many the reference solution changes something."""
    tasks, writes = load_tasks(domain, "base"), write_tools(domain)
    golds = [load_gold(domain, task.task_id) for task in tasks]
    return len(golds), sum(any(call.name in writes for call in gold.calls) for gold in golds)


def two_sided(lost: int, tasks: int) -> float:
    """Return p where one agent succeeds everywhere and the other one everywhere but in some tasks."""
    pairs = [PairedTask(1, 1, 1, int(n >= lost)) for n in range(tasks)]
    back = [PairedTask(p.after, p.after_ok, p.before, p.before_ok) for p in pairs]
    return min(1.0, 2 * min(paired_p(pairs), paired_p(back)))


def simulate(tasks: int, depend: int, defect: float, runs: int) -> list[float]:
    """Return the p of many comparisons, sorted."""
    source, known = random.Random(20261122), {}
    found = []
    for _ in range(runs):
        lost = sum(source.random() < defect for _ in range(depend))
        if lost not in known:
            known[lost] = two_sided(lost, tasks)
        found.append(known[lost])
    return sorted(found)


def compare(domain: str, defect: float, folder: Path) -> dict[str, Any]:
    """Compare the two in a run of pytest, and return what its verdict says of it."""
    with served(Oracle()) as good, served(Forgetful(defect)) as forgetful:
        agents = [f"--a2a-endpoint=a={good}", f"--a2a-endpoint=b={forgetful}", "--a2a-tag-trials"]
        more = [f"--a2a-suite={domain}", f"--a2a-results={folder}", "--a2a-concurrency=4", "-q", "--no-summary"]
        plugin = ["-p", "no:cacheprovider"]
        ran = subprocess.run([sys.executable, "-m", "pytest", *plugin, *agents, *more], cwd=folder, check=False)
    verdict = json.loads((folder / "verdict.json").read_text())
    found: dict[str, Any] = verdict["comparisons"][0]
    return {**found, "exit": ran.returncode, "errors": verdict["errors"]}


def main() -> None:
    """Print what simulation says, and what came of it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--domain", default="airline")
    parser.add_argument("--defect", type=float, default=0.3)
    parser.add_argument("--runs", type=int, default=4000)
    chosen = parser.parse_args()
    tasks, depend = depending(chosen.domain)
    found = simulate(tasks, depend, chosen.defect, chosen.runs)
    low, middle, high = (found[int(q * (len(found) - 1))] for q in (0.005, 0.5, 0.995))
    power = sum(p < LEVEL for p in found) / len(found)
    print(f"{chosen.domain}: {tasks} tasks, {depend} of which depend on a change; defect {chosen.defect:g}")
    print(f"simulated: p between {low:.2g} and {high:.2g} (99 %), median {middle:.2g}; found in {power:.1%} of runs")
    with tempfile.TemporaryDirectory() as folder:
        came = compare(chosen.domain, chosen.defect, Path(folder))
    print(f"run: {came['sentence']}")
    print(f"p = {came['p']:.3g} is {'as simulated' if low <= came['p'] <= high else 'NOT as simulated'}")


if __name__ == "__main__":
    main()
