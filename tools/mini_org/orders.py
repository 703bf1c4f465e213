"""Orders, and the tasks about them: who sold most or least, and which of several alike products a customer means."""

from __future__ import annotations

from collections import Counter
from datetime import date, timedelta

from mini_org.building import SeededRandom, TaskDraft, on_workday
from mini_org.company import Company, Firm, Item, Order, Product
from mini_org.period_questions import (
    CLOCK_RULE,
    PeriodQuestion,
    Winner,
    draft_questions,
    find_winner,
)
from pytest_a2a_bench.benchmarks.crmarena.tasks import NONE

FIRST_DAY = date(2020, 3, 2)
LAST_DAY = date(2023, 11, 30)
ORDERS = 80
LINES = 3


def make_orders(company: Company) -> None:
    """Make two orders or more for every firm; the first is early, so that later cases have something to be about."""
    rng = SeededRandom(company.seed, "orders")
    for number in range(max(ORDERS, company.per_category * 2)):
        firm = company.firms[number % len(company.firms)]
        early = number < len(company.firms)
        span = 270 if early else (LAST_DAY - FIRST_DAY).days
        day = on_workday(FIRST_DAY + timedelta(days=rng.below(span)))
        while any(order.firm == firm and order.day == day for order in company.orders):
            day = on_workday(day + timedelta(days=1))
        _order(company, rng, firm, day, active=early or rng.chance(0.9))


def _order(company: Company, rng: SeededRandom, firm: Firm, day: date, *, active: bool) -> None:
    owner = rng.pick(company.sales).key
    tables = company.tables
    key = tables.add(
        "Order",
        AccountId=firm.key,
        OwnerId=owner,
        EffectiveDate=day,
        Pricebook2Id=company.pricebook,
        Status="Activated" if active else "Draft",
    )
    items = []
    for product in _of_different_kinds(rng, company.products, LINES):
        quantity = rng.between(1, 12)
        line = tables.add(
            "OrderItem",
            OrderId=key,
            Product2Id=product.key,
            PriceBookEntryId=product.entry,
            Quantity=quantity,
            UnitPrice=product.price,
        )
        items.append(Item(line, product, quantity, product.price))
    company.orders.append(Order(key, firm, owner, day, active, tuple(items)))


def _of_different_kinds(rng: SeededRandom, products: list[Product], count: int) -> list[Product]:
    kinds: dict[str, Product] = {}
    for product in rng.shuffled(products):
        kinds.setdefault(product.kind, product)
    return list(kinds.values())[:count]


AMOUNT_RULES = """\
## Sales amount
- The amount of an order is the sum of Quantity times UnitPrice over its order items.
- Only orders of the price book with the Name 'List prices' count: those of others are in other currencies.
- Orders whose owner is no user any more (the OwnerId of no User) do not count.
- An order counts in the period that its EffectiveDate falls into. Only orders with the status Activated count.
- It counts for the order's owner. Only agents with at least one such order are compared.
- If no order counts, the answer is None."""


def sales_amount(company: Company) -> list[TaskDraft]:
    """Tasks: which agent sold most or least in a period."""
    phrases = {
        True: (
            "Which agent sold the most by order value {period}?",
            "Whose sales amount was the largest {period}?",
        ),
        False: (
            "Which agent sold the least by order value {period}?",
            "Whose sales amount was the smallest {period}?",
        ),
    }

    def tell(question: PeriodQuestion) -> Winner:
        totals: Counter[str] = Counter()
        for order in company.orders:
            if order.active and question.window.holds(order.day):
                totals[order.owner] += order.amount
        return find_winner(dict(totals), highest=question.highest, margin=0.03)

    return draft_questions(
        company, "sales_amount_understanding", AMOUNT_RULES, phrases, tell, [o.day for o in company.orders]
    )


_AGO = {3: "three days", 5: "five days", 7: "a week", 14: "two weeks", 21: "three weeks", 30: "thirty days"}
_MENTIONS = (
    "I bought a {} {} ago: which one was it?",
    "Which {} was it that I ordered {} ago?",
    "My purchase of a {} {} ago: what was it exactly?",
)


def disambiguation(company: Company) -> list[TaskDraft]:
    """Tasks: which product a customer means who names only its kind and how long ago it was bought."""
    rng = SeededRandom(company.seed, "disambiguation")
    nones = rng.nones(company.per_category)
    drafts: dict[tuple[str, str], TaskDraft] = {}
    while len(drafts) < company.per_category:
        order, days = rng.pick(company.orders), rng.pick(tuple(_AGO))
        product = rng.pick(order.items).product
        empty = len(drafts) in nones
        today = order.day + timedelta(days=days + (1 if empty and order.active else 0))
        there = _bought(company, order.firm, today - timedelta(days=days), product.kind)
        if empty == bool(there) or len(there) > 1:
            continue
        contact = rng.pick(order.firm.contacts)
        query = rng.pick(_MENTIONS).format(product.kind, _AGO[days])
        required = (
            f"- Id of the contact who is asking: {contact}\n- Today's date: {today}\n{CLOCK_RULE}\n"
            "- Another contact of the same name is another person.\n"
            "- A contact's purchases are the orders of the contact's account with the status Activated; a purchase is"
            " dated by the order's EffectiveDate. Only the day that was named counts, exactly.\n"
            "- If no such product was bought on that day, the answer is None."
        )
        drafts.setdefault(
            (query, required),
            TaskDraft(f"{query} Answer with the product's Id alone.", required, (there[0] if there else NONE,)),
        )
    return list(drafts.values())


def _bought(company: Company, firm: Firm, day: date, kind: str) -> list[str]:
    return [
        item.product.key
        for order in company.orders
        if order.firm == firm and order.day == day and order.active
        for item in order.items
        if item.product.kind == kind
    ]
