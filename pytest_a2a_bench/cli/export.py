"""``a2a-bench export tau2 DIR -o FILE``: results in the format of tau2's own viewer, metrics and submission code."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from pathlib import Path

from pytest_a2a_bench.benchmarks.tau2 import export
from pytest_a2a_bench.results import manifest
from pytest_a2a_bench.results.store import StoreError, write_atomically
from pytest_a2a_bench.secret import dump_json

FORMATS = ("tau2",)


def configure(parser: ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument("format", choices=FORMATS, help="whose format")
    parser.add_argument("directory", type=Path, metavar="DIR", help="results directory")
    parser.add_argument("-o", "--output", required=True, type=Path, metavar="FILE", help="file to write")
    parser.add_argument("--domain", metavar="NAME", help="the domain, where there are several: a tau2 file holds one")
    parser.add_argument(
        "--allow-incomplete", action="store_true", help="count trials without a reward as failures, instead of refusing"
    )


def run(namespace: Namespace) -> int:
    """Export, and say what keeps the file from tau2's leaderboard."""
    found = manifest.load_selected(namespace.directory)
    data = export.export(found, domain=namespace.domain, allow_incomplete=namespace.allow_incomplete)
    try:
        write_atomically(namespace.output, dump_json(data))
    except OSError as exc:
        raise StoreError(f"{namespace.output} cannot be written: {exc}") from exc
    ours = data["a2a_bench"]
    for key, reason in ours["not_evaluated"].items():
        print(f"counted as a failure: {key} ({reason})")
    if found.others:
        print(f"left out: {found.others} trial files that are not of the last run")
    print(
        f"{len(data['simulations'])} trials of {data['info']['environment_info']['domain_name']} in {namespace.output}"
    )
    for reason in ours["not_leaderboard_ready_because"]:
        print(f"not for tau2's leaderboard: {reason}")
    return 0
