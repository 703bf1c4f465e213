"""Reporters of others that know no junit properties: pytest-html and Allure, as PyPI has them."""

from __future__ import annotations

import json

import pytest
from harness import Bench

PLUGINS = ("-pallure_pytest.plugin", "-ppytest_html.plugin", "-ppytest_metadata.plugin")


@pytest.mark.slow
def test_properties_are_on_both_pages(pytester: pytest.Pytester, bench: Bench) -> None:
    pytest.importorskip("allure_pytest")
    pytest.importorskip("pytest_html")
    result = bench(
        *PLUGINS, "--a2a-endpoint=builtin:noop", "-k=mock and update_task_1", "--alluredir=allure", "--html=page.html"
    )
    result.assert_outcomes(failed=1, deselected=506)
    (path,) = (pytester.path / "allure").glob("*-result.json")
    found = {one["name"]: one for one in json.loads(path.read_text())["parameters"]}
    assert found["a2a.reward"] == {"name": "a2a.reward", "value": "0.0", "excluded": True}
    assert found["a2a.task"]["value"] == "'tau2/mock/update_task_1'"
    # Attached where it was known: in the setup of the test.
    (attached,) = (pytester.path / "allure").glob("*-attachment.json")
    assert json.loads(attached.read_text())["key"] == "tau2/mock/update_task_1#0"
    page = (pytester.path / "page.html").read_text()
    assert "col-a2a_reward" in page
    assert "&gt;0.0&lt;/td&gt;" in page
    assert "a2a.termination_reason&lt;/td&gt;&lt;td&gt;user_stop" in page
