"""Everything that is wrong with what the user gave, told at once."""

from __future__ import annotations

from collections.abc import Callable

from pytest_a2a_bench.errors import ConfigurationError


def complaints(*steps: Callable[[], object]) -> list[str]:
    """Take steps, each of which may refuse what it is given, and return what they say."""
    return [text for step in steps if (text := _complaint(step))]


def refuse_bad(*steps: Callable[[], object]) -> None:
    """Take steps that may refuse what they are given.

    :raises ConfigurationError: naming all that is wrong.
    """
    found = complaints(*steps)
    if found:
        raise ConfigurationError("; ".join(found))


def _complaint(step: Callable[[], object]) -> str:
    try:
        step()
    except ConfigurationError as error:
        return str(error)
    return ""
