"""Leads, opportunities with their contracts, and the tasks that count them."""

from __future__ import annotations

from collections import defaultdict
from datetime import date, datetime, timedelta
from statistics import fmean

from mini_org import words
from mini_org.building import SeededRandom, TaskDraft, on_workday
from mini_org.company import Company, Deal, Lead, full_name
from mini_org.period_questions import (
    PeriodQuestion,
    Winner,
    draft_questions,
    find_winner,
)
from pytest_a2a_bench.benchmarks.crmarena.tasks import STAGES

LEADS = 120
DEALS = 120
CONTRACTS = 50
FIRST_MOMENT = datetime(2021, 1, 5, 9)
SPAN_DAYS = 1020
PROBABILITY = {"Qualification": 10, "Discovery": 30, "Quote": 50, "Negotiation": 75, "Closed": 100}


def make_leads(company: Company) -> None:
    """Make leads, about half of them converted."""
    rng = SeededRandom(company.seed, "leads")
    for _ in range(max(LEADS, company.per_category * 3)):
        add_lead(company, rng, rng.pick(company.sales).key, converted=rng.chance(0.5))


def add_lead(company: Company, rng: SeededRandom, owner: str, *, converted: bool) -> Lead:
    """Make one lead."""
    number = len(company.leads)
    created = on_workday(FIRST_MOMENT + timedelta(days=rng.below(SPAN_DAYS), minutes=rng.below(480)))
    day = on_workday(created.date() + timedelta(days=rng.between(2, 60))) if converted else None
    firm = rng.pick(company.firms)
    first, last = full_name(number, 17)
    employer = f"{rng.pick(words.FIRM_HEADS)} & {last}"
    key = company.tables.add(
        "Lead",
        FirstName=first,
        LastName=last,
        Company=employer,
        Title=rng.pick(("Plant manager", "Buyer", "Head of maintenance", "Engineer")),
        Email=f"{first}.{last}{number}@{last}.example".lower(),
        Phone=f"555-{3000 + number % 7000}",
        OwnerId=owner,
        CreatedDate=created,
        IsConverted=converted,
        ConvertedDate=day,
        ConvertedAccountId=firm.key if day else None,
        ConvertedContactId=firm.contacts[0] if day else None,
        Status="Qualified" if day else rng.pick(("New", "Contacted")),
    )
    lead = Lead(key, owner, created, day)
    company.leads.append(lead)
    return lead


def make_deals(company: Company) -> None:
    """Make opportunities with lines; the first ones are closed with a signed contract."""
    rng = SeededRandom(company.seed, "deals")
    signed = max(CONTRACTS, company.per_category * 2)
    for number in range(max(DEALS - company.per_category * 4, signed + 10)):
        add_deal(company, rng, "Closed" if number < signed else rng.pick(STAGES[:4]), signed=number < signed)


def add_deal(company: Company, rng: SeededRandom, stage: str, *, signed: bool = False) -> Deal:
    """Make one opportunity with its lines, and its contract if it is signed."""
    firm = rng.pick(company.firms)
    contact = rng.pick(firm.contacts)
    owner = rng.pick(company.sales).key
    created = on_workday(FIRST_MOMENT + timedelta(days=rng.below(SPAN_DAYS - 120), minutes=rng.below(480)))
    day = on_workday(created.date() + timedelta(days=rng.between(10, 110))) if signed else None
    tables = company.tables
    contract = _contract(company, rng, firm.key, day) if day else None
    lines = [(product, rng.between(1, 10)) for product in rng.sample(company.products, rng.between(1, 2))]
    key = tables.add(
        "Opportunity",
        AccountId=firm.key,
        ContactId=contact,
        OwnerId=owner,
        Name=f"{firm.name} {created:%Y}-{tables.count('Opportunity') + 1}",
        CreatedDate=created,
        CloseDate=day or created.date() + timedelta(days=rng.between(60, 160)),
        StageName=stage,
        Probability=PROBABILITY[stage],
        Amount=sum(product.price * quantity for product, quantity in lines),
        ContractID__c=contract,
        Description=f"{firm.name} plans to renew devices at its {rng.pick(words.USES)}.",
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
    company.deals.append(deal)
    return deal


def _contract(company: Company, rng: SeededRandom, account: str, day: date) -> str:
    return company.tables.add(
        "Contract",
        AccountId=account,
        CompanySignedDate=day,
        CustomerSignedDate=day - timedelta(days=rng.between(0, 5)),
        StartDate=day + timedelta(days=7),
        ContractTerm=rng.pick((12, 24, 36)),
        Status="Activated",
        Description="Delivery and yearly calibration of devices",
    )


CYCLE_RULES = """\
## Sales cycle
- The sales cycle of an opportunity is the number of days from its creation to the CompanySignedDate of its contract
  (ContractID__c). Only contracts with the status Activated count.
- It counts in the period that the CompanySignedDate falls into, for the owner of the opportunity; an agent's
  cycles are averaged.
- Opportunities whose owner is no user any more (the OwnerId of no User) do not count.
- If no contract was signed in the period, the answer is None."""

CONVERSION_RULES = """\
## Conversion rate
- Leads with the Status 'Duplicate' are copies and do not count.
- Leads whose owner is no user any more (the OwnerId of no User) do not count.
- The leads of a period are those that were created in it. Of these, those count as converted whose ConvertedDate is in
  the same period too.
- An agent's rate is converted leads divided by leads, of the leads that the agent owns. Agents without leads in the
  period are not compared; a rate of zero is a rate.
- If no lead was created in the period, the answer is None."""


def sales_cycle(company: Company) -> list[TaskDraft]:
    """Tasks: who takes opportunities to a signed contract fastest or slowest."""
    phrases = {
        False: ("Whose sales cycles were the shortest on average {period}?",),
        True: ("Whose sales cycles were the longest on average {period}?",),
    }

    def tell(question: PeriodQuestion) -> Winner:
        days: defaultdict[str, list[float]] = defaultdict(list)
        for deal in company.deals:
            if deal.signed and question.window.holds(deal.signed):
                days[deal.owner].append((deal.signed - deal.created.date()).days)
        # A day's difference may come from counting hours, so more than that must lie between the first and the second.
        return find_winner({owner: fmean(all_) for owner, all_ in days.items()}, highest=question.highest, margin=0.05)

    events = [deal.signed for deal in company.deals if deal.signed]
    return draft_questions(company, "sales_cycle_understanding", CYCLE_RULES, phrases, tell, events)


def conversion_rate(company: Company) -> list[TaskDraft]:
    """Tasks: who converts the largest or smallest share of leads."""
    phrases = {
        True: ("Who has the best conversion rate of the leads {period}?",),
        False: ("Who has the smallest conversion rate of the leads {period}?",),
    }

    def tell(question: PeriodQuestion) -> Winner:
        chances: defaultdict[str, list[float]] = defaultdict(list)
        for lead in company.leads:
            if question.window.holds(lead.created):
                chances[lead.owner].append(lead.converted is not None and question.window.holds(lead.converted))
        return find_winner(
            {owner: fmean(all_) for owner, all_ in chances.items()}, highest=question.highest, margin=0.03
        )

    events = [lead.created for lead in company.leads] + [lead.converted for lead in company.leads if lead.converted]
    return draft_questions(company, "conversion_rate_comprehension", CONVERSION_RULES, phrases, tell, events)
