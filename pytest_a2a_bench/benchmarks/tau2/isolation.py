"""Every environment of tau2 for itself: what its toolkits share in their classes, each instance gets a copy of.

tau2's telecom keeps the phone's VPN details in an attribute of the class of the user's tools, hands out that very
object to whichever phone connects, and changes it (``break_vpn``): from then on every fresh environment of the process
has a poor VPN, the evaluator's too (upstream issue 154). What is contained is found by what it is, an object in a class
that can be changed, and not by its name: the next of its kind is contained as well.

Which data an environment is built from is a thread's own affair, too. tau2 reads them from paths that its modules
computed when they were imported; aiming moves these paths to another edition's directory while one environment is
built, so that two editions in one process never meet.
"""

from __future__ import annotations

import copy
import functools
import inspect
import sys
import threading
import weakref
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ValidationError

from pytest_a2a_bench.errors import ConfigurationError

_MUTABLE = (BaseModel, list, dict, set, bytearray)
_ISOLATED = "_a2a_bench_isolated"


def isolate_environments(registry: Any, toolkit_base: type) -> None:
    """Let every environment that a registry constructs, for us and for upstream's evaluator, start from nothing shared.

    What the classes hold now is what every environment will begin with. Does nothing the second time.

    :param registry: tau2's, with ``get_env_constructor(domain)``.
    :param toolkit_base: the class that all toolkits derive from.
    """
    if getattr(registry.get_env_constructor, _ISOLATED, False):
        return
    pristine = {cls: dict(_shared(cls)) for cls in _descendants(toolkit_base)}
    find = registry.get_env_constructor

    @functools.wraps(find)
    def get_env_constructor(*args: Any, **kwargs: Any) -> Callable[..., Any]:
        return _isolating(find(*args, **kwargs), pristine)

    setattr(get_env_constructor, _ISOLATED, True)
    registry.get_env_constructor = get_env_constructor


def _isolating(construct: Callable[..., Any], pristine: dict[type, dict[str, Any]]) -> Callable[..., Any]:
    @functools.wraps(construct)
    def isolated(*args: Any, **kwargs: Any) -> Any:
        environment = construct(*args, **kwargs)
        for toolkit in (environment.tools, environment.user_tools):
            if toolkit is not None:
                _give_copies(toolkit, pristine)
                _clean_up_after(toolkit)
        return environment

    return isolated


def _clean_up_after(toolkit: Any) -> None:
    """Let what a toolkit keeps outside of this process (a sandbox's directory) go with it: upstream leaves it there."""
    for kept in vars(toolkit).values():
        clean_up = getattr(kept, "cleanup", None)
        if callable(clean_up):
            weakref.finalize(toolkit, clean_up)


def _give_copies(toolkit: Any, pristine: dict[type, dict[str, Any]]) -> None:
    own = vars(toolkit)
    for cls in type(toolkit).__mro__:
        if cls not in pristine:  # defined since
            pristine[cls] = dict(_shared(cls))
        for name, value in pristine[cls].items():
            if name not in own:
                own[name] = copy.deepcopy(value)


def _shared(cls: type) -> Iterator[tuple[str, Any]]:
    """Yield copies of what a class holds that a tool could change."""
    for name, value in vars(cls).items():
        if not name.startswith("__") and isinstance(value, _MUTABLE):
            yield name, copy.deepcopy(value)


def _descendants(cls: type) -> set[type]:
    found: set[type] = set()
    waiting = [cls]
    while waiting:
        one = waiting.pop()
        if one not in found and inspect.isclass(one):
            found.add(one)
            waiting.extend(type.__subclasses__(one))
    return found


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
