"""What commands take from a stored run's settings, and where its benchmarks' data are now."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from collections.abc import Mapping
from typing import Any

from pytest_a2a_bench.benchmarks import registry


def add_places(parser: ArgumentParser) -> None:
    """Declare an option for each place of a benchmark's data, which may be another one than when the run was made."""
    for option in registry.places():
        text = f"{option.help} (if it is elsewhere than when the run was made)"
        parser.add_argument(f"--{option.key}", metavar=option.metavar, help=text)


def benchmark_options(asked: Mapping[str, Any], namespace: Namespace) -> dict[str, Any]:
    """Return the benchmarks' own options of a run, with the places that are given now.

    :param asked: the run's settings, as they are stored.
    """
    own = {option.name for suite in registry.known() for option in suite.options}
    given = {option.name: getattr(namespace, option.name) for option in registry.places()}
    moved = {name: value for name, value in given.items() if value is not None}
    return {name: value for name, value in asked.items() if name in own} | moved
