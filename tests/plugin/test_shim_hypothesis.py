"""Hypothesis' plugin after SIGTERM: where nobody used Hypothesis, nothing of it is imported for its summary."""

from __future__ import annotations

import sys
from importlib.metadata import entry_points

import pytest

from pytest_a2a_bench.plugin.shim import drop_unused_hypothesis

NAME = "hypothesispytest"


@pytest.mark.parametrize("is_used", [True, False])
def test_the_plugin_stays_where_hypothesis_is_used(monkeypatch: pytest.MonkeyPatch, is_used: bool) -> None:
    if is_used:
        monkeypatch.setitem(sys.modules, "hypothesis", sys)
    else:
        monkeypatch.delitem(sys.modules, "hypothesis", raising=False)
    plugins = pytest.PytestPluginManager()
    drop_unused_hypothesis(plugins)
    plugins.register(object(), NAME)
    drop_unused_hypothesis(plugins)
    assert plugins.has_plugin(NAME) is is_used


def test_it_has_that_name() -> None:
    assert NAME in {each.name for each in entry_points(group="pytest11")}
