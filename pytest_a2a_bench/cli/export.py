"""``a2a-bench export NAME DIR -o FILE``: results in the format of the benchmark's own tools, or of a leaderboard."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

from pytest_a2a_bench.benchmarks import registry
from pytest_a2a_bench.errors import ConfigurationError
from pytest_a2a_bench.platforms import leaderboard
from pytest_a2a_bench.results import manifest
from pytest_a2a_bench.results.store import StoreError, write_atomically
from pytest_a2a_bench.secret import dump_json

LEADERBOARD = "leaderboard"
"""The format that is no benchmark's: AgentBeats' leaderboards, of which DuckDB reads a directory of files."""


def configure(parser: ArgumentParser) -> None:
    """Declare the arguments."""
    formats = [
        LEADERBOARD,
        *(name for name in registry.names() if (suite := registry.find(name)) is not None and suite.exporter),
    ]
    parser.add_argument("format", choices=formats, help="whose format")
    parser.add_argument("directory", type=Path, metavar="DIR", help="results directory")
    parser.add_argument("-o", "--output", required=True, type=Path, metavar="FILE", help="file to write")
    parser.add_argument("--domain", metavar="NAME", help="the domain, where there are several and a file holds one")
    parser.add_argument(
        "--allow-incomplete", action="store_true", help="count trials without a reward as failures, instead of refusing"
    )
    parser.add_argument("--id", metavar="ID", help="leaderboard: what it calls the agent")
    parser.add_argument("--role", default=leaderboard.ROLE, help="leaderboard: the agent's role (%(default)s)")


def _export(namespace: Namespace, found: manifest.SelectedResults) -> tuple[dict[str, Any], Sequence[str]]:
    if namespace.format == LEADERBOARD:
        participants = {namespace.role: namespace.id}
        return leaderboard.export(found, namespace.domain, namespace.allow_incomplete, participants)
    exporter = import_module(registry.load(namespace.format).exporter)
    told: tuple[dict[str, Any], Sequence[str]] = exporter.EXPORT(found, namespace.domain, namespace.allow_incomplete)
    return told


def run(namespace: Namespace) -> int:
    """Export, and say what whoever uses the file must know."""
    if (namespace.format == LEADERBOARD) != (namespace.id is not None):
        raise ConfigurationError(f"export: --id is how a leaderboard knows the agent; give it with {LEADERBOARD} only")
    found = manifest.load_selected(namespace.directory)
    data, lines = _export(namespace, found)
    try:
        write_atomically(namespace.output, dump_json(data))
    except OSError as exc:
        raise StoreError(f"{namespace.output} cannot be written: {exc}") from exc
    for line in lines:
        print(line)
    if found.others:
        print(f"left out: {found.others} trial files that are not of the last run")
    print(f"written to {namespace.output}")
    return 0
