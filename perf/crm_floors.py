"""What constant answers are worth on the mini org, by profile and scoring.

python perf/crm_floors.py [--seed N] [--tasks N]
"""

from __future__ import annotations

import argparse

from pytest_a2a_bench.benchmarks.crmarena.floors import measure_floors
from pytest_a2a_bench.benchmarks.crmarena.mini.org import build


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--tasks", type=int, default=10, help="of each category")
    chosen = parser.parse_args()
    tasks = build(seed=chosen.seed, tasks_per_category=chosen.tasks).tasks
    twins = [task.with_twin() for task in tasks]
    for profile, scoring, as_asked in (
        ("strict", "fixed", twins),
        ("strict", "compat", twins),
        ("official", "compat", tasks),
    ):
        floors = measure_floors(as_asked, profile=profile, scoring=scoring)  # type: ignore[arg-type]
        print(f"{profile}, {scoring}:", ", ".join(f"{name} {worth:.1%}" for name, worth in floors.items()))


if __name__ == "__main__":
    main()
