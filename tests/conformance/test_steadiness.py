"""An agent that answers now so and now otherwise is one finding, which explains the rest."""

from __future__ import annotations

import asyncio
from collections.abc import Container
from dataclasses import replace

import pytest
from examples import some
from faulty.catalogue import FAULTS
from faulty.fault import Fault
from faulty.faults_errors import breaking
from faulty_server import serve_faulty
from judged import collect
from mutation import targets

from pytest_a2a_bench.conformance.card.fetch import fetch_card_async
from pytest_a2a_bench.conformance.catalogue import load_requirements
from pytest_a2a_bench.conformance.finding import FOUND, CheckResult
from pytest_a2a_bench.conformance.grouping import fold


async def _rows(groups: Container[str] | None = None) -> list[CheckResult]:
    async with serve_faulty("this", "full", step=0.05, transport="jsonrpc") as running:
        card, _, _ = await fetch_card_async(running.url)
        chosen = targets(running.url, card, 10.0, "standard")
        wanted = {r.group for r in load_requirements("1.0")} if groups is None else groups
        results = await collect(
            chosen, select=lambda p: p.requirement.is_in("standard") and p.requirement.group in wanted
        )
    return [result for result in fold(results) if result.outcome in FOUND]


@pytest.mark.parametrize(
    ("switch", "words"),
    [
        pytest.param("third-fails", "an internal error for", marks=pytest.mark.slow),
        ("two-stores", "is there in 4 of 8 calls of GetTask: several instances without a shared store?"),
    ],
)
def test_an_agent_that_is_not_steady_is_one_finding_in_every_run(
    switch: str, words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(FAULTS, "this", Fault(switches=frozenset({switch})))
    for _ in some(range(2), 2):
        rows = asyncio.run(_rows())

        assert [words in row.findings[0].found for row in rows] == [True], [row.findings[0].found for row in rows]
        assert rows[0].outcome == "failed"
        assert len(rows[0].explains) > 3
        assert len(rows[0].findings[0].exchanges) == 2


@pytest.mark.parametrize("groups", [{"send", "validation"}, pytest.param(None, marks=pytest.mark.slow)])
def test_a_crash_on_a_malformed_message_is_no_unsteadiness(
    groups: set[str] | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    # But for the member that they lack they are like messages that are answered: an ordinary one, and one of no parts.
    needed = {"messageId", "parts"}
    crash = breaking("SendMessage", lambda params: not needed <= set(params.get("message", needed)))
    monkeypatch.setitem(FAULTS, "this", replace(crash, waive=frozenset({"empty-parts"})))
    found = {row.requirement.id: row.findings[0].found for row in asyncio.run(_rows(groups))}

    assert set(found) == {"VAL-002", "VAL-005"}
    assert not any("ordinary" in words for words in found.values())
