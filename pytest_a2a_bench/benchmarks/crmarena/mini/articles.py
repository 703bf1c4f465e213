"""Knowledge articles, and the questions that customers ask of them."""

from __future__ import annotations

from pytest_a2a_bench.benchmarks.crmarena.mini import words
from pytest_a2a_bench.benchmarks.crmarena.mini.dice import Dice
from pytest_a2a_bench.benchmarks.crmarena.mini.draft import Draft
from pytest_a2a_bench.benchmarks.crmarena.mini.plan import World


def add_article(world: World, title: str, answer: str, summary: str) -> str:
    """Write one article and return its id."""
    return world.tables.add(
        "Knowledge__kav",
        Title=title,
        FAQ_Answer__c=answer,
        Summary=summary,
        UrlName="-".join("".join(char if char.isalnum() else " " for char in title.lower()).split()),
    )


_RULES = """\
- Answer from the knowledge articles (Knowledge__kav), with the words of the article and nothing else: a phrase, no
  sentence around it."""

_QUESTIONS = (
    "What is the {label} of the {product}?",
    "Which {label} does the {product} have?",
    "For the {product}, what is the {label}?",
)


def knowledge_qa(world: World) -> list[Draft]:
    """Write one article for each product and ask about what they say."""
    dice = Dice(world.seed, "knowledge")
    facts: list[tuple[str, str, str]] = []
    for product in world.products:
        chosen = {label: dice.pick(values) for label, values in words.FACTS}
        lines = [f"{label.capitalize()}: {value}." for label, value in chosen.items()]
        add_article(
            world,
            f"Data sheet: {product.name}",
            f"The {product.name} is a {product.kind}.\n" + "\n".join(lines),
            f"What the {product.kind} {product.name} can do and what it needs",
        )
        facts += [(product.name, label, value) for label, value in chosen.items()]
    drafts = []
    for product_name, label, value in dice.sample(facts, world.per_category):
        query = dice.pick(_QUESTIONS).format(label=label, product=product_name)
        drafts.append(Draft(query, _RULES, (value,)))
    return drafts
