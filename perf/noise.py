"""Whether agents stay without a finding on a machine that is busy with something else.

    python perf/noise.py [--runs 20] [--at-once 8] [--burners 8] [--agent faulty]... [--mode full]... [--json FILE]

Each agent runs in a process of its own, and is judged in each mode: once on a quiet machine, then again and again while
others are judged at the same time and further processes only count. Everything is in one session, so that
the scheduler divides the cores among all of them alike. What is found under load and not in quiet is noise; what is
found in quiet and not under load is lost. ``inconclusive`` was found once, and not again alone.
Exits with 1 if there was any noise.

Agents: ``faulty`` without a fault (A2A 1.0), ``scripted`` and ``oracle`` on a2a-sdk 1.x (1.0 and 0.3; ``oracle`` knows
no scenario), ``plain`` and ``plain-old`` by another hand (1.0, 0.3), and with ``--sdk03 PYTHON``, the interpreter of
an environment that has a2a-sdk 0.3.x, ``sdk03``. Modes: ``safe``, ``standard``, ``full`` are profiles of ``a2a-bench
conformance``; ``pytest`` and ``xdist`` are pytest with the profile ``full``, alone and with ``-n2``.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import multiprocessing
import os
import re
import statistics
import subprocess
import sys
import tempfile
import threading
import time
import xml.etree.ElementTree as ET
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).parents[1]
TESTS = ROOT / "tests"
sys.path.insert(0, str(TESTS / "support"))

from judged import SCRIPTED  # noqa: E402

CLI = ("-m", "pytest_a2a_bench.cli")
WORDS = "slow input input_answer auth reject fail crash file url data chunks message".split()
PLEASE = {word: f"{word} please" for word in WORDS}
SDK03 = {"message": "echo hi", "slow": "slow", "data": "data", "file": "file"}
AGENTS = {
    "faulty": ((*CLI, "agent", "faulty"), PLEASE),
    "oracle": ((*CLI, "agent", "oracle"), {}),
    "scripted": ((str(TESTS / "agents" / "scripted.py"),), SCRIPTED),
    "plain": ((str(TESTS / "support" / "plain_http.py"), "full"), PLEASE),
    "plain-old": ((str(TESTS / "support" / "plain_http.py"), "old"), PLEASE),
    "sdk03": ((str(TESTS / "agents" / "peer_sdk03_full.py"),), SDK03),
}
"""Name -> (arguments of the interpreter, prompts); each prints its URL first."""
MODES = ("safe", "standard", "full", "pytest", "xdist")
JUDGED = ("passed", "failed", "warned", "error", "explained", "inconclusive")


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


@contextlib.contextmanager
def served(name: str, sdk03: str) -> Iterator[str]:
    """Run an agent and give its URL."""
    arguments, _ = AGENTS[name]
    command = [sdk03 if name == "sdk03" else sys.executable, *arguments]
    kept = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL}
    with subprocess.Popen(command, text=True, **kept) as process:
        assert process.stdout is not None
        found = re.search(r"https?://[\w.]+:\d+", process.stdout.readline())
        if found is None:
            raise SystemExit(f"the agent {name} did not start")
        threading.Thread(target=process.stdout.read, daemon=True).start()
        try:
            yield found[0]
        finally:
            process.terminate()


@dataclass
class Row:
    """One agent in one mode."""

    agent: str
    mode: str
    url: str
    quiet: dict[str, str] = field(default_factory=dict)
    noise: list[dict[str, str]] = field(default_factory=list)
    lost: list[list[str]] = field(default_factory=list)
    inconclusive: list[dict[str, str]] = field(default_factory=list)
    judged: list[int] = field(default_factory=list)
    seconds: list[float] = field(default_factory=list)
    loads: list[float] = field(default_factory=list)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def run(self, is_quiet: bool = False) -> None:
        """Judge once, and tell what is new."""
        with self.lock:
            self._run(is_quiet)

    def _run(self, is_quiet: bool) -> None:
        started = time.monotonic()
        told, passed = judge(self.mode, self.url, AGENTS[self.agent][1])
        found = {name: text for name, (status, text) in told.items() if status != "inconclusive"}
        if is_quiet:
            self.quiet = found
            print(f"{self.agent} {self.mode} quiet: {passed + len(told)} judged, {len(found)} found", flush=True)
            return
        self.seconds.append(time.monotonic() - started)
        self.loads.append(os.getloadavg()[0])
        self.judged.append(passed + len(told))
        self.noise.append({name: text for name, text in found.items() if name not in self.quiet})
        self.lost.append([name for name in self.quiet if name not in told])
        self.inconclusive.append({name: text for name, (status, text) in told.items() if status == "inconclusive"})
        print(
            f"{self.agent} {self.mode} {len(self.seconds)}: {self.seconds[-1]:.0f} s, load {self.loads[-1]:.0f}, "
            f"{self.judged[-1]} judged; noise {self.noise[-1]}; lost {self.lost[-1]}; "
            f"inconclusive {self.inconclusive[-1]}",
            flush=True,
        )

    def __str__(self) -> str:
        """Return the row of the table."""
        noise, lost, twice = (sum(map(len, each)) for each in (self.noise, self.lost, self.inconclusive))
        took = f"{statistics.median(self.seconds):.0f} s" if self.seconds else "-"
        judged = statistics.median(self.judged) if self.judged else 0
        load = f"{min(self.loads):.0f} to {max(self.loads):.0f}" if self.loads else "-"
        cells = (self.agent, self.mode, len(self.seconds), f"{judged:.0f}", len(self.quiet), noise, lost, twice, took)
        return f"| {' | '.join(map(str, cells))} | {load} |"


HEAD = """\
| agent | mode | runs | judged | found in quiet | noise | lost | inconclusive | median time | load |
|---|---|---|---|---|---|---|---|---|---|"""


def judge(mode: str, url: str, prompts: dict[str, str]) -> tuple[dict[str, tuple[str, str]], int]:
    """Judge an agent; return what was not passed nor skipped (name -> status, text), and how much passed."""
    with tempfile.TemporaryDirectory() as directory:
        place = Path(directory)
        lines = [f"{key} = {json.dumps(text)}" for key, text in prompts.items()]
        (place / "scenarios.toml").write_text("\n".join(lines) + "\n")
        report = place / "report"
        if mode in ("pytest", "xdist"):
            command = ["-m", "pytest", "-q", "-m", "conformance", "--a2a-endpoint", url, "-p", "no:cacheprovider"]
            command += ["--a2a-scenarios", "scenarios.toml", "--a2a-conformance-profile", "full"]
            command += ["--junitxml", str(report), "--rootdir", directory, *(["-n2"] if mode == "xdist" else [])]
        else:
            command = [*CLI, "conformance", url, "--profile", mode, "--scenarios", "scenarios.toml"]
            command += ["--format", "json", "-o", str(report)]
        done = subprocess.run([sys.executable, *command], cwd=place, capture_output=True, text=True, check=False)
        if not report.exists():
            return {"the run": ("error", f"{done.stdout[-600:]} {done.stderr[-600:]}")}, 0
        rows = list(_of_pytest(report) if mode in ("pytest", "xdist") else _of_command(report))
    told = {name: (status, text) for name, status, text in rows if status in JUDGED and status != "passed"}
    return told, sum(status == "passed" for _, status, _ in rows)


def _of_command(report: Path) -> Iterator[tuple[str, str, str]]:
    for told in json.loads(report.read_text())["results"]:
        text = told["findings"][0]["found"] if told["findings"] else told["reason"]
        yield f"{told['version']}/{told['id']}[{told['binding']}]", told["status"], text


def _of_pytest(report: Path) -> Iterator[tuple[str, str, str]]:
    for case in ET.parse(report).iter("testcase"):
        told = {p.get("name", ""): p.get("value", "") for p in case.iter("property")}
        name = "{a2a.check_version}/{a2a.check_id}[{a2a.check_binding}]"
        if "a2a.check_status" in told:
            yield name.format_map(_Named(told)), told["a2a.check_status"], told.get("a2a.check_reason", "")
        elif any(case.iter("error")) or any(case.iter("failure")):
            yield str(case.get("name")), "error", "".join(str(e.get("message")) for e in case)


class _Named(dict[str, str]):
    """Finds names with a dot in them, which a format takes for attributes."""

    def __missing__(self, key: str) -> object:
        return type("Part", (), {"__getattr__": lambda _, rest: self.get(f"{key}.{rest}", "")})()


def main() -> int:
    """Judge, and report."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=20)
    parser.add_argument("--at-once", type=int, default=8, help="runs at the same time")
    parser.add_argument("--minutes", type=float, default=0.0, help="begin no further run after so many")
    parser.add_argument("--burners", type=int, default=8, help="processes that only count, beside those that judge")
    parser.add_argument("--agent", action="append", choices=AGENTS, help="(default: all)")
    parser.add_argument("--mode", action="append", choices=MODES, help="(default: standard, full and xdist)")
    parser.add_argument("--sdk03", default="", help="interpreter of an environment with a2a-sdk 0.3.x")
    parser.add_argument("--json", type=Path, help="write the runs there")
    options = parser.parse_args()
    agents = options.agent or [name for name in AGENTS if name != "sdk03" or options.sdk03]
    with contextlib.ExitStack() as stack:
        # One server for each pair: what one mode leaves behind is not another one's.
        pairs = [(a, m) for m in options.mode or ("standard", "full", "xdist") for a in agents]
        rows = [Row(a, m, stack.enter_context(served(a, options.sdk03))) for a, m in pairs]
        for row in rows:
            row.run(is_quiet=True)
        stack.enter_context(burning(options.burners))
        until = time.monotonic() + 60 * options.minutes if options.minutes else float("inf")
        with ThreadPoolExecutor(options.at_once) as pool:
            # In turns, so that each pair has about as many runs when the time is up.
            list(pool.map(lambda row: time.monotonic() < until and row.run(), rows * options.runs))
    if options.json:
        told = [{name: value for name, value in vars(row).items() if name != "lock"} for row in rows]
        options.json.write_text(json.dumps(told, indent=1) + "\n")
    print("\n".join([HEAD, *map(str, rows)]))
    repeated = Counter(name for row in rows for run in row.noise for name in run)
    print(f"{sum(len(row.seconds) for row in rows)} runs: noise {dict(repeated)}")
    return 1 if repeated else 0


if __name__ == "__main__":
    sys.exit(main())
