"""The pytest plugin: hook functions, each of which delegates. Loading it imports nothing but pytest."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pytest_a2a_bench.benchmarks.suite import Suite

pytest.register_assert_rewrite("pytest_a2a_bench.suites")


def pytest_addoption(parser: pytest.Parser, pluginmanager: pytest.PytestPluginManager) -> None:
    """Declare the options."""
    from pytest_a2a_bench.plugin.run import options

    options.add_options(parser, pluginmanager)


def pytest_addhooks(pluginmanager: pytest.PytestPluginManager) -> None:
    """Declare the hooks."""
    from pytest_a2a_bench.plugin import hookspecs

    pluginmanager.add_hookspecs(hookspecs)


def pytest_a2a_bench_suites() -> Sequence[Suite]:
    """Offer the suites that come with this package, as anybody's plugin offers its own."""
    from pytest_a2a_bench.benchmarks import registry

    return registry.built_in()


def pytest_configure(config: pytest.Config) -> None:
    """Resolve the options and register what this process needs."""
    from pytest_a2a_bench.plugin import lifecycle

    lifecycle.configure(config)


def pytest_unconfigure(config: pytest.Config) -> None:
    """Stop what was started."""
    from pytest_a2a_bench.plugin import lifecycle

    lifecycle.unconfigure(config)


@pytest.hookimpl(tryfirst=True)
def pytest_sessionstart(session: pytest.Session) -> None:
    """Find the agent before the header is printed and before workers start."""
    from pytest_a2a_bench.plugin import lifecycle

    lifecycle.start(session)


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_make_collect_report(
    collector: pytest.Collector,
) -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
    """Let built-in modules join the session."""
    from pytest_a2a_bench.plugin.run import state

    report = yield
    run = state.of(collector.config)
    if run.plan.selection:
        from pytest_a2a_bench.plugin.collect import grafting

        grafting.add_modules(collector, report, run)
    return report


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Make one item per trial, and one per check."""
    from pytest_a2a_bench.plugin import lifecycle

    lifecycle.make_items(metafunc)


def pytest_itemcollected(item: pytest.Item) -> None:
    """Give items their keywords."""
    from pytest_a2a_bench.plugin import lifecycle

    lifecycle.adopt_item(item)


@pytest.hookimpl(tryfirst=True)
def pytest_collection_finish(session: pytest.Session) -> None:
    """Check what was collected."""
    from pytest_a2a_bench.plugin import lifecycle

    lifecycle.conclude_collection(session)


def pytest_report_collectionfinish(config: pytest.Config, items: Sequence[pytest.Item]) -> list[str]:
    """Say what joined the session, and what did not."""
    from pytest_a2a_bench.plugin.run import state

    if not state.of(config).takes_part:
        return []
    from pytest_a2a_bench.plugin.report import terminal

    return terminal.collection_lines(config, items)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[object]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Explain failures, excuse misses that a gate counts, and report the conversation's duration."""
    from pytest_a2a_bench.plugin.run import state

    report = yield
    if not state.of(item.config).takes_part:
        return report
    from pytest_a2a_bench.plugin import lifecycle

    lifecycle.complete_report(item, call, report)
    return report


@pytest.hookimpl(tryfirst=True)
def pytest_sessionfinish(session: pytest.Session) -> None:
    """Stop the conversations that nobody waits for any more."""
    from pytest_a2a_bench.plugin import lifecycle

    lifecycle.finish(session)
