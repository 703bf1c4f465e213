"""Quotes, and the tasks about them: which article does a quote break."""

from __future__ import annotations

from datetime import timedelta

from pytest_a2a_bench.benchmarks.crmarena.mini.dice import Dice
from pytest_a2a_bench.benchmarks.crmarena.mini.draft import Draft
from pytest_a2a_bench.benchmarks.crmarena.mini.plan import Deal, World
from pytest_a2a_bench.benchmarks.crmarena.mini.quote_rules import (
    LEAST_TOTAL,
    MOST_DAYS,
    MOST_DISCOUNT,
    Offer,
    Rule,
    Rulebook,
)
from pytest_a2a_bench.benchmarks.crmarena.mini.sales import add_deal
from pytest_a2a_bench.benchmarks.crmarena.mini.words import COMPANY
from pytest_a2a_bench.benchmarks.crmarena.tasks import NONE

QUOTES = 70


_RULES = """\
- Id of the quote: {quote}
- The rules are knowledge articles (Knowledge__kav) whose titles begin with '{title}'.
- A quote breaks one of them at most. If it breaks none, the answer is None."""


def quote_approval(world: World, book: Rulebook) -> list[Draft]:
    """Tasks: which price rule does a quote break."""
    wordings = (
        "May this quote be approved, or does it break one of our quote rules?",
        "Which of our quote rules does this quote break, if it breaks one?",
    )
    return _ask(world, book, "quote approval", book.prices, "Quote rule", wordings)


def invalid_config(world: World, book: Rulebook) -> list[Draft]:
    """Tasks: which configuration rule does a quote break."""
    wordings = (
        "Is the combination of products and quantities in this quote allowed by our configuration rules?",
        "Which configuration rule, if any, speaks against what this quote combines?",
    )
    return _ask(world, book, "invalid config", book.configurations, "Configuration rule", wordings)


def _ask(
    world: World, book: Rulebook, name: str, rules: tuple[Rule, ...], title: str, wordings: tuple[str, ...]
) -> list[Draft]:
    dice = Dice(world.seed, name)
    nones = dice.nones(world.per_category)
    drafts = []
    for number in range(world.per_category):
        rule = None if number in nones else dice.pick(rules)
        offer = _good_offer(dice, book, without=rule)
        if rule:
            rule.break_it(dice, offer)
        gold = rule.article if rule else NONE
        quote = _write(world, dice, add_deal(world, dice, "Quote"), offer, "Needs Review")
        query = f"{dice.pick(wordings)} Answer with the Id of the article that it breaks, and nothing else."
        drafts.append(Draft(query, _RULES.format(quote=quote, title=title), (gold,)))
    return drafts


def _good_offer(dice: Dice, book: Rulebook, without: Rule | None = None) -> Offer:
    """Return an offer that keeps every rule.

    :param without: the rule that is going to be broken, so that nothing here is about it.
    """
    while True:
        lines = [
            (product, dice.between(3, 10), dice.pick((0, 5, 10, 20, MOST_DISCOUNT)))
            for product in dice.sample(book.plain, dice.between(2, 3))
        ]
        if (
            sum(product.price * quantity * (100 - discount) / 100 for product, quantity, discount in lines)
            > LEAST_TOTAL
        ):
            break
    offer = Offer(lines, dice.between(20, MOST_DAYS))
    other = dice.pick([rule for rule in book.configurations if rule != without])
    if other.keep_it and dice.chance(0.6):
        other.keep_it(dice, offer)
    return offer


def fill_quotes(world: World, book: Rulebook) -> None:
    """Make the other quotes, all within the rules, and count the accepted ones by agent."""
    dice = Dice(world.seed, "quotes")
    deals = [deal for deal in world.deals if deal.signed]
    for _ in range(max(20, QUOTES - world.tables.count("Quote"))):
        status = dice.pick(("Accepted", "Accepted", "Rejected", "Presented", "Draft"))
        add_quote(world, dice, book, dice.pick(deals), status)


def add_quote(world: World, dice: Dice, book: Rulebook, deal: Deal, status: str) -> None:
    """Make one quote that keeps the rules."""
    _write(world, dice, deal, _good_offer(dice, book), status)
    if status == "Accepted":
        world.accepted[deal.owner] = world.accepted.get(deal.owner, 0) + 1


def _write(world: World, dice: Dice, deal: Deal, offer: Offer, status: str) -> str:
    tables = world.tables
    created = deal.created + timedelta(days=dice.between(5, 30))
    key = tables.add(
        "Quote",
        OpportunityId=deal.key,
        AccountId=deal.firm.key,
        ContactId=deal.contact,
        Name=f"Quote {tables.count('Quote') + 1} for {deal.firm.name}",
        Status=status,
        CreatedDate=created,
        ExpirationDate=created.date() + timedelta(days=offer.days),
        Description=f"Devices of {COMPANY} as discussed",
    )
    for product, quantity, discount in offer.lines:
        total = round(product.price * quantity * (100 - discount) / 100, 2)
        line = tables.add(
            "OpportunityLineItem",
            OpportunityId=deal.key,
            Product2Id=product.key,
            PricebookEntryId=product.entry,
            Quantity=quantity,
            TotalPrice=total,
        )
        tables.add(
            "QuoteLineItem",
            QuoteId=key,
            OpportunityLineItemId=line,
            Product2Id=product.key,
            PricebookEntryId=product.entry,
            Quantity=quantity,
            UnitPrice=product.price,
            Discount=discount,
            TotalPrice=total,
        )
    return key


def plant_lead_ties(world: World, book: Rulebook) -> None:
    """Make one agent ahead by accepted quotes in every second territory, and two equal in the others."""
    dice = Dice(world.seed, "lead ties")
    for number, territory in enumerate(world.territories):
        ranked = sorted(territory.agents, key=lambda agent: (-world.accepted.get(agent, 0), agent))
        first, second = ranked[:2]
        ahead = world.accepted.get(first, 0) - world.accepted.get(second, 0)
        if number % 2 == 0 and ahead == 0:
            _accept(world, dice, book, first, 1)
        elif number % 2 == 1:
            _accept(world, dice, book, second, ahead)


def _accept(world: World, dice: Dice, book: Rulebook, owner: str, count: int) -> None:
    own = [deal for deal in world.deals if deal.owner == owner]
    for _ in range(count):
        add_quote(world, dice, book, dice.pick(own), "Accepted")
