"""Quotes, the articles that rule prices and configurations, and the tasks: which article does a quote break."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta

from pytest_a2a_bench.benchmarks.crmarena.mini.articles import add_article
from pytest_a2a_bench.benchmarks.crmarena.mini.dice import Dice
from pytest_a2a_bench.benchmarks.crmarena.mini.draft import Draft
from pytest_a2a_bench.benchmarks.crmarena.mini.plan import Deal, Product, World
from pytest_a2a_bench.benchmarks.crmarena.mini.sales import add_deal
from pytest_a2a_bench.benchmarks.crmarena.mini.words import COMPANY
from pytest_a2a_bench.benchmarks.crmarena.tasks import NONE

QUOTES = 70
MOST_DISCOUNT = 25
LEAST_TOTAL = 2000
MOST_DAYS = 60
MOST_LINES = 6
MOST_UNITS = 12
PACK = 5


@dataclass(slots=True)
class Offer:
    """A quote before it is written: lines of product, quantity and discount in percent."""

    lines: list[tuple[Product, int, int]]
    days: int


@dataclass(frozen=True, slots=True)
class Rule:
    """An article's id and the change to an offer that breaks it, and no other rule."""

    article: str
    break_it: Callable[[Dice, Offer], None]


@dataclass(frozen=True, slots=True)
class Rulebook:
    """All rules about quotes. ``plain`` are the products that no configuration rule is about."""

    prices: tuple[Rule, ...]
    configurations: tuple[Rule, ...]
    plain: tuple[Product, ...]


def write_rules(world: World) -> Rulebook:
    """Write the articles; which products they are about depends on the seed."""
    dice = Dice(world.seed, "quote rules")
    chosen = dice.sample(world.products, 6)
    return Rulebook(
        _price_rules(world),
        _configuration_rules(world, chosen),
        tuple(product for product in world.products if product not in chosen),
    )


def _price_rules(world: World) -> tuple[Rule, ...]:
    def discount(dice: Dice, offer: Offer) -> None:
        product, quantity, _ = offer.lines[0]
        offer.lines[0] = (product, quantity, MOST_DISCOUNT + dice.between(3, 20))

    def total(_: Dice, offer: Offer) -> None:
        cheapest = min(offer.lines, key=lambda line: line[0].price)
        offer.lines = [(cheapest[0], 1, cheapest[2])]

    def expiry(dice: Dice, offer: Offer) -> None:
        offer.days = MOST_DAYS + dice.between(5, 60)

    def length(dice: Dice, offer: Offer) -> None:
        offer.lines += [(offer.lines[0][0], dice.between(1, 4), 0)] * (MOST_LINES + 2 - len(offer.lines))

    return (
        Rule(
            add_article(
                world,
                "Quote rule: discounts",
                f"No line of a quote carries a discount of more than {MOST_DISCOUNT} percent.",
                "Larger discounts eat the margin of the smaller devices.",
            ),
            discount,
        ),
        Rule(
            add_article(
                world,
                "Quote rule: smallest quote",
                f"A quote is worth at least {LEAST_TOTAL} dollars, adding up the total prices of its lines.",
                "Smaller purchases go through the dealers.",
            ),
            total,
        ),
        Rule(
            add_article(
                world,
                "Quote rule: validity",
                f"A quote expires no later than {MOST_DAYS} days after the day of its creation.",
                "Prices of metals change too fast for longer promises.",
            ),
            expiry,
        ),
        Rule(
            add_article(
                world,
                "Quote rule: length",
                f"A quote has at most {MOST_LINES} lines.",
                "Longer ones are split by building.",
            ),
            length,
        ),
    )


def _configuration_rules(world: World, chosen: list[Product]) -> tuple[Rule, ...]:
    main, partner, scarce, left, right, packed = chosen

    def alone(dice: Dice, offer: Offer) -> None:
        offer.lines.append((main, dice.between(1, 4), 0))

    def many(dice: Dice, offer: Offer) -> None:
        offer.lines.append((scarce, MOST_UNITS + dice.between(1, 9), 0))

    def together(dice: Dice, offer: Offer) -> None:
        offer.lines += [(left, dice.between(1, 4), 0), (right, dice.between(1, 4), 0)]

    def loose(dice: Dice, offer: Offer) -> None:
        offer.lines.append((packed, PACK * dice.between(1, 4) + dice.between(1, PACK - 1), 0))

    return (
        Rule(
            add_article(
                world,
                f"Configuration rule: {main.name}",
                f"{main.name} is only sold together with {partner.name} in the same quote.",
                "Without it the device cannot be read.",
            ),
            alone,
        ),
        Rule(
            add_article(
                world,
                f"Configuration rule: {scarce.name}",
                f"{scarce.name} is limited to {MOST_UNITS} units in one quote.",
                "The workshop builds it by hand.",
            ),
            many,
        ),
        Rule(
            add_article(
                world,
                f"Configuration rule: {left.name} and {right.name}",
                f"{left.name} and {right.name} must not be in the same quote.",
                "They disturb each other's signals.",
            ),
            together,
        ),
        Rule(
            add_article(
                world,
                f"Configuration rule: packs of {packed.name}",
                f"{packed.name} is sold in packs of {PACK}: its quantity is a multiple of {PACK}.",
                "The packs are sealed at the workshop.",
            ),
            loose,
        ),
    )


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
        offer = _good_offer(dice, book)
        gold = NONE
        if number not in nones:
            rule = dice.pick(rules)
            rule.break_it(dice, offer)
            gold = rule.article
        quote = _write(world, dice, add_deal(world, dice, "Quote"), offer, "Needs Review")
        query = f"{dice.pick(wordings)} Answer with the Id of the article that it breaks, and nothing else."
        drafts.append(Draft(query, _RULES.format(quote=quote, title=title), (gold,)))
    return drafts


def _good_offer(dice: Dice, book: Rulebook) -> Offer:
    """Return an offer that keeps every rule, with room for one more line."""
    while True:
        lines = [
            (product, dice.between(3, 10), dice.pick((0, 5, 10, 20, MOST_DISCOUNT)))
            for product in dice.sample(book.plain, dice.between(2, 4))
        ]
        if (
            sum(product.price * quantity * (100 - discount) / 100 for product, quantity, discount in lines)
            > LEAST_TOTAL
        ):
            return Offer(lines, dice.between(20, MOST_DAYS))


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
        ExpirationDate=created.replace(hour=0, minute=0) + timedelta(days=offer.days),
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
