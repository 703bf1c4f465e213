"""What pytest-a2a-bench costs: loading, collecting, and trials per second, side by side in one run.

    python perf/trials.py [--json FILE] [--tasks 20]
    python perf/trials.py --cpu [--json FILE] [--tasks 50] [--domains airline,retail,telecom]

Prints a table and writes JSON. Every row is a process of its own, so that nothing is warm by accident.

``--cpu`` says what a task over A2A costs our process: the built-in oracle serves from a process of its own, one
conversation at a time; ``environment`` is what tau2's code takes of it (environments, tools, orchestrator's calls of
them, evaluation). The first three trials of a domain are apart, with what a process does once. Peak memory is that of a
process with 32 conversations in flight at 50 ms a turn. Each task is held once: further trials of a task cost less.
``A2A_BENCH_TAU2_STOCK=1`` in the environment measures tau2's own environments.
"""

from __future__ import annotations

import argparse
import functools
import importlib
import json
import os
import resource
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

Row = dict[str, Any]

WARM = 3
"""Trials of a domain that are held before it is measured."""

COLUMNS = {
    "tasks": "tasks",
    "passed": "passed",
    "CPU ms": "cpu_ms",
    "env. ms": "environment_ms",
    "start s": "start_s",
    "peak MB": "peak_mb",
}
"""What ``--cpu`` prints of each row."""


def run(arguments: list[str], directory: Path) -> Row:
    """Run pytest once and return wall and CPU seconds and the peak memory of its processes."""
    before, clock = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *arguments],
        cwd=directory,
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[1])},
    )
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return {
        "wall_s": round(time.perf_counter() - clock, 2),
        "cpu_s": round(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime, 2),
        "exit": done.returncode,
        "last_line": (done.stdout.strip().splitlines() or [done.stderr.strip()])[-1],
    }


def rows(tasks: int, directory: Path) -> list[Row]:
    """Run every measurement."""
    (directory / "test_nothing.py").write_text("def test_nothing():\n    pass\n")
    oracle = ["--a2a-endpoint", "builtin:oracle"]
    slow = ["--a2a-endpoint", "builtin:oracle?latency=0.05"]
    first = " or ".join(f"[{i}-t0]" for i in range(tasks))
    plans: list[tuple[str, int, list[str]]] = [
        ("bare pytest, one test", 1, ["-p", "no:a2a_bench", "test_nothing.py"]),
        ("the same, plugin loaded", 1, ["test_nothing.py"]),
        ("collect 2,285 telecom tasks", 2285, [*oracle, "--a2a-suite", "telecom", "--a2a-split", "full", "--co"]),
    ]
    for domain, chosen in (("telecom", "split_small"), ("retail", first), ("airline", first)):
        for name, options in (
            ("1 at a time", []),
            ("16 in flight", ["--a2a-concurrency", "16"]),
            ("-n 2, 8 in flight", ["-n", "2", "--a2a-concurrency", "8"]),
        ):
            split = ["--a2a-split", "small"] if domain == "telecom" else []
            count = 20 if domain == "telecom" else tasks
            arguments = [*slow, "--a2a-suite", domain, *split, "-k", chosen, *options]
            plans.append((f"{domain}, 50 ms a turn, {name}", count, arguments))
    found = []
    for label, count, arguments in plans:
        row = {"what": label, "items": count, **run(arguments, directory)}
        row["items_per_s"] = round(count / row["wall_s"], 2)
        found.append(row)
        print(
            f"{label:45} {row['wall_s']:8.2f} {row['cpu_s']:8.2f} {row['items_per_s']:10.2f}  {row['last_line'][:60]}"
        )
    return found


# --- CPU and memory of our process ------------------------------------------------------------------------------------


class Spent:
    """CPU seconds inside certain functions, however they are nested, in whichever threads."""

    def __init__(self) -> None:
        self.seconds = 0.0
        self._depth = threading.local()

    def wrap(self, owner: Any, name: str) -> None:
        """Count what a function takes from now on."""
        function = getattr(owner, name)

        @functools.wraps(function)
        def counted(*args: Any, **kwargs: Any) -> Any:
            if getattr(self._depth, "inside", False):
                return function(*args, **kwargs)
            self._depth.inside, began = True, time.thread_time()
            try:
                return function(*args, **kwargs)
            finally:
                self._depth.inside = False
                self.seconds += time.thread_time() - began

        setattr(owner, name, counted)


def hold(domain: str, tasks: int, in_flight: int, latency: float) -> Row:
    """Hold trials in this process and return what they cost it."""
    sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "support"))
    from trials import run_against

    from pytest_a2a_bench.agents.options import start_builtin
    from pytest_a2a_bench.benchmarks.tau2 import benchmark, evaluate, index, upstream
    from pytest_a2a_bench.config.settings import Settings

    began = time.process_time()
    upstream.load()
    environments = importlib.import_module("tau2.environment.environment").Environment
    spent = Spent()
    for name in ("get_response", "set_state", "get_tools", "get_user_tools"):
        spent.wrap(environments, name)
    for owner, name in (
        (benchmark, "build_environment"),
        (benchmark, "tool_specs"),
        (benchmark, "user_tools"),
        (evaluate, "evaluate"),
    ):
        spent.wrap(owner, name)
    settings = Settings(concurrency=in_flight, tag_trials=True)
    keys = [task.key() for task in index.load_tasks(domain)][: tasks + WARM]
    with start_builtin(f"oracle?latency={latency}", settings) as agent, tempfile.TemporaryDirectory() as folder:

        def run_some(chosen: list[Any]) -> tuple[float, float, list[float]]:
            cpu, inside = time.process_time(), spent.seconds
            found = run_against(agent.url, settings, chosen, Path(folder))
            rewards = [r.reward_info.value if r.reward_info else -1.0 for r in found]
            return time.process_time() - cpu, spent.seconds - inside, rewards

        run_some(keys[:WARM])
        once = time.process_time() - began
        cpu, inside, rewards = run_some(keys[WARM:])
    return {
        "tasks": len(rewards),
        "passed": sum(r == 1.0 for r in rewards),
        "cpu_ms": round(cpu / len(rewards) * 1000, 2),
        "environment_ms": round(inside / len(rewards) * 1000, 2),
        "start_s": round(once, 2),
        "peak_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024,
    }


def cpu_rows(tasks: int, domains: list[str]) -> list[Row]:
    """Measure every domain, one at a time and 32 in flight."""
    found = []
    print(f"{'domain':10}{'in flight':>10}" + "".join(f"{name:>9}" for name in COLUMNS))
    for domain in domains:
        for in_flight, latency in ((1, 0.0), (32, 0.05)):
            plan = json.dumps([domain, tasks, in_flight, latency])
            done = subprocess.run(
                [sys.executable, __file__, "--hold", plan],
                stdout=subprocess.PIPE,
                text=True,
                check=True,
                env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[1])},
            )
            row = {"domain": domain, "in_flight": in_flight, **json.loads(done.stdout.splitlines()[-1])}
            found.append(row)
            print(
                f"{domain:10}{in_flight:10}" + "".join(f"{row[name]:9}" for name in COLUMNS.values()),
                flush=True,
            )
    return found


def main() -> None:
    """Measure and report."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", type=Path, default=Path(__file__).parent / "results" / "trials.json")
    parser.add_argument("--tasks", type=int, default=10, help="airline and retail tasks in each row")
    parser.add_argument("--cpu", action="store_true", help="what a task costs our process")
    parser.add_argument("--domains", default="airline,retail,telecom", help="with --cpu")
    parser.add_argument("--hold", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.hold:
        print(json.dumps(hold(*json.loads(options.hold))))
        return
    if options.cpu:
        write(options.json, cpu_rows(options.tasks, options.domains.split(",")))
        return
    print(f"{'what':45} {'wall s':>8} {'CPU s':>8} {'items/s':>10}")
    with tempfile.TemporaryDirectory() as directory:
        found = rows(options.tasks, Path(directory))
    write(options.json, found)


def write(path: Path, found: list[Row]) -> None:
    """Write rows as JSON."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps({"rows": found, "python": sys.version.split()[0]}, indent=1) + "\n")
    print(f"written to {path}")


if __name__ == "__main__":
    main()
