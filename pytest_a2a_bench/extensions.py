"""Extensions by other distributions and projects: found by name, loaded when they are used.

There is one mechanism for every kind of extension. An installed distribution names its objects in the entry-point group
``pytest_a2a_bench.KIND``; a project, or a pytest plugin, returns the same from the hook ``pytest_a2a_bench_KIND``: a
mapping of names to ``module:OBJECT``. Nothing is imported before its name is used.
"""

from __future__ import annotations

import functools
import importlib
import importlib.metadata
import importlib.util
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any

from pytest_a2a_bench.errors import ConfigurationError
from pytest_a2a_bench.text import did_you_mean

CONTRACT = 1
"""The version of what an extension is given and has to give. A module that has extensions may say in
``A2A_BENCH_CONTRACT`` which one it was written for; it is refused where that is another."""

KINDS: Mapping[str, tuple[str, str]] = MappingProxyType(
    {
        "suites": ("a benchmark", "Suite"),
        "dialects": ("a way to write tools and calls into messages", "an object with the methods of Dialect"),
        "reporters": ("a report of a run", "function(Contents) -> str"),
        "agents": ("a built-in agent", "function(AgentOptions) -> Brain"),
        "users": ("a simulated user", "function(messages, **arguments) -> str or message"),
        "judges": ("a judge", "function(messages, **arguments) -> str or message"),
        "requirements": ("checks of an agent's protocol", "a sequence of (Requirement, check) pairs"),
        "observers": ("something that follows trials", "an instance of a subclass of TrialObserver"),
    }
)
"""Kind -> its description, and the description of the object that an entry point names."""


@dataclass(frozen=True, slots=True)
class Extension:
    """One object of another's.

    :param reference: ``module:OBJECT``.
    :param source: whose it is: a distribution with its version, or a plugin.
    """

    kind: str
    name: str
    reference: str
    source: str

    def __str__(self) -> str:
        return f"{self.kind[:-1]} {self.name!r} of {self.source}"

    @property
    def module(self) -> str:
        """The importable name of the module that has it."""
        return self.reference.partition(":")[0]

    def load(self) -> Any:
        """Import and return the object.

        :raises ConfigurationError: if that fails, or it was written for another version of the contract.
        """
        module, _, path = self.reference.partition(":")
        try:
            found: Any = importlib.import_module(module)
            wanted = getattr(found, "A2A_BENCH_CONTRACT", CONTRACT)
            for part in filter(None, path.split(".")):
                found = getattr(found, part)
        except KeyboardInterrupt:
            raise
        # Whatever such a module raises on import must not end a run, be it what skips a module of tests.
        except BaseException as error:
            what = " ".join(f"{type(error).__name__}: {error}".split())
            raise ConfigurationError(f"the {self} cannot be loaded from {self.reference!r}: {what}") from error
        if wanted != CONTRACT:
            raise ConfigurationError(
                f"the {self} was written for version {wanted} of what pytest-a2a-bench agrees with extensions; the "
                f"installed one has version {CONTRACT}: install a version of either that fits the other"
            )
        return found


_offered: list[Extension] = []


def offer(kind: str, references: Mapping[str, str], source: str) -> None:
    """Add the extensions that a hook returned; raises ConfigurationError if it is not names and ``module:OBJECT``."""
    if not isinstance(references, Mapping) or not all(
        isinstance(name, str) and isinstance(reference, str) and all(reference.partition(":"))
        for name, reference in references.items()
    ):
        raise ConfigurationError(f"pytest_a2a_bench_{kind} of {source} must return names and 'module:OBJECT' for each")
    _offered.extend(Extension(kind, name, reference, source) for name, reference in references.items())
    load_all.cache_clear()


def withdraw() -> None:
    """Forget the extensions of hooks."""
    _offered.clear()
    load_all.cache_clear()


def passed_on() -> list[list[str]]:
    """Return the extensions of hooks, for a process that has no hooks (:func:`take_over`)."""
    return [[e.kind, e.name, e.reference, e.source] for e in _offered]


def take_over(passed: list[list[str]]) -> None:
    """Add extensions that another process passed on."""
    _offered.extend(Extension(*one) for one in passed)
    load_all.cache_clear()


def places() -> list[str]:
    """Return the directories that extensions of hooks are imported from."""
    found = []
    for extension in _offered:
        spec = importlib.util.find_spec(extension.module.partition(".")[0])
        if spec is not None and spec.origin is not None:
            found.append(str(Path(spec.origin).parents[1 if spec.submodule_search_locations else 0]))
    return list(dict.fromkeys(found))


def names(kind: str) -> tuple[str, ...]:
    """Return the names of all extensions of a kind, without importing any."""
    return tuple(dict.fromkeys(extension.name for extension in _all(kind)))


def find(kind: str, name: str, taken: Collection[str] = ()) -> Extension | None:
    """Return an extension by its name, or None.

    :param taken: names of this kind that are built in.
    :raises ConfigurationError: if two have the name, or there is none, and one has the name of what is built in.
    """
    every = _all(kind)
    found = [extension for extension in every if extension.name == name]
    for extension in every:
        # It may still be used with another.
        if extension.name in taken and (extension.name == name or not found):
            raise ConfigurationError(
                f"the {extension} has the name of a built-in one; its author has to give it another, and until then "
                "that distribution or plugin has to go"
            )
    if len({extension.reference for extension in found}) > 1:
        whose = " and ".join(f"{one.source} ({one.reference})" for one in found)
        raise ConfigurationError(f"two {kind} are called {name!r}, of {whose}; uninstall one of them")
    return found[0] if found else None


def load(kind: str, name: str, taken: Collection[str] = ()) -> Any:
    """Return the object of an extension.

    :param taken: names of this kind that are built in.
    :raises ConfigurationError: if there is none of that name, or it cannot be had (:func:`find`,
        :meth:`Extension.load`).
    """
    extension = find(kind, name, taken)
    if extension is None:
        valid = (*taken, *names(kind))
        known = ", ".join(valid) or "none"
        raise ConfigurationError(f"there is no {kind[:-1]} {name!r}; valid are: {known}{did_you_mean(name, valid)}")
    return extension.load()


@functools.cache
def load_all(kind: str) -> tuple[tuple[Extension, Any], ...]:
    """Return all extensions of a kind, each with its object; raises ConfigurationError if one of them cannot be had."""
    return tuple(
        (extension, extension.load()) for extension in map(functools.partial(find, kind), names(kind)) if extension
    )


def _all(kind: str) -> list[Extension]:
    return [*(e for e in _offered if e.kind == kind), *_installed().get(kind, ())]


@functools.cache
def _installed() -> dict[str, list[Extension]]:
    found: dict[str, list[Extension]] = {kind: [] for kind in KINDS}
    every = importlib.metadata.entry_points()
    for kind, extensions in found.items():
        # Sorted, since the order of installed distributions is that of the file system.
        for point in sorted(every.select(group=f"pytest_a2a_bench.{kind}"), key=lambda p: (p.name, p.value)):
            # Our own are built in.
            if not point.value.startswith(f"{__package__}."):
                extensions.append(Extension(kind, point.name, point.value, _distribution(point)))
    return found


def _distribution(point: importlib.metadata.EntryPoint) -> str:
    found = point.dist
    return f"distribution {found.name} {found.version}" if found is not None else "an installed distribution"
