"""Whether a long run leaks: memory, descriptors and threads of one pytest process over tens of thousands of trials.

    python perf/soak.py [--trials 20000] [--json FILE] [--svg FILE]

Beside it runs, as a reference, bare pytest with as many tests that do nothing: what pytest keeps of every test, its
report and its captured text, is not ours. Prints a table, writes JSON and a plot. Samples come from outside, from
``/proc``, so that measuring changes nothing; Linux only.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

ROOT = Path(__file__).parents[1]
PAGE = os.sysconf("SC_PAGE_SIZE")


@dataclass(frozen=True)
class Sample:
    """One look at the process.

    :param done: trials (or tests) that have ended.
    :param memory_mb: resident megabytes.
    """

    done: int
    memory_mb: float
    descriptors: int
    threads: int


def look(pid: int, done: int) -> Sample | None:
    """Look at a process; None once it has ended."""
    proc = Path("/proc") / str(pid)
    try:
        resident = int((proc / "statm").read_text().split()[1])
        return Sample(
            done,
            round(resident * PAGE / 2**20, 1),
            len(os.listdir(proc / "fd")),
            len(os.listdir(proc / "task")),
        )
    except (OSError, IndexError):
        return None


def watch(arguments: Sequence[str], directory: Path, every: int) -> Iterator[Sample]:
    """Run pytest and yield a sample each time that so many tests more have ended.

    :raises SystemExit: if the run failed.
    """
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-p", "no:randomly", "-vv", *arguments]
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "COLUMNS": "400"}
    with subprocess.Popen(
        command, cwd=directory, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    ) as process:
        assert process.stdout is not None
        done, last = 0, ""
        for line in process.stdout:
            last = line.strip() or last
            if re.search(r" (PASSED|FAILED|ERROR|XFAIL)\b", line):
                done += 1
                if done % every == 0 and (sample := look(process.pid, done)) is not None:
                    yield sample
    if process.returncode:
        raise SystemExit(f"{' '.join(command)} ended with {process.returncode}: {last}")


def slope(samples: Sequence[Sample]) -> float:
    """Return the growth in KB a trial over the second half, by least squares: the first half warms up."""
    half = samples[len(samples) // 2 :]
    count = len(half)
    x, y = sum(s.done for s in half) / count, sum(s.memory_mb for s in half) / count
    below = sum((s.done - x) ** 2 for s in half)
    return sum((s.done - x) * (s.memory_mb - y) for s in half) / below * 1024 if below else 0.0


def plot(series: dict[str, list[Sample]]) -> str:
    """Draw resident memory over finished trials."""
    width, height, left, bottom = 720, 300, 60, 40
    most_x = max(s.done for each in series.values() for s in each)
    most_y = max(s.memory_mb for each in series.values() for s in each) * 1.1
    inner_x, inner_y = width - left - 20, height - bottom - 20

    def at(sample: Sample) -> str:
        x, y = left + sample.done / most_x * inner_x, height - bottom - sample.memory_mb / most_y * inner_y
        return f"{x:.1f},{y:.1f}"

    parts = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" font-family="sans-serif">']
    for share in (0, 0.25, 0.5, 0.75, 1):
        y = height - bottom - share * inner_y
        parts.append(f'<line x1="{left}" x2="{width - 20}" y1="{y}" y2="{y}" stroke="#ccc"/>')
        parts.append(f'<text x="{left - 8}" y="{y + 4}" text-anchor="end" font-size="12">{share * most_y:.0f}</text>')
        x = left + share * inner_x
        parts.append(f'<text x="{x}" y="{height - 20}" text-anchor="middle" font-size="12">{share * most_x:.0f}</text>')
    for number, ((name, samples), color) in enumerate(zip(series.items(), ("#06c", "#c60", "#393"), strict=False)):
        line = " ".join(map(at, samples))
        parts.append(f'<polyline points="{line}" fill="none" stroke="{color}" stroke-width="2"/>')
        parts.append(f'<text x="{left + 10}" y="{16 + 16 * number}" fill="{color}" font-size="13">{name}</text>')
    parts.append(
        f'<text x="{width / 2}" y="{height - 4}" text-anchor="middle" font-size="12">ended; MB resident</text>'
    )
    return "".join([*parts, "</svg>\n"])


def main() -> None:
    """Measure and report."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--trials", type=int, default=20_000)
    parser.add_argument("--concurrency", type=int, default=8)
    parser.add_argument("--json", type=Path, default=Path(__file__).parent / "results" / "soak.json")
    parser.add_argument("--svg", type=Path, default=Path(__file__).parent / "results" / "soak.svg")
    options = parser.parse_args()
    every = max(1, options.trials // 100)
    # Two tasks of the tutorial's domain: cheap ones, because what leaks leaks by the trial and not by its size.
    each = -(-options.trials // 2)
    ours = ["--a2a-endpoint", "builtin:oracle", "--a2a-suite", "mock", "-k", "create_task_1-t or update_task_1-t"]
    ours += ["--a2a-trials", str(each), "--a2a-concurrency", str(options.concurrency)]
    series: dict[str, list[Sample]] = {}
    rows = []
    with tempfile.TemporaryDirectory() as name:
        directory = Path(name)
        test = f"import pytest\n@pytest.mark.parametrize('n', range({each * 2}))\ndef test_nothing(n):\n    pass\n"
        (directory / "test_nothing.py").write_text(test)
        for what, arguments in (
            ("trials", [*ours, "--a2a-results", str(directory / "results")]),
            ("bare pytest", ["-p", "no:a2a_bench", "test_nothing.py"]),
        ):
            began = time.perf_counter()
            samples = list(watch(arguments, directory, every))
            series[what] = samples
            row = {
                "what": what,
                "ended": samples[-1].done,
                "seconds": round(time.perf_counter() - began, 1),
                "memory_mb_at_tenth": samples[len(samples) // 10].memory_mb,
                "memory_mb_at_end": samples[-1].memory_mb,
                "kb_per_trial": round(slope(samples), 2),
                "descriptors": [samples[len(samples) // 10].descriptors, samples[-1].descriptors],
                "threads": [samples[len(samples) // 10].threads, samples[-1].threads],
            }
            rows.append(row)
            print("  ".join(f"{key} {value}" for key, value in row.items()), flush=True)
    options.json.parent.mkdir(parents=True, exist_ok=True)
    options.json.write_text(
        json.dumps({"rows": rows, "samples": {k: [asdict(s) for s in v] for k, v in series.items()}}, indent=1) + "\n"
    )
    options.svg.write_text(plot(series))


if __name__ == "__main__":
    main()
