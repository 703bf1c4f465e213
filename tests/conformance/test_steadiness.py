"""An agent that answers now so and now otherwise is one finding, which explains the rest."""

from __future__ import annotations

import asyncio
from collections.abc import Container
from dataclasses import replace

import pytest
from examples import some
from faulty.fault import Fault, refusing
from mutation import results_of

from pytest_a2a_bench.conformance.finding import FOUND, CheckResult, Planned
from pytest_a2a_bench.conformance.grouping import fold


def _rows(fault: Fault, groups: Container[str] | None = None) -> list[CheckResult]:
    """Return the findings about an agent in the standard profile, all or those of some groups."""

    def select(planned: Planned) -> bool:
        wanted = groups is None or planned.requirement.group in groups
        return wanted and planned.requirement.version == "1.0" and planned.requirement.is_in("standard")

    return [result for result in fold(asyncio.run(results_of(fault, select=select))) if result.outcome in FOUND]


@pytest.mark.parametrize(
    ("switch", "words"),
    [
        pytest.param("third-fails", "an internal error for", marks=pytest.mark.slow),
        ("two-stores", "is there in 4 of 8 calls of GetTask: several instances without a shared store?"),
    ],
)
def test_an_agent_that_is_not_steady_is_one_finding_in_every_run(switch: str, words: str) -> None:
    for _ in some(range(2), 2):
        rows = _rows(Fault(switches=frozenset({switch})))

        assert [words in row.findings[0].found for row in rows] == [True], [row.findings[0].found for row in rows]
        assert rows[0].outcome == "failed"
        assert len(rows[0].explains) > 3
        assert len(rows[0].findings[0].exchanges) == 2


@pytest.mark.parametrize("groups", [{"send", "validation"}, pytest.param(None, marks=pytest.mark.slow)])
def test_a_crash_on_a_malformed_message_is_no_unsteadiness(groups: set[str] | None) -> None:
    # But for the member that they lack they are like messages that are answered: an ordinary one, and one of no parts.
    needed = {"messageId", "parts"}
    crash = refusing("SendMessage", lambda params: not needed <= set(params.get("message", needed)), "Internal")
    rows = _rows(replace(crash, waive=frozenset({"empty-parts"})), groups)
    found = {row.requirement.id: row.findings[0].found for row in rows}

    assert set(found) == {"VAL-002", "VAL-005"}
    assert not any("ordinary" in words for words in found.values())
