"""What docs/tutorials/ten-minutes.md prints, run for real: the gate of a project that has just been set up.

python tests/support/ten_minutes.py --write
"""

from __future__ import annotations

import re
from pathlib import Path

import documented_output

PAGE = Path(__file__).parents[2] / "docs" / "tutorials" / "ten-minutes.md"

STEPS = {
    "init": ("a2a-bench init builtin:oracle --min-pass 0.7", 0),
    "gate": ("./a2a-gate.sh", 0),
    "promote": ("a2a-bench gate a2a-results --write-baseline a2a-baseline.json", 0),
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
    "show": ("show", r"^tau2/airline/12#0.*?\n|^why: .*?(?=run it again)"),
    "green": ("green", r"^=+ a2a verdict.*?(?=domain)"),
}
"""Block of the page -> the step whose output it shows, and which lines of it."""


def hold(folder: Path) -> dict[str, str]:
    """Run the commands in an empty directory, and return what the blocks of the page are to show.

    :raises AssertionError: if one ended with another exit code than the page says.
    """
    environment = documented_output.tools(folder)
    project = folder / "project"
    project.mkdir()
    outputs = {
        name: documented_output.printed(name, command, code, project, environment)
        for name, (command, code) in STEPS.items()
    }
    return documented_output.shown(outputs, _SHOWN)


def same_anywhere(text: str) -> str:
    """Return output without what differs from run to run."""
    return re.sub(
        r"\d+m\d\ds|\d+s\b|~?\d+\.\d+ s\b|context [\w-]+",
        "TIME",
        re.sub(" +", " ", documented_output.without_times(text)),
    )


if __name__ == "__main__":
    documented_output.main(__doc__, PAGE, hold)
