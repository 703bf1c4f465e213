"""Our properties on the page of pytest-html: a column with the reward, and all of them where a row is folded out."""

from __future__ import annotations

from html import escape
from typing import Any

import pytest

from pytest_a2a_bench.plugin.run.explanation import PREFIX

_COLUMN = 2
"""Behind the result and the test's name."""


def register(config: pytest.Config) -> None:
    """Listen, where such a page is written."""
    if config.getoption("htmlpath", None):
        config.pluginmanager.register(Page(), "a2a-bench-pytest-html")


class Page:
    """What pytest-html asks while it builds a row. Its hooks are not there where it is not installed."""

    @pytest.hookimpl(optionalhook=True)
    def pytest_html_results_table_header(self, cells: list[str]) -> None:
        """Add the column."""
        cells.insert(_COLUMN, '<th class="sortable numeric" data-column-type="a2a_reward">Reward</th>')

    @pytest.hookimpl(optionalhook=True)
    def pytest_html_results_table_row(self, report: Any, cells: list[str]) -> None:
        """Add the reward; what is no trial has none."""
        reward = dict(getattr(report, "user_properties", ())).get(PREFIX + "reward", "")
        cells.insert(_COLUMN, f'<td class="col-a2a_reward">{escape(str(reward))}</td>')

    @pytest.hookimpl(optionalhook=True)
    def pytest_html_results_table_html(self, report: Any, data: list[str]) -> None:
        """Add every property."""
        ours = [(n, v) for n, v in getattr(report, "user_properties", ()) if str(n).startswith(PREFIX)]
        if ours:
            rows = "".join(f"<tr><td>{escape(str(n))}</td><td>{escape(str(v))}</td></tr>" for n, v in ours)
            data.append(f'<table class="a2a">{rows}</table>')
