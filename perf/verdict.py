"""What a verdict costs: a baseline gate over many trials, and a merge of many shards.

    python perf/verdict.py [--json FILE] [--trials 10000] [--merged 5000] [--shards 50]

Prints a table and writes JSON: CPU and wall seconds of each step, and its instructions where the kernel counts them.
"""

from __future__ import annotations

import argparse
import dataclasses
import functools
import json
import random
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from counting import count_here, millions, versions

sys.path.insert(0, str(Path(__file__).parents[1]))
sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "support"))

from made_trials import made_trial, many_trials

from pytest_a2a_bench.gates.judge import judge
from pytest_a2a_bench.gates.terms import Thresholds, Trials
from pytest_a2a_bench.model import TrialResult
from pytest_a2a_bench.results import manifest
from pytest_a2a_bench.results.baseline import Baseline
from pytest_a2a_bench.results.manifest import Manifest
from pytest_a2a_bench.results.merge import merge
from pytest_a2a_bench.results.store import Store

Row = dict[str, Any]


def run_of(trials: int, each: int, run_id: str, seed: int) -> list[TrialResult]:
    """Make a run up: five domains, three trials of five successful, ``each`` trials of a task."""
    source = random.Random(seed)
    return [
        made_trial(f"made/d{i // each % 5}/{i // each}#{i % each}", success=source.random() < 0.6, run_id=run_id)
        for i in range(trials)
    ]


def measured(what: str, work: Callable[[], object]) -> Row:
    """Do some work, show what it cost, and return that."""
    began = time.perf_counter()
    cost = count_here(work)
    wall = time.perf_counter() - began
    print(f"{what:44} {cost.cpu or 0:7.2f} {wall:7.2f} {millions(cost.instructions):>10}", flush=True)
    return {"what": what, "cpu_s": cost.cpu, "wall_s": wall, "instructions": cost.instructions}


def write_shards(root: Path, trials: int, shards: int) -> list[Path]:
    """Write the results of a sharded run, and return its directories."""
    results = list(many_trials(trials, turns=6))
    whole = tuple(str(r.key) for r in results)
    directories = []
    for shard in range(shards):
        store = Store(root / f"shard-{shard}")
        store.prepare()
        mine = results[shard::shards]
        for result in mine:
            written = dataclasses.replace(result, run_id=f"run-{shard}")
            store.path(result.key).write_text(json.dumps(written.to_json(), ensure_ascii=False, indent=1))
        keys = tuple(str(r.key) for r in mine)
        Manifest(f"run-{shard}", "http://agent/", "made", whole, keys, shard=f"{shard + 1}/{shards}").write(
            store.directory
        )
        directories.append(store.directory)
    return directories


def gates(trials: int) -> Iterator[Row]:
    """Measure a floor and a baseline of as many trials, with one trial of each task and with eight."""
    for each in (8, 1):
        baseline = Baseline.of(run_of(trials, each, "before", 1), "before")
        now = Trials(results=tuple(run_of(trials, each, "now", 2)))
        judged = functools.partial(judge, now, Thresholds(min_pass={"": 0.5}), baseline)
        yield measured(f"gate, {trials:,} trials, {each} of each task", judged)


def merges(trials: int, shards: int) -> Iterator[Row]:
    """Measure a merge, and reading what it wrote."""
    with tempfile.TemporaryDirectory() as name:
        directories = write_shards(Path(name), trials, shards)
        output = Path(name) / "whole"
        yield measured(f"merge of {trials:,} trials in {shards} shards", lambda: merge(directories, output))
        yield measured("reading them", lambda: manifest.load_selected(output))


def main() -> None:
    """Measure and report."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", type=Path, default=Path(__file__).parent / "results" / "verdict.json")
    parser.add_argument("--trials", type=int, default=10_000)
    parser.add_argument("--merged", type=int, default=5_000)
    parser.add_argument("--shards", type=int, default=50)
    options = parser.parse_args()
    print(f"{'what':44} {'CPU s':>7} {'wall s':>7} {'M instr.':>10}")
    found = [*gates(options.trials), *merges(options.merged, options.shards)]
    options.json.parent.mkdir(parents=True, exist_ok=True)
    options.json.write_text(json.dumps({"rows": found, **versions("pydantic")}, indent=1) + "\n")
    print(f"written to {options.json}")


if __name__ == "__main__":
    main()
