"""Every environment of tau2 for itself: what its toolkits share in their classes, each instance gets a copy of.

tau2's telecom keeps the phone's VPN details in an attribute of the class of the user's tools, hands out that very
object to whichever phone connects, and changes it (``break_vpn``): from then on every fresh environment of the process
has a poor VPN, the evaluator's too (upstream issue 154). What is contained is found by what it is, an object in a class
that can be changed, and not by its name: the next of its kind is contained as well.
"""

from __future__ import annotations

import copy
import functools
import inspect
import weakref
from collections.abc import Callable, Iterator
from typing import Any

from pydantic import BaseModel

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
