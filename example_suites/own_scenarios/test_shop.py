"""Conversations about our agent's own job, and what has to come of them."""

from __future__ import annotations

import pytest

from pytest_a2a_bench import TrialResult


@pytest.mark.a2a_scenario("Where is my order A1?", "Thank you, bye.")
def test_it_knows_where_an_order_is(trial: TrialResult) -> None:
    assert trial.said("on its way")
    assert trial.turns <= 2


@pytest.mark.a2a_scenario(
    "I want my money back for order B2.",
    answers={r"which reason|why": "It arrived broken.", r"are you sure|confirm": "Yes, please."},
)
def test_it_asks_for_a_reason_before_it_refunds(trial: TrialResult) -> None:
    assert trial.said("why")
    assert trial.said("refunded")
    assert not trial.said("refunded.*refunded")


class Shop:
    """What the agent may call: tools of ours that stand in for the real ones."""

    def __init__(self) -> None:
        self.orders = {"B2": "open"}

    def get_status(self, order: str) -> str:
        """Return the status of an order."""
        return self.orders[order]

    def cancel(self, order: str, reason: str = "") -> str:
        """Cancel an open order."""
        if self.orders[order] != "open":
            raise ValueError("only open orders can be canceled")
        self.orders[order] = "canceled"
        return "canceled"


@pytest.mark.a2a_scenario("Cancel order B2.", tools=Shop, policy="Look up an order's status before you change it.")
def test_it_looks_before_it_cancels(trial: TrialResult) -> None:
    assert trial.called("cancel", order="B2")
    assert trial.before("get_status", "cancel")


@pytest.mark.a2a_scenario(goal="Find out whether order A1 can still be changed.", persona="A hurried customer.")
def test_a_customer_with_a_mind_of_its_own(trial: TrialResult) -> None:
    assert trial.said("A1")
