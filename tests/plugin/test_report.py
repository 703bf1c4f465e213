"""What is kept of each trial until a run ends: little, because there may be many."""

from __future__ import annotations

from types import SimpleNamespace

from pytest_a2a_bench.plugin import shim


def test_only_what_holds_a_secret_is_copied() -> None:
    report = SimpleNamespace(user_properties=[("mine", ("s3cret", 1)), ("clean", ("", 1))])
    first, second = report.user_properties
    shim.conceal_report(report, lambda text: text.replace("s3cret", "***"))
    assert report.user_properties == [("mine", ("***", 1)), ("clean", ("", 1))]
    assert report.user_properties[0] is not first
    assert report.user_properties[1] is second
