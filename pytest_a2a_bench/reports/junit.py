"""A report as JUnit XML, as CI systems read it (pure)."""

from __future__ import annotations

import re
from collections.abc import Sequence
from xml.etree import ElementTree

from pytest_a2a_bench.conformance.report import Judgement, Report
from pytest_a2a_bench.redact import one_line, sanitise
from pytest_a2a_bench.reports import evidence

# What XML 1.0 cannot hold and what sanitise() lets through: surrogates are gone already, non-characters are not.
_ILLEGAL = re.compile("[\ufffe\uffff]")


def render(report: Report) -> str:
    """Return one test suite for each version, one test case for each check."""
    root = ElementTree.Element("testsuites", name="a2a conformance")
    for version in sorted({j.result.requirement.version for j in report.judgements}, reverse=True):
        mine = [j for j in report.judgements if j.result.requirement.version == version]
        _suite(root, f"a2a-{version}", mine, report)
    ElementTree.indent(root)
    return '<?xml version="1.0" encoding="utf-8"?>\n' + ElementTree.tostring(root, encoding="unicode") + "\n"


def _suite(root: ElementTree.Element, name: str, judgements: Sequence[Judgement], report: Report) -> None:
    def number(*statuses: str) -> str:
        return str(sum(j.status in statuses for j in judgements))

    suite = ElementTree.SubElement(
        root,
        "testsuite",
        name=name,
        tests=str(len(judgements)),
        failures=number("failed"),
        errors=number("error"),
        skipped=number("skipped", "waived", "inconclusive", "explained"),
        time=f"{sum(j.result.seconds for j in judgements):.3f}",
    )
    properties = ElementTree.SubElement(suite, "properties")
    for key, value in (("endpoint", report.endpoint), ("agent", report.agent)):
        ElementTree.SubElement(properties, "property", name=key, value=_legal(one_line(value)))
    for judgement in judgements:
        _case(suite, judgement)


def _case(suite: ElementTree.Element, judgement: Judgement) -> None:
    result = judgement.result
    case = ElementTree.SubElement(
        suite,
        "testcase",
        classname=f"a2a.{result.requirement.version}.{result.requirement.group}",
        name=f"{result.requirement.id}[{result.binding}]",
        time=f"{result.seconds:.3f}",
    )
    if judgement.status in ("failed", "error"):
        tag = "failure" if judgement.status == "failed" else "error"
        node = ElementTree.SubElement(case, tag, message=_legal(evidence.headline(judgement)))
        node.text = _text(judgement)
    elif judgement.status == "warned":
        ElementTree.SubElement(case, "system-out").text = "warning: " + _text(judgement)
    elif judgement.status == "inconclusive":
        node = ElementTree.SubElement(case, "skipped", type="inconclusive", message=_legal(one_line(result.reason)))
        node.text = _text(judgement)
    elif judgement.status in ("skipped", "explained"):
        ElementTree.SubElement(case, "skipped", message=_legal(one_line(result.reason)))
    elif judgement.status == "waived" and judgement.waiver is not None:
        reason = _legal(f"waived: {one_line(judgement.waiver.reason)}")
        ElementTree.SubElement(case, "skipped", type="waived", message=reason).text = _text(judgement)


def _text(judgement: Judgement) -> str:
    return _legal("\n".join(evidence.explain(judgement)))


def _legal(text: str) -> str:
    return _ILLEGAL.sub("", sanitise(text))
