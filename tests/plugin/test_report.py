"""What is kept of each trial until a run ends: little, because there may be many."""

from __future__ import annotations

import json
from types import SimpleNamespace

import pytest
from harness import Bench

from pytest_a2a_bench.plugin import shim


def test_clean_properties_are_shared_by_the_reports_of_a_trial() -> None:
    properties = [("a2a.key", "".join(["tau2/", "mock/1#0"])), ("a2a.turns", 1000), ("mine", (1.5, ["x"]))]
    report = SimpleNamespace(nodeid="n", user_properties=list(properties), longrepr="seen: s3cret")
    shim.conceal_report(report, lambda text: text.replace("s3cret", "***"))
    assert report.longrepr == "seen: ***"
    assert report.user_properties == properties
    assert [kept is given for kept, given in zip(report.user_properties, properties, strict=True)] == [
        True,
        True,
        False,
    ]


def test_only_what_holds_a_secret_is_copied() -> None:
    report = SimpleNamespace(user_properties=[("mine", ("s3cret", 1)), ("clean", ("", 1))])
    first, second = report.user_properties
    shim.conceal_report(report, lambda text: text.replace("s3cret", "***"))
    assert report.user_properties == [("mine", ("***", 1)), ("clean", ("", 1))]
    assert report.user_properties[0] is not first
    assert report.user_properties[1] is second


# Reporters of others that know no junit properties: pytest-html and Allure, as PyPI has them.


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
