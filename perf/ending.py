"""How soon a conformance run ends after SIGTERM, however it was started, beside what pytest takes to do nothing.

    python perf/ending.py [--times 3] [--burners 0]

Serves ``builtin:faulty``, begins a run, sends SIGTERM to its main process while slow tasks are under way, and measures
until that has gone. The reference, ``pytest`` in an empty directory, is made before each: nothing ends sooner on a
machine than it takes to start and end an interpreter there.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

from noise import PLEASE, burning, served

PYTEST = ["-q", "-m", "conformance", "-p", "no:cacheprovider", "--a2a-scenarios", "scenarios.toml"]
COMMANDS = {
    "pytest": ["pytest", *PYTEST],
    "python -m pytest": [sys.executable, "-m", "pytest", *PYTEST],
    "pytest -n2": ["pytest", *PYTEST, "-n2"],
    "a2a-bench": ["a2a-bench", "conformance", "--profile", "full", "--scenarios", "scenarios.toml"],
}


def reference(place: Path) -> float:
    """Return the seconds of a run of pytest that has nothing to do."""
    started = time.monotonic()
    subprocess.run([sys.executable, "-m", "pytest", "-q", place / "empty"], capture_output=True, check=False)
    return time.monotonic() - started


def spent(pid: int) -> float:
    """Return the CPU seconds of a process and its descendants, those that have ended included."""
    ticks = 0
    for directory in Path("/proc").glob("[0-9]*"):
        try:
            told = (directory / "stat").read_text().rpartition(")")[2].split()
        except OSError:
            continue
        # Fields 4 (parent), 14 to 17 (user and system time, own and of children), counted from the state on.
        if int(directory.name) == pid or int(told[1]) == pid:
            ticks += sum(map(int, told[11:15]))
    return ticks / os.sysconf("SC_CLK_TCK")


def ending(command: list[str], url: str, place: Path, after: float) -> tuple[float, float, int]:
    """Return the seconds from SIGTERM to the end of a run, of the clock and of the CPU, and its exit code."""
    where = ["--a2a-endpoint", url, "--a2a-conformance-profile", "full"] if "pytest" in " ".join(command) else [url]
    with subprocess.Popen([*command, *where], cwd=place, stdout=subprocess.PIPE, stderr=subprocess.STDOUT) as process:
        assert process.stdout is not None
        time.sleep(after)
        if process.poll() is not None:
            print("  the run was over before SIGTERM")
        before = spent(process.pid)
        started = time.monotonic()
        process.terminate()
        _, status, usage = os.wait4(process.pid, 0)
        took = time.monotonic() - started
        process.stdout.read()
        lingered = time.monotonic() - started - took
        if lingered > took:
            print(f"  what it started went on for {lingered:.1f} s")
        process.returncode = os.waitstatus_to_exitcode(status)
        return took, usage.ru_utime + usage.ru_stime - before, process.returncode


def main() -> None:
    """Measure, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--times", type=int, default=3)
    parser.add_argument("--burners", type=int, default=0, help="processes that only count")
    parser.add_argument("--command", action="append", choices=COMMANDS, help="(default: all)")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as directory, served("faulty", "") as url, burning(options.burners):
        place = Path(directory)
        (place / "empty").mkdir()
        slow = {**PLEASE, "slow": "slow please"}
        (place / "scenarios.toml").write_text("".join(f'{key} = "{text}"\n' for key, text in slow.items()))
        print("| started as | seconds after SIGTERM | CPU seconds | pytest that does nothing | load | exit code |")
        print("|---|---|---|---|---|---|")
        for name in options.command or COMMANDS:
            command = COMMANDS[name]
            bare = [reference(place) for _ in range(options.times)]
            # So long that checks are under way, however slow the machine is.
            took = [ending(command, url, place, 2.5 * min(bare) + 0.3) for _ in range(options.times)]
            ends, cpu = (", ".join(f"{each[n]:.1f}" for each in took) for n in (0, 1))
            codes = ", ".join(sorted({str(code) for *_, code in took}))
            load = f"{os.getloadavg()[0]:.0f}"
            print(f"| `{name}` | {ends} | {cpu} | {statistics.median(bare):.1f} | {load} | {codes} |", flush=True)


if __name__ == "__main__":
    main()
