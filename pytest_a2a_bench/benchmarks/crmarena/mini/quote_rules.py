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


@dataclass(frozen=True, slots=True)
class Rule:
    """An article's id and the change to an offer that breaks it, and no other rule.

    :param keep_it: a change that the rule is about and allows, so that a product's presence alone says nothing.
    """

    article: str
    break_it: Callable[[Dice, Offer], None]
    keep_it: Callable[[Dice, Offer], None] | None = None


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

    def paired(dice: Dice, offer: Offer) -> None:
        offer.lines += [(main, dice.between(1, 4), 0), (partner, dice.between(1, 4), 0)]

    def few(dice: Dice, offer: Offer) -> None:
        offer.lines.append((scarce, dice.between(1, MOST_UNITS), 0))

    def apart(dice: Dice, offer: Offer) -> None:
        offer.lines.append((dice.pick((left, right)), dice.between(1, 4), 0))

    def whole(dice: Dice, offer: Offer) -> None:
        offer.lines.append((packed, PACK * dice.between(1, 4), 0))

    return (
        Rule(
            add_article(
                world,
                f"Configuration rule: {main.name}",
                f"{main.name} is only sold together with {partner.name} in the same quote.",
                "Without it the device cannot be read.",
            ),
            alone,
            paired,
        ),
        Rule(
            add_article(
                world,
                f"Configuration rule: {scarce.name}",
                f"{scarce.name} is limited to {MOST_UNITS} units in one quote.",
                "The workshop builds it by hand.",
            ),
            many,
            few,
        ),
        Rule(
            add_article(
                world,
                f"Configuration rule: {left.name} and {right.name}",
                f"{left.name} and {right.name} must not be in the same quote.",
                "They disturb each other's signals.",
            ),
            together,
            apart,
        ),
        Rule(
            add_article(
                world,
                f"Configuration rule: packs of {packed.name}",
                f"{packed.name} is sold in packs of {PACK}: its quantity is a multiple of {PACK}.",
                "The packs are sealed at the workshop.",
            ),
            loose,
            whole,
        ),
    )
