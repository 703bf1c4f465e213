"""How agents fare with the scripted user: passes of agents x domains, by tau2's stock orchestrator and evaluator.

    python perf/scripted_user.py [--domains airline,retail] [--agents terse] [--phrasings a] [--every 6] [--failures]

Every agent (tests/support/tau2_agents.py) wraps the golds of all base tasks and acts only if the user plays its part.
Exits 1 where a cooperating agent passes less than 98 % of a domain.
Sets of phrasings: `tuned` made the user, the others mended it (tests/support/phrasings/*.toml).
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "support"))

from tau2_agents import AGENTS, SETS
from tau2_table import Table, load

DOMAINS = ("airline", "retail", "telecom", "mock")
IDLE = ("noop", "echo")
AIM = 0.98


def main() -> int:
    """Measure and print one table for each set of phrasings, with one row for each agent."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--domains", default=",".join(DOMAINS))
    parser.add_argument("--agents", default=",".join(AGENTS))
    parser.add_argument(
        "--phrasings", default=",".join(SETS), help="sets of tests/support/phrasings (default: %(default)s)"
    )
    parser.add_argument("--every", type=int, default=1, metavar="N", help="hold each Nth task only (default: all)")
    parser.add_argument("--failures", action="store_true", help="name the tasks that did not pass, and why")
    chosen = parser.parse_args()
    known: dict[tuple[str, str], float] = {}
    met = [measure(Table(name, known), chosen) for name in chosen.phrasings.split(",")]
    return int(not all(met))


def measure(table: Table, chosen: argparse.Namespace) -> bool:
    """Print the table of one set; return whether the aim is met."""
    met = True
    rows: dict[str, list[str]] = {agent: [] for agent in chosen.agents.split(",")}
    domains = chosen.domains.split(",")
    for domain in domains:
        tasks = load(domain)[:: chosen.every]
        for agent, cells in rows.items():
            results = [(task.id, *table.run(domain, task, agent)) for task in tasks]
            passed = sum(reward == 1.0 for _, reward, _ in results)
            met &= agent in IDLE or passed >= AIM * len(tasks)
            cells.append(f"{passed}/{len(tasks)}")
            print(f"{table.phrasings} {domain} {agent}: {cells[-1]}", file=sys.stderr, flush=True)
            for task_id, reward, why in results if chosen.failures and agent not in IDLE else ():
                if reward != 1.0:
                    print(f"    {task_id}: {reward} {why}", file=sys.stderr)
    print(f"Phrasings: {table.phrasings}\n")
    print("| agent | " + " | ".join(domains) + " |")
    print("|---" * (len(domains) + 1) + "|")
    for agent, cells in rows.items():
        print(f"| {agent} | " + " | ".join(cells) + " |")
    print()
    return met


if __name__ == "__main__":
    sys.exit(main())
