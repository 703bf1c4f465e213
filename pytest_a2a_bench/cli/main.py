"""The console script ``a2a-bench``: finds the subcommand, runs it, and turns trouble into one line and exit code 2."""

from __future__ import annotations

import argparse
import io
import sys
from collections.abc import Sequence
from importlib.metadata import PackageNotFoundError, version
from typing import NoReturn

from pytest_a2a_bench.cli.commands import load_commands
from pytest_a2a_bench.errors import A2ABenchError

USAGE_ERROR = 2
INTERRUPTED = 130


def main(argv: Sequence[str] | None = None) -> int:
    """Run ``a2a-bench`` and return its exit code.

    :param argv: the arguments; by default the process's own.
    """
    _write_whatever_it_is()
    parser = make_parser()
    namespace = parser.parse_args(argv)
    try:
        return int(namespace.run(namespace))
    except A2ABenchError as error:
        print(f"a2a-bench: {' '.join(str(error).split())}", file=sys.stderr)
        return USAGE_ERROR
    except KeyboardInterrupt:
        return INTERRUPTED
    except BrokenPipeError:  # `a2a-bench doctor | head`: nobody reads on, and nobody would read a message
        sys.stderr.close()
        return 0


def _write_whatever_it_is() -> None:
    """Escape what the terminal's encoding does not have: agents say what they like, and a report must not end there."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


class OneLineParser(argparse.ArgumentParser):
    """A parser that reports a wrong argument in one line, without the usage text around it."""

    def error(self, message: str) -> NoReturn:
        """Print the message and leave with exit code 2."""
        self.exit(USAGE_ERROR, f"{self.prog}: {message}; see {self.prog} --help\n")


def make_parser() -> argparse.ArgumentParser:
    """Return the parser with every subcommand."""
    parser = OneLineParser(prog="a2a-bench", description="Benchmark A2A agents with pytest.")
    parser.add_argument("--version", action="version", version=f"pytest-a2a-bench {_version()}")
    subparsers = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)
    for command in load_commands():
        subparser = subparsers.add_parser(command.NAME, help=command.HELP, description=_plain(command.__doc__))
        command.configure(subparser)
        subparser.set_defaults(run=command.run)
    return parser


def _plain(text: str | None) -> str:
    """Return a docstring for the terminal, which knows no markup."""
    return (text or "").replace("``", "")


def _version() -> str:
    try:
        return version("pytest-a2a-bench")
    except PackageNotFoundError:
        return "(not installed)"
