"""Which suites there are: our own, those of installed packages, and those of a project's conftest.

A suite is described by data and two functions, so that collection knows its tasks without importing a benchmark.
"""

from __future__ import annotations

import functools
import importlib
import importlib.metadata
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from pytest_a2a_bench.errors import ConfigurationError
from pytest_a2a_bench.settings import DOMAINS

if TYPE_CHECKING:
    from pytest_a2a_bench.model import BenchTask

ENTRY_POINT_GROUP = "pytest_a2a_bench.suites"


@dataclass(frozen=True, slots=True)
class Suite:
    """A benchmark, as far as collection needs to know it.

    :param name: also the name of the marker that tests of this suite carry.
    :param domains: every domain that the suite may have, whether installed or not.
    :param modules: domain to importable name of the built-in test module.
    :param available: the domains that are installed.
    :param splits: the splits of a domain.
    :param load_tasks: the tasks of ``(domain, split)``, always in the same order.
    :param benchmark: importable module whose ``BENCHMARK`` runs this suite's trials; imported when the first one runs.
    """

    name: str
    domains: tuple[str, ...]
    available: Callable[[], tuple[str, ...]]
    splits: Callable[[str], tuple[str, ...]]
    load_tasks: Callable[[str, str], list[BenchTask]]
    modules: Mapping[str, str] = field(default_factory=dict)
    benchmark: str = ""


@dataclass(frozen=True, slots=True)
class SuiteModuleSpec:
    """A built-in test module: what it is called on the command line and where it is."""

    suite: str
    domain: str
    module: str

    @property
    def nodeid(self) -> str:
        """``a2a/airline``."""
        return f"a2a/{self.domain}"


CONFORMANCE = "conformance"
CONFORMANCE_MODULES = (
    SuiteModuleSpec(CONFORMANCE, "card", "pytest_a2a_bench.suites.test_card"),
    SuiteModuleSpec(CONFORMANCE, "protocol", "pytest_a2a_bench.suites.test_protocol"),
)
"""The built-in modules that judge the agent's protocol; they have requirements where a benchmark has tasks."""

_BUILTIN: Mapping[str, tuple[str, tuple[str, ...]]] = {"tau2": ("pytest_a2a_bench.suites.tau2:SUITE", DOMAINS)}
_registered: dict[str, Suite] = {}


def register(suites: Iterable[Suite]) -> None:
    """Add suites that a plugin or conftest offers through the ``pytest_a2a_bench_suites`` hook."""
    for suite in suites:
        _registered[suite.name] = suite
        _announce(suite)


def names() -> tuple[str, ...]:
    """Return the names of all suites without importing any."""
    return tuple(dict.fromkeys([*_BUILTIN, *_entry_points(), *_registered]))


def marker_suites() -> tuple[str, ...]:
    """Return the suites that are known without looking at what is installed."""
    return tuple(dict.fromkeys([*_BUILTIN, *_registered]))


def marker_domains() -> tuple[str, ...]:
    """Return the domains of :func:`marker_suites`."""
    known = [d for _, domains in _BUILTIN.values() for d in domains]
    return tuple(dict.fromkeys([*known, *(d for suite in _registered.values() for d in suite.domains)]))


def selectable_names() -> tuple[str, ...]:
    """Return what ``--a2a-suite`` accepts: each suite, and each domain."""
    domains = [domain for suite in load_all() for domain in suite.domains]
    parts = [module.domain for module in CONFORMANCE_MODULES]
    return tuple(dict.fromkeys([*names(), *domains, CONFORMANCE, *parts]))


def load(name: str) -> Suite:
    """Return a suite by its name.

    :raises ConfigurationError: if there is none, or it cannot be imported.
    """
    if name in _registered:
        return _registered[name]
    if name in _BUILTIN:
        return _import(_BUILTIN[name][0])
    points = _entry_points()
    if name not in points:
        raise ConfigurationError(f"there is no suite {name!r}; valid are: {', '.join(names())}")
    try:
        suite: Suite = points[name].load()
    except Exception as error:
        raise ConfigurationError(
            f"suite {name!r} cannot be loaded from entry point {points[name].value!r}: {type(error).__name__}: {error}"
        ) from error
    _announce(suite)
    return suite


def load_all() -> Iterator[Suite]:
    """Yield every suite, in the order of :func:`names`."""
    for name in names():
        yield load(name)


def _announce(suite: Suite) -> None:
    if suite.benchmark:
        from pytest_a2a_bench.benchmarks.base import BENCHMARKS

        BENCHMARKS.setdefault(suite.name, suite.benchmark)


def _import(reference: str) -> Suite:
    module, _, attribute = reference.partition(":")
    suite: Suite = getattr(importlib.import_module(module), attribute)
    return suite


@functools.cache
def _entry_points() -> dict[str, importlib.metadata.EntryPoint]:
    points = importlib.metadata.entry_points(group=ENTRY_POINT_GROUP)
    return {point.name: point for point in sorted(points, key=lambda p: p.name) if point.name not in _BUILTIN}
