"""What pytest-a2a-bench costs: loading, collecting, and trials per second, side by side in one run.

    python perf/trials.py [--json FILE] [--tasks 20]

Prints a table and writes JSON. Every row is a process of its own, so that nothing is warm by accident.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

Row = dict[str, Any]


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


def main() -> None:
    """Measure and report."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", type=Path, default=Path(__file__).parent / "results" / "trials.json")
    parser.add_argument("--tasks", type=int, default=10, help="airline and retail tasks in each row")
    options = parser.parse_args()
    print(f"{'what':45} {'wall s':>8} {'CPU s':>8} {'items/s':>10}")
    with tempfile.TemporaryDirectory() as directory:
        found = rows(options.tasks, Path(directory))
    options.json.parent.mkdir(parents=True, exist_ok=True)
    options.json.write_text(json.dumps({"rows": found, "python": sys.version.split()[0]}, indent=1) + "\n")
    print(f"written to {options.json}")


if __name__ == "__main__":
    main()
