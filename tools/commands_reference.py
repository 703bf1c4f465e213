"""Write docs/reference/cli.md from the commands' own help."""

from __future__ import annotations

import os
import sys
from argparse import _SubParsersAction
from collections.abc import Iterator
from pathlib import Path

from pytest_a2a_bench.cli.main import CLOSED, COMMANDS, INTERRUPTED, USAGE_ERROR, make_parser

PAGE = Path(__file__).parents[1] / "docs" / "reference" / "cli.md"

INTRODUCTION = f"""\
# Command line

`a2a-bench COMMAND --help` prints what is below. Every command reads the [settings](settings.md) of pytest: environment
and `[tool.a2a-bench]`; `--set KEY=VALUE` sets any of them. A results directory that is not named is the configured one.

`pip install argcomplete && eval "$(register-python-argcomplete a2a-bench)"` completes commands and options in bash
and zsh.

Exit codes: 0, 1 where a verdict is negative, {USAGE_ERROR} for wrong arguments or where a command could not run,
{INTERRUPTED} after Ctrl-C, 143 after SIGTERM. A command whose output is closed before its end exits with {CLOSED}.
"""


def page() -> str:
    """Return the page."""
    return "\n".join([INTRODUCTION, *_sections()]) + "\n"


def _sections() -> Iterator[str]:
    os.environ["COLUMNS"] = "110"
    for name in COMMANDS:
        parser = make_parser(name)
        (commands,) = (action for action in parser._actions if isinstance(action, _SubParsersAction))
        yield f"## {name}\n"
        yield "<!-- not run: what it prints -->\n"
        yield f"```text\n{commands.choices[name].format_help().rstrip()}\n```\n"


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
    sys.stdout.write(f"written to {PAGE.name}\n")
