"""What judging an agent costs: checks per second and the whole time, against real servers in processes of their own.

    python perf/conformance.py [--json FILE] [--repeat 3]

Prints a table and writes JSON. The server is one on a2a-sdk (``builtin:noop``, which needs no waiting) and our own one
with every scenario (``tests/servers/faulty``), so that what is slow by intention shows beside what is not.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import resource
import statistics
import subprocess
import sys
import time
from collections import Counter
from importlib.metadata import version
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))
sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "support"))
sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "servers"))

from faulty_server import start_faulty
from judged import collect

from pytest_a2a_bench.a2a.config import ClientConfig
from pytest_a2a_bench.agents.options import start_builtin
from pytest_a2a_bench.conformance.card import check_card
from pytest_a2a_bench.conformance.card.fetch import fetch_card_async
from pytest_a2a_bench.conformance.scenarios import SCENARIOS, Scenarios
from pytest_a2a_bench.conformance.target import Target, targets_of

Row = dict[str, Any]

EVERY_SCENARIO = Scenarios({key: f"{key} please" for key in SCENARIOS if key not in ("default", "task", "large")})
PLANS: tuple[tuple[str, str, Scenarios, tuple[str, ...]], ...] = (
    ("a2a-sdk server, JSON-RPC", "noop?protocol=1.0&reply=task", Scenarios(), ("JSONRPC",)),
    ("a2a-sdk server, HTTP+JSON", "noop?protocol=1.0&reply=task", Scenarios(), ("HTTP+JSON",)),
    ("a2a-sdk server, gRPC", "noop?protocol=1.0&reply=task", Scenarios(), ("GRPC",)),
    ("a2a-sdk server, all bindings", "noop?protocol=1.0&reply=task", Scenarios(), ()),
    ("a2a-sdk server, 1.0 and 0.3", "noop?reply=task", Scenarios(), ()),
    ("own server, nothing slow", "faulty", Scenarios(), ()),
    ("own server, every scenario", "faulty", EVERY_SCENARIO, ()),
)


async def judge(url: str, scenarios: Scenarios, bindings: tuple[str, ...]) -> tuple[Counter[str], float]:
    """Judge one agent once, its card and its interfaces."""
    started = time.perf_counter()
    card, served, _ = await fetch_card_async(url)
    check_card(card, url=url, http=served)
    config = ClientConfig(endpoint=url)
    found: list[Target] = [
        target
        for target in targets_of(card or {}, url, config=config, scenarios=scenarios)
        if not bindings or target.binding in bindings
    ]
    results = await collect(found)
    seconds = time.perf_counter() - started
    return Counter(result.outcome for result in results), seconds


def measure(name: str, spec: str, scenarios: Scenarios, bindings: tuple[str, ...], repeat: int) -> Row:
    """Judge a freshly started agent several times, each time over new connections."""
    times, cpu = [], []
    with start_faulty() if spec == "faulty" else start_builtin(spec) as agent:
        for _ in range(repeat):
            before = resource.getrusage(resource.RUSAGE_SELF)
            counts, seconds = asyncio.run(judge(agent.url, scenarios, bindings))
            after = resource.getrusage(resource.RUSAGE_SELF)
            times.append(seconds)
            cpu.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
    made = sum(counts.values()) - counts["skipped"]
    return {
        "what": name,
        "checks": made,
        "skipped": counts["skipped"],
        "found": counts["failed"] + counts["warned"] + counts["error"],
        "wall_s": round(statistics.median(times), 2),
        "cpu_s": round(statistics.median(cpu), 2),
        "checks_per_s": round(made / statistics.median(times)),
    }


def command_line(spec: str, repeat: int) -> Row | None:
    """Time the command as a user sees it, imports and all."""
    command = [sys.executable, "-m", "pytest_a2a_bench.cli", "check"]
    times, cpu = [], []
    with start_faulty() if spec == "faulty" else start_builtin(spec) as agent:
        for _ in range(repeat):
            # The agent is a child, too, and is not counted before it has ended.
            before, started = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
            done = subprocess.run(
                [*command, agent.url, "--format", "json"],
                cwd=Path(__file__).parents[1],
                capture_output=True,
                text=True,
                check=False,
            )
            times.append(time.perf_counter() - started)
            after = resource.getrusage(resource.RUSAGE_CHILDREN)
            cpu.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
    seconds = statistics.median(times)
    if done.returncode not in (0, 1):
        print(f"a2a-bench check could not run: {done.stderr.strip()}", file=sys.stderr)
        return None
    counts = json.loads(done.stdout).get("counts", {})
    made = sum(count for status, count in counts.items() if status != "skipped")
    return {
        "what": "the same by a2a-bench check",
        "checks": made,
        "skipped": counts.get("skipped", 0),
        "found": sum(counts.get(status, 0) for status in ("failed", "warned", "error")),
        "wall_s": round(seconds, 2),
        "cpu_s": round(statistics.median(cpu), 2),
        "checks_per_s": round(made / seconds),
    }


def show(row: Row) -> None:
    """Print one line of the table."""
    cpu = "" if row["cpu_s"] is None else f"{row['cpu_s']:.2f}"
    print(
        f"{row['what']:36} {row['checks']:7} {row['skipped']:8} {row['found']:6} {row['wall_s']:8.2f} "
        f"{cpu:>7} {row['checks_per_s']:9}"
    )


def main() -> None:
    """Measure and report."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", type=Path, default=Path(__file__).parent / "results" / "conformance.json")
    parser.add_argument("--repeat", type=int, default=3, help="runs of each row; the median is shown")
    options = parser.parse_args()
    titles = f"{'what':36} {'checks':>7} {'skipped':>8} {'found':>6} {'wall s':>8} {'CPU s':>7}"
    print(f"{titles} {'checks/s':>9}")
    rows = []
    for row in PLANS:
        rows.append(measure(*row, options.repeat))
        show(rows[-1])
    if by_command := command_line("noop?protocol=1.0&reply=task", options.repeat):
        rows.append(by_command)
        show(by_command)
    options.json.parent.mkdir(parents=True, exist_ok=True)
    about = {"python": sys.version.split()[0], "a2a-sdk": version("a2a-sdk"), "repeat": options.repeat}
    options.json.write_text(json.dumps({"rows": rows, **about}, indent=1) + "\n")
    print(f"written to {options.json}")


if __name__ == "__main__":
    main()
