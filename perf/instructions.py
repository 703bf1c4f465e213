"""Whether a handful of workloads take more instructions than they did: a guard in ``.ci/nightly``.

    python perf/instructions.py [--write] [NAME ...]

Compares with ``perf/instructions.json`` and ends with 1 where one takes over 15 % more. Counts depend on Python, on
libraries and on what counts: where these are not those of the file, or nothing counts here, that is said, and nothing
fails. ``--write`` writes the file anew.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from counting import ROOT, count, counter, millions, versions

FILE = Path(__file__).with_name("instructions.json")
GROWTH = 0.15
LIBRARIES = ("pytest", "pydantic", "a2a-sdk", "httpx", "jsonschema")

TURN = """
import sys
from pytest_a2a_bench.a2a.bodies import parse_json
from pytest_a2a_bench.a2a.codec import read_task, write_send
from pytest_a2a_bench.a2a.codec import OutMessage
from pytest_a2a_bench.model import Part
import json
answer = json.dumps({"id": "t1", "contextId": "c1", "status": {"state": "TASK_STATE_COMPLETED"}, "artifacts": [
    {"artifactId": str(i), "parts": [{"text": "word " * 50}, {"data": {"name": "tool", "arguments": {"id": i}}}]}
    for i in range(5)]})
for i in range(int(sys.argv[1])):
    json.dumps(write_send(OutMessage(f"m{i}", (Part.of_text("hello " * 50),), "c1", "t1", {"k": 1}), "1.0", None))
    read_task(parse_json(answer.encode()), "1.0")
"""
GATE = """
import sys
sys.path.insert(0, "tests/support")
from made_trials import made_trial
from pytest_a2a_bench.results.gates.judge import judge
from pytest_a2a_bench.results.gates.terms import Thresholds, Trials
from pytest_a2a_bench.results.baseline import Baseline
runs = [[made_trial(f"made/d/{i // 4}#{i % 4}", success=i * step % 7 > 2) for i in range(1000)] for step in (3, 5)]
baseline = Baseline.of(runs[0], "before")
for _ in range(int(sys.argv[1])):
    judge(Trials(results=tuple(runs[1])), Thresholds(min_pass={"": 0.3}), baseline)
"""
CARD = """
import sys
sys.path.insert(0, "tests/support")
from cards import full_1_0
from pytest_a2a_bench.conformance.card import check_card
check_card(full_1_0())
for _ in range(int(sys.argv[1])):
    check_card(full_1_0())
"""


class Workload(NamedTuple):
    """A command, and the one that does all but the work: their difference is counted."""

    work: Sequence[str]
    rest: Sequence[str]
    env: Mapping[str, str] = {}
    in_empty_directory: bool = False


def _script(text: str, times: int) -> Workload:
    python = [sys.executable, "-c", text]
    return Workload([*python, str(times)], [*python, "0"])


_PYTEST = (sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider")
_ALONE = {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}

WORKLOADS = {
    "loading the plugin": Workload(
        (*_PYTEST, "-p", "pytest_a2a_bench.plugin", "test_nothing.py"),
        (*_PYTEST, "-p", "empty_plugin", "test_nothing.py"),
        _ALONE,
        in_empty_directory=True,
    ),
    "a turn's codec, 100 times": _script(TURN, 100),
    "a gate of 1,000 trials": _script(GATE, 1),
    "a card judged": _script(CARD, 1),
}


def measure(workload: Workload) -> int:
    """Return the instructions of a workload."""
    with tempfile.TemporaryDirectory() as name:
        directory = Path(name)
        (directory / "test_nothing.py").write_text("def test_nothing():\n    pass\n")
        (directory / "empty_plugin.py").write_text("")
        env = {**workload.env, "PYTHONPATH": f"{ROOT}:{directory}"}
        where = directory if workload.in_empty_directory else ROOT
        # Once before, uncounted: it writes the bytecode, which belongs to neither.
        subprocess.run(workload.work, env={**os.environ, **env}, cwd=where, capture_output=True, check=False)
        rest, work = (count(c, env=env, cwd=where).instructions or 0 for c in (workload.rest, workload.work))
    return work - rest


def compare(before: Mapping[str, Any], counts: Mapping[str, int]) -> Iterator[str]:
    """Show each workload beside what it took, and yield what is wrong."""
    for name, now in counts.items():
        was = before["counts"].get(name)
        change = "new" if was is None else f"{now / was - 1:+.1%}"
        print(f"{name:36} {millions(was):>12} {millions(now):>12} {change:>8}", flush=True)
        if was is not None and now > was * (1 + GROWTH):
            yield (
                f"{name} takes {millions(now)} M instructions, {now / was - 1:.0%} more than the {millions(was)} M of "
                f"{FILE.name}; make it cheaper, or say why in the commit that writes the file: {__file__} --write"
            )


def main() -> int:
    """Measure and compare; return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--write", action="store_true")
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of: {', '.join(WORKLOADS)}")
    options = parser.parse_args()
    if unknown := [name for name in options.names if name not in WORKLOADS]:
        parser.error(f"unknown {', '.join(unknown)}; there are: {', '.join(WORKLOADS)}")
    if counter() == "nothing":
        print("instructions cannot be counted here (no perf_event, no valgrind): nothing was compared")
        return 0
    about = versions(*LIBRARIES)
    before = json.loads(FILE.read_text(encoding="utf-8")) if FILE.exists() else {"about": about, "counts": {}}
    if before["about"] != about and not options.write:
        differs = [n for n in about if before["about"].get(n) != about[n]]
        told = "; ".join(f"{n} is {about[n]} and was {before['about'].get(n)}" for n in differs)
        print(f"not compared with {FILE.name}, which is of other versions: {told}")
        return 0
    print(f"{'M instructions, by ' + counter():36} {'committed':>12} {'now':>12} {'change':>8}")
    counts: dict[str, int] = {}
    wrong: list[str] = []
    for name in options.names or WORKLOADS:
        counts[name] = measure(WORKLOADS[name])
        wrong += compare(before, {name: counts[name]})
    if options.write:
        kept = before["counts"] if before["about"] == about else {}
        FILE.write_text(json.dumps({"about": about, "counts": {**kept, **counts}}, indent=1) + "\n", encoding="utf-8")
        print(f"written to {FILE}")
        return 0
    for line in wrong:
        print(line, file=sys.stderr)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
