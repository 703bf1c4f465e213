"""The built-in test modules: what they are called on the command line, and which of them names and ids mean."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from pytest_a2a_bench.benchmarks import registry
from pytest_a2a_bench.config.settings import Settings
from pytest_a2a_bench.plugin.shim import is_below

CONFORMANCE = "conformance"


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


ACTS = SuiteModuleSpec(CONFORMANCE, "acts", "pytest_a2a_bench.suites.test_acts")
"""The module of the tests in ACTS files, which there are where ``acts`` names some."""

CONFORMANCE_MODULES = (
    SuiteModuleSpec(CONFORMANCE, "card", "pytest_a2a_bench.suites.test_card"),
    SuiteModuleSpec(CONFORMANCE, "protocol", "pytest_a2a_bench.suites.test_protocol"),
    ACTS,
)
"""The modules that judge the agent's protocol; they have requirements where a benchmark has tasks."""

CONFORMANCE_NAMES = (CONFORMANCE, *(module.domain for module in CONFORMANCE_MODULES))


def all_modules() -> Iterator[SuiteModuleSpec]:
    """Yield every built-in module."""
    for suite in registry.load_all():
        for domain, module in suite.modules.items():
            yield SuiteModuleSpec(suite.name, domain, module, suite.node_prefix)
    yield from CONFORMANCE_MODULES


def joins(module: SuiteModuleSpec, settings: Settings, expression: str = "") -> bool:
    """Return whether a module is meant where its suite is, or every suite."""
    if module.suite == CONFORMANCE:
        return module is not ACTS or settings.acts is not None
    return registry.load(module.suite, settings).joins(module.domain, expression)


def judge_protocol(nodeids: Iterable[str]) -> bool:
    """Return whether node ids name one of the modules that judge the protocol, or all modules."""
    names = [module.nodeid for module in CONFORMANCE_MODULES]
    return any(is_below(i, name) or is_below(name, i) for i in nodeids for name in names)
