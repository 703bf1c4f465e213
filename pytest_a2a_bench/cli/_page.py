"""Write the page of a results directory, or the report of a plugin's reporter."""

from __future__ import annotations

from argparse import Namespace
from pathlib import Path

from pytest_a2a_bench.errors import ConfigurationError
from pytest_a2a_bench.reports.contents import gather, write_with
from pytest_a2a_bench.reports.html import write
from pytest_a2a_bench.results import history
from pytest_a2a_bench.results.stats import count


def run(namespace: Namespace, directory: Path) -> int:
    """Write the file and say where it is.

    The page needs no network: verdict, charts, every trial and its transcript are in one file, or with ``-o DIR/`` the
    transcripts in files beside it.
    """
    past = history.read(namespace.history) if namespace.history is not None else ()
    contents = gather(directory, namespace.baseline, namespace.conformance, past)
    output = namespace.output or "report.html"
    try:
        page = (
            write(output, contents)
            if namespace.format == "html"
            else write_with(namespace.format, Path(output), contents)
        )
    except OSError as error:
        raise ConfigurationError(f"-o {output}: cannot be written: {error.strerror or error}") from error
    print(f"{page}: {count(len(contents.trials), 'trial')}")
    for note in contents.unfinished:
        print(note)
    return 0
