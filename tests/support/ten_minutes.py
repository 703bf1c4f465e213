"""What docs/tutorials/ten-minutes.md prints, run for real: the gate of a project that has just been set up.

python tests/support/ten_minutes.py --write
"""

from __future__ import annotations

import argparse
import os
import re
import shlex
import subprocess
import sys
import tempfile
from pathlib import Path

from failing_merge import without_times, written

PAGE = Path(__file__).parents[2] / "docs" / "tutorials" / "ten-minutes.md"

STEPS = {
    "init": ("a2a-bench init builtin:oracle --min-pass 0.7", 0),
    "gate": ("./a2a-gate.sh", 0),
    "promote": ("a2a-bench promote a2a-results -o a2a-baseline.json", 0),
    "red": ("A2A_ENDPOINT=builtin:readonly ./a2a-gate.sh", 1),
    "show": ("a2a-bench show airline/12", 0),
    "green": ("./a2a-gate.sh", 0),
}
"""Name -> command of the page, and its exit code."""

_SHOWN = {
    "init": ("init", r"^  \d+ passed.*?\n|^how often.*?(?=\* as)|^pyproject.toml:.*?(?=\nnext)"),
    "gate": ("gate", r"^=+ a2a verdict.*"),
    "promote": ("promote", r".*\n"),
    "red": ("red", r"^=+ a2a verdict.*?(?=tasks that)"),
    "why": ("red", r"^why \d+.*?\n(?=user)"),
    "show": ("show", r"^tau2/airline/12#0.*?\n|^why: .*?(?=gold|hold)"),
    "green": ("green", r"^=+ a2a verdict.*?(?=domain)"),
}
"""Block of the page -> the step whose output it shows, and which lines of it."""


def hold(folder: Path) -> dict[str, str]:
    """Run the commands in an empty directory, and return what the blocks of the page are to show.

    :raises AssertionError: if one ended with another exit code than the page says.
    """
    tools = folder / "bin"
    tools.mkdir()
    for name, module in (("pytest", "pytest"), ("a2a-bench", "pytest_a2a_bench.cli")):
        tool = tools / name
        tool.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} -m {module} "$@"\n', encoding="utf-8")
        tool.chmod(0o755)
    environment = {k: v for k, v in os.environ.items() if not k.startswith(("A2A_", "PYTEST_", "GITHUB_"))}
    environment |= {"COLUMNS": "110", "PATH": f"{tools}{os.pathsep}{os.environ['PATH']}"}
    project = folder / "project"
    project.mkdir()
    printed = {}
    for name, (command, code) in STEPS.items():
        done = subprocess.run(
            command,
            shell=True,
            cwd=project,
            env=environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == code, f"{name}: exit code {done.returncode}\n{done.stdout}\n{done.stderr}"
        printed[name] = done.stdout
    return {
        name: "".join(match[0] for match in re.finditer(lines, printed[step], re.MULTILINE | re.DOTALL))
        for name, (step, lines) in _SHOWN.items()
    }


def same_anywhere(text: str) -> str:
    """Return output without what differs from run to run."""
    return re.sub(r"\d+m\d\ds|\d+s\b|~?\d+\.\d+ s\b|context [\w-]+", "TIME", re.sub(" +", " ", without_times(text)))


def main() -> None:
    """Run it, and put what it prints into the page."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--write", action="store_true", help=f"put it into {PAGE.name}")
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        found = hold(Path(folder))
    if asked.write:
        PAGE.write_text(written(PAGE.read_text(encoding="utf-8"), found), encoding="utf-8")
    else:
        print("\n".join(f"=== {name}\n{text}" for name, text in found.items()))


if __name__ == "__main__":
    main()
