"""Environments of tau2 that share nothing, and shortcuts to the same rewards.

- A database file is parsed once per process, and every environment gets one of its own that copies what it looks at:
  building and hashing databases was nine tenths of an airline or retail trial, and nearly all records of one are never
  looked at. A database is handed out with the shared records in its tables, and a record is replaced by a copy of its
  own before anybody sees it. Python code that looks at a table goes through the methods below; what goes past them
  (pydantic, when it dumps a database) sees the same values and changes none.
- What a trial did to its database is what differs in the records that it looked at. Two databases of one origin have
  tau2's ``get_db_hash`` in common exactly if :func:`describe_state` says the same of both: the hash is of the JSON text
  of all records, and here the texts of those that differ are compared.
- A tool's schema is made once per function.
- tau2's telecom keeps the phone's VPN details in a class and changes them (upstream issue 154): every environment gets
  copies of its toolkits' shared class attributes.

A shortcut relies on functions of tau2's, by a hash of each: for another tau2 all are off, and the results say so.
"""

from __future__ import annotations

import contextlib
import copy
import datetime
import functools
import hashlib
import importlib
import inspect
import itertools
import json
import os
import threading
import types
import weakref
from collections.abc import Callable, Iterator, Mapping, MutableMapping
from contextvars import ContextVar
from pathlib import Path
from typing import Annotated, Any, Final, Literal, TypeVar, Union, cast, get_args, get_origin

from pydantic import BaseModel

from pytest_a2a_bench.benchmarks.tau2.index import Stamp, stamp_of

V = TypeVar("V")

_FEW = 8
"""Number of records up to which a dictionary is copied whole: a table costs more."""
_PLAIN: Final = frozenset({str, int, float, bool, type(None), bytes, datetime.date, datetime.datetime, datetime.time})
_ORIGIN: Final = "_a2a_bench_origin"


class _Reading(threading.local):
    only = False


_reading = _Reading()


def only_reading(function: Callable[..., V]) -> Callable[..., V]:
    """Let a function look at shared records: for functions that change none and return none."""

    @functools.wraps(function)
    def reading(*args: Any, **kwargs: Any) -> V:
        before, _reading.only = _reading.only, True
        try:
            return function(*args, **kwargs)
        finally:
            _reading.only = before

    return reading


class Table(dict[Any, Any]):
    """Records by key, each copied before it is seen. It is a ``dict``, because pydantic takes nothing else for one.

    A record that is replaced during iteration keeps its place.
    """

    __slots__ = ("shared",)
    # Those of a dict go past __getitem__.
    get, keys, values, items = Mapping.get, Mapping.keys, Mapping.values, Mapping.items  # type: ignore[assignment]
    setdefault = MutableMapping.setdefault

    def __init__(self, shared: dict[Any, Any]) -> None:
        super().__init__(shared)
        self.shared = shared

    def seen(self) -> Iterator[tuple[Any, Any, Any]]:
        """Yield the key of each record that may have changed, its value now, and before; None where there is none."""
        shared = self.shared
        for key, value in dict.items(self):
            before = shared.get(key)
            if value is not before:
                yield key, value, before
        for key in shared.keys() - dict.keys(self):
            yield key, None, shared[key]

    def __getitem__(self, key: Any) -> Any:
        value = dict.__getitem__(self, key)
        if value is not None and not _reading.only and self.shared.get(key) is value:
            value = copy_of(value)
            dict.__setitem__(self, key, value)
        return value

    def pop(self, key: Any, *default: Any) -> Any:
        """Remove a record and return it; the default where there is none."""
        if default and key not in self:
            return default[0]
        value = self[key]
        del self[key]
        return value

    def popitem(self) -> tuple[Any, Any]:
        """Remove the last record and return it with its key."""
        key = next(reversed(self))
        return key, self.pop(key)

    # Overridden, so that C code that copies a dict asks for each record.
    def __iter__(self) -> Iterator[Any]:
        return dict.__iter__(self)

    def copy(self) -> dict[Any, Any]:
        """Return a plain dict of all records, each of its own."""
        return dict(self.items())

    __copy__ = copy

    def __or__(self, other: Any) -> Any:
        return self.copy() | other

    def __ror__(self, other: Any) -> Any:
        return other | self.copy()

    def __deepcopy__(self, memo: dict[int, Any]) -> dict[Any, Any]:
        return copy.deepcopy(self.copy(), memo)

    def __reduce_ex__(self, protocol: Any) -> tuple[Any, ...]:
        return dict, (self.copy(),)


def copy_of(value: Any) -> Any:
    """Return a copy of pydantic's validated values; records of large tables are copied when they are looked at."""
    kind: Any = type(value)
    if kind in _PLAIN:
        return value
    if kind is list:
        return [record if type(record) in _PLAIN else copy_of(record) for record in value]
    if kind is dict:
        if len(value) >= _FEW and all(isinstance(record, BaseModel) for record in value.values()):
            return Table(value)
        return {key: record if type(record) in _PLAIN else copy_of(record) for key, record in value.items()}
    if isinstance(value, BaseModel) and _is_simple(kind):
        members = value.__dict__.copy()
        for name in _containers(kind):
            members[name] = copy_of(members[name])
        made = kind.__new__(kind)
        _set(made, "__dict__", members)
        _set(made, "__pydantic_fields_set__", value.__pydantic_fields_set__.copy())
        _set(made, "__pydantic_extra__", None)
        _set(made, "__pydantic_private__", None)
        return made
    return copy.deepcopy(value)


_set = object.__setattr__


@functools.cache
def _is_simple(kind: type[BaseModel]) -> bool:
    """Return whether all that a model holds is in its fields."""
    return not kind.__private_attributes__ and kind.model_config.get("extra") != "allow"


@functools.cache
def _containers(kind: type[BaseModel]) -> tuple[str, ...]:
    """Return the names of the fields that may hold something that can be changed."""
    return tuple(name for name, field in kind.model_fields.items() if not _is_plain(field.annotation))


def _is_plain(annotation: Any) -> bool:
    if annotation in _PLAIN:
        return True
    origin = get_origin(annotation)
    if origin is Literal:
        return True
    return origin in (Union, types.UnionType, Annotated) and all(
        # What is annotated with is no type.
        map(_is_plain, get_args(annotation)[: 1 if origin is Annotated else None])
    )


# --- databases --------------------------------------------------------------------------------------------------------

_LOCK = threading.Lock()


def open_database(load: Callable[[Any, Any], V], kind: Any, path: Any) -> V:
    """Return a database of its own for one environment.

    :param load: tau2's ``DB.load``, which is asked once for each state of a file.
    :param kind: the class of the database.
    """
    where = Path(os.path.abspath(path))
    # Threads of several trials ask for the first time at the same time.
    with _LOCK:
        origin = _parse(load, kind, where, stamp_of(where))
    database = copy_of(origin.database)
    # Beside its fields, where pydantic keeps cached properties, too: no dump has it.
    database.__dict__[_ORIGIN] = origin
    return cast(V, database)


_numbers = itertools.count()


class Origin:
    """The original of an environment's databases. It is never changed.

    :param number: another one for each, also after one is forgotten.
    """

    __slots__ = ("database", "number")

    def __init__(self, database: Any) -> None:
        self.database = database
        self.number = next(_numbers)

    def __deepcopy__(self, memo: dict[int, Any]) -> Origin:
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        return type(None), ()


@functools.lru_cache(maxsize=16)
def _parse(load: Callable[[type[Any], Any], Any], kind: type[Any], path: Path, stamp: Stamp) -> Origin:
    return Origin(load(kind, path))


def origin_of(database: Any) -> Origin | None:
    """Return a database's original; None where another database has taken its place."""
    found: Origin | None = getattr(database, "__dict__", {}).get(_ORIGIN)
    return found


def describe_state(database: Any) -> str | None:
    """Return the changes of a database since it was opened, as a text; None where they are not known.

    Databases of one origin for which this is the same text have the same ``get_db_hash``.
    """
    origin = origin_of(database)
    if origin is None or type(database) is not type(origin.database):
        return None
    changed: dict[str, Any] = {}
    now, before = _members(database), origin.database.__dict__
    if now.keys() != before.keys():
        return None
    for name, value in now.items():
        if isinstance(value, Table):
            if value.shared is not before[name]:
                return None
            records = {}
            for key, record, was in value.seen():
                if not isinstance(key, str) or (record is not None and type(record) is not _kind_of(value.shared)):
                    return None
                described = None if record is None else _text(record.model_dump())
                if was is None or described != _text(was.model_dump()):
                    records[key] = described
            if records:
                changed[name] = records
        elif value is not before[name]:
            described = _text(database.model_dump(include={name}))
            if described != _text(origin.database.model_dump(include={name})):
                changed[name] = described
    return json.dumps([origin.number, changed], sort_keys=True)


def _members(database: Any) -> dict[str, Any]:
    return {name: value for name, value in database.__dict__.items() if name != _ORIGIN}


def _kind_of(records: dict[Any, Any]) -> type[Any]:
    return type(next(iter(records.values())))


def _text(dumped: Any) -> str:
    # As tau2's get_dict_hash writes what it hashes.
    return json.dumps(dumped, sort_keys=True, default=str)


def dump_differing(left: Any, right: Any) -> tuple[Any, Any]:
    """Return two databases as JSON values, without records that neither has looked at."""
    origin = origin_of(left)
    if origin is None or origin_of(right) is not origin:
        whole = (None if side is None else side.model_dump(mode="json") for side in (left, right))
        return next(whole), next(whole)
    seen: dict[str, Any] = {}
    for name in origin.database.__dict__:
        tables = [getattr(side, name, None) for side in (left, right)]
        if all(isinstance(table, Table) for table in tables):
            seen[name] = {key for table in tables if table is not None for key, _, _ in table.seen()}
        else:
            seen[name] = True
    # What is included and not there is nobody's.
    return left.model_dump(mode="json", include=seen), right.model_dump(mode="json", include=seen)


# --- environments that share nothing ---

_MUTABLE = (BaseModel, list, dict, set, bytearray)
_ISOLATED = "_a2a_bench_isolated"


def isolate_environments(registry: Any, toolkit_base: type) -> None:
    """Let every environment that a registry constructs, for us and for upstream's evaluator, start from nothing shared.

    Every environment will begin with the classes' present attributes. Does nothing the second time.

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
    """Return copies of a class's attributes that a tool could change, as they are at the first call."""
    members = vars(cls).items()
    return {n: copy.deepcopy(v) for n, v in members if not n.startswith("__") and isinstance(v, _MUTABLE)}


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
"""Functions that the shortcuts rely on -> the hashes of the sources that they were written for."""

_READERS: Final = {
    "tau2.domains.airline.tools:AirlineTools._search_direct_flight": "0dbc9aa93c62546c",
    "tau2.domains.retail.tools:RetailTools.find_user_id_by_email": "101f4db3a89e2e29",
    "tau2.domains.retail.tools:RetailTools.find_user_id_by_name_zip": "a64f52ce7d521927",
}
"""Tools that look at every record of a table, change none and return none; with another source they are only slower."""

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
    def load_once(kind: Any, path: Any) -> Any:
        return open_database(load, kind, path)

    setattr(load_once, _INSTALLED, True)
    database.load = classmethod(load_once)
    for name, known in _READERS.items():
        if _hash_of(name) == known:
            kit, method = _find(name.rpartition(".")[0]), name.rpartition(".")[2]
            setattr(kit, method, only_reading(vars(kit)[method]))
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
    """Let upstream's evaluator compare databases by their changes, inside the block."""
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
        described = describe_state(toolkit.db) if _comparing.get() else None
        if described is None:
            return get_db_hash(toolkit)
        state = _State(described)
        state.origin, state.stock = origin_of(toolkit.db), functools.partial(get_db_hash, toolkit)
        return state

    return get_state
