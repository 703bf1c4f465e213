"""Tasks about one opportunity: is it in the right stage, and which open tasks do not fit it."""

from __future__ import annotations

from datetime import timedelta

from mini_org.building import SeededRandom, TaskDraft
from mini_org.company import Company, Deal
from mini_org.sales import add_deal
from pytest_a2a_bench.benchmarks.crmarena.tasks import NONE, STAGES

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


def add_task(
    company: Company, rng: SeededRandom, deal: Deal, stage: str, status: str, activity: str | None = None
) -> str:
    """Make one task of an opportunity that belongs to ``stage``; return its id."""
    subject = activity or rng.pick(ACTIVITIES[stage])
    due = deal.created.date() + timedelta(days=rng.between(5, 90))
    return company.tables.add(
        "Task",
        WhatId=deal.key,
        OwnerId=deal.owner,
        Subject=f"{subject} ({deal.firm.name})",
        Status=status,
        Priority=rng.pick(("Low", "Medium", "High")),
        ActivityDate=due,
        Description=f"{subject}. Agreed with {deal.firm.name}.",
    )


TASKS = 480
EVENTS = 20
_BUSY = ("In Progress", "Completed")


def wrong_stage(company: Company) -> list[TaskDraft]:
    """Tasks: does the stage of an opportunity fit its tasks, and if not, which would."""
    rng = SeededRandom(company.seed, "wrong stage")
    nones = rng.nones(company.per_category)
    drafts = []
    for number in range(company.per_category):
        true, named = rng.sample(STAGES, 2)
        deal = add_deal(company, rng, true if number in nones else named)
        for activity in rng.sample(ACTIVITIES[true], rng.between(3, 4)):
            add_task(company, rng, deal, true, rng.pick(_BUSY), activity)
        # One task of another stage is no majority.
        add_task(company, rng, deal, rng.pick([stage for stage in STAGES if stage != true]), "Completed")
        required = (
            f"- Id of the opportunity: {deal.key}\n"
            "- The right stage is the one to which most of the opportunity's tasks belong, whatever their status.\n"
            f"- If StageName is the right stage, the answer is None.\n\n{guide()}"
        )
        query = rng.pick(
            (
                "Does the stage of this opportunity fit its tasks, and if not, which stage would be right?",
                "Is this opportunity in the wrong stage for its tasks? If so, which is the right one?",
            )
        )
        drafts.append(
            TaskDraft(f"{query} Answer with the right stage alone.", required, (NONE if number in nones else true,))
        )
    return drafts


def activity_priority(company: Company) -> list[TaskDraft]:
    """Tasks: which tasks that are not started do not belong to the stage of their opportunity."""
    rng = SeededRandom(company.seed, "activity priority")
    nones = rng.nones(company.per_category)
    drafts = []
    for number in range(company.per_category):
        stage = rng.pick(STAGES)
        others = [other for other in STAGES if other != stage]
        deal = add_deal(company, rng, stage)
        for activity in rng.sample(ACTIVITIES[stage], 2):
            add_task(company, rng, deal, stage, "Not Started", activity)
        add_task(company, rng, deal, rng.pick(others), rng.pick(_BUSY))
        odd = 0 if number in nones else rng.between(1, 5)
        keys = tuple(add_task(company, rng, deal, rng.pick(others), "Not Started") for _ in range(odd))
        required = (
            f"- Id of the opportunity: {deal.key}\n"
            "- Only tasks with the status 'Not Started' matter here.\n"
            f"- If all of these belong to the opportunity's stage, the answer is None.\n\n{guide()}"
        )
        query = rng.pick(
            (
                "Which tasks of this opportunity are not started and do not belong to its stage?",
                "Find the tasks that are not started and do not fit the stage of this opportunity.",
            )
        )
        drafts.append(TaskDraft(f"{query} Answer with the Ids of those tasks alone.", required, keys or (NONE,)))
    return drafts


def fill_activities(company: Company) -> None:
    """Give the other opportunities tasks of their own stage, and some of them events."""
    rng = SeededRandom(company.seed, "activities")
    busy = {row["WhatId"] for row in company.tables.rows["Task"]}
    rest = [deal for deal in company.deals if deal.key not in busy]
    for deal in rest:
        for _ in range(4):
            add_task(company, rng, deal, deal.stage, rng.pick((*_BUSY, "Not Started")))
    while company.tables.count("Task") < TASKS:
        deal = rng.pick(rest)
        add_task(company, rng, deal, deal.stage, rng.pick(_BUSY))
    for _ in range(EVENTS):
        deal = rng.pick(rest)
        company.tables.add(
            "Event",
            WhatId=deal.key,
            OwnerId=deal.owner,
            Subject=f"Meeting with {deal.firm.name}",
            Description="Talk about the next steps.",
            Location=rng.pick(("On site", "Telephone", "Our office")),
            StartDateTime=deal.created + timedelta(days=rng.between(3, 40)),
            DurationInMinutes=rng.pick((30, 45, 60)),
            IsAllDayEvent=False,
        )
