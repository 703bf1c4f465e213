"""Plans for questions about orders, opportunities and leads."""

from __future__ import annotations

import re
from collections import Counter

from pytest_a2a_bench.benchmarks.crmarena.solve.service import wants_highest
from pytest_a2a_bench.benchmarks.crmarena.solve.soql import (
    best,
    counts,
    day,
    left_over,
    means,
    parent,
    quoted,
    window_of,
    within,
)
from pytest_a2a_bench.benchmarks.crmarena.solve.task import AgentTask, Plan
from pytest_a2a_bench.benchmarks.crmarena.tasks import NONE


def sales_amount(task: AgentTask) -> Plan:
    """Sum of quantity times price by the order's owner."""
    items = yield (
        "SELECT Quantity, UnitPrice, Order.OwnerId FROM OrderItem"
        f" WHERE {within('Order.EffectiveDate', window_of(task), time=False)} AND Order.Status = 'Activated'"
    )
    totals: Counter[str] = Counter()
    for item in items:
        totals[parent(item, "Order.OwnerId")] += round(float(item["Quantity"]) * float(item["UnitPrice"]) * 100)
    return best(totals, highest=wants_highest(task.query))


def sales_cycle(task: AgentTask) -> Plan:
    """Mean days from opportunity to signature by the opportunity's owner."""
    signed = "ContractID__r.CompanySignedDate"
    deals = yield (
        f"SELECT OwnerId, CreatedDate, {signed} FROM Opportunity WHERE {within(signed, window_of(task), time=False)}"
    )
    days = means((deal["OwnerId"], (day(parent(deal, signed)) - day(deal["CreatedDate"])).days) for deal in deals)
    return best(days, highest=wants_highest(task.query))


def conversion_rate(task: AgentTask) -> Plan:
    """Share of a period's leads converted in the same period, by owner."""
    window = window_of(task)
    leads = yield f"SELECT OwnerId, ConvertedDate FROM Lead WHERE {within('CreatedDate', window)}"
    rates = means(
        (lead["OwnerId"], float(bool(lead.get("ConvertedDate")) and window.holds(day(lead["ConvertedDate"]))))
        for lead in leads
    )
    return best(rates, highest=wants_highest(task.query))


_STATE = re.compile(r"(?:State|Lead's region):\s*([A-Z]{2})\b")


def lead_routing(task: AgentTask) -> Plan:
    """Territory, then accepted quotes, then fewest open leads."""
    territories = yield "SELECT Id, Description FROM Territory2"
    state = _STATE.search(task.required)
    if not state:
        return NONE
    places = [
        territory["Id"]
        for territory in territories
        if state[1] in [name.strip() for name in str(territory.get("Description", "")).split(",")]
    ]
    if not places:
        return NONE
    members = yield f"SELECT UserId FROM UserTerritory2Association WHERE Territory2Id IN {quoted(places)}"
    agents = sorted({member["UserId"] for member in members})
    accepted = yield (
        "SELECT Opportunity.OwnerId, COUNT(Id) n FROM Quote WHERE Status = 'Accepted'"
        f" AND Opportunity.OwnerId IN {quoted(agents)} GROUP BY Opportunity.OwnerId"
    )
    left = left_over(agents, counts(accepted, "OwnerId"))
    waiting = yield (
        "SELECT OwnerId, COUNT(Id) n FROM Lead"
        f" WHERE IsConverted = false AND OwnerId IN {quoted(left)} GROUP BY OwnerId"
    )
    left = left_over(left, counts(waiting, "OwnerId"), highest=False)
    return left[0] if len(left) == 1 else NONE
