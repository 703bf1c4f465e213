"""How two assessors with one database answer many who poll, while they hold assessments.

    python perf/assessor.py [--clients 100] [--seconds 60] [--database postgresql|sqlite] [--json FILE]

Starts PostgreSQL (Debian's, as root), two `a2a-bench assess` with one database and one results directory, and a
built-in agent. Assessments are asked for at either; each client asks for a task's state every two seconds, of the first
one and the other in turn, and `--viewers` follow the page's events. Prints a table, writes JSON, and fails if any
answer is an error, tells of an earlier state than one before, or any assessment comes to other numbers than it should.
In the end assessments of an agent that does not answer are cancelled: how long until the caller has heard that, and
until the agent's connections are free, beside an exchange (the median of 20 requests for a state, one after the other),
and the assessor's CPU time in between.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import itertools
import json
import os
import random
import statistics
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Coroutine, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "tests" / "support"))
from postgresql import missing, postgresql  # noqa: E402 (support of the tests, which are no package)

CLI = (sys.executable, "-m", "pytest_a2a_bench.cli")
TASKS = 5
CONFIG = {"domain": "mock", "num_tasks": TASKS, "num_trials": 4, "tag_trials": True, "concurrency": 2}
CANCELLED = ("mock", "mini", "conformance")
EVERY = 2.0
ORDER = ("SUBMITTED", "WORKING", "COMPLETED")
PAGE = os.sysconf("SC_PAGE_SIZE")
TICK = os.sysconf("SC_CLK_TCK")


@dataclass
class Seen:
    """What clients saw.

    :param seconds: that each answer took; :param wrong: what was no answer, or an impossible one, how often.
    :param last: the furthest state of each task that anybody was told.
    """

    seconds: list[float] = field(default_factory=list)
    wrong: Counter[str] = field(default_factory=Counter)
    last: dict[str, int] = field(default_factory=dict)
    results: dict[str, dict[str, Any]] = field(default_factory=dict)
    events: int = 0

    def take(self, task: str, told: dict[str, Any], asked_after: int) -> None:
        """Take the answer about a task.

        :param asked_after: the state that was known when it was asked for.
        """
        state = told["status"]["state"].removeprefix("TASK_STATE_")
        if state not in ORDER:
            self.wrong[f"state {state}"] += 1
            return
        if ORDER.index(state) < asked_after:
            self.wrong["an earlier state than before"] += 1
        self.last[task] = max(self.last.get(task, 0), ORDER.index(state))
        if state == "COMPLETED":
            self.results[task] = told["artifacts"][0]["parts"][1]["data"]


@contextlib.contextmanager
def started(arguments: Sequence[str], environ: dict[str, str], log: Path) -> Iterator[tuple[str, int]]:
    """Run one of our servers as long as the context lasts, and give its URL and process id."""
    with log.open("w") as errors:
        process = subprocess.Popen([*CLI, *arguments], env=environ, stdout=subprocess.PIPE, stderr=errors, text=True)
        try:
            assert process.stdout is not None
            line = process.stdout.readline()
            words = [word for word in line.split() if word.startswith("http://")]
            if not words:
                raise SystemExit(f"{arguments[0]} did not start: {line}{log.read_text()[-2000:]}")
            yield words[0].rstrip(",/") + "/", process.pid
        finally:
            process.terminate()
            process.wait(60)
            if process.stdout is not None:
                process.stdout.close()


async def call(client: httpx.AsyncClient, url: str, method: str, params: dict[str, Any]) -> dict[str, Any]:
    """Make a JSON-RPC call of A2A 1.0.

    :raises ValueError: for an error in the place of a result.
    """
    body = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
    answer = await client.post(url, json=body, headers={"A2A-Version": "1.0"})
    answer.raise_for_status()
    found: dict[str, Any] = answer.json()
    if "result" not in found:
        raise ValueError(f"error {found['error'].get('code')}")
    return dict(found["result"])


async def ask(client: httpx.AsyncClient, url: str, agent: str, number: object, config: dict[str, Any]) -> str:
    """Ask for an assessment, and return its task."""
    text = json.dumps({"participants": {"agent": agent}, "config": config})
    message = {"messageId": f"m-{number}", "role": "ROLE_USER", "parts": [{"text": text}]}
    params = {"message": message, "configuration": {"returnImmediately": True}}
    return str((await call(client, url, "SendMessage", params))["task"]["id"])


async def poll(seen: Seen, client: httpx.AsyncClient, urls: Sequence[str], task: str, until: float) -> None:
    """Ask for a task's state, of each assessor in turn, until it is time."""
    await asyncio.sleep(random.random() * EVERY)
    for url in itertools.cycle(urls):
        known, began = seen.last.get(task, 0), time.perf_counter()
        if time.monotonic() > until:
            return
        try:
            seen.take(task, await call(client, url, "GetTask", {"id": task}), known)
        except (httpx.HTTPError, ValueError) as error:
            seen.wrong[f"{type(error).__name__} {error}"[:80]] += 1
        seen.seconds.append(time.perf_counter() - began)
        await asyncio.sleep(max(0.0, EVERY - (time.perf_counter() - began)))


async def view(seen: Seen, client: httpx.AsyncClient, url: str, until: float) -> None:
    """Follow the page's events."""
    async with client.stream("GET", f"{url}events") as answer:
        async for line in answer.aiter_lines():
            seen.events += line.startswith("data:")
            if time.monotonic() > until:
                return


def poll_all(
    seen: Seen, client: httpx.AsyncClient, urls: Sequence[str], tasks: Sequence[str], clients: int, until: float
) -> list[Coroutine[Any, Any, None]]:
    """Return all clients at work, each with one of the tasks."""
    return [poll(seen, client, urls, tasks[n % len(tasks)], until) for n in range(clients)]


def spent(pid: int) -> tuple[float, float]:
    """Return CPU seconds and resident megabytes of a process."""
    stat = Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2].split()
    resident = int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * PAGE / 2**20
    return (int(stat[11]) + int(stat[12])) / TICK, resident


def connections(port: int) -> int:
    """Return how many connections to a port of this machine are open from both sides."""
    lines = [line.split() for line in Path("/proc/net/tcp").read_text().splitlines()[1:]]
    return sum(int(line[1].rpartition(":")[2], 16) == port and line[3] == "01" for line in lines)


async def cancel(client: httpx.AsyncClient, url: str, pid: int, agent: str, domain: str) -> dict[str, float]:
    """Cancel an assessment whose agent owes it answers; return milliseconds, and how many exchanges these are."""
    port = httpx.URL(agent).port or 80
    task = await ask(client, url, agent, domain, {"domain": domain})
    while not connections(port):
        await asyncio.sleep(0.05)
    await asyncio.sleep(1.0)  # then all that are at once are under way
    exchanges = []
    for _ in range(20):
        began = time.perf_counter()
        await call(client, url, "GetTask", {"id": task})
        exchanges.append(time.perf_counter() - began)
    before, began = spent(pid)[0], time.perf_counter()
    told = await call(client, url, "CancelTask", {"id": task})
    heard = time.perf_counter() - began
    while connections(port):
        await asyncio.sleep(0.002)
    free, cpu = time.perf_counter() - began, spent(pid)[0] - before
    if told["status"]["state"] != "TASK_STATE_CANCELED":
        raise ValueError(f"{domain}: {told['status']['state']} where it was cancelled")
    usual = statistics.median(exchanges)
    return {
        "heard_ms": round(1000 * heard, 1),
        "free_ms": round(1000 * free, 1),
        "exchange_ms": round(1000 * usual, 1),
        "heard_exchanges": round(heard / usual, 1),
        "cpu_ms": round(1000 * cpu),
    }


async def measure(
    options: argparse.Namespace, urls: Sequence[str], pids: Sequence[int], agent: str, silent: str
) -> dict[str, Any]:
    """Ask for assessments, poll them, and return the figures.

    :param silent: URL of an agent that answers nothing.
    """
    seen, began = Seen(), time.monotonic()
    # One client, so that no time goes into making a hundred of them; each who waits has a connection of its own.
    async with httpx.AsyncClient(timeout=60, limits=httpx.Limits(max_connections=None)) as client:
        tasks = [await ask(client, urls[n % 2], agent, n, CONFIG) for n in range(options.assessments)]
        before = [spent(pid)[0] for pid in pids]
        until = time.monotonic() + options.seconds
        viewing = [view(seen, client, urls[n % 2], until) for n in range(options.viewers)]
        await asyncio.gather(*poll_all(seen, client, urls, tasks, options.clients, until), *viewing)
        costs = [round(spent(pid)[0] - earlier, 1) for pid, earlier in zip(pids, before, strict=True)]
        while len(seen.results) < len(tasks):  # the rest ends without anybody polling
            for task in tasks:
                seen.take(task, await call(client, urls[0], "GetTask", {"id": task}), seen.last.get(task, 0))
            if seen.wrong:
                break
            await asyncio.sleep(EVERY)
        # Once more while nothing runs: what an answer costs, which does not depend on what else the machine does.
        idle, before = Seen(last=dict(seen.last)), [spent(pid)[0] for pid in pids]
        until = time.monotonic() + options.seconds / 3
        await asyncio.gather(*poll_all(idle, client, urls, tasks, options.clients, until))
        cpu = sum(spent(pid)[0] - earlier for pid, earlier in zip(pids, before, strict=True))
        cancelled = {
            domain: await cancel(client, urls[0], pids[0], silent, domain) for domain in ("mock", "mini", "conformance")
        }
    seen.wrong += idle.wrong
    for task, result in seen.results.items():
        if (result["score"], result["max_score"], result["errors"]["count"]) != (TASKS, TASKS, 0):
            seen.wrong[f"{task}: {result['score']} of {result['max_score']}"] += 1

    def percentile(share: float, of: list[float] = seen.seconds) -> float:
        return round(1000 * sorted(of)[min(len(of) - 1, int(share * len(of)))], 1)

    return {
        "database": options.database,
        "clients": options.clients,
        "viewers": options.viewers,
        "assessments": len(tasks),
        "requests": len(seen.seconds),
        "requests_per_s": round(len(seen.seconds) / options.seconds, 1),
        "p50_ms": percentile(0.5),
        "p95_ms": percentile(0.95),
        "p99_ms": percentile(0.99),
        "max_ms": percentile(1.0),
        "p50_ms_idle": percentile(0.5, idle.seconds),
        "p99_ms_idle": percentile(0.99, idle.seconds),
        "cpu_ms_of_an_answer": round(1000 * cpu / len(idle.seconds), 2),
        "wrong": dict(seen.wrong),
        "completed": len(seen.results),
        "events": seen.events,
        "cpu_s_of_each": costs,
        "rss_mb_of_each": [round(spent(pid)[1]) for pid in pids],
        "all_ended_after_s": round(time.monotonic() - began, 1),
        **{f"cancel_{domain}": told for domain, told in cancelled.items()},
        "load": os.getloadavg()[0],
    }


@contextlib.contextmanager
def database(kind: str, place: Path) -> Iterator[str]:
    """Give the URL of the database that the two share."""
    if kind == "sqlite":
        yield f"sqlite+aiosqlite:///{place}/shared.db"
        return
    if why := missing():
        raise SystemExit(f"{why}; or give --database sqlite")
    with postgresql(place / "postgresql.log") as url:
        yield url


def main() -> None:
    """Measure and report."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--clients", type=int, default=100)
    parser.add_argument("--viewers", type=int, default=20)
    parser.add_argument("--assessments", type=int, default=8, help="of 20 trials each")
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--latency", type=float, default=0.5, help="seconds that each turn of the agent takes")
    parser.add_argument("--database", choices=("postgresql", "sqlite"), default="postgresql")
    parser.add_argument("--json", type=Path, default=Path(__file__).parent / "results" / "assessor.json")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as directory, contextlib.ExitStack() as stack:
        place = Path(directory)
        environ = {**os.environ, "PYTHONPATH": str(ROOT)}
        environ["SHARED"] = stack.enter_context(database(options.database, place))
        agent, _ = stack.enter_context(
            started(["agent", "oracle", "--latency", str(options.latency)], environ, place / "agent.log")
        )
        silent, _ = stack.enter_context(started(["agent", "oracle", "--latency=600"], environ, place / "silent.log"))
        serve = ["assess", "--port=0", f"--results={place}/results", "--database-env=SHARED", "--max-per-caller=8"]
        both = [stack.enter_context(started(serve, environ, place / f"assessor-{n}.log")) for n in range(2)]
        try:
            found = asyncio.run(measure(options, [url for url, _ in both], [pid for _, pid in both], agent, silent))
        except BaseException:
            for log in sorted(place.glob("*.log")):
                print(f"{log.name}: {log.read_text()[-2000:]}", file=sys.stderr)
            raise
    for name, value in found.items():
        print(f"{name:20} {value}")
    options.json.parent.mkdir(parents=True, exist_ok=True)
    options.json.write_text(json.dumps({**found, "python": sys.version.split()[0]}, indent=1) + "\n")
    print(f"written to {options.json}")
    if found["wrong"]:
        raise SystemExit("not all was as it should be")


if __name__ == "__main__":
    main()
