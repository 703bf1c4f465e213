"""Quotes, the articles that rule their prices and configurations, and the tasks: which article does a quote break."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from itertools import cycle

from mini_org.building import SeededRandom, TaskDraft
from mini_org.company import Company, Deal, Product
from mini_org.publishing import VERSION_RULE, add_article
from mini_org.sales import add_deal
from mini_org.words import COMPANY
from pytest_a2a_bench.benchmarks.crmarena.tasks import NONE

MOST_DISCOUNT = 25
LEAST_TOTAL = 2000
MOST_DAYS = 60
MOST_LINES = 8
MOST_UNITS = 12
PACK = 5


@dataclass(slots=True)
class Offer:
    """A quote before it is written: lines of product, quantity and discount in percent."""

    lines: list[tuple[Product, int, int]]
    days: int

    @property
    def total(self) -> float:
        """Dollars after discounts."""
        return sum(product.price * quantity * (100 - discount) / 100 for product, quantity, discount in self.lines)


Change = Callable[[SeededRandom, Offer], None]
"""What is done to an offer so that it keeps or breaks a rule."""


@dataclass(frozen=True, slots=True)
class Rule:
    """An article's id and the change to an offer that breaks it, and no other rule.

    :param keep_it: a change that the rule is about and allows, so that a product's presence alone says nothing.
    """

    article: str
    break_it: Change
    keep_it: Change | None = None


@dataclass(frozen=True, slots=True)
class Rulebook:
    """All rules about quotes. ``plain`` are the products that no configuration rule is about."""

    prices: tuple[Rule, ...]
    configurations: tuple[Rule, ...]
    plain: tuple[Product, ...]


def write_rules(company: Company) -> Rulebook:
    """Write the articles; which products they are about depends on the seed."""
    chosen = SeededRandom(company.seed, "quote rules").sample(company.products, 6)
    return Rulebook(
        _price_rules(company),
        _configuration_rules(company, chosen),
        tuple(product for product in company.products if product not in chosen),
    )


def _price_rules(company: Company) -> tuple[Rule, ...]:
    return (
        _rule(
            company,
            "Quote rule: discounts",
            f"No line of a quote carries a discount of more than {MOST_DISCOUNT} percent.",
            "No line of a quote carries a discount of more than 60 percent.",
            "Larger discounts eat the margin of the smaller devices.",
            _give_too_much,
        ),
        _rule(
            company,
            "Quote rule: smallest quote",
            f"A quote is worth at least {LEAST_TOTAL} dollars, adding up the total prices of its lines.",
            "A quote is worth at least 10 dollars, adding up the total prices of its lines.",
            "Smaller purchases go through the dealers.",
            _leave_one_device,
        ),
        _rule(
            company,
            "Quote rule: validity",
            f"A quote expires no later than {MOST_DAYS} days after the day of its creation.",
            "A quote expires no later than 200 days after the day of its creation.",
            "Prices of metals change too fast for longer promises.",
            _hold_too_long,
        ),
        _rule(
            company,
            "Quote rule: length",
            f"A quote has at most {MOST_LINES} lines.",
            "A quote has at most 30 lines.",
            "Longer ones are split by building.",
            _add_lines,
        ),
    )


def _rule(
    company: Company, title: str, text: str, before: str, why: str, break_it: Change, keep_it: Change | None = None
) -> Rule:
    return Rule(add_article(company, title, text, why, older=(before,)), break_it, keep_it)


def _give_too_much(rng: SeededRandom, offer: Offer) -> None:
    product, quantity, _ = offer.lines[0]
    offer.lines[0] = (product, quantity, MOST_DISCOUNT + rng.between(3, 20))


def _leave_one_device(_: SeededRandom, offer: Offer) -> None:
    cheapest = min(offer.lines, key=lambda line: line[0].price)
    offer.lines = [(cheapest[0], 1, cheapest[2])]


def _hold_too_long(rng: SeededRandom, offer: Offer) -> None:
    offer.days = MOST_DAYS + rng.between(5, 60)


def _add_lines(rng: SeededRandom, offer: Offer) -> None:
    offer.lines += [(offer.lines[0][0], rng.between(1, 4), 0)] * (MOST_LINES + 2 - len(offer.lines))


def _configuration_rules(company: Company, chosen: list[Product]) -> tuple[Rule, ...]:
    main, partner, scarce, left, right, packed = chosen
    return (
        _rule(
            company,
            f"Configuration rule: {main.name}",
            f"{main.name} is only sold together with {partner.name} in the same quote.",
            f"{main.name} is sold with or without {partner.name}.",
            "Without it the device cannot be read.",
            _adding(main),
            _adding(main, partner),
        ),
        _rule(
            company,
            f"Configuration rule: {scarce.name}",
            f"{scarce.name} is limited to {MOST_UNITS} units in one quote.",
            f"{scarce.name} is limited to {MOST_UNITS * 4} units in one quote.",
            "The workshop builds it by hand.",
            _adding(scarce, units=lambda rng: MOST_UNITS + rng.between(1, 9)),
            _adding(scarce, units=lambda rng: rng.between(1, MOST_UNITS)),
        ),
        _rule(
            company,
            f"Configuration rule: {left.name} and {right.name}",
            f"{left.name} and {right.name} must not be in the same quote.",
            f"{left.name} and {right.name} may be in the same quote.",
            "They disturb each other's signals.",
            _adding(left, right),
            _adding(right),
        ),
        _rule(
            company,
            f"Configuration rule: packs of {packed.name}",
            f"{packed.name} is sold in packs of {PACK}: its quantity is a multiple of {PACK}.",
            f"{packed.name} is sold in packs of 1: any quantity is right.",
            "The packs are sealed at the workshop.",
            _adding(packed, units=lambda rng: PACK * rng.between(1, 4) + rng.between(1, PACK - 1)),
            _adding(packed, units=lambda rng: PACK * rng.between(1, 4)),
        ),
    )


def _adding(*products: Product, units: Callable[[SeededRandom], int] = lambda rng: rng.between(1, 4)) -> Change:
    """Return the change that adds a line of each product."""

    def change(rng: SeededRandom, offer: Offer) -> None:
        offer.lines += [(product, units(rng), 0) for product in products]

    return change


QUOTES = 70


_RULES = f"""\
- Id of the quote: {{quote}}
- The rules are knowledge articles (Knowledge__kav) whose titles begin with '{{title}}'.
{VERSION_RULE}
- A quote breaks one of them at most. If it breaks none, the answer is None."""


def quote_approval(company: Company, book: Rulebook) -> list[TaskDraft]:
    """Tasks: which price rule does a quote break."""
    wordings = (
        "May this quote be approved, or does it break one of our quote rules?",
        "Which of our quote rules does this quote break, if it breaks one?",
    )
    return _ask(company, book, "quote approval", book.prices, "Quote rule", wordings)


def invalid_config(company: Company, book: Rulebook) -> list[TaskDraft]:
    """Tasks: which configuration rule does a quote break."""
    wordings = (
        "Is the combination of products and quantities in this quote allowed by our configuration rules?",
        "Which configuration rule, if any, speaks against what this quote combines?",
    )
    return _ask(company, book, "invalid config", book.configurations, "Configuration rule", wordings)


def _ask(
    company: Company, book: Rulebook, name: str, rules: tuple[Rule, ...], title: str, wordings: tuple[str, ...]
) -> list[TaskDraft]:
    rng = SeededRandom(company.seed, name)
    nones = rng.nones(company.per_category)
    drafts = []
    turns = cycle(rng.shuffled(rules))
    for number in range(company.per_category):
        rule = None if number in nones else next(turns)
        offer = _good_offer(rng, book, without=rule)
        if rule:
            rule.break_it(rng, offer)
        gold = rule.article if rule else NONE
        quote = _write(company, rng, add_deal(company, rng, "Quote"), offer, "Needs Review")
        query = f"{rng.pick(wordings)} Answer with the Id of the article that it breaks, and nothing else."
        drafts.append(TaskDraft(query, _RULES.format(quote=quote, title=title), (gold,)))
    return drafts


def _good_offer(rng: SeededRandom, book: Rulebook, without: Rule | None = None) -> Offer:
    """Return an offer that keeps every rule.

    :param without: the rule that is going to be broken, so that nothing here is about it.
    """
    while True:
        lines = [
            (product, rng.between(3, 10), rng.pick((0, 5, 10, 20, MOST_DISCOUNT)))
            for product in rng.sample(book.plain, rng.between(2, 3))
        ]
        if Offer(lines, 0).total > LEAST_TOTAL:
            break
    offer = Offer(lines, rng.between(20, MOST_DAYS))
    other = rng.pick([rule for rule in book.configurations if rule != without])
    if other.keep_it and rng.chance(0.6):
        other.keep_it(rng, offer)
    return offer


def fill_quotes(company: Company, book: Rulebook) -> None:
    """Make the other quotes, all within the rules, and count the accepted ones by agent."""
    rng = SeededRandom(company.seed, "quotes")
    deals = [deal for deal in company.deals if deal.signed]
    for _ in range(max(20, QUOTES - company.tables.count("Quote"))):
        status = rng.pick(("Accepted", "Accepted", "Rejected", "Presented", "Draft"))
        add_quote(company, rng, book, rng.pick(deals), status)


def add_quote(company: Company, rng: SeededRandom, book: Rulebook, deal: Deal, status: str) -> None:
    """Make one quote that keeps the rules."""
    _write(company, rng, deal, _good_offer(rng, book), status)
    if status == "Accepted":
        company.accepted[deal.owner] = company.accepted.get(deal.owner, 0) + 1


def _write(company: Company, rng: SeededRandom, deal: Deal, offer: Offer, status: str) -> str:
    tables = company.tables
    created = deal.created + timedelta(days=rng.between(5, 30))
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


def plant_lead_ties(company: Company, book: Rulebook) -> None:
    """Make one agent ahead by accepted quotes in every second territory, and two equal in the others."""
    rng = SeededRandom(company.seed, "lead ties")
    for number, territory in enumerate(company.territories):
        ranked = sorted(territory.agents, key=lambda agent: (-company.accepted.get(agent, 0), agent))
        first, second = ranked[:2]
        ahead = company.accepted.get(first, 0) - company.accepted.get(second, 0)
        if number % 2 == 0 and ahead == 0:
            _accept(company, rng, book, first, 1)
        elif number % 2 == 1:
            _accept(company, rng, book, second, ahead)


def _accept(company: Company, rng: SeededRandom, book: Rulebook, owner: str, count: int) -> None:
    own = [deal for deal in company.deals if deal.owner == owner]
    for _ in range(count):
        add_quote(company, rng, book, rng.pick(own), "Accepted")
