"""The story of docs/tutorials/failing-merge.md, held for real: what its commands print is put into the page.

python tests/support/failing_merge.py --write
"""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Iterator
from pathlib import Path
from unittest import mock

import documented_output
from in_thread import served_in_thread

from pytest_a2a_bench.agents import server
from pytest_a2a_bench.agents.brains import Oracle
from pytest_a2a_bench.agents.options import AgentOptions
from pytest_a2a_bench.benchmarks.registry import Gold

PAGE = Path(__file__).parents[2] / "docs" / "tutorials" / "failing-merge.md"
_RUN = "pytest --a2a-endpoint $AGENT_URL --a2a-set tag-trials=on"


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


@dataclasses.dataclass(frozen=True)
class Step:
    """One command of the page, which of the two agents answers, and the exit code."""

    name: str
    command: str
    merged: bool = False
    code: int = 0


_WHOLE = f"{_RUN} --a2a-suite airline --a2a-trials 2"

STEPS = (
    Step("main", f"{_WHOLE} --a2a-min-pass 0.7 --a2a-results main"),
    Step("promote", "a2a-bench gate main --write-baseline baseline.json"),
    Step("red", f"{_WHOLE} --a2a-baseline baseline.json", merged=True, code=1),
    Step("diagnose", "a2a-bench show --results a2a-results"),
    Step("ids", "a2a-bench show --results a2a-results --ids 1 > ids.txt"),
    Step("again", f"{_RUN} --a2a-results again @ids.txt"),
    Step("green", f"{_WHOLE} --a2a-baseline baseline.json"),
)

_SHOWN = {
    "main": ("main", r"^=+ a2a verdict.*?\n(?==)"),
    "promote": ("promote", r".*\n"),
    "red": ("red", r"^=+ a2a verdict.*?\n(?=tasks that)"),
    "diagnose": ("diagnose", r".*\n"),
    # Not the dots: where the machine is busy a line of progress comes between them.
    "again": ("again", r"^=+ 22 passed.*?\n"),
    "green": ("green", r"^=+ a2a verdict.*\n"),
}
"""Block of the page -> the command whose output it shows, and which lines of it."""


def hold(folder: Path) -> dict[str, str]:
    """Run the commands in an empty directory, and return what the blocks of the page are to show.

    :raises AssertionError: if one ended with another exit code than the story says.
    """
    environment = documented_output.tools(folder)
    project = folder / "project"
    project.mkdir()
    outputs = {}
    for step in STEPS:
        with helpdesk(merged=step.merged) as url:
            command = step.command.replace("$AGENT_URL", url)
            outputs[step.name] = documented_output.printed(step.name, command, step.code, project, environment)
    return documented_output.shown(outputs, _SHOWN)


if __name__ == "__main__":
    documented_output.main(__doc__, PAGE, hold)
