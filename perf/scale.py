"""The large, by simulation: a run of 100,000 trials whose agent only takes its time.

    python perf/scale.py [--trials 100000] [--in-flight 1000] [--compress 2.5] [--page 20000] [--json FILE]

Each conversation lasts as long as a log-normal law says (median 8 s, sigma 0.8), divided by ``--compress``; pool, store
and summary are the real ones. The table says how much of the ideal was reached (all conversations always in flight; at
real speed all CPU is counted as if everything waited for it), what a trial costs, and what the controller needs
afterwards: time and memory for the summary, and for a page of ``--page`` trials. CPU is that of this process; wall time
counts in the first row alone, which is about waiting.
"""

from __future__ import annotations

import argparse
import json
import math
import random
import resource
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

sys.path[:0] = [str(Path(__file__).parents[1]), str(Path(__file__).parents[1] / "tests" / "support")]

MEDIAN, SIGMA = 8.0, 0.8


def peak() -> float:
    """Return the most memory that this process has had, in MB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def flight(trials: int, in_flight: int, compress: float, directory: Path) -> dict[str, float]:
    """Hold all conversations through the real pool, and store each result."""
    from made_trials import made_trial

    from pytest_a2a_bench.model import TrialKey, TrialResult
    from pytest_a2a_bench.results.store import Store
    from pytest_a2a_bench.trials.pool import Pool

    store = Store(directory)
    store.prepare()
    source = random.Random(7)
    seconds = [MEDIAN * math.exp(SIGMA * source.gauss(0, 1)) / compress for _ in range(trials)]

    def run(key: TrialKey, *_: Any) -> TrialResult:
        number = int(key.task_id)
        time.sleep(seconds[number])
        return store.write(made_trial(str(key), success=number % 3 > 0, duration=seconds[number] * compress))

    keys = [TrialKey("made", "large", str(number), 0) for number in range(trials)]
    pool = Pool(run, in_flight)
    begin, cpu, before = time.perf_counter(), time.process_time(), peak()
    # As a schedule does: each result is taken in order, and let go of.
    for future, key in [(pool.submit(key), key) for key in keys]:
        future.result()
        pool.forget(key)
    wall, cpu = time.perf_counter() - begin, time.process_time() - cpu
    return {
        "of the ideal, compressed, %": 100 * sum(seconds) / in_flight / wall,
        "at real speed, at least, %": 100 * sum(seconds) / (sum(seconds) + (cpu / compress) * in_flight),
        "CPU per trial, ms": 1000 * cpu / trials,
        "more memory in flight, MB": peak() - before,
    }


def afterwards(directory: Path, page: int) -> dict[str, float]:
    """Do what the controller does when the last item has reported."""
    from itertools import islice

    from pytest_a2a_bench.reports.contents import Contents
    from pytest_a2a_bench.reports.html import render
    from pytest_a2a_bench.reports.reported import load_reported
    from pytest_a2a_bench.results.stats import summarise
    from pytest_a2a_bench.results.store import Store

    files = list((directory / "trials").glob("*.json"))
    found: dict[str, float] = {"files": len(files), "MB of files": sum(f.stat().st_size for f in files) / 1e6}
    reported = {str(r.key): {"status": r.status} for r in Store(directory).read_all()}
    before, cpu = peak(), time.process_time()
    results, _ = load_reported(directory, "run-1", reported)
    summarise(results, lambda result: "")
    found |= {"summary, CPU s": time.process_time() - cpu, "more memory for it, MB": peak() - before}
    shown = [*islice(Store(directory).read_all(), page)]
    before, cpu = peak(), time.process_time()
    text = render(Contents(trials=shown, agent="simulated"))
    found |= {
        "trials on the page": len(shown),
        "page, CPU s": time.process_time() - cpu,
        "page, MB": len(text) / 1e6,
        "more memory for it all, MB": peak() - before,
    }
    return found


def main() -> None:
    """Measure and report."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--trials", type=int, default=100_000)
    parser.add_argument("--in-flight", type=int, default=1_000)
    parser.add_argument("--compress", type=float, default=2.5)
    parser.add_argument("--page", type=int, default=20_000)
    parser.add_argument("--json", type=Path, default=Path(__file__).parent / "results" / "scale.json")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as directory:
        found = flight(options.trials, options.in_flight, options.compress, Path(directory))
        found |= afterwards(Path(directory), options.page)
    print(f"{options.trials} trials, {options.in_flight} in flight, time compressed {options.compress:g} times")
    for name, value in found.items():
        print(f"{name:32} {value:12,.2f}")
    options.json.parent.mkdir(parents=True, exist_ok=True)
    row = {"trials": options.trials, "in_flight": options.in_flight, "compress": options.compress, **found}
    options.json.write_text(json.dumps(row, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
