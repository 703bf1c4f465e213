"""What loading the plugin adds to a pytest run that does not use it, beside other plugins that are installed.

    python perf/startup.py [--json FILE] [--repeat 3]

Prints a table and writes JSON. Every row is one test that does nothing, run by a process of its own; what bare pytest
costs is subtracted. The plugins are named by ``-p``, and bare pytest is given one that is empty, since pytest searches
all installed distributions for each name. The last column is without bytecode caches.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from counting import ROOT, Cost, count, counter, millions, versions

Row = dict[str, Any]

PLUGINS = {
    "pytest-a2a-bench": "pytest_a2a_bench.plugin",
    "pytest-xdist": "xdist.plugin",
    "respx": "respx.plugin",
    "hypothesis": "_hypothesis_pytestplugin",
    "schemathesis": "schemathesis.pytest.plugin",
}


def cost(plugin: str, directory: Path, *, bytecode: bool, repeat: int) -> Cost:
    """Return what a run with a plugin costs: the median."""
    env = {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "PYTHONPATH": os.pathsep.join([str(ROOT), str(directory)])}
    if not bytecode:
        env |= {"PYTHONDONTWRITEBYTECODE": "1", "PYTHONPYCACHEPREFIX": str(directory / "none")}
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", plugin, "test_nothing.py"]
    if bytecode:
        # Once before, uncounted: it writes the bytecode.
        subprocess.run(command, env={**os.environ, **env}, cwd=directory, capture_output=True, check=False)
    # Instructions repeat by themselves.
    found = [count(command, env=env, cwd=directory) for _ in range(repeat if counter() == "nothing" else 1)]
    cpu = [c.cpu for c in found if c.cpu is not None]
    return Cost(found[0].instructions, statistics.median(cpu) if cpu else None)


def rows(directory: Path, repeat: int) -> list[Row]:
    """Measure every plugin that is installed."""
    (directory / "test_nothing.py").write_text("def test_nothing():\n    pass\n")
    (directory / "empty_plugin.py").write_text("")
    bare = {cached: cost("empty_plugin", directory, bytecode=cached, repeat=repeat) for cached in (True, False)}
    found = [row("bare pytest", bare[True], bare[False], Cost(0, 0.0), Cost(0, 0.0))]
    for name, module in PLUGINS.items():
        if importlib.util.find_spec(module.partition(".")[0]) is None:
            print(f"{name} is not installed")
            continue
        cached, uncached = (cost(module, directory, bytecode=b, repeat=repeat) for b in (True, False))
        found.append(row(name, cached, uncached, bare[True], bare[False]))
    return found


def row(name: str, cached: Cost, uncached: Cost, bare: Cost, bare_uncached: Cost) -> Row:
    """Return what one plugin adds, and show it."""

    def added(cost: Cost, base: Cost) -> int | None:
        return None if cost.instructions is None or base.instructions is None else cost.instructions - base.instructions

    cpu = None if cached.cpu is None or bare.cpu is None else round((cached.cpu - bare.cpu) * 1000, 1)
    found = {
        "what": name,
        "instructions": added(cached, bare),
        "cpu_ms": cpu,
        "instructions_uncached": added(uncached, bare_uncached),
    }
    print(
        f"{name:20} {millions(found['instructions']):>12} {'' if cpu is None else cpu:>8} "
        f"{millions(found['instructions_uncached']):>18}",
        flush=True,
    )
    return found


def main() -> None:
    """Measure and report."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", type=Path, default=Path(__file__).parent / "results" / "startup.json")
    parser.add_argument("--repeat", type=int, default=3, help="runs of each row where only CPU seconds are known")
    options = parser.parse_args()
    print(f"instructions are counted by: {counter()}")
    print(f"{'what is added by':20} {'M instr.':>12} {'CPU ms':>8} {'M, no bytecode':>18}")
    with tempfile.TemporaryDirectory() as directory:
        found = rows(Path(directory), options.repeat)
    options.json.parent.mkdir(parents=True, exist_ok=True)
    about = versions("pytest", *PLUGINS)
    options.json.write_text(json.dumps({"rows": found, **about}, indent=1) + "\n")
    print(f"written to {options.json}")


if __name__ == "__main__":
    main()
