"""Voice calls, and the tasks about them: is a lead qualified, and what did a customer say."""

from __future__ import annotations

from datetime import datetime, timedelta

from mini_org import words
from mini_org.building import SeededRandom, TaskDraft
from mini_org.company import Company
from mini_org.publishing import VERSION_RULE, add_article
from mini_org.sales import add_deal, add_lead
from pytest_a2a_bench.benchmarks.crmarena.tasks import BANT_FACTORS, NONE

CALLS = 150
LEAST_BUDGET = 10000
MOST_MONTHS = 6
_SMALL_TALK = (
    "Agent: How is the weather at your plant?",
    "Customer: Thank you for the brochure, it was clear.",
    "Agent: I will send you the notes of this call.",
    "Customer: Our foreman says hello.",
)


def _call(
    company: Company, rng: SeededRandom, lines: list[str], at: datetime, *, lead: str | None, deal: str | None
) -> None:
    talk = rng.sample(_SMALL_TALK, 2)
    company.tables.add(
        "VoiceCallTranscript__c",
        Body__c="\n".join([talk[0], *lines, talk[1]]),
        LeadId__c=lead,
        OpportunityId__c=deal,
        CreatedDate=at,
        EndTime__c=at + timedelta(minutes=rng.between(8, 40)),
    )


_QUALIFY = f"""\
- Id of the lead: {{lead}}
- The four factors and what each demands are in the knowledge article (Knowledge__kav) 'How we qualify leads'. What the
  lead says is in the lead's calls (VoiceCallTranscript__c, by LeadId__c); all of them count.
{VERSION_RULE}
- If all four factors are met, the answer is None."""


GUIDE = "How we qualify leads"


def guide(budget: int, months: int) -> str:
    """Return what a lead must have."""
    return (
        f"Budget: the lead has set aside {budget} dollars or more.\n"
        "Authority: the person on the telephone signs the purchase, without asking anybody else.\n"
        "Need: the lead has a trouble at the plant that our devices would end.\n"
        f"Timeline: the lead wants the devices to run within {months} months."
    )


def lead_qualification(company: Company) -> list[TaskDraft]:
    """Write the guide and the calls of some leads; tasks: which factors a lead fails."""
    rng = SeededRandom(company.seed, "qualification")
    add_article(
        company,
        GUIDE,
        guide(LEAST_BUDGET, MOST_MONTHS),
        "Budget, authority, need and timeline",
        older=(guide(LEAST_BUDGET * 3, 1), guide(500, 24)),
    )
    nones = rng.nones(company.per_category)
    drafts = []
    for number in range(company.per_category):
        fails = [] if number in nones else rng.sample(BANT_FACTORS, rng.pick((1, 1, 1, 2, 3)))
        lead = add_lead(company, rng, rng.pick(company.sales).key, converted=False)
        said = rng.shuffled([_statement(rng, factor, met=factor not in fails) for factor in BANT_FACTORS])
        at = rng.between(1, 3)
        _call(company, rng, said[:at], lead.created + timedelta(days=3), lead=lead.key, deal=None)
        _call(company, rng, said[at:], lead.created + timedelta(days=9), lead=lead.key, deal=None)
        query = rng.pick(
            (
                "Which of the four factors does this lead fail, if any?",
                "What keeps us from qualifying this lead: which factors are not met?",
            )
        )
        gold = tuple(factor for factor in BANT_FACTORS if factor in fails)
        closing = "Answer with the failed factors alone (Budget, Authority, Need, Timeline)."
        drafts.append(TaskDraft(f"{query} {closing}", _QUALIFY.format(lead=lead.key), gold or (NONE,)))
    return drafts


def _statement(rng: SeededRandom, factor: str, *, met: bool) -> str:
    if factor == "Budget":
        dollars = LEAST_BUDGET + rng.between(1, 40) * 500 if met else rng.between(2, 18) * 500
        return f"Customer: We have set aside {dollars} dollars for this."
    if factor == "Authority":
        return (
            "Customer: I sign purchases like this one myself."
            if met
            else rng.pick(
                (
                    "Customer: My director signs; I only collect the offers.",
                    "Customer: The board decides about this, I just report to it.",
                )
            )
        )
    if factor == "Need":
        return (
            "Customer: We keep losing batches because faults are seen too late."
            if met
            else ("Customer: Our present devices do everything we want, we are only curious.")
        )
    months = rng.between(2, MOST_MONTHS) if met else rng.between(MOST_MONTHS + 2, 20)
    return f"Customer: It should all be running {months} months from now."


_INSIGHT = """\
- Id of the opportunity: {deal}
- The calls are VoiceCallTranscript__c, by OpportunityId__c.
- Answer with the customer's words and nothing else: a name or a phrase, no sentence around it.
- If the customer says nothing of the kind, the answer is None."""


def sales_insight(company: Company) -> list[TaskDraft]:
    """Write the calls of some opportunities; tasks: which competitor comes up most, or what worries the customer."""
    rng = SeededRandom(company.seed, "insight")
    nones = rng.nones(company.per_category)
    drafts = []
    for number in range(company.per_category):
        deal = add_deal(company, rng, rng.pick(("Discovery", "Quote", "Negotiation")))
        rival, other = rng.sample(words.COMPETITORS, 2)
        worry = rng.pick(words.WORRIES)
        query, gold, about_rivals = rng.pick(
            (
                ("Which competitor does the customer name most often in the calls of this opportunity?", rival, True),
                ("What worries the customer of this opportunity most, as they say in the calls?", worry, False),
            )
        )
        rivals = (
            f"Customer: We also have an offer from {rival}.",
            f"Customer: {other} called us once.",
            f"Customer: The engineers like what {rival} shows.",
        )
        # Of what is not asked there may be talk all the same.
        silent = number in nones
        lines = ["Customer: We would like to see the devices in use first."]
        lines += () if silent and about_rivals else rivals
        lines += () if silent and not about_rivals else (f"Customer: What worries us most is {worry}.",)
        for place, part in enumerate((lines[:2], lines[2:])):
            _call(company, rng, part, deal.created + timedelta(days=4 + 7 * place), lead=None, deal=deal.key)
        drafts.append(TaskDraft(query, _INSIGHT.format(deal=deal.key), (NONE if silent else gold,)))
    return drafts


def fill_calls(company: Company) -> None:
    """Make calls of other leads and opportunities, with nothing but small talk in them."""
    rng = SeededRandom(company.seed, "calls")
    heard = {
        row[field]
        for row in company.tables.rows["VoiceCallTranscript__c"]
        for field in ("LeadId__c", "OpportunityId__c")
    }
    leads = [lead for lead in company.leads if lead.key not in heard]
    deals = [deal for deal in company.deals if deal.key not in heard]
    for number in range(max(20, CALLS - company.tables.count("VoiceCallTranscript__c"))):
        product = rng.pick(company.products)
        line = [
            f"Customer: We read about the {product.name}.",
            f"Agent: It is a {product.kind}, I will send the data sheet.",
        ]
        if number % 2:
            lead = rng.pick(leads)
            _call(company, rng, line, lead.created + timedelta(days=rng.between(1, 20)), lead=lead.key, deal=None)
        else:
            deal = rng.pick(deals)
            _call(company, rng, line, deal.created + timedelta(days=rng.between(1, 20)), lead=None, deal=deal.key)
