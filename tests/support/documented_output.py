"""Pages of the documentation that show what commands print: their blocks, and the commands held for real."""

from __future__ import annotations

import argparse
import os
import re
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path

_BLOCK = re.compile(
    r"<!-- output: (?P<name>[\w-]+) -->\n```text\n(?P<text>.*?)```\n<!-- end of output -->\n", re.DOTALL
)


def tools(folder: Path) -> dict[str, str]:
    """Return an environment whose ``pytest`` and ``a2a-bench`` are this interpreter's, made in ``folder/bin``."""
    place = folder / "bin"
    place.mkdir()
    for name, module in (("pytest", "pytest"), ("a2a-bench", "pytest_a2a_bench.cli")):
        tool = place / name
        tool.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} -m {module} "$@"\n', encoding="utf-8")
        tool.chmod(0o755)
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("A2A_", "PYTEST_", "GITHUB_"))}
    return kept | {"COLUMNS": "110", "PATH": f"{place}{os.pathsep}{os.environ['PATH']}"}


def printed(name: str, command: str, code: int, folder: Path, environment: Mapping[str, str]) -> str:
    """Run a command of a page, and return what it prints.

    :raises AssertionError: if it ended with another exit code than the page says.
    """
    done = subprocess.run(
        command,
        shell=True,
        cwd=folder,
        env=environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == code, f"{name}: exit code {done.returncode}\n{done.stdout}\n{done.stderr}"
    return done.stdout


def shown(outputs: Mapping[str, str], wanted: Mapping[str, tuple[str, str]]) -> dict[str, str]:
    """Return what blocks of a page are to show.

    :param outputs: step -> what it printed.
    :param wanted: block -> the step, and a pattern of what is shown of it.
    """
    return {
        name: "".join(match[0] for match in re.finditer(lines, outputs[step], re.MULTILINE | re.DOTALL))
        for name, (step, lines) in wanted.items()
    }


def without_times(text: str) -> str:
    """Return output as it is on any machine."""
    return re.sub(r"=*|\d+ (s|min)\b|\d+\.\d+s( \([\d:]+\))?", lambda m: "" if m[0][:1] in "=" else "TIME", text)


def blocks(page: Path) -> dict[str, str]:
    """Return what a page shows, by name."""
    return {match["name"]: match["text"] for match in _BLOCK.finditer(page.read_text(encoding="utf-8"))}


def _written(text: str, found: Mapping[str, str]) -> str:
    return _BLOCK.sub(lambda m: m[0].replace(f"```text\n{m['text']}```", f"```text\n{found[m['name']]}```"), text)


def main(about: str, page: Path, hold: Callable[[Path], Mapping[str, str]]) -> None:
    """Hold a page's commands, and show what its blocks are to show or write it down."""
    parser = argparse.ArgumentParser(description=about.partition("\n")[0])
    parser.add_argument("--write", action="store_true", help=f"put it into {page.name}")
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        found = hold(Path(folder))
    if asked.write:
        page.write_text(_written(page.read_text(encoding="utf-8"), found), encoding="utf-8")
    else:
        print("\n".join(f"=== {name}\n{text}" for name, text in found.items()))
