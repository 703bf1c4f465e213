"""Let the installed tau2's code read the data of another edition.

tau2 reads its data from paths that its modules computed when they were imported. Aiming moves these paths to another
directory. What a thread aims at is its own affair: environments are built one at a time, each from the data that its
thread chose, so that two editions in one process never meet.
"""

from __future__ import annotations

import functools
import sys
import threading
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from pytest_a2a_bench.errors import ConfigurationError

_AIMED = "_a2a_bench_aimed"
# Also while data are read: what one thread reads must not be moved by another.
_LOCK = threading.RLock()

_chosen: ContextVar[Path | None] = ContextVar("tau2_data", default=None)


_now: Path | None = None
"""Where tau2's modules look; None for where they looked when they were imported."""


def choose(data: Path) -> None:
    """Let what this thread (or task) asks of tau2 from now on be read from a directory that holds ``tau2/domains``."""
    _chosen.set(data)


def aimed(function: Callable[..., Any], installed: Path, what: str, below: str = "tau2") -> Callable[..., Any]:
    """Return a function of tau2's that reads data, so that it reads those that its thread chose.

    :param installed: where the modules looked when they were imported.
    :param what: what is read, for messages.
    :param below: the directory that it reads from; data without it leave the installed one in place.
    """
    if getattr(function, _AIMED, False):
        return function

    @functools.wraps(function)
    def reading(*args: Any, **kwargs: Any) -> Any:
        data = _chosen.get() or installed
        if not (data / below).is_dir():
            data = installed
        with _LOCK:
            _point(installed, data)
            try:
                return function(*args, **kwargs)
            # What databases are read with raises ValueErrors of its own, pydantic's among them.
            except (OSError, ValueError) as error:
                if data == installed:
                    raise
                raise ConfigurationError(
                    f"{what} cannot be read from tau2's data in {data}: {_first(error)}"
                ) from error

    setattr(reading, _AIMED, True)
    return reading


def _first(error: Exception) -> str:
    """Return one line of what is wrong."""
    if isinstance(error, ValidationError):
        found = error.errors(include_url=False, include_input=False)[0]
        return f"{'.'.join(map(str, found['loc']))}: {found['msg']} ({error.error_count()} such problems)"
    return str(error)


def _point(installed: Path, data: Path) -> None:
    global _now
    before = _now or installed
    if data == before:
        return
    for name, module in list(sys.modules.items()):
        if name == "tau2" or name.startswith("tau2."):
            _move(vars(module), before, data)
    # Upstream remembers the documents of the last knowledge base.
    forget = getattr(sys.modules.get("tau2.knowledge.embeddings_cache"), "clear_cached_docs", None)
    if forget is not None:
        forget()
    _now = data


def _move(names: dict[str, Any], before: Path, data: Path) -> None:
    for name, value in list(names.items()):
        if isinstance(value, Path) and value.is_relative_to(before):
            names[name] = data / value.relative_to(before)
        # Upstream keeps tables of configurations, each with the path of its prompt.
        elif isinstance(value, dict) and not name.startswith("__"):
            for held in _held(value):
                for attribute, path in list(vars(held).items()):
                    if isinstance(path, Path) and path.is_relative_to(before):
                        object.__setattr__(held, attribute, data / path.relative_to(before))


def _held(table: dict[Any, Any]) -> Iterator[Any]:
    return (value for value in table.values() if hasattr(value, "__dict__") and not isinstance(value, type))
