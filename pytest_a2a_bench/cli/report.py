"""``a2a-bench report DIR -o FILE``: make one page of a results directory.

The page needs no network: verdict, charts, every trial and its transcript are in the one file. ``-o DIR/`` keeps the
transcripts in files beside the page, which are read when one is opened.
"""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from pathlib import Path

from pytest_a2a_bench.cli._results import results_directory
from pytest_a2a_bench.errors import ConfigurationError
from pytest_a2a_bench.reports.contents import gather, write_with
from pytest_a2a_bench.reports.html import write
from pytest_a2a_bench.results import history
from pytest_a2a_bench.results.stats import count


def configure(parser: ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument("directory", metavar="DIR", type=results_directory, help="Results directory of a run")
    parser.add_argument("-o", "--output", metavar="FILE|DIR/", default="report.html", help="(report.html)")
    parser.add_argument("--format", metavar="NAME", default="html", help="html, or an installed reporter's name (html)")
    parser.add_argument("--baseline", metavar="FILE|DIR", type=results_directory, help="Earlier run to compare with")
    parser.add_argument("--history", metavar="PATH", type=Path, help="Runs of --a2a-history-file, to show over time")
    parser.add_argument(
        "--conformance", metavar="FILE", type=Path, help="Report of: a2a-bench conformance URL --format json"
    )


def run(namespace: Namespace) -> int:
    """Write the page and say where it is."""
    past = history.read(namespace.history) if namespace.history is not None else ()
    contents = gather(namespace.directory, namespace.baseline, namespace.conformance, past)
    try:
        if namespace.format == "html":
            page = write(namespace.output, contents)
        else:
            page = write_with(namespace.format, Path(namespace.output), contents)
    except OSError as error:
        raise ConfigurationError(f"-o {namespace.output}: cannot be written: {error.strerror or error}") from error
    print(f"{page}: {count(len(contents.trials), 'trial')}")
    for note in contents.unfinished:
        print(note)
    return 0
