"""What CRMArena's local org costs: queries and tasks per second, and memory, on the mini org and on a large one.

    python perf/crmarena.py [--json FILE] [--seconds 2]

Prints a table and writes JSON. Every org is measured in a process of its own, so that memory is that org's alone. The
large org has as many rows of each object as CRMArena-Pro's b2b org, made up by the same generator.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))

Row = dict[str, Any]

QUERIES = {
    "one record by id": "SELECT Id, Subject, Status FROM Case WHERE Id = '{case}'",
    "filter and sort": "SELECT Id, Subject FROM Case WHERE Status = 'Closed' ORDER BY CreatedDate DESC LIMIT 20",
    "parents": "SELECT Id, Owner.LastName, Account.Name FROM Case WHERE Account.ShippingState != null LIMIT 50",
    "children": "SELECT Id, (SELECT Id, Subject FROM Cases) FROM Account LIMIT 20",
    "group and count": "SELECT OwnerId, COUNT(Id) n FROM Case GROUP BY OwnerId HAVING COUNT(Id) > 1",
    "semi-join": "SELECT Id FROM Account WHERE Id IN (SELECT AccountId FROM Case WHERE Status = 'Closed')",
    "scan all emails": "SELECT Id FROM EmailMessage WHERE Subject LIKE '%no such words%'",
    "every line item": "SELECT Id, Quantity, UnitPrice FROM OpportunityLineItem",
    "search": "FIND {{policy}} IN ALL FIELDS RETURNING Knowledge__kav(Id, Title LIMIT 5)",
    "refused": "SELECT Nothing FROM Case",
}


def measure_org(name: str, sizes: Sequence[tuple[str, int]], seconds: float) -> list[Row]:
    """Build an org and measure each kind of query, alone and from four threads."""
    from pytest_a2a_bench.benchmarks.crmarena.mini.org import build
    from pytest_a2a_bench.benchmarks.crmarena.org.local import LocalOrg

    clock = time.perf_counter()
    mini = build(sizes=tuple(sizes))
    built = time.perf_counter() - clock
    clock = time.perf_counter()
    org = LocalOrg.from_rows(mini.rows, mini.schema, name=name, today=mini.today)
    opened = time.perf_counter() - clock
    rows = sum(map(len, mini.rows.values()))
    found: list[Row] = [{"org": name, "what": f"build {rows} rows", "per_s": round(1 / built, 2)}]
    found.append({"org": name, "what": "open the org", "per_s": round(1 / opened, 2)})
    for label, text in QUERIES.items():
        query = text.format(case=mini.rows["Case"][0]["Id"])
        found.append({"org": name, "what": label, **rate(org, query, seconds)})
    found.append({"org": name, "what": "all of these, 4 threads", "per_s": together(org, mini, seconds)})
    found.append({"org": name, "what": "peak memory, MB", "rss_mb": peak_memory()})
    org.close()
    return found


def rate(org: Any, query: str, seconds: float) -> Row:
    """Return how often a query is answered in a second, and how many rows it reads."""
    read = ask(org, query)
    times, clock = 0, time.perf_counter()
    while time.perf_counter() - clock < seconds:
        ask(org, query)
        times += 1
    return {"per_s": round(times / (time.perf_counter() - clock), 1), "rows": read}


def ask(org: Any, query: str) -> int:
    from pytest_a2a_bench.benchmarks.crmarena.org.base import OrgError

    try:
        return int(org.run(query).rows_read)
    except OrgError:
        return 0


def together(org: Any, mini: Any, seconds: float) -> float:
    """Return queries per second of four threads that ask everything in turn."""
    queries = [text.format(case=mini.rows["Case"][0]["Id"]) for text in QUERIES.values()]
    clock = time.perf_counter()

    def work(_: int) -> int:
        times = 0
        while time.perf_counter() - clock < seconds:
            for query in queries:
                ask(org, query)
            times += len(queries)
        return times

    with ThreadPoolExecutor(4) as threads:
        every = sum(threads.map(work, range(4)))
    return round(every / (time.perf_counter() - clock), 1)


def peak_memory() -> float:
    return round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024, 1)


def measure_tasks(label: str, arguments: list[str], directory: Path) -> Row:
    """Run pytest once over the mini org's tasks."""
    clock = time.perf_counter()
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--a2a-suite", "mini", *arguments],
        cwd=directory,
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    wall = time.perf_counter() - clock
    last = (done.stdout.strip().splitlines() or [done.stderr.strip()])[-1]
    return {"org": "mini", "what": label, "per_s": round(220 / wall, 2), "wall_s": round(wall, 1), "last_line": last}


def show(row: Row) -> None:
    value = f"{row['rss_mb']:.0f} MB" if "rss_mb" in row else f"{row['per_s']:.1f}"
    print(f"{row['org']:10} {row['what']:32} {value:>12} {row.get('rows', ''):>8}  {row.get('last_line', '')}")


def main() -> None:
    """Measure and report."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", type=Path, default=Path(__file__).parent / "results" / "crmarena.json")
    parser.add_argument("--seconds", type=float, default=2.0, help="for each kind of query")
    options = parser.parse_args()
    print(f"{'org':10} {'what':32} {'per second':>12} {'rows':>8}")
    found: list[Row] = []
    from pytest_a2a_bench.benchmarks.crmarena.mini.rot import B2B_SIZES

    fresh = multiprocessing.get_context("spawn")
    for name, sizes in (("mini", ()), ("b2b size", B2B_SIZES)):
        with fresh.Pool(1) as pool:
            rows = pool.apply(measure_org, (name, sizes, options.seconds))
        for row in rows:
            show(row)
        found += rows
    with tempfile.TemporaryDirectory() as directory:
        for label, arguments in (
            ("tasks, oracle, 1 at a time", ["--a2a-endpoint", "builtin:oracle"]),
            ("tasks, oracle, 8 in flight", ["--a2a-endpoint", "builtin:oracle", "--a2a-concurrency", "8"]),
            ("tasks, solver, 8 in flight", ["--a2a-endpoint", "builtin:solver", "--a2a-concurrency", "8"]),
        ):
            row = measure_tasks(label, arguments, Path(directory))
            show(row)
            found.append(row)
    options.json.parent.mkdir(parents=True, exist_ok=True)
    options.json.write_text(json.dumps({"rows": found, "python": sys.version.split()[0]}, indent=1) + "\n")
    print(f"written to {options.json}")


if __name__ == "__main__":
    main()
