"""Write docs/reference/cli.md from the commands' own help."""

from __future__ import annotations

import os
import sys
from argparse import SUPPRESS, ArgumentParser, _SubParsersAction
from collections.abc import Iterator
from pathlib import Path

from pytest_a2a_bench.cli.main import CLOSED, COMMANDS, INTERRUPTED, USAGE_ERROR, make_parser

PAGE = Path(__file__).parents[1] / "docs" / "reference" / "cli.md"

INTRODUCTION = f"""\
# Command line

`a2a-bench COMMAND --help` prints what is below. Every command reads the [settings](settings.md) of pytest: environment
and `[tool.a2a-bench]`, or the file of `--config FILE`; `--set KEY=VALUE` (repeatable) sets any of them, and those
under "settings" have options of their own. A results directory that is not named is the configured one.

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
        yield "<!-- not run: help -->\n"
        yield f"```text\n{_help(commands.choices[name])}\n```\n"


def _help(command: ArgumentParser) -> str:
    """Return a command's help without what the introduction says of every command; settings are named only."""
    for group in command._action_groups:
        if group.title == "settings":
            names = [action.option_strings[0] for action in group._group_actions]
            group.description = ", ".join(name for name in names if name not in ("--set", "--config")) or None
        for action in group._group_actions:
            if group.title == "settings" or action.dest == "help":
                action.help = SUPPRESS
    return command.format_help().rstrip()


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
    sys.stdout.write(f"written to {PAGE.name}\n")
