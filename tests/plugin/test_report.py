"""What is kept of each trial until a run ends: little, because there may be many."""

from __future__ import annotations

from types import SimpleNamespace

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
