"""Which suites there are: our own, those of installed packages, and those of a project's conftest.

A suite is described by data and two functions, so that collection knows its tasks without importing a benchmark.
"""

from __future__ import annotations

import contextlib
import functools
import importlib
import importlib.metadata
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from pytest_a2a_bench.errors import ConfigurationError
from pytest_a2a_bench.settings import CRM_DOMAINS, DOMAINS, Settings

if TYPE_CHECKING:
    from pytest_a2a_bench.model import BenchTask

ENTRY_POINT_GROUP = "pytest_a2a_bench.suites"
INTERACTIVE = "_interactive"
"""How the name of a domain ends whose questions come from a simulated user."""


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
    :param categories: what its tasks may be about, where they have a category; markers then take ``category=``.
    :param node_prefix: stands before the domain in node ids, where the domain alone would say too little.
    :param offered: the domains that join where the suite or every suite is meant; None for all. Others join where
        they are named (see :meth:`joins`).
    :param bind: returns this suite as certain settings make it, where its tasks depend on options.
    :param why_absent: says what a domain lacks that is not available; by default that it is not installed.
    """

    name: str
    domains: tuple[str, ...]
    available: Callable[[], tuple[str, ...]]
    splits: Callable[[str], tuple[str, ...]]
    load_tasks: Callable[[str, str], list[BenchTask]]
    modules: Mapping[str, str] = field(default_factory=dict)
    benchmark: str = ""
    categories: tuple[str, ...] = ()
    node_prefix: str = ""
    offered: tuple[str, ...] | None = None
    bind: Callable[[Settings], Suite] | None = None
    why_absent: Callable[[str], str] | None = None

    def absence(self, domain: str) -> str:
        """Say why a domain is not available."""
        if self.why_absent is not None:
            return self.why_absent(domain)
        return f"is not in the installed {self.name}; it has: {', '.join(self.available())}"

    @property
    def interactive(self) -> bool:
        """Whether it has domains in which a user asks, beside those in which a task does."""
        return any(domain.endswith(INTERACTIVE) for domain in self.domains)

    def joins(self, domain: str, expression: str) -> bool:
        """Tell whether a domain is offered to an expression (``-k`` and ``-m``) that need not name it.

        A domain that is not offered to all joins where the expression has its name, or speaks of ``interactive`` ones.
        """
        if self.offered is None or domain in self.offered:
            return True
        words = set(re.findall(r"[A-Za-z0-9]+", expression.lower()))
        if domain.endswith(INTERACTIVE):
            return "interactive" in words
        return domain in words


@dataclass(frozen=True, slots=True)
class SuiteModuleSpec:
    """A built-in test module: what it is called on the command line and where it is."""

    suite: str
    domain: str
    module: str
    prefix: str = ""

    @property
    def nodeid(self) -> str:
        """``a2a/airline``, ``a2a/crmarena_mini``."""
        return f"a2a/{self.prefix}{self.domain}"


CONFORMANCE = "conformance"
CONFORMANCE_MODULES = (
    SuiteModuleSpec(CONFORMANCE, "card", "pytest_a2a_bench.suites.test_card"),
    SuiteModuleSpec(CONFORMANCE, "protocol", "pytest_a2a_bench.suites.test_protocol"),
)
"""The built-in modules that judge the agent's protocol; they have requirements where a benchmark has tasks."""

CRM_CATEGORIES = (
    "handle_time",
    "transfer_count",
    "best_region_identification",
    "top_issue_identification",
    "monthly_trend_analysis",
    "case_routing",
    "named_entity_disambiguation",
    "policy_violation_identification",
    "knowledge_qa",
    "sales_amount_understanding",
    "sales_cycle_understanding",
    "conversion_rate_comprehension",
    "lead_routing",
    "lead_qualification",
    "quote_approval",
    "invalid_config",
    "wrong_stage_rectification",
    "activity_priority",
    "sales_insight_mining",
    "private_customer_information",
    "internal_operation_data",
    "confidential_company_knowledge",
)
"""The names of CRMArena's categories, known here so that markers are registered without importing the benchmark."""


class _BuiltIn(NamedTuple):
    """What is known of a suite of our own before it is imported."""

    reference: str
    domains: tuple[str, ...]
    categories: tuple[str, ...] = ()


_BUILTIN: Mapping[str, _BuiltIn] = {
    "tau2": _BuiltIn("pytest_a2a_bench.benchmarks.tau2.suite:SUITE", DOMAINS),
    "crmarena": _BuiltIn("pytest_a2a_bench.benchmarks.crmarena.suite:SUITE", CRM_DOMAINS, CRM_CATEGORIES),
}
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


class MarkerShape(NamedTuple):
    """Which arguments a suite's marker takes beside those that all take."""

    categories: bool
    interactive: bool


def marker_shapes() -> dict[str, MarkerShape]:
    """Return what the markers of :func:`marker_suites` take."""
    known = {
        name: MarkerShape(bool(b.categories), any(d.endswith(INTERACTIVE) for d in b.domains))
        for name, b in _BUILTIN.items()
    }
    return known | {name: MarkerShape(bool(s.categories), s.interactive) for name, s in _registered.items()}


def marker_domains() -> tuple[str, ...]:
    """Return the domains of :func:`marker_suites`."""
    known = [domain for built_in in _BUILTIN.values() for domain in built_in.domains]
    return tuple(dict.fromkeys([*known, *(d for suite in _registered.values() for d in suite.domains)]))


def marker_categories() -> tuple[str, ...]:
    """Return the categories of :func:`marker_suites`."""
    known = [category for built_in in _BUILTIN.values() for category in built_in.categories]
    return tuple(dict.fromkeys([*known, *(c for suite in _registered.values() for c in suite.categories)]))


def selectable_names() -> tuple[str, ...]:
    """Return what ``--a2a-suite`` accepts: each suite, and each domain."""
    domains = [domain for suite in load_all() for domain in suite.domains]
    parts = [module.domain for module in CONFORMANCE_MODULES]
    return tuple(dict.fromkeys([*names(), *domains, CONFORMANCE, *parts]))


def group_names() -> set[str]:
    """Return every name that trials can be grouped by: suites, domains, categories, and these with slashes between.

    Of an installed suite that cannot be loaded only the name is known.
    """
    found: set[str] = set()
    for name in names():
        suite: Suite | _BuiltIn | None = _BUILTIN.get(name)
        if suite is None:
            with contextlib.suppress(ConfigurationError):
                suite = _load(name)
        domains, categories = (suite.domains, suite.categories) if suite is not None else ((), ())
        found |= {name, *domains, *categories, *(f"{name}/{domain}" for domain in domains)}
        found |= {f"{name}/{domain}/{category}" for domain in domains for category in categories}
    return found


def load(name: str, settings: Settings | None = None) -> Suite:
    """Return a suite by its name.

    :param settings: the run's; without them a suite is what it is by default.
    :raises ConfigurationError: if there is none, or it cannot be imported.
    """
    suite = _load(name)
    return suite.bind(settings) if suite.bind is not None and settings is not None else suite


def load_all(settings: Settings | None = None) -> Iterator[Suite]:
    """Yield every suite, in the order of :func:`names`."""
    for name in names():
        yield load(name, settings)


def _load(name: str) -> Suite:
    if name in _registered:
        return _registered[name]
    if name in _BUILTIN:
        return _import(_BUILTIN[name].reference)
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
