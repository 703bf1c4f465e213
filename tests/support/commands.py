"""Commands of ``a2a-bench``, run in this process."""

from contextlib import redirect_stderr, redirect_stdout
from io import StringIO
from pathlib import Path
from typing import NamedTuple

from pytest_a2a_bench.cli.main import main


class Printed(NamedTuple):
    out: str
    err: str


def run(*arguments: str | Path) -> tuple[int, str, str]:
    """Return exit code, output and errors of a command."""
    out, err = StringIO(), StringIO()
    with redirect_stdout(out), redirect_stderr(err):
        try:
            code = main([str(argument) for argument in arguments])
        except SystemExit as left:
            code = left.code if isinstance(left.code, int) else 1
    return code, out.getvalue(), err.getvalue()


def command(*arguments: str | Path, code: int = 0) -> Printed:
    """Return what a command printed, which has to end with this code."""
    ended, out, err = run(*arguments)
    assert ended == code, f"exit code {ended}\n{out}\n{err}"
    return Printed(out, err)


def refused(*arguments: str | Path, lines: int = 1) -> str:
    """Return the lines with which a command refuses its arguments: it prints nothing else, and ends with 2."""
    code, out, err = run(*arguments)
    assert (code, out, err.count("\n")) == (2, "", lines), f"exit code {code}\n{out}\n{err}"
    return err
