"""Where pytest takes the value of an option of ours for the place of the tests.

pytest looks for its ini file before plugins are loaded and does not know their options then. Where a value is a word of
its own (``--a2a-results DIR``) and there is such a path, it is taken for an argument: pytest searches from there, finds
no ini file or another one, and runs other tests. So does each of xdist's workers, once the controller made the
directory.
"""

from __future__ import annotations

import itertools
import os
import shlex
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from pytest_a2a_bench.benchmarks import registry
from pytest_a2a_bench.plugin import shim

PREFIX = "--a2a-"


def problems(config: pytest.Config) -> list[str]:
    """Return one line for each value that makes pytest read another ini file, or would if the path were there."""
    # In the order in which pytest reads them.
    arguments = [*shlex.split(os.environ.get("PYTEST_ADDOPTS", "")), *map(str, config.invocation_params.args)]
    separate = list(_separate(arguments))
    if not separate:
        return []
    named = list(config.known_args_namespace.file_or_dir)
    right = shim.ini_file(config, named)
    if right is None:
        return []
    found = []
    for option, value in separate:
        # Asked of pytest itself: with this value among the places, which file would it read?
        other = shim.ini_file(config, [*named, str(_there(value, config.invocation_params.dir))])
        if other != right:
            found.append(
                f"{option} {value}: pytest takes the value for a place of tests and does not read {right}; "
                f"write it with an equals sign: {option}={value}"
            )
    return list(dict.fromkeys(found))


def _separate(arguments: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Yield our options whose value is a path of its own, and the value."""
    names = {f"{PREFIX}{one.key}" for one in registry.every_setting().values() if one.locate is not None}
    names.add(f"{PREFIX}config")
    for option, value in itertools.pairwise(arguments):
        if option in names and not value.startswith("-"):
            yield option, value


def _there(value: str, directory: Path) -> Path:
    """Return a path, or its nearest parent that is there: a directory of results is made by the run."""
    path = directory / value.split("::")[0]
    return next((p for p in (path, *path.parents) if p.exists()), directory)
