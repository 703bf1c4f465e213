"""Whether a correct agent stays without a finding on a machine that is busy with something else.

    python perf/noise.py [--runs 20] [--burners 20] [--agent faulty] [--binding JSONRPC] [--json FILE]

Starts the agent in a process of its own, keeps every core busy with processes that only count, and judges the agent
again and again with every scenario, all bindings and the default concurrency. Prints for each run how long it took,
what was found, and what was ``inconclusive``: found once, and not again alone. Exits with 1 if anything was found.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import multiprocessing
import os
import sys
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

from pytest_a2a_bench.a2a.config import ClientConfig
from pytest_a2a_bench.agents.launcher import start_builtin
from pytest_a2a_bench.conformance.card import fetch_card_async
from pytest_a2a_bench.conformance.engine import collect
from pytest_a2a_bench.conformance.finding import CheckResult
from pytest_a2a_bench.conformance.scenarios import SCENARIOS, Scenarios
from pytest_a2a_bench.conformance.session.target import targets_of

EVERY_SCENARIO = Scenarios({key: f"{key} please" for key in SCENARIOS if key not in ("default", "task", "large")})


def burn() -> None:
    """Count for ever."""
    number = 0
    while True:
        number += 1


@contextlib.contextmanager
def burning(count: int) -> Iterator[None]:
    """Keep so many processes busy."""
    processes = [multiprocessing.Process(target=burn, daemon=True) for _ in range(count)]
    for process in processes:
        process.start()
    try:
        yield
    finally:
        for process in processes:
            process.kill()


async def judge(url: str, binding: str) -> tuple[CheckResult, ...]:
    """Judge one agent once."""
    card, _, _ = await fetch_card_async(url)
    targets = targets_of(card or {}, url, config=ClientConfig(endpoint=url), scenarios=EVERY_SCENARIO)
    return await collect([t for t in targets if binding in ("", t.binding)])


def main() -> int:
    """Judge, and report."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=20)
    parser.add_argument("--burners", type=int, default=20, help="processes that only count")
    parser.add_argument("--agent", default="faulty", help="a built-in agent that breaks no requirement")
    parser.add_argument("--binding", default="", help="only this one")
    parser.add_argument("--json", type=Path, help="write the runs there")
    options = parser.parse_args()
    rows: list[dict[str, Any]] = []
    with burning(options.burners), start_builtin(options.agent) as agent:
        for number in range(1, options.runs + 1):
            started = time.monotonic()
            results = asyncio.run(judge(agent.url, options.binding))
            told = {
                kind: {r.name: (r.findings[0].found if r.findings else r.reason) for r in results if r.outcome in kinds}
                for kind, kinds in (("found", ("failed", "warned", "error")), ("inconclusive", ("inconclusive",)))
            }
            row = {"run": number, "seconds": round(time.monotonic() - started, 1), "load": round(os.getloadavg()[0], 1)}
            rows.append({**row, **told, "counts": dict(Counter(r.outcome for r in results))})
            print(f"{row}  found {len(told['found'])}  inconclusive {len(told['inconclusive'])}", flush=True)
            for kind, names in told.items():
                for name, text in names.items():
                    print(f"    {kind}: {name}: {text:.200}", flush=True)
    if options.json:
        options.json.write_text(json.dumps(rows, indent=1) + "\n")
    found = sum(len(row["found"]) for row in rows)
    inconclusive = sum(len(row["inconclusive"]) for row in rows)
    print(f"{len(rows)} runs with {options.burners} burners: {found} findings, {inconclusive} inconclusive")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
