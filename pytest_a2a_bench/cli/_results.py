"""Results directories as arguments: a name, an fsspec URL, or what a benchmark's own tools have written."""

from __future__ import annotations

import atexit
import shutil
import tempfile
from argparse import ArgumentTypeError, Namespace
from importlib import import_module
from pathlib import Path

from pytest_a2a_bench.benchmarks import registry
from pytest_a2a_bench.cli._settings import load_settings
from pytest_a2a_bench.errors import A2ABenchError
from pytest_a2a_bench.results import manifest, remote
from pytest_a2a_bench.results.store import Store


def results_directory(text: str) -> Path:
    """Return a results directory; what is at a URL is brought into one, and what is written there goes back.

    :raises ArgumentTypeError: if the URL or the file cannot be read.
    """
    try:
        return imported(remote.located(text))
    except A2ABenchError as error:
        raise ArgumentTypeError(str(error)) from None


def imported(path: Path) -> Path:
    """Return a results directory as it is; a run that a benchmark's own tools have written is read into a new one.

    :raises ConfigurationError: if it is such a run, and cannot be read.
    """
    if (path / manifest.NAME).exists() or not path.exists():
        return path
    for suite in registry.known():
        found = import_module(suite.importer).IMPORT(path) if suite.importer else None
        if found is not None:
            directory = Path(tempfile.mkdtemp(prefix="a2a-imported-"))
            atexit.register(shutil.rmtree, directory, ignore_errors=True)
            store = Store(directory)
            store.prepare()
            for result in found.results:
                store.write(result, sync=False)
            found.manifest.write(directory)
            return directory
    return path


def configured_results(namespace: Namespace) -> Path:
    """Return the results directory of the settings, for commands to which none is given.

    :raises ConfigurationError: if it is at a URL that cannot be read.
    """
    return remote.located(load_settings(namespace).settings.results)
