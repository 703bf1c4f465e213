"""The pytest plugin: hook functions, each of which delegates, and does nothing in a run that does not use the plugin.

Loading it imports nothing but pytest.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from typing import TYPE_CHECKING

import pytest

from pytest_a2a_bench.plugin import options

if TYPE_CHECKING:
    from pytest_a2a_bench.benchmarks.registry import Suite

pytest.register_assert_rewrite("pytest_a2a_bench.suites")


def pytest_addoption(parser: pytest.Parser) -> None:
    """Declare the options."""
    options.add_options(parser)


@pytest.hookimpl(wrapper=True)
def pytest_load_initial_conftests(args: list[str], parser: pytest.Parser) -> Generator[None, None, None]:
    """Refuse options of ours that do not exist, once every plugin and conftest has declared its own."""
    yield
    options.refuse_misspelt(args, parser)


def pytest_addhooks(pluginmanager: pytest.PytestPluginManager) -> None:
    """Declare the hooks."""
    from pytest_a2a_bench.plugin import hookspecs

    pluginmanager.add_hookspecs(hookspecs)


def pytest_a2a_bench_suites() -> Sequence[Suite]:
    """Offer the suites of this package, by the same hook as other plugins."""
    from pytest_a2a_bench.benchmarks import registry

    return registry.built_in()


def pytest_configure(config: pytest.Config) -> None:
    """Load the settings and register this process's plugins, now or when a test requests a fixture of ours."""
    from pytest_a2a_bench.plugin import fixtures

    config.pluginmanager.register(fixtures, "a2a-bench-fixtures")
    if options.may_rest(config):
        options.rest(config, lambda: _configure(config))
    else:
        _configure(config)


def _configure(config: pytest.Config) -> None:
    from pytest_a2a_bench.plugin import lifecycle

    lifecycle.configure(config)


def _requests_ours(test: object) -> bool:
    return not options.OUR_FIXTURES.isdisjoint(getattr(test, "fixturenames", ()))


def pytest_unconfigure(config: pytest.Config) -> None:
    """Stop agents and servers that this process started."""
    if options.is_resting(config):
        return
    from pytest_a2a_bench.plugin import lifecycle

    lifecycle.unconfigure(config)


@pytest.hookimpl(tryfirst=True)
def pytest_sessionstart(session: pytest.Session) -> None:
    """Find the agent before the header is printed and before workers start."""
    # Workers want their controller's plan.
    if options.is_resting(session.config) and not session.config.pluginmanager.has_plugin("dsession"):
        return
    from pytest_a2a_bench.plugin import lifecycle

    lifecycle.start(session)


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_make_collect_report(
    collector: pytest.Collector,
) -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
    """Let built-in modules join the session."""
    report = yield
    if options.is_resting(collector.config):
        return report
    from pytest_a2a_bench.plugin import state

    run = state.of(collector.config)
    if run.plan.selection:
        from pytest_a2a_bench.plugin import selection

        selection.add_modules(collector, report, run)
    return report


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Make one item per trial, and one per check."""
    if options.is_resting(metafunc.config) and not _requests_ours(metafunc):
        return
    from pytest_a2a_bench.plugin import lifecycle

    lifecycle.make_items(metafunc)


def pytest_itemcollected(item: pytest.Item) -> None:
    """Give items their keywords."""
    if options.is_resting(item.config):
        return
    from pytest_a2a_bench.plugin import lifecycle

    lifecycle.adopt_item(item)


@pytest.hookimpl(tryfirst=True)
def pytest_collection_finish(session: pytest.Session) -> None:
    """Check the collected items."""
    if options.is_resting(session.config) and not any(map(_requests_ours, session.items)):
        return
    from pytest_a2a_bench.plugin import lifecycle

    lifecycle.conclude_collection(session)


def pytest_report_collectionfinish(config: pytest.Config, items: Sequence[pytest.Item]) -> list[str]:
    """Describe the suites that joined the session, and those that did not."""
    if options.is_resting(config):
        return []
    from pytest_a2a_bench.plugin import state

    if not state.of(config).takes_part:
        return []
    from pytest_a2a_bench.plugin import terminal

    return terminal.collection_lines(config, items)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[object]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Explain failures, excuse misses that a gate counts, and report the conversation's duration."""
    report = yield
    if options.is_resting(item.config):
        return report
    from pytest_a2a_bench.plugin import state

    if not state.of(item.config).takes_part:
        return report
    from pytest_a2a_bench.plugin import lifecycle

    lifecycle.complete_report(item, call, report)
    return report


@pytest.hookimpl(tryfirst=True)
def pytest_sessionfinish(session: pytest.Session) -> None:
    """Stop conversations whose items will not run."""
    if options.is_resting(session.config):
        return
    from pytest_a2a_bench.plugin import lifecycle

    lifecycle.finish(session)
