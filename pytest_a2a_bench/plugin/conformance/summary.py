"""What the terminal shows of conformance: warned items as such, and the matrix at the end.

Registered in every run that takes part; the room that judges is imported where there is a matrix to write.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pytest

from pytest_a2a_bench.plugin.run.outlet import say
from pytest_a2a_bench.plugin.run.state import BenchRun
from pytest_a2a_bench.redact import one_line

if TYPE_CHECKING:
    from pytest_a2a_bench.conformance.report import CheckRow, Compliance

_PREFIX = "a2a."
_ROW = "check_"


class Summary:
    """Listens to reports on the controller, and writes."""

    def __init__(self, config: pytest.Config, run: BenchRun) -> None:
        self.config = config
        self.run = run
        self.reported: dict[str, dict[str, Any]] = {}

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Note what a report says about its check."""
        values = _values(report)
        if "check" in values:
            self.reported[str(values["check"])] = values

    def pytest_report_teststatus(self, report: Any) -> tuple[str, str, tuple[str, dict[str, bool]]] | None:
        """Call an item ``warned`` whose requirement should be kept and is not."""
        if (
            getattr(report, "when", None) == "call"
            # pytest knows passed and failed; a word of its own needs no change to either.
            and report.passed
            and _values(report).get("check_status") == "warned"
        ):
            return "warned", "w", ("WARNED", {"yellow": True})
        return None

    def pytest_terminal_summary(self, terminalreporter: Any) -> None:
        """Write the matrix."""
        # As pytest itself: -qq and --no-summary want nothing.
        silent = self.config.get_verbosity() < -1 or self.config.getoption("no_summary")
        if silent or not self.reported:
            return
        terminalreporter.write_sep("=", "a2a conformance summary")
        for line in self._lines():
            say(terminalreporter, line)

    def verdicts(self) -> list[str]:
        """Return the level of compliance for each version, and the counts; empty where no check was made."""
        if not self.reported:
            return []
        from pytest_a2a_bench.reports import findings

        rows = self._rows
        return [*map(findings.level_line, self._levels(rows)), f"checks of the protocol: {findings.count_line(rows)}"]

    @property
    def _rows(self) -> list[CheckRow]:
        from pytest_a2a_bench.conformance.report import CheckRow

        return [CheckRow(**_members(values)) for values in self.reported.values()]

    def _levels(self, rows: list[CheckRow]) -> list[Compliance]:
        from pytest_a2a_bench.conformance.report import compliance
        from pytest_a2a_bench.conformance.subject import Subject

        subject = self.run.plan.subject
        planned = Subject.from_json(subject).planned if subject is not None else []
        return compliance(rows, planned, self.run.settings.conformance_profile)

    def _lines(self) -> Iterator[str]:
        from pytest_a2a_bench.conformance.report import removable
        from pytest_a2a_bench.reports import findings

        rows = self._rows
        yield from findings.matrix_lines(rows, self._levels(rows))
        for waiver in removable(self.run.services.waivers or (), rows):
            yield f"removable waiver: {waiver} (its check passes)"
        skips = findings.skip_lines(rows)
        if skips and self.config.get_verbosity() >= 0:
            yield "skipped:"
            yield from skips
        if self.run.services.judge is not None:
            yield from (one_line(text) for text in self.run.services.judge.left)
        yield findings.count_line(rows)


def _values(report: Any) -> dict[str, Any]:
    pairs = getattr(report, "user_properties", ())
    return {str(name)[len(_PREFIX) :]: value for name, value in pairs if str(name).startswith(_PREFIX)}


def _members(values: dict[str, Any]) -> dict[str, Any]:
    return {name[len(_ROW) :]: value for name, value in values.items() if name.startswith(_ROW)}
