"""Questions that two agents answer together: the result is judged, and the part of each."""

from __future__ import annotations

import re

import pytest

from pytest_a2a_bench import ToolCall, TrialResult


def calls(trial: TrialResult, tool: str) -> list[ToolCall]:
    return [call for turn in trial.transcript if turn.role == "agent" for call in turn.calls if call.name == tool]


@pytest.mark.crmarena("mini", category="monthly_trend_analysis")
def test_the_team_answers(trial: TrialResult) -> None:
    assert trial.success


@pytest.mark.crmarena("mini", category="monthly_trend_analysis", label="desk")
def test_the_desk_asks_for_what_it_needs_and_uses_the_answer(trial: TrialResult) -> None:
    [asked], [run] = calls(trial, "ask_agent"), calls(trial, "execute")
    assert re.search(r"product 01t\w+ .* \d{4}-\d\d-\d\d .* \d{4}-\d\d-\d\d", asked.arguments["question"])
    answers = [turn.text for turn in trial.transcript if turn.role == "tool"]
    assert run.arguments["query"] == answers[0], "the desk changed what Ann wrote"


@pytest.mark.crmarena("mini", category="monthly_trend_analysis", label="ann")
def test_ann_writes_queries_that_the_org_takes(trial: TrialResult) -> None:
    [party] = trial.parties
    assert (party.name, party.role, party.turns) == ("ann", "colleague", 1)
    assert not party.findings
    measured = trial.provenance["measured"]
    assert measured["query_errors"] == 0
    assert measured["rows_read"] <= 500
