"""What the terminal shows of conformance: warned items as such, and the matrix at the end.

Registered in every run that takes part; the room that judges is imported where there is a matrix to write.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import pytest

from pytest_a2a_bench.plugin.run import state
from pytest_a2a_bench.plugin.run.outlet import say
from pytest_a2a_bench.plugin.run.state import CHECK, BenchRun
from pytest_a2a_bench.redact import one_line

if TYPE_CHECKING:
    from pytest_a2a_bench.conformance.report import CheckRow

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

    def pytest_report_collectionfinish(self, items: Sequence[pytest.Item]) -> list[str]:
        """Say what the checks will cost the agent, before the first message."""
        if self.run.plan.subject is None or state.nothing_will_run(self.config):
            return []
        if not any(CHECK in item.stash for item in items):
            return []
        from pytest_a2a_bench.conformance.subject import Subject
        from pytest_a2a_bench.plugin.conformance import verdicts
        from pytest_a2a_bench.reports import cost

        plan = verdicts.whole_plan(items, self.run, Subject.from_json(self.run.plan.subject))
        whole = self.run.settings.conformance_plan
        return [f"a2a: {line}" for line in (cost.lines(plan) if whole else [cost.headline(plan)])]

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self) -> bool | None:
        """Run nothing where only the plan is wanted."""
        if not self.run.settings.conformance_plan:
            return None
        if self.config.pluginmanager.hasplugin("dsession"):
            raise pytest.UsageError("--a2a-conformance-plan: give it without -n; nothing runs")
        return True

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
        from pytest_a2a_bench.reports import matrix

        _, rows = self._rows()
        return [*matrix.levels(rows, self._planned()), f"checks of the protocol: {matrix.count_line(rows)}"]

    def _rows(self) -> tuple[list[CheckRow], list[CheckRow]]:
        """Return every check, and those that were not left out."""
        from pytest_a2a_bench.conformance.cost.plan import LEFT_OUT
        from pytest_a2a_bench.conformance.report import CheckRow

        every = [CheckRow(**_members(values)) for values in self.reported.values()]
        # What was left out counts as not chosen: no verdict may be about it.
        return every, [row for row in every if not row.reason.startswith(LEFT_OUT)]

    def _planned(self) -> Mapping[str, int]:
        from pytest_a2a_bench.conformance.subject import Subject

        subject = self.run.plan.subject
        return Subject.from_json(subject).planned if subject is not None else {}

    def _lines(self) -> Iterator[str]:
        from pytest_a2a_bench.conformance.report import removable
        from pytest_a2a_bench.reports import matrix

        every, rows = self._rows()
        yield from matrix.lines(rows, self._planned())
        for waiver in removable(self.run.services.waivers or (), rows):
            yield f"removable waiver: {waiver} (its check passes)"
        skips = matrix.skip_lines(rows)
        if skips and self.config.get_verbosity() >= 0:
            yield "skipped:"
            yield from skips
        if self.run.services.judge is not None:
            yield from (one_line(text) for text in self.run.services.judge.left)
        yield matrix.count_line(rows)
        if len(every) > len(rows):
            yield f"{len(every) - len(rows)} left out: --a2a-conformance-profile=full makes every check"


def _values(report: Any) -> dict[str, Any]:
    pairs = getattr(report, "user_properties", ())
    return {str(name)[len(_PREFIX) :]: value for name, value in pairs if str(name).startswith(_PREFIX)}


def _members(values: dict[str, Any]) -> dict[str, Any]:
    return {name[len(_ROW) :]: value for name, value in values.items() if name.startswith(_ROW)}
