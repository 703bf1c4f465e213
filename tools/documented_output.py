"""Tutorials that show what commands print: their commands run for real, and what the blocks of their pages are to show.

python tools/documented_output.py ten-minutes|failing-merge [--write]
"""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import os
import re
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from unittest import mock

sys.path.append(str(Path(__file__).parents[1] / "tests" / "agents"))

from in_thread import served_in_thread

from pytest_a2a_bench.agents import server
from pytest_a2a_bench.agents.brains import Oracle
from pytest_a2a_bench.agents.options import AgentOptions
from pytest_a2a_bench.benchmarks.registry import Gold

PAGES = Path(__file__).parents[1] / "docs" / "tutorials"
_BLOCK = re.compile(
    r"<!-- output: (?P<name>[\w-]+) -->\n```text\n(?P<text>.*?)```\n<!-- end of output -->\n", re.DOTALL
)


@dataclasses.dataclass(frozen=True)
class Step:
    """One command of a page.

    :param name: that of the block that shows its output.
    :param shows: a pattern of the lines that are shown; nothing is where it is empty.
    :param code: its exit code.
    :param merged: which of the two agents answers at ``$AGENT_URL``.
    """

    name: str
    command: str
    shows: str = ""
    code: int = 0
    merged: bool = False


_RUN = "pytest --a2a-endpoint $AGENT_URL --a2a-set tag-trials=on"
_WHOLE = f"{_RUN} --a2a-suite airline --a2a-trials 2"
STORIES = {
    # The gate of a project that has just been set up.
    "ten-minutes": (
        Step(
            "init",
            "a2a-bench init builtin:oracle --min-pass 0.7",
            r"^  \d+ passed.*?\n|^how often.*?(?=\* as)|^pyproject.toml:.*?(?=\nnext)",
        ),
        Step("gate", "./a2a-gate.sh", r"^=+ a2a verdict.*"),
        Step("promote", "a2a-bench gate a2a-results --write-baseline a2a-baseline.json", r".*\n"),
        Step("red", "A2A_ENDPOINT=builtin:readonly ./a2a-gate.sh", r"^=+ a2a verdict.*?(?=tasks that)", code=1),
        Step("show", "a2a-bench show airline/12", r"^tau2/airline/12#0.*?\n|^why: .*?(?=run it again)"),
        Step("green", "./a2a-gate.sh", r"^=+ a2a verdict.*?(?=domain)"),
    ),
    # A merge that makes an agent worse, from red to green.
    "failing-merge": (
        Step("main", f"{_WHOLE} --a2a-min-pass 0.7 --a2a-results main", r"^=+ a2a verdict.*?\n(?==)"),
        Step("promote", "a2a-bench gate main --write-baseline baseline.json", r".*\n"),
        Step("red", f"{_WHOLE} --a2a-baseline baseline.json", r"^=+ a2a verdict.*?\n(?=tasks that)", 1, merged=True),
        Step("diagnose", "a2a-bench show --results a2a-results", r".*\n"),
        Step("ids", "a2a-bench show --results a2a-results --ids 1 > ids.txt"),
        # Not the dots: where the machine is busy a line of progress comes between them.
        Step("again", f"{_RUN} --a2a-results again @ids.txt", r"^=+ 22 passed.*?\n"),
        Step("green", f"{_WHOLE} --a2a-baseline baseline.json", r"^=+ a2a verdict.*\n"),
    ),
}
"""Page -> its commands."""


class Helpdesk(Oracle):
    """Solves airline's tasks, but cannot book yet; since a merge it also mistakes the cabin of changed flights."""

    def __init__(self, *, merged: bool) -> None:
        super().__init__()
        self._merged = merged

    def _load(self, key: str) -> Gold:
        gold = super()._load(key)
        calls = [call for call in gold.calls if call.name != "book_reservation"]
        if self._merged:
            calls = [
                dataclasses.replace(call, arguments={**call.arguments, "cabin": "business"})
                if call.name == "update_reservation_flights"
                else call
                for call in calls
            ]
        return dataclasses.replace(gold, calls=tuple(calls))


@contextlib.contextmanager
def helpdesk(*, merged: bool) -> Iterator[str]:
    """Serve it, and return its URL."""
    with (
        mock.patch.object(server, "make_brain", return_value=Helpdesk(merged=merged)),
        served_in_thread(lambda: server.running(AgentOptions("noop", transport="jsonrpc"))) as agent,
    ):
        yield agent.url


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


def hold(story: str, folder: Path) -> dict[str, str]:
    """Run a page's commands in an empty directory, and return what its blocks are to show.

    :raises AssertionError: if one ended with another exit code than the page says.
    """
    environment = tools(folder)
    project = folder / "project"
    project.mkdir()
    found = {}
    for step in STORIES[story]:
        with helpdesk(merged=step.merged) as url:
            done = subprocess.run(
                step.command.replace("$AGENT_URL", url),
                shell=True,
                cwd=project,
                env=environment,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                check=False,
            )
        assert done.returncode == step.code, f"{step.name}: exit code {done.returncode}\n{done.stdout}\n{done.stderr}"
        if step.shows:
            lines = re.finditer(step.shows, done.stdout, re.MULTILINE | re.DOTALL)
            found[step.name] = "".join(match[0] for match in lines)
    return found


def without_times(text: str) -> str:
    """Return output as it is on any machine."""
    return re.sub(r"=*|\d+ (s|min)\b|\d+\.\d+s( \([\d:]+\))?", lambda m: "" if m[0][:1] in "=" else "TIME", text)


def without_names(text: str) -> str:
    """Return output as it is in any run: without contexts, and tables whose columns are as wide as a time."""
    return re.sub(r"\d+m\d\ds|\d+s\b|~?\d+\.\d+ s\b|context [\w-]+", "TIME", re.sub(" +", " ", without_times(text)))


def blocks(story: str) -> dict[str, str]:
    """Return what a page shows, by name."""
    return {match["name"]: match["text"] for match in _BLOCK.finditer(read(story))}


def read(story: str) -> str:
    """Return a page's text."""
    return (PAGES / f"{story}.md").read_text(encoding="utf-8")


def _written(text: str, found: Mapping[str, str]) -> str:
    return _BLOCK.sub(lambda m: m[0].replace(f"```text\n{m['text']}```", f"```text\n{found[m['name']]}```"), text)


def main() -> None:
    """Run a page's commands, and show what its blocks are to show or write it down."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("story", choices=STORIES)
    parser.add_argument("--write", action="store_true", help="put it into the page")
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        found = hold(asked.story, Path(folder))
    if asked.write:
        (PAGES / f"{asked.story}.md").write_text(_written(read(asked.story), found), encoding="utf-8")
    else:
        print("\n".join(f"=== {name}\n{text}" for name, text in found.items()))


if __name__ == "__main__":
    main()
