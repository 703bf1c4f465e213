"""Opportunity stages and the activities that belong to each; the guide states them, tasks carry them out."""

from __future__ import annotations

from datetime import timedelta

from pytest_a2a_bench.benchmarks.crmarena.mini.dice import Dice
from pytest_a2a_bench.benchmarks.crmarena.mini.plan import Deal, World

STAGES = ("Qualification", "Discovery", "Quote", "Negotiation", "Closed")
PROBABILITY = {"Qualification": 10, "Discovery": 30, "Quote": 50, "Negotiation": 75, "Closed": 100}

ACTIVITIES = {
    "Qualification": (
        "Ask who pays for the devices",
        "Learn how many lines the plant runs",
        "Note when the present devices were bought",
        "Find out who may sign",
        "Rate the size of the plant",
    ),
    "Discovery": (
        "Count the alarms of one week",
        "Record the noise of the old sensors",
        "List the standards that the plant keeps",
        "Draw the pipes of the plant",
        "Sit in with the night shift",
    ),
    "Quote": (
        "Work out the list price",
        "Choose the devices for each line",
        "Print the data sheets",
        "Lend a device for two weeks",
        "Let the workshop check the quantities",
    ),
    "Negotiation": (
        "Settle who pays the freight",
        "Ask the head office for a lower price",
        "Put the penalty for delays in writing",
        "Agree on the delivery dates",
        "Discuss a longer warranty",
    ),
    "Closed": (
        "Introduce the service team",
        "Store the signed papers",
        "Send the last invoice",
        "Book the technicians for the first day",
        "Order the devices from the works",
    ),
}


def guide() -> str:
    """Return which activities belong to which stage, as part of a task's required knowledge."""
    lines = ["## Stages of an opportunity and the activities that belong to each"]
    for stage in STAGES:
        lines.append(f"{stage}:")
        lines += [f"- {activity}" for activity in ACTIVITIES[stage]]
    return "\n".join(lines)


def add_task(world: World, dice: Dice, deal: Deal, stage: str, status: str, activity: str | None = None) -> str:
    """Make one task of an opportunity that belongs to ``stage``; return its id."""
    subject = activity or dice.pick(ACTIVITIES[stage])
    due = deal.created.date() + timedelta(days=dice.between(5, 90))
    return world.tables.add(
        "Task",
        WhatId=deal.key,
        OwnerId=deal.owner,
        Subject=f"{subject} ({deal.firm.name})",
        Status=status,
        Priority=dice.pick(("Low", "Medium", "High")),
        ActivityDate=due,
        Description=f"{subject}. Agreed with {deal.firm.name}.",
    )
