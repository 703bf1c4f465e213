"""The articles that rule the prices and configurations of quotes, and how an offer keeps or breaks each."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from pytest_a2a_bench.benchmarks.crmarena.mini.articles import add_article
from pytest_a2a_bench.benchmarks.crmarena.mini.dice import Dice
from pytest_a2a_bench.benchmarks.crmarena.mini.plan import Product, World

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


Change = Callable[[Dice, Offer], None]
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


def write_rules(world: World) -> Rulebook:
    """Write the articles; which products they are about depends on the seed."""
    chosen = Dice(world.seed, "quote rules").sample(world.products, 6)
    return Rulebook(
        _price_rules(world),
        _configuration_rules(world, chosen),
        tuple(product for product in world.products if product not in chosen),
    )


def _price_rules(world: World) -> tuple[Rule, ...]:
    return (
        _rule(
            world,
            "Quote rule: discounts",
            f"No line of a quote carries a discount of more than {MOST_DISCOUNT} percent.",
            "Larger discounts eat the margin of the smaller devices.",
            _give_too_much,
        ),
        _rule(
            world,
            "Quote rule: smallest quote",
            f"A quote is worth at least {LEAST_TOTAL} dollars, adding up the total prices of its lines.",
            "Smaller purchases go through the dealers.",
            _leave_one_device,
        ),
        _rule(
            world,
            "Quote rule: validity",
            f"A quote expires no later than {MOST_DAYS} days after the day of its creation.",
            "Prices of metals change too fast for longer promises.",
            _hold_too_long,
        ),
        _rule(
            world,
            "Quote rule: length",
            f"A quote has at most {MOST_LINES} lines.",
            "Longer ones are split by building.",
            _add_lines,
        ),
    )


def _rule(world: World, title: str, text: str, why: str, break_it: Change, keep_it: Change | None = None) -> Rule:
    return Rule(add_article(world, title, text, why), break_it, keep_it)


def _give_too_much(dice: Dice, offer: Offer) -> None:
    product, quantity, _ = offer.lines[0]
    offer.lines[0] = (product, quantity, MOST_DISCOUNT + dice.between(3, 20))


def _leave_one_device(_: Dice, offer: Offer) -> None:
    cheapest = min(offer.lines, key=lambda line: line[0].price)
    offer.lines = [(cheapest[0], 1, cheapest[2])]


def _hold_too_long(dice: Dice, offer: Offer) -> None:
    offer.days = MOST_DAYS + dice.between(5, 60)


def _add_lines(dice: Dice, offer: Offer) -> None:
    offer.lines += [(offer.lines[0][0], dice.between(1, 4), 0)] * (MOST_LINES + 2 - len(offer.lines))


def _configuration_rules(world: World, chosen: list[Product]) -> tuple[Rule, ...]:
    main, partner, scarce, left, right, packed = chosen
    return (
        _rule(
            world,
            f"Configuration rule: {main.name}",
            f"{main.name} is only sold together with {partner.name} in the same quote.",
            "Without it the device cannot be read.",
            _adding(main),
            _adding(main, partner),
        ),
        _rule(
            world,
            f"Configuration rule: {scarce.name}",
            f"{scarce.name} is limited to {MOST_UNITS} units in one quote.",
            "The workshop builds it by hand.",
            _adding(scarce, units=lambda dice: MOST_UNITS + dice.between(1, 9)),
            _adding(scarce, units=lambda dice: dice.between(1, MOST_UNITS)),
        ),
        _rule(
            world,
            f"Configuration rule: {left.name} and {right.name}",
            f"{left.name} and {right.name} must not be in the same quote.",
            "They disturb each other's signals.",
            _adding(left, right),
            _adding(right),
        ),
        _rule(
            world,
            f"Configuration rule: packs of {packed.name}",
            f"{packed.name} is sold in packs of {PACK}: its quantity is a multiple of {PACK}.",
            "The packs are sealed at the workshop.",
            _adding(packed, units=lambda dice: PACK * dice.between(1, 4) + dice.between(1, PACK - 1)),
            _adding(packed, units=lambda dice: PACK * dice.between(1, 4)),
        ),
    )


def _adding(*products: Product, units: Callable[[Dice], int] = lambda dice: dice.between(1, 4)) -> Change:
    """Return the change that adds a line of each product."""

    def change(dice: Dice, offer: Offer) -> None:
        offer.lines += [(product, units(dice), 0) for product in products]

    return change
