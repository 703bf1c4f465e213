"""Tasks about one opportunity: is it in the right stage, and which open tasks do not fit it."""

from __future__ import annotations

from datetime import timedelta

from pytest_a2a_bench.benchmarks.crmarena.mini.dice import Dice
from pytest_a2a_bench.benchmarks.crmarena.mini.draft import Draft
from pytest_a2a_bench.benchmarks.crmarena.mini.plan import World
from pytest_a2a_bench.benchmarks.crmarena.mini.sales import add_deal
from pytest_a2a_bench.benchmarks.crmarena.mini.stages import ACTIVITIES, STAGES, add_task, guide
from pytest_a2a_bench.benchmarks.crmarena.tasks import NONE

TASKS = 480
EVENTS = 20
_BUSY = ("In Progress", "Completed")


def wrong_stage(world: World) -> list[Draft]:
    """Tasks: does the stage of an opportunity fit its tasks, and if not, which would."""
    dice = Dice(world.seed, "wrong stage")
    nones = dice.nones(world.per_category)
    drafts = []
    for number in range(world.per_category):
        true, named = dice.sample(STAGES, 2)
        deal = add_deal(world, dice, true if number in nones else named)
        for activity in dice.sample(ACTIVITIES[true], dice.between(3, 4)):
            add_task(world, dice, deal, true, dice.pick(_BUSY), activity)
        # One task of another stage is no majority.
        add_task(world, dice, deal, dice.pick([stage for stage in STAGES if stage != true]), "Completed")
        required = (
            f"- Id of the opportunity: {deal.key}\n"
            "- The right stage is the one to which most of the opportunity's tasks belong, whatever their status.\n"
            f"- If StageName is the right stage, the answer is None.\n\n{guide()}"
        )
        query = dice.pick(
            (
                "Does the stage of this opportunity fit its tasks, and if not, which stage would be right?",
                "Is this opportunity in the wrong stage for its tasks? If so, which is the right one?",
            )
        )
        drafts.append(
            Draft(f"{query} Answer with the right stage alone.", required, (NONE if number in nones else true,))
        )
    return drafts


def activity_priority(world: World) -> list[Draft]:
    """Tasks: which tasks that are not started do not belong to the stage of their opportunity."""
    dice = Dice(world.seed, "activity priority")
    nones = dice.nones(world.per_category)
    drafts = []
    for number in range(world.per_category):
        stage = dice.pick(STAGES)
        others = [other for other in STAGES if other != stage]
        deal = add_deal(world, dice, stage)
        for activity in dice.sample(ACTIVITIES[stage], 2):
            add_task(world, dice, deal, stage, "Not Started", activity)
        add_task(world, dice, deal, dice.pick(others), dice.pick(_BUSY))
        odd = 0 if number in nones else dice.between(1, 5)
        keys = tuple(add_task(world, dice, deal, dice.pick(others), "Not Started") for _ in range(odd))
        required = (
            f"- Id of the opportunity: {deal.key}\n"
            "- Only tasks with the status 'Not Started' matter here.\n"
            f"- If all of these belong to the opportunity's stage, the answer is None.\n\n{guide()}"
        )
        query = dice.pick(
            (
                "Which tasks of this opportunity are not started and do not belong to its stage?",
                "Find the tasks that are not started and do not fit the stage of this opportunity.",
            )
        )
        drafts.append(Draft(f"{query} Answer with the Ids of those tasks alone.", required, keys or (NONE,)))
    return drafts


def fill_activities(world: World) -> None:
    """Give the other opportunities tasks of their own stage, and some of them events."""
    dice = Dice(world.seed, "activities")
    busy = {row["WhatId"] for row in world.tables.rows["Task"]}
    rest = [deal for deal in world.deals if deal.key not in busy]
    for deal in rest:
        for _ in range(4):
            add_task(world, dice, deal, deal.stage, dice.pick((*_BUSY, "Not Started")))
    while world.tables.count("Task") < TASKS:
        deal = dice.pick(rest)
        add_task(world, dice, deal, deal.stage, dice.pick(_BUSY))
    for _ in range(EVENTS):
        deal = dice.pick(rest)
        world.tables.add(
            "Event",
            WhatId=deal.key,
            OwnerId=deal.owner,
            Subject=f"Meeting with {deal.firm.name}",
            Description="Talk about the next steps.",
            Location=dice.pick(("On site", "Telephone", "Our office")),
            StartDateTime=deal.created + timedelta(days=dice.between(3, 40)),
            DurationInMinutes=dice.pick((30, 45, 60)),
            IsAllDayEvent=False,
        )
