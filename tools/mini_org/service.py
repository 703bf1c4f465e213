"""Service cases, and the tasks that count them: handle time, transfers, regions, issues, months."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable
from datetime import datetime, timedelta
from statistics import fmean

from mini_org.building import SeededRandom, TaskDraft, on_workday
from mini_org.company import Case, Company, Issue, Order
from mini_org.period_questions import (
    UNCLEAR,
    PeriodQuestion,
    Winner,
    draft_questions,
    find_winner,
)
from pytest_a2a_bench.benchmarks.crmarena.tasks import MONTHS

CASES = 160
FIRST_MOMENT = datetime(2021, 1, 4, 8)
SPAN_DAYS = 1060
OPEN_SHARE = 0.12
POPULAR = 8
"""Most cases are about the first products, so that counting by product has something to count."""


def make_cases(company: Company) -> None:
    """Make cases over three years, each about an item that the firm had ordered before."""
    rng = SeededRandom(company.seed, "cases")
    for _ in range(max(CASES, company.per_category * 2)):
        order = rng.pick(company.orders[: len(company.firms)])
        add_case(company, rng, order, rng.pick(company.issues), rng.pick(company.service).key)


def add_case(
    company: Company,
    rng: SeededRandom,
    order: Order,
    issue: Issue,
    agent: str,
    *,
    closed: bool | None = None,
    moved: bool = True,
) -> Case:
    """Make one case with its history.

    :param closed: whether it is closed; None leaves it to chance.
    :param moved: whether it may have been handed over.
    """
    popular = [item for item in order.items if item.product in company.products[:POPULAR]]
    item = rng.pick(popular or order.items)
    created = on_workday(FIRST_MOMENT + timedelta(days=rng.below(SPAN_DAYS), minutes=rng.below(240)))
    hands = [(agent, created)]
    if moved and rng.chance(0.28):
        other = rng.pick([person.key for person in company.service if person.key != agent])
        hands.append((other, created + timedelta(minutes=rng.between(30, 180))))
    shut = closed if closed is not None else not rng.chance(OPEN_SHARE)
    done = created + timedelta(minutes=rng.between(200, 4000)) if shut else None
    contact = rng.pick(order.firm.contacts)
    tables = company.tables
    key = tables.add(
        "Case",
        AccountId=order.firm.key,
        ContactId=contact,
        OrderItemId__c=item.key,
        IssueId__c=issue.key,
        OwnerId=hands[-1][0],
        CreatedDate=created,
        ClosedDate=done,
        Status="Closed" if done else rng.pick(("New", "Working", "Waiting on Customer")),
        Priority=rng.pick(("Low", "Medium", "High")),
        Subject=f"{issue.name}: {item.product.name}",
        Description=f"With the {item.product.name} of our order, {issue.complaint}.",
    )
    case = Case(key, order.firm, contact, item.product, issue, created, done, tuple(hands))
    _history(company, case)
    company.cases.append(case)
    return case


def _history(company: Company, case: Case) -> None:
    add = company.tables.add
    add("CaseHistory__c", CaseId__c=case.key, CreatedDate=case.created, Field__c="Case Creation")
    before: str | None = None
    for agent, since in case.hands:
        add(
            "CaseHistory__c",
            CaseId__c=case.key,
            CreatedDate=since,
            Field__c="Owner Assignment",
            OldValue__c=before,
            NewValue__c=agent,
        )
        before = agent
    if case.closed:
        add("CaseHistory__c", CaseId__c=case.key, CreatedDate=case.closed, Field__c="Case Closed")


_MERGED = "- Cases with the Status 'Merged' were opened twice by mistake. They, and their history, do not count."

_HANDLED = f"""\
{_MERGED}
- A record of the case history that is there twice, with the same case, moment and values, counts once.
- An agent handled every case that was assigned to them in the period, by a record of the case history with the field
  'Owner Assignment' and the agent as the new value: first assignments and transfers, open cases too."""

HANDLE_RULES = f"""\
## Handle time
- The handle time of a case is the time from its creation to its closing. It counts for the case's owner.
- Only closed cases that were created in the period count, and of these only those that never changed hands: cases with
  exactly one 'Owner Assignment'. They are averaged by agent.
{_HANDLED}
- If no agent qualifies, the answer is None."""

TRANSFER_RULES = f"""\
## Transfers
- A transfer is a record of the case history with the field 'Owner Assignment' and an agent as the old value. It counts
  for that agent, who gave the case away, in the period that it was created in.
- Only agents with at least one transfer in the period are compared.
{_HANDLED}
- If no agent qualifies, the answer is None."""


def handle_time(company: Company) -> list[TaskDraft]:
    """Tasks: which agent closes cases fastest or slowest."""
    phrases = {
        False: (
            "Leave out agents unless they handled {handled}: whose handle time was the shortest on average {period}?",
            "Compare mean handle times {period}, without agents unless they handled {handled}: whose is the shortest?",
        ),
        True: (
            "Leave out agents unless they handled {handled}: whose handle time was the longest on average {period}?",
            "Compare mean handle times {period}, without agents unless they handled {handled}: whose is the longest?",
        ),
    }

    def tell(question: PeriodQuestion) -> Winner:
        minutes: defaultdict[str, list[float]] = defaultdict(list)
        for case in company.cases:
            if case.minutes is not None and len(case.hands) == 1 and question.window.holds(case.created):
                minutes[case.owner].append(case.minutes)
        handled = _handled(company, question)
        # Three percent between the first and the second: who counts minutes, hours or days finds the same agent.
        means = {agent: fmean(all_) for agent, all_ in minutes.items() if handled[agent] > question.threshold}
        return find_winner(means, highest=question.highest, margin=0.03)

    days = _moments(company)
    return draft_questions(company, "handle_time", HANDLE_RULES, phrases, tell, days, thresholds=(0, 1, 2, 3))


def transfer_count(company: Company) -> list[TaskDraft]:
    """Tasks: which agent gives away most or fewest cases."""
    phrases = {
        False: ("Leave out agents unless they handled {handled}: who made the fewest transfers {period}?",),
        True: (
            "Leave out agents unless they handled {handled}: who made the most transfers {period}?",
            "Whose transfers {period} are the most numerous, leaving out agents unless they handled {handled}?",
        ),
    }

    def tell(question: PeriodQuestion) -> Winner:
        given: Counter[str] = Counter()
        for case in company.cases:
            for (agent, _), (_, when) in zip(case.hands, case.hands[1:], strict=False):
                given[agent] += question.window.holds(when)
        handled = _handled(company, question)
        counts = {agent: n for agent, n in given.items() if n and handled[agent] > question.threshold}
        return find_winner(counts, highest=question.highest)

    return draft_questions(
        company, "transfer_count", TRANSFER_RULES, phrases, tell, _moments(company), thresholds=(0, 1, 2, 3)
    )


def _handled(company: Company, question: PeriodQuestion) -> Counter[str]:
    return Counter(agent for case in company.cases for agent, since in case.hands if question.window.holds(since))


def _moments(company: Company) -> list[datetime]:
    return [since for case in company.cases for _, since in case.hands]


REGION_RULES = f"""\
## Regions
{_MERGED}
- The region of a case is the ShippingState of its account.
- Closed cases that were created in the period count; the closing time of a state is the mean time from creation to
  closing over its cases.
- If no case counts, the answer is None."""


def best_region(company: Company) -> list[TaskDraft]:
    """Tasks: in which state cases are closed fastest."""
    phrases = {
        False: (
            "Compare the states {period}: where were cases closed fastest?",
            "Name the state whose cases took the shortest time to close {period}.",
        )
    }

    def tell(question: PeriodQuestion) -> Winner:
        minutes: defaultdict[str, list[float]] = defaultdict(list)
        for case in company.cases:
            if case.minutes is not None and question.window.holds(case.created):
                minutes[case.firm.state].append(case.minutes)
        return find_winner({state: fmean(all_) for state, all_ in minutes.items()}, highest=False, margin=0.03)

    closing = "Answer with the state's two letters alone, such as CA."
    days = [case.created for case in company.cases]
    return draft_questions(company, "best_region_identification", REGION_RULES, phrases, tell, days, closing=closing)


_PRODUCT_RULES = f"""\
{_MERGED}
- A case is about the product of its order item (OrderItemId__c). It counts in the period that it was created in, open
  or closed."""

ISSUE_RULES = f"""\
## Issues
{_PRODUCT_RULES}
- If no case about the product was created in the period, the answer is None."""

MONTH_RULES = f"""\
## Months
{_PRODUCT_RULES}
- The same month of different years is one month.
- If no case about the product was created in the period, the answer is None."""


def top_issue(company: Company) -> list[TaskDraft]:
    """Tasks: what customers complain of most with one product."""
    phrase = "Which issue came up most often in the cases about the {product} {period}? Its product Id is {product_id}."

    def tell(question: PeriodQuestion) -> Winner:
        return _most(case.issue.key for case in _about(company, question))

    closing = "Answer with the issue's Id alone."
    return _ask_products(company, "top_issue_identification", ISSUE_RULES, phrase, tell, closing)


def monthly_trend(company: Company) -> list[TaskDraft]:
    """Tasks: in which month one product got the most cases."""
    phrase = (
        "In which month {period} were there more cases about the {product} than in any other month?"
        " Its product Id is {product_id}."
    )

    def tell(question: PeriodQuestion) -> Winner:
        return _most(MONTHS[case.created.month - 1] for case in _about(company, question))

    closing = "Answer with the month's name alone."
    return _ask_products(company, "monthly_trend_analysis", MONTH_RULES, phrase, tell, closing, short=False)


def _ask_products(
    company: Company,
    category: str,
    rules: str,
    phrase: str,
    tell: Callable[[PeriodQuestion], Winner],
    closing: str,
    *,
    short: bool = True,
) -> list[TaskDraft]:
    days = [case.created for case in company.cases]
    products = company.products[:POPULAR]
    return draft_questions(
        company, category, rules, {True: (phrase,)}, tell, days, products=products, short=short, closing=closing
    )


def _most(groups: Iterable[str]) -> Winner:
    """Return the most frequent group; one case alone is no trend."""
    counts = Counter(groups)
    return UNCLEAR if counts.total() == 1 else find_winner(counts, highest=True)


def _about(company: Company, question: PeriodQuestion) -> list[Case]:
    return [case for case in company.cases if case.product == question.product and question.window.holds(case.created)]
