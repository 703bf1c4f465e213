"""How many trajectories the stock tau2 confirms: agents x domains x dialects, every message and the whole reward.

    python perf/verified.py [--domains airline,mock] [--agents random] [--dialects each] [--seed 7] [--processes 2]
                            [--data CHECKOUT]

With ``--dialects turns`` (the default) every agent holds every base task once, the dialects by turns; ``each`` holds
every task in each of them. Exits 1 where anything differs, or a verification failed.
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "agents"))
sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "support"))

from tau2_verified import AGENTS, DIALECTS, DOMAINS, Found, Table

from pytest_a2a_bench.benchmarks.tau2 import index
from pytest_a2a_bench.benchmarks.tau2.editions import data_directory
from pytest_a2a_bench.benchmarks.tau2.sources import INSTALLED

COLUMNS = ("verified", "not_verifiable", "differs", "failed")


def main() -> int:
    """Hold, verify, and print one row for each agent, domain and dialect."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--domains", default=",".join(DOMAINS))
    parser.add_argument("--agents", default=",".join(AGENTS))
    parser.add_argument("--dialects", choices=("turns", "each"), default="turns")
    parser.add_argument("--seed", type=int, default=0, help="of the random agent")
    parser.add_argument("--processes", type=int, default=1)
    parser.add_argument("--data", default=INSTALLED, help="as --a2a-tau2-data; by default the installed ones")
    chosen = parser.parse_args()
    rows: dict[tuple[str, str, str], Counter[str]] = {}
    data = None if chosen.data == INSTALLED else data_directory(Path(chosen.data))
    with Table(chosen.processes, chosen.seed, chosen.data) as table:
        for domain in chosen.domains.split(","):
            keys = [task.key() for task in index.load_tasks(domain, data=data)]
            for agent in chosen.agents.split(","):
                for turn, dialect in enumerate(DIALECTS):
                    mine = keys if chosen.dialects == "each" else keys[turn :: len(DIALECTS)]
                    found = table.run(agent, mine, dialect, _tell)
                    counted = rows[agent, domain, dialect] = Counter(v.status for r, v in found if r.is_finished)
                    # Trouble of the infrastructure is no trajectory.
                    counted["not_held"] = sum(not result.is_finished for result, _ in found)
                    print(f"{agent} {domain} {dialect}: {dict(counted)}", file=sys.stderr, flush=True)
    print("| agent | domain | " + " | ".join(DIALECTS) + " |")
    print("|---" * (2 + len(DIALECTS)) + "|")
    for agent, domain in dict.fromkeys((a, d) for a, d, _ in rows):
        cells = [_cell(rows[agent, domain, dialect]) for dialect in DIALECTS]
        print(f"| {agent} | {domain} | " + " | ".join(cells) + " |")
    every = sum(rows.values(), Counter())
    print(", ".join(f"{name} {every[name]}" for name in (*COLUMNS, "not_held")))
    return int(bool(every["differs"] or every["failed"] or every["not_held"]))


def _cell(counted: Counter[str]) -> str:
    verifiable = sum(counted[name] for name in COLUMNS if name != "not_verifiable")
    apart = f" (+{counted['not_verifiable']})" if counted["not_verifiable"] else ""
    return f"{counted['verified']}/{verifiable}{apart}"


def _tell(found: Found) -> None:
    result, verification = found
    if verification.status in ("differs", "failed") or not result.is_finished:
        print(f"{result.key}: {result.status} {result.error or ''} {verification.status}", file=sys.stderr)
        for line in (verification.reason, *verification.differences):
            print(f"    {line}", file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
