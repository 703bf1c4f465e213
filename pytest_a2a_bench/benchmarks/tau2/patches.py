"""Change the installed tau2: imports that wait, environments that share nothing, data of an edition, and shortcuts.

- LiteLLM, pandas and DeepDiff are imported when tau2 first uses them: they are most of what ``import tau2`` costs, and
  a run with the scripted user never does.
- tau2's telecom keeps the phone's VPN details in a class and changes them (upstream issue 154): every environment gets
  copies of what its toolkits' classes share.
- tau2 reads data from paths that its modules computed when they were imported: these are moved to the edition that the
  asking thread chose, while one environment is built.
- Shortcuts: a database file is parsed once per process (:mod:`.tables`), a tool's schema made once per function, and
  upstream's evaluator, which decides, compares databases by what was done to them, without dumping them whole.

A shortcut relies on functions of tau2's, by a hash of each: for another tau2 all are off, and the results say so.
"""

from __future__ import annotations

import builtins
import contextlib
import copy
import functools
import hashlib
import importlib
import inspect
import os
import sys
import threading
import types
import weakref
from collections.abc import Callable, Iterator, Mapping
from contextvars import ContextVar
from pathlib import Path
from typing import Any, Final

from pydantic import BaseModel, ValidationError

from pytest_a2a_bench.benchmarks.tau2 import tables
from pytest_a2a_bench.errors import ConfigurationError
from pytest_a2a_bench.language_models import load_litellm

# --- imports that wait ---

_DEFERRED: Final[Mapping[str, Callable[[], object]]] = {
    "litellm": load_litellm,
    "pandas": lambda: None,
    "deepdiff": lambda: None,
}
"""Distributions, and what is called before each is imported."""


class _Deferral:
    """A distribution that is imported at its first use, with what tau2 set and called before repeated then."""

    def __init__(self, prepare: Callable[[], object]) -> None:
        self.recording = True
        self.actions: list[tuple[str, Callable[[Any], object]]] = []
        self._prepare = prepare
        self._lock = threading.Lock()

    def real(self, module: str) -> Any:
        with self._lock:
            self._prepare()
            # Once only: settings made in the meantime must not be undone.
            while self.actions:
                where, act = self.actions.pop(0)
                act(importlib.import_module(where))
        return importlib.import_module(module)


class _DeferredName:
    """A function or class of a module that is not yet imported."""

    def __init__(self, deferral: _Deferral, module: str, name: str) -> None:
        self._deferral, self._module, self.__name__ = deferral, module, name

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if self._deferral.recording:
            name = self.__name__
            self._deferral.actions.append((self._module, lambda module: getattr(module, name)(*args, **kwargs)))
            return None
        return getattr(self._deferral.real(self._module), self.__name__)(*args, **kwargs)

    def __or__(self, other: Any) -> Any:
        # In annotations.
        return Any

    __ror__ = __or__


class _StandIn(types.ModuleType):
    """A module that is not yet imported, as tau2's modules see it."""

    def __init__(self, name: str, deferral: _Deferral) -> None:
        super().__init__(name)
        vars(self)["_deferral"] = deferral

    def __getattr__(self, name: str) -> Any:
        deferral: _Deferral = vars(self)["_deferral"]
        if name.startswith("__"):
            # Python itself asks modules for such names while it imports them.
            raise AttributeError(name)
        if deferral.recording:
            return _DeferredName(deferral, self.__name__, name)
        return getattr(deferral.real(self.__name__), name)

    def __setattr__(self, name: str, value: Any) -> None:
        deferral: _Deferral = vars(self)["_deferral"]
        if name.startswith("__"):
            vars(self)[name] = value
        elif deferral.recording:
            deferral.actions.append((self.__name__, lambda module: setattr(module, name, value)))
        else:
            setattr(deferral.real(self.__name__), name, value)


@contextlib.contextmanager
def deferred_imports() -> Iterator[None]:
    """Let tau2's modules that are imported inside the block get stand-ins of what is slow to import.

    Does nothing for what is already imported. All other modules, in any thread, get the real ones.
    """
    deferrals = {name: _Deferral(prepare) for name, prepare in _DEFERRED.items() if name not in sys.modules}
    stand_ins: dict[str, _StandIn] = {}
    real = builtins.__import__

    def deferring(
        name: str,
        globals: Mapping[str, object] | None = None,
        locals: Mapping[str, object] | None = None,
        fromlist: Any = (),
        level: int = 0,
    ) -> types.ModuleType:
        root = name.partition(".")[0]
        if root not in deferrals or not deferrals[root].recording:
            return real(name, globals, locals, fromlist, level)
        if level or not str((globals or {}).get("__name__")).startswith("tau2."):
            return real(name, globals, locals, fromlist, level)
        wanted = name if fromlist else root
        return stand_ins.setdefault(wanted, _StandIn(wanted, deferrals[root]))

    builtins.__import__ = deferring
    try:
        yield
    finally:
        for deferral in deferrals.values():
            deferral.recording = False
        # Another program may have wrapped it meanwhile: then it only passes on.
        if builtins.__import__ is deferring:
            builtins.__import__ = real


# --- environments that share nothing ---

_MUTABLE = (BaseModel, list, dict, set, bytearray)
_ISOLATED = "_a2a_bench_isolated"


def isolate_environments(registry: Any, toolkit_base: type) -> None:
    """Let every environment that a registry constructs, for us and for upstream's evaluator, start from nothing shared.

    What the classes have now is what every environment will begin with. Does nothing the second time.

    :param registry: tau2's, with ``get_env_constructor(domain)``.
    :param toolkit_base: the class that all toolkits derive from.
    """
    find = registry.get_env_constructor
    if getattr(find, _ISOLATED, False):
        return
    waiting = [toolkit_base]
    while waiting:
        _shared(cls := waiting.pop())
        waiting.extend(type.__subclasses__(cls))

    @functools.wraps(find)
    def get_env_constructor(*args: Any, **kwargs: Any) -> Callable[..., Any]:
        construct = find(*args, **kwargs)

        @functools.wraps(construct)
        def isolated(*args: Any, **kwargs: Any) -> Any:
            environment = construct(*args, **kwargs)
            for toolkit in (environment.tools, environment.user_tools):
                if toolkit is not None:
                    _separate(toolkit)
            return environment

        return isolated

    setattr(get_env_constructor, _ISOLATED, True)
    registry.get_env_constructor = get_env_constructor


def _separate(toolkit: Any) -> None:
    own = vars(toolkit)
    for cls in type(toolkit).__mro__:
        for name, value in _shared(cls).items():
            if name not in own:
                own[name] = copy.deepcopy(value)
    for kept in list(own.values()):
        # What it keeps outside of this process (a sandbox's directory) goes with it: upstream leaves it there.
        clean_up = getattr(kept, "cleanup", None)
        if callable(clean_up):
            weakref.finalize(toolkit, clean_up)


@functools.cache
def _shared(cls: type) -> dict[str, Any]:
    """Return copies of what a class has that a tool could change, as it is when this is first called."""
    members = vars(cls).items()
    return {n: copy.deepcopy(v) for n, v in members if not n.startswith("__") and isinstance(v, _MUTABLE)}


# --- data of an edition ---

_AIMED = "_a2a_bench_aimed"
# Also while data are read: what one thread reads must not be moved by another.
_LOCK = threading.RLock()
_chosen: ContextVar[Path | None] = ContextVar("tau2_data", default=None)
_now: Path | None = None
"""Where tau2's modules look; None for where they looked when they were imported."""


def choose(data: Path) -> None:
    """Let what this thread (or task) asks of tau2 from now on be read from a directory that has ``tau2/domains``."""
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
                found = f"{what} cannot be read from tau2's data in {data}: {first_problem(error)}"
                raise ConfigurationError(found) from error

    setattr(reading, _AIMED, True)
    return reading


def first_problem(error: Exception) -> str:
    """Return one line on what is wrong."""
    if isinstance(error, ValidationError):
        found = error.errors(include_url=False, include_input=False)[0]
        return f"{'.'.join(map(str, found['loc']))}: {found['msg']} ({error.error_count()} such problems)"
    return str(error)


def _point(installed: Path, data: Path) -> None:
    global _now
    before, _now = _now or installed, data
    if data == before:
        return

    def move(path: Any) -> Path | None:
        return data / path.relative_to(before) if isinstance(path, Path) and path.is_relative_to(before) else None

    for module in [m for name, m in list(sys.modules.items()) if name == "tau2" or name.startswith("tau2.")]:
        for name, value in list(vars(module).items()):
            if moved := move(value):
                setattr(module, name, moved)
            elif isinstance(value, dict) and not name.startswith("__"):
                # Upstream keeps tables of configurations, each with the path of its prompt.
                for kept in (k for k in value.values() if hasattr(k, "__dict__") and not isinstance(k, type)):
                    for attribute, path in list(vars(kept).items()):
                        if moved := move(path):
                            object.__setattr__(kept, attribute, moved)
    # Upstream remembers the documents of the last knowledge base.
    forget = getattr(sys.modules.get("tau2.knowledge.embeddings_cache"), "clear_cached_docs", None)
    if forget is not None:
        forget()


# --- shortcuts ---

VARIABLE: Final = "A2A_BENCH_TAU2_STOCK"
"""Set to anything, this environment variable switches all shortcuts off."""

_KNOWN: Final = {
    "tau2.environment.db:DB.load": "59ec9da2362ccaaf",
    "tau2.environment.toolkit:ToolKitBase.get_db_hash": "f667fe085dcb0c33",
    "tau2.environment.toolkit:ToolKitBase.get_tools": "90182878a440fdc4",
    "tau2.environment.tool:as_tool": "781e7084209e834f",
    "tau2.environment.tool:Tool.__init__": "e7251f8a888381e5",
    "tau2.environment.tool:Tool._call": "58317f53f31d67b5",
    "tau2.environment.environment:Environment.get_db_hash": "ce0b2a0d71bce3ee",
    "tau2.environment.environment:Environment.get_user_db_hash": "30929ca05a1a4eed",
    "tau2.evaluator.evaluator_env:EnvironmentEvaluator.calculate_reward": "4ce3f7b1d51ba2f0",
    "tau2.utils.utils:get_dict_hash": "5e1571bdc5944079",
}
"""What the shortcuts rely on, and the hashes of the sources that they were written for."""

_READERS: Final = {
    "tau2.domains.airline.tools:AirlineTools._search_direct_flight": "0dbc9aa93c62546c",
    "tau2.domains.retail.tools:RetailTools.find_user_id_by_email": "101f4db3a89e2e29",
    "tau2.domains.retail.tools:RetailTools.find_user_id_by_name_zip": "a64f52ce7d521927",
}
"""What looks at every record of a table, changes none and returns none; of another source it is only slower."""

_INSTALLED: Final = "_a2a_bench_shortcuts"
_differing: list[str] = []


def install_shortcuts() -> None:
    """Let environments, tools and the evaluator take the shortcuts, if this tau2 is one that they were written for.

    Does nothing the second time.
    """
    database = importlib.import_module("tau2.environment.db").DB
    if getattr(database.load, _INSTALLED, False):
        return
    if os.environ.get(VARIABLE):
        _differing.append(f"{VARIABLE} is set")
        return
    if unknown := [name for name, known in _KNOWN.items() if _hash_of(name) != known]:
        _differing.append(f"this tau2 has another {', '.join(unknown)}")
        return
    load = database.load.__func__

    @functools.wraps(load)
    def open_database(kind: Any, path: Any) -> Any:
        return tables.open_database(load, kind, path)

    setattr(open_database, _INSTALLED, True)
    database.load = classmethod(open_database)
    for name, known in _READERS.items():
        if _hash_of(name) == known:
            kit, method = _find(name.rpartition(".")[0]), name.rpartition(".")[2]
            setattr(kit, method, tables.only_reading(vars(kit)[method]))
    toolkit: Any = importlib.import_module("tau2.environment.toolkit")
    toolkit.as_tool = _once_per_function(toolkit.as_tool)
    toolkit.ToolKitBase.get_db_hash = _states_for_hashes(toolkit.ToolKitBase.get_db_hash)


def why_stock() -> str:
    """Return why environments and evaluation are tau2's own in this process; empty where shortcuts are taken."""
    return "; ".join(_differing)


def _find(name: str) -> Any:
    module, _, path = name.partition(":")
    return functools.reduce(getattr, path.split("."), importlib.import_module(module))


def _hash_of(name: str) -> str:
    try:
        return hashlib.sha256(inspect.getsource(_find(name)).encode()).hexdigest()[:16]
    except (AttributeError, ImportError, OSError, TypeError):
        return "none"


def _once_per_function(as_tool: Callable[..., Any]) -> Callable[..., Any]:
    made: dict[Any, Any] = {}
    nobody = object()

    @functools.wraps(as_tool)
    def as_known_tool(func: Any, **kwargs: Any) -> Any:
        function = getattr(func, "__func__", None)
        if kwargs or function is None:
            return as_tool(func, **kwargs)
        if function not in made:
            # Of a method of no instance, so that it keeps no environment.
            made[function] = as_tool(function.__get__(nobody))
        tool = copy.copy(made[function])
        # It is no field; pydantic does the same after a search that takes longer than the copy.
        object.__setattr__(tool, "_func", func)
        return tool

    return as_known_tool


_comparing: ContextVar[bool] = ContextVar("tau2_comparing", default=False)


@contextlib.contextmanager
def comparing_states() -> Iterator[None]:
    """Let upstream's evaluator compare databases by what was done to them, inside the block."""
    token = _comparing.set(True)
    try:
        yield
    finally:
        _comparing.reset(token)


class _State(str):
    """Stands for the hash of a database: equal to another one exactly if tau2's hashes are equal."""

    __slots__ = ("origin", "stock")
    origin: Any
    stock: Callable[[], str | None]

    def __eq__(self, other: object) -> bool:
        if isinstance(other, _State) and self.origin is other.origin:
            return str.__eq__(self, other)
        return self.stock() == (other.stock() if isinstance(other, _State) else other)

    def __ne__(self, other: object) -> bool:
        return not self == other

    __hash__ = str.__hash__


def _states_for_hashes(get_db_hash: Callable[[Any], str | None]) -> Callable[[Any], str | None]:
    """Return a toolkit's ``get_db_hash`` that dumps no database while databases are only compared."""

    @functools.wraps(get_db_hash)
    def get_state(toolkit: Any) -> str | None:
        described = tables.describe_state(toolkit.db) if _comparing.get() else None
        if described is None:
            return get_db_hash(toolkit)
        state = _State(described)
        state.origin, state.stock = tables.origin_of(toolkit.db), functools.partial(get_db_hash, toolkit)
        return state

    return get_state
