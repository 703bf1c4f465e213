"""How near to ideal many conversations at once are, with an agent that takes its time: 1 s a turn.

    python perf/parallel.py [--in-flight 32,256,1000] [--turns 10] [--latency 1.0] [--json FILE]

Each row is a process of its own in which so many conversations run as trials do, each in a thread of the pool, and say
``--turns`` messages one after another to an agent in another process. Ideal is turns times latency for all of them; the
share of ideal is that over the time from the first to the last. Memory is the process's peak above its peak with one
conversation, by the conversation. Prints a table and writes JSON.
"""

from __future__ import annotations

import argparse
import json
import platform
import resource
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

from peer import peer

_TEXT = "I would like to change my reservation, please. " * 4


def measure(url: str, in_flight: int, turns: int, latency: float) -> dict[str, Any]:
    """Hold the conversations in this process."""
    from pytest_a2a_bench.a2a.client import AgentConnection
    from pytest_a2a_bench.a2a.config import ClientConfig
    from pytest_a2a_bench.model import Part, TrialKey, TrialResult
    from pytest_a2a_bench.trials.pool import Pool

    with AgentConnection(ClientConfig(endpoint=url)) as connection:

        def run(key: TrialKey, cancel: threading.Event) -> TrialResult:
            session = connection.session()
            for _ in range(turns if key.task_key else 1):
                session.send([Part.of_text(_TEXT)])
            return TrialResult(key, "evaluated", "")

        warm = Pool(run, 1)
        warm.submit(TrialKey("perf", "turn", "warm", 0)).result()
        memory, cpu, clock = _peak(), time.process_time(), time.perf_counter()
        pool = Pool(run, in_flight)
        futures = [pool.submit(TrialKey("perf", "turn", str(i), 0)) for i in range(in_flight)]
        for future in futures:
            future.result()
        seconds = time.perf_counter() - clock
        found = {
            "in_flight": in_flight,
            "seconds": round(seconds, 2),
            "of_ideal": round(turns * latency / seconds, 3),
            "cpu_ms_per_turn": round((time.process_time() - cpu) / in_flight / turns * 1000, 3),
            "mb_per_conversation": round((_peak() - memory) / in_flight, 3),
        }
        pool.close()
        warm.close()
    return found


def _peak() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def main() -> None:
    """Measure and report."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--in-flight", default="32,256,1000")
    parser.add_argument("--turns", type=int, default=10)
    parser.add_argument("--latency", type=float, default=1.0)
    parser.add_argument("--json", type=Path, default=Path(__file__).parent / "results" / "parallel.json")
    parser.add_argument("--url", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.url:
        print(json.dumps(measure(options.url, int(options.in_flight), options.turns, options.latency)))
        return
    rows = []
    print(f"{'in flight':>9} {'seconds':>8} {'of ideal':>9} {'CPU ms a turn':>14} {'MB a conversation':>18}")
    for many in options.in_flight.split(","):
        with peer(options.latency) as url:
            command = [sys.executable, __file__, "--url", url, "--in-flight", many]
            command += ["--turns", str(options.turns), "--latency", str(options.latency)]
            row = json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
        print(
            f"{row['in_flight']:9} {row['seconds']:8.2f} {row['of_ideal']:9.0%} {row['cpu_ms_per_turn']:14.2f} "
            f"{row['mb_per_conversation']:18.2f}",
            flush=True,
        )
        rows.append(row)
    options.json.parent.mkdir(parents=True, exist_ok=True)
    written = {"rows": rows, "latency_s": options.latency, "turns": options.turns, "python": platform.python_version()}
    options.json.write_text(json.dumps(written, indent=1) + "\n")
    print(f"written to {options.json}")


if __name__ == "__main__":
    main()
