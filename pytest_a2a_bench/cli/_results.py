"""Results directories as arguments: a name, or an fsspec URL."""

from __future__ import annotations

from argparse import ArgumentTypeError, Namespace
from pathlib import Path

from pytest_a2a_bench.cli._settings import load_settings
from pytest_a2a_bench.errors import ConfigurationError
from pytest_a2a_bench.results import remote


def results_directory(text: str) -> Path:
    """Return a results directory; what is at a URL is brought into one, and what is written there goes back.

    :raises ArgumentTypeError: if the URL cannot be read.
    """
    try:
        return remote.located(text)
    except ConfigurationError as error:
        raise ArgumentTypeError(str(error)) from None


def configured_results(namespace: Namespace) -> Path:
    """Return the results directory of the settings, for commands to which none is given.

    :raises ConfigurationError: if it is at a URL that cannot be read.
    """
    return remote.located(load_settings(namespace).settings.results)
