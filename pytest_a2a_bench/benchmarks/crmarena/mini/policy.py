"""Service policy: conversations of agents with customers, and the one article that an agent broke, if any."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta

from pytest_a2a_bench.benchmarks.crmarena.mini.articles import add_article
from pytest_a2a_bench.benchmarks.crmarena.mini.dice import Dice
from pytest_a2a_bench.benchmarks.crmarena.mini.draft import Draft
from pytest_a2a_bench.benchmarks.crmarena.mini.plan import Case, World
from pytest_a2a_bench.benchmarks.crmarena.tasks import NONE

SUPPORT = "service@larkfield.example"


@dataclass(frozen=True, slots=True)
class Policy:
    """A policy with what an agent says within it and against it; ``{}`` takes a number of the range.

    :param asks: what the customer says before, if the policy depends on it.
    """

    title: str
    text: str
    good: str
    good_range: tuple[int, int]
    bad: str
    bad_range: tuple[int, int]
    asks: str = ""


POLICIES = (
    Policy(
        "Service policy: apology discounts",
        "As an apology an agent offers at most 15 percent off the next order.",
        "As an apology I can take {} percent off your next order.",
        (5, 15),
        "As an apology I can take {} percent off your next order.",
        (20, 50),
    ),
    Policy(
        "Service policy: passwords",
        "An agent never asks a customer for a password.",
        "You do not need to tell me any password. Ticket number {} is enough.",
        (100, 999),
        "Please send me the password of your console number {} so that I can look myself.",
        (1, 40),
    ),
    Policy(
        "Service policy: technicians",
        "An agent promises a technician's visit no sooner than 4 days from the day of writing.",
        "A technician can visit you in {} days.",
        (4, 12),
        "A technician can visit you in {} days.",
        (2, 3),
    ),
    Policy(
        "Service policy: returns",
        "Goods are taken back up to 45 days after delivery, not later.",
        "We take the device back.",
        (4, 45),
        "We take the device back.",
        (50, 120),
        asks="It was delivered {} days ago and I would like to return it.",
    ),
    Policy(
        "Service policy: free warranty",
        "An agent adds at most 6 months of free warranty.",
        "I have added {} months of free warranty for you.",
        (2, 6),
        "I have added {} months of free warranty for you.",
        (8, 24),
    ),
)

_RULES = """\
- Id of the case: {case}
- The agent's conversation is in the emails (EmailMessage, by ParentId) and chats (LiveChatTranscript, by CaseId) of the
  case. Agents write as {support}, and as 'Agent' in chats.
- The policies are knowledge articles (Knowledge__kav) whose titles begin with 'Service policy'.
- An agent breaks one of them at most. If none was broken, the answer is None."""


def policy_violation(world: World) -> list[Draft]:
    """Write the policies and the conversations of all cases; tasks: which policy did the agent break."""
    dice = Dice(world.seed, "policy")
    articles = [add_article(world, policy.title, policy.text, "How we treat customers") for policy in POLICIES]
    nones = dice.nones(world.per_category)
    chosen = dice.sample(world.cases, world.per_category)
    drafts = []
    for number, case in enumerate(chosen):
        broken = None if number in nones else dice.below(len(POLICIES))
        _converse(world, dice, case, broken)
        query = dice.pick(
            (
                "Did the agent of this case break a service policy, and which one?",
                "Was a service policy broken in this case? If so, which?",
            )
        )
        drafts.append(
            Draft(
                f"{query} Answer with the article's Id alone.",
                _RULES.format(case=case.key, support=SUPPORT),
                (NONE if broken is None else articles[broken],),
            )
        )
    for case in world.cases:
        if case not in chosen and dice.chance(0.5):
            _converse(world, dice, case, None)
    return drafts


def _converse(world: World, dice: Dice, case: Case, broken: int | None) -> None:
    """Write what was said in a case: two or three policies come up, one of them the broken one."""
    others = [n for n in range(len(POLICIES)) if n != broken]
    topics = dice.sample(others, dice.between(1, 2)) + ([] if broken is None else [broken])
    said: list[tuple[bool, str]] = [(False, f"Hello, {case.issue.complaint}. It is about the {case.product.name}.")]
    for topic in dice.shuffled(topics):
        policy = POLICIES[topic]
        low, high = policy.bad_range if topic == broken else policy.good_range
        number = dice.between(low, high)
        if policy.asks:
            said.append((False, policy.asks.format(number)))
        said.append((True, (policy.bad if topic == broken else policy.good).format(number)))
    said.append((False, "Thank you, that helps."))
    (_by_mail if dice.chance(0.6) else _by_chat)(world, case, said)


def _by_mail(world: World, case: Case, said: list[tuple[bool, str]]) -> None:
    address = next(row["Email"] for row in world.tables.rows["Contact"] if row["Id"] == case.contact)
    for number, (agent, text) in enumerate(said):
        world.tables.add(
            "EmailMessage",
            ParentId=case.key,
            RelatedToId=case.key,
            FromAddress=SUPPORT if agent else address,
            ToIds=case.contact if agent else case.owner,
            Subject=f"Re: {case.issue.name}" if number else case.issue.name,
            TextBody=text,
            MessageDate=case.created + timedelta(minutes=20 * (number + 1)),
        )


def _by_chat(world: World, case: Case, said: list[tuple[bool, str]]) -> None:
    world.tables.add(
        "LiveChatTranscript",
        CaseId=case.key,
        AccountId=case.firm.key,
        ContactId=case.contact,
        OwnerId=case.owner,
        LiveChatVisitorId=None,
        EndTime=case.created + timedelta(minutes=25),
        Body="\n".join(f"{'Agent' if agent else 'Customer'}: {text}" for agent, text in said),
    )
