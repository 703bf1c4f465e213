"""Import tau2 without importing LiteLLM, until an LLM is really called, and without pandas and DeepDiff.

``import litellm`` is three quarters of what ``import tau2`` costs (about 3 of 4 seconds of CPU per process), and a run
with the scripted user never calls it. While tau2 is imported, ``litellm`` is a stand-in that remembers what tau2 sets
and calls on it; the first real call imports LiteLLM, replays those settings and goes through. Afterwards
``sys.modules`` is as it was, so that everybody else who imports LiteLLM gets LiteLLM.

pandas (with numpy and pyarrow) and DeepDiff are half of the rest, and 80 MB: tau2 makes tables of results with them,
which we never ask for. Only tau2's own modules get a stand-in of these, never in ``sys.modules``: whatever else is
imported meanwhile, in whichever thread, gets the real one.
"""

from __future__ import annotations

import builtins
import contextlib
import importlib
import sys
import threading
import types
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from pytest_a2a_bench.containment import load_litellm

# What tau2 imports of it by name.
_NAMES = ("litellm", "litellm.caching", "litellm.caching.caching", "litellm.main")
_TABLES = ("pandas", "deepdiff")


class _Replay:
    """What tau2 did to the stand-in at import, to be done to the real module before its first use.

    :param prepare: called before the real module is imported.
    """

    def __init__(self, prepare: Callable[[], object] = lambda: None) -> None:
        self.recording = True
        self._prepare = prepare
        self._attributes: list[tuple[str, str, Any]] = []
        self._calls: list[tuple[str, str, tuple[Any, ...], dict[str, Any]]] = []
        self._lock = threading.Lock()
        self._done = False

    def set(self, module: str, name: str, value: Any) -> None:
        self._attributes.append((module, name, value))

    def call(self, module: str, name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        self._calls.append((module, name, args, kwargs))

    def real(self, module: str) -> Any:
        with self._lock:
            self._prepare()
            # Once only: settings made in the meantime must not be undone.
            if not self._done:
                self._done = True
                for where, name, value in self._attributes:
                    setattr(importlib.import_module(where), name, value)
                for where, name, args, kwargs in self._calls:
                    getattr(importlib.import_module(where), name)(*args, **kwargs)
        return importlib.import_module(module)


class _Deferred:
    """A function or class, named but not yet imported."""

    def __init__(self, replay: _Replay, module: str, name: str) -> None:
        self._replay = replay
        self._module = module
        self.__name__ = name

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if self._replay.recording:
            self._replay.call(self._module, self.__name__, args, kwargs)
            return None
        return getattr(self._replay.real(self._module), self.__name__)(*args, **kwargs)

    def __or__(self, other: Any) -> Any:
        # In annotations.
        return Any

    __ror__ = __or__


class _StandIn(types.ModuleType):
    def __init__(self, name: str, replay: _Replay) -> None:
        super().__init__(name)
        self.__dict__["_replay"] = replay
        self.__dict__["__path__"] = []

    def __getattr__(self, name: str) -> Any:
        # Python itself asks modules for such names while it imports them.
        if name.startswith("__"):
            raise AttributeError(name)
        replay: _Replay = self.__dict__["_replay"]
        if replay.recording:
            return _Deferred(replay, self.__name__, name)
        return getattr(replay.real(self.__name__), name)

    def __setattr__(self, name: str, value: Any) -> None:
        if name.startswith("__") or isinstance(value, _StandIn):
            self.__dict__[name] = value
            return
        replay: _Replay = self.__dict__["_replay"]
        if replay.recording:
            replay.set(self.__name__, name, value)
        else:
            setattr(replay.real(self.__name__), name, value)


@contextlib.contextmanager
def deferred_litellm() -> Iterator[None]:
    """Let ``import litellm`` inside the block give a stand-in. Does nothing where LiteLLM is already imported."""
    if "litellm" in sys.modules:
        yield
        return
    replay = _Replay(load_litellm)
    for name in _NAMES:
        sys.modules[name] = _StandIn(name, replay)
    try:
        yield
    finally:
        replay.recording = False
        # Only what is still a stand-in: a real import inside the block stays.
        for name in [n for n in sys.modules if n == "litellm" or n.startswith("litellm.")]:
            if isinstance(sys.modules[name], _StandIn):
                del sys.modules[name]


@contextlib.contextmanager
def deferred_tables() -> Iterator[None]:
    """Let tau2's modules that are imported inside the block get stand-ins of pandas and DeepDiff.

    Does nothing for what is already imported.
    """
    replay = _Replay()
    stand_ins = {name: _StandIn(name, replay) for name in _TABLES if name not in sys.modules}
    real = builtins.__import__

    def deferring(
        name: str,
        globals: Mapping[str, object] | None = None,
        locals: Mapping[str, object] | None = None,
        fromlist: Any = (),
        level: int = 0,
    ) -> types.ModuleType:
        if replay.recording and name in stand_ins and str((globals or {}).get("__name__")).startswith("tau2."):
            return stand_ins[name]
        return real(name, globals, locals, fromlist, level)

    builtins.__import__ = deferring
    try:
        yield
    finally:
        replay.recording = False
        # Somebody may have wrapped it meanwhile: then it only passes on.
        if builtins.__import__ is deferring:
            builtins.__import__ = real
