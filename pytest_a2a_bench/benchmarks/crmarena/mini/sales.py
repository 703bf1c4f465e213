"""Leads, opportunities with their contracts, and the tasks that count them."""

from __future__ import annotations

from collections import defaultdict
from datetime import date, datetime, timedelta
from statistics import fmean

from pytest_a2a_bench.benchmarks.crmarena.mini import words
from pytest_a2a_bench.benchmarks.crmarena.mini.analytics import Found, Question, ask, winner
from pytest_a2a_bench.benchmarks.crmarena.mini.base import full_name
from pytest_a2a_bench.benchmarks.crmarena.mini.days import on_workday
from pytest_a2a_bench.benchmarks.crmarena.mini.dice import Dice
from pytest_a2a_bench.benchmarks.crmarena.mini.draft import Draft
from pytest_a2a_bench.benchmarks.crmarena.mini.plan import Deal, Lead, World
from pytest_a2a_bench.benchmarks.crmarena.mini.stages import PROBABILITY, STAGES

LEADS = 120
DEALS = 120
CONTRACTS = 50
FIRST_MOMENT = datetime(2021, 1, 5, 9)
SPAN_DAYS = 1020


def make_leads(world: World) -> None:
    """Make leads, about half of them converted."""
    dice = Dice(world.seed, "leads")
    for _ in range(max(LEADS, world.per_category * 3)):
        add_lead(world, dice, dice.pick(world.sales).key, converted=dice.chance(0.5))


def add_lead(world: World, dice: Dice, owner: str, *, converted: bool) -> Lead:
    """Make one lead."""
    number = len(world.leads)
    created = on_workday(FIRST_MOMENT + timedelta(days=dice.below(SPAN_DAYS), minutes=dice.below(480)))
    day = on_workday(created.date() + timedelta(days=dice.between(2, 60))) if converted else None
    firm = dice.pick(world.firms)
    first, last = full_name(number, 17)
    company = f"{dice.pick(words.FIRM_HEADS)} & {last}"
    key = world.tables.add(
        "Lead",
        FirstName=first,
        LastName=last,
        Company=company,
        Title=dice.pick(("Plant manager", "Buyer", "Head of maintenance", "Engineer")),
        Email=f"{first}.{last}{number}@{last}.example".lower(),
        Phone=f"555-{3000 + number % 7000}",
        OwnerId=owner,
        CreatedDate=created,
        IsConverted=converted,
        ConvertedDate=day,
        ConvertedAccountId=firm.key if day else None,
        ConvertedContactId=firm.contacts[0] if day else None,
        Status="Qualified" if day else dice.pick(("New", "Contacted")),
    )
    lead = Lead(key, owner, created, day)
    world.leads.append(lead)
    return lead


def make_deals(world: World) -> None:
    """Make opportunities with lines; the first ones are closed with a signed contract."""
    dice = Dice(world.seed, "deals")
    signed = max(CONTRACTS, world.per_category * 2)
    for number in range(max(DEALS - world.per_category * 4, signed + 10)):
        add_deal(world, dice, "Closed" if number < signed else dice.pick(STAGES[:4]), signed=number < signed)


def add_deal(world: World, dice: Dice, stage: str, *, signed: bool = False) -> Deal:
    """Make one opportunity with its lines, and its contract if it is signed."""
    firm = dice.pick(world.firms)
    contact = dice.pick(firm.contacts)
    owner = dice.pick(world.sales).key
    created = on_workday(FIRST_MOMENT + timedelta(days=dice.below(SPAN_DAYS - 120), minutes=dice.below(480)))
    day = on_workday(created.date() + timedelta(days=dice.between(10, 110))) if signed else None
    tables = world.tables
    contract = _contract(world, dice, firm.key, day) if day else None
    lines = [(product, dice.between(1, 10)) for product in dice.sample(world.products, dice.between(1, 2))]
    key = tables.add(
        "Opportunity",
        AccountId=firm.key,
        ContactId=contact,
        OwnerId=owner,
        Name=f"{firm.name} {created:%Y}-{tables.count('Opportunity') + 1}",
        CreatedDate=created,
        CloseDate=day or created.date() + timedelta(days=dice.between(60, 160)),
        StageName=stage,
        Probability=PROBABILITY[stage],
        Amount=sum(product.price * quantity for product, quantity in lines),
        ContractID__c=contract,
        Description=f"{firm.name} plans to renew devices at its {dice.pick(words.USES)}.",
    )
    for product, quantity in lines:
        tables.add(
            "OpportunityLineItem",
            OpportunityId=key,
            Product2Id=product.key,
            PricebookEntryId=product.entry,
            Quantity=quantity,
            TotalPrice=product.price * quantity,
        )
    deal = Deal(key, firm, contact, owner, created, day, stage)
    world.deals.append(deal)
    return deal


def _contract(world: World, dice: Dice, account: str, day: date) -> str:
    return world.tables.add(
        "Contract",
        AccountId=account,
        CompanySignedDate=day,
        CustomerSignedDate=day - timedelta(days=dice.between(0, 5)),
        StartDate=day + timedelta(days=7),
        ContractTerm=dice.pick((12, 24, 36)),
        Status="Activated",
        Description="Delivery and yearly calibration of devices",
    )


CYCLE_RULES = """\
## Sales cycle
- The sales cycle of an opportunity is the number of days from its creation to the CompanySignedDate of its contract
  (ContractID__c).
- It counts in the period that the CompanySignedDate falls into, for the owner of the opportunity; an agent's
  cycles are averaged.
- If no contract was signed in the period, the answer is None."""

CONVERSION_RULES = """\
## Conversion rate
- The leads of a period are those that were created in it. Of these, those count as converted whose ConvertedDate is in
  the same period too.
- An agent's rate is converted leads divided by leads, of the leads that the agent owns. Agents without leads in the
  period are not compared; a rate of zero is a rate.
- If no lead was created in the period, the answer is None."""


def sales_cycle(world: World) -> list[Draft]:
    """Tasks: who takes opportunities to a signed contract fastest or slowest."""
    phrases = {
        False: ("Whose sales cycles were the shortest on average {period}?",),
        True: ("Whose sales cycles were the longest on average {period}?",),
    }

    def tell(question: Question) -> Found:
        days: defaultdict[str, list[float]] = defaultdict(list)
        for deal in world.deals:
            if deal.signed and question.window.holds(deal.signed):
                days[deal.owner].append((deal.signed - deal.created.date()).days)
        # A day's difference may come from counting hours, so more than that must lie between the first and the second.
        return winner({owner: fmean(all_) for owner, all_ in days.items()}, highest=question.highest, margin=0.05)

    events = [deal.signed for deal in world.deals if deal.signed]
    return ask(world, "sales_cycle_understanding", CYCLE_RULES, phrases, tell, events)


def conversion_rate(world: World) -> list[Draft]:
    """Tasks: who converts the largest or smallest share of leads."""
    phrases = {
        True: ("Who has the best conversion rate of the leads {period}?",),
        False: ("Who has the smallest conversion rate of the leads {period}?",),
    }

    def tell(question: Question) -> Found:
        chances: defaultdict[str, list[float]] = defaultdict(list)
        for lead in world.leads:
            if question.window.holds(lead.created):
                chances[lead.owner].append(lead.converted is not None and question.window.holds(lead.converted))
        return winner({owner: fmean(all_) for owner, all_ in chances.items()}, highest=question.highest, margin=0.03)

    events = [lead.created for lead in world.leads] + [lead.converted for lead in world.leads if lead.converted]
    return ask(world, "conversion_rate_comprehension", CONVERSION_RULES, phrases, tell, events)
