"""``a2a-bench data fetch NAME@REV``: bring a benchmark's data to this machine, pinned; ``list`` and ``path`` show them.

A run uses what was fetched (``--a2a-tau2-data=git:REV``) and never the network.
"""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from importlib import import_module
from typing import cast

from pytest_a2a_bench.benchmarks import registry
from pytest_a2a_bench.benchmarks.base import Fetcher
from pytest_a2a_bench.errors import ConfigurationError


def configure(parser: ArgumentParser) -> None:
    """Declare the arguments."""
    kinds = parser.add_subparsers(dest="what", metavar="WHAT", required=True)
    fetch = kinds.add_parser("fetch", help="fetch a revision, and pin its commit and the hashes of its files")
    path = kinds.add_parser("path", help="show where a fetched revision is")
    for each in (fetch, path):
        each.add_argument("revision", metavar="NAME@REV", help="suite, and a tag, branch or commit: tau2@v1.0.1")
        each.add_argument("--from", dest="url", metavar="URL", help="git repository (default: the benchmark's own)")
    kinds.add_parser("list", help="show every revision that was fetched")


def run(namespace: Namespace) -> int:
    """Fetch, or show what was fetched."""
    if namespace.what == "list":
        found = [line for name in _fetching() for line in _fetcher(name).every()]
        print("\n".join(found) or "nothing was fetched; run: a2a-bench data fetch tau2@REV")
        return 0
    name, _, rev = namespace.revision.partition("@")
    if name not in _fetching() or not rev:
        valid = ", ".join(f"{each}@REV" for each in _fetching())
        raise ConfigurationError(f"{namespace.revision!r} names no data that can be fetched; expected {valid}")
    if namespace.what == "path":
        print(_fetcher(name).locate(rev, namespace.url))
        return 0
    for line in _fetcher(name).fetch(rev, namespace.url):
        print(line)
    return 0


def _fetching() -> list[str]:
    return [suite.name for suite in registry.known() if suite.fetcher]


def _fetcher(name: str) -> Fetcher:
    return cast("Fetcher", import_module(registry.load(name).fetcher).FETCHER)
