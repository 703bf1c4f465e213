"""The subcommands of ``a2a-bench``, one module each.

A command module has ``NAME``, ``HELP``, ``configure(parser)`` and ``run(namespace) -> int``. All of them are imported
for every command line, so they import heavy things inside ``run`` only.
"""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from importlib import import_module
from typing import Protocol, cast

COMMANDS = (
    "agent",
    "card",
    "compare",
    "conformance",
    "doctor",
    "export",
    "merge",
    "promote",
    "report",
    "rescore",
    "schema",
)


class Command(Protocol):
    """What a command module looks like."""

    NAME: str
    HELP: str

    def configure(self, parser: ArgumentParser) -> None:
        """Declare the command's arguments."""
        ...

    def run(self, namespace: Namespace) -> int:
        """Do it, and return the exit code.

        :raises A2ABenchError: for everything that the user has to be told in one line.
        """
        ...


def load_commands() -> list[Command]:
    """Return all commands in the order of the help text."""
    return [cast(Command, import_module(f"{__package__}.{name}")) for name in COMMANDS]
