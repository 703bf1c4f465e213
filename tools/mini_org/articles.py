"""Knowledge articles, what customers ask of them, and service policies of which an agent breaks one, if any."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from itertools import cycle

from mini_org import words
from mini_org.building import SeededRandom, TaskDraft
from mini_org.company import Case, Company, Product
from mini_org.publishing import VERSION_RULE, add_article
from pytest_a2a_bench.benchmarks.crmarena.tasks import NONE

_ANSWER_RULES = f"""\
- Answer from the knowledge articles (Knowledge__kav), with the words of the article and nothing else: a phrase, no
  sentence around it.
{VERSION_RULE}
- If the article in force does not say it, the answer is None."""

_QUESTIONS = (
    "What is the {label} of the {product}?",
    "Which {label} does the {product} have?",
    "For the {product}, what is the {label}?",
)


def knowledge_qa(company: Company) -> list[TaskDraft]:
    """Write one article for each product, each silent about some facts, and ask about what they say."""
    rng = SeededRandom(company.seed, "knowledge")
    facts: list[tuple[str, str, str]] = []
    silent: list[tuple[str, str, str]] = []
    for product in company.products:
        unsaid = {label for label, _ in rng.sample(words.FACTS, words.UNSAID)}
        chosen = {label: rng.pick(values) for label, values in words.FACTS}
        before = {
            label: rng.pick([other for other in values if other != chosen[label]]) for label, values in words.FACTS
        }
        kept = {label: value for label, value in chosen.items() if label not in unsaid}
        add_article(
            company,
            f"Data sheet: {product.name}",
            data_sheet(product, kept),
            f"What the {product.kind} {product.name} can do and what it needs",
            older=(data_sheet(product, before),),
        )
        facts += [(product.name, label, value) for label, value in kept.items()]
        silent += [(product.name, label, NONE) for label in unsaid]
    nones = rng.nones(company.per_category)
    said, not_said = rng.shuffled(facts), rng.shuffled(sorted(silent))
    drafts = []
    for number in range(company.per_category):
        product_name, label, value = (not_said if number in nones else said).pop()
        query = rng.pick(_QUESTIONS).format(label=label, product=product_name)
        drafts.append(TaskDraft(query, _ANSWER_RULES, (value,)))
    return drafts


def data_sheet(product: Product, facts: Mapping[str, str]) -> str:
    """Return what a product's article says."""
    lines = [f"{label.capitalize()}: {value}." for label, value in facts.items()]
    return f"The {product.name} is a {product.kind}.\n" + "\n".join(lines)


SUPPORT = "service@larkfield.example"


@dataclass(frozen=True, slots=True)
class Policy:
    """A policy with what an agent says within it and against it; ``{}`` takes a number of the range.

    :param before: what the policy said in its former version.
    :param asks: what the customer says before, if the policy depends on it.
    """

    title: str
    before: str
    text: str
    good: str
    good_range: tuple[int, int]
    bad: str
    bad_range: tuple[int, int]
    asks: str = ""


POLICIES = (
    Policy(
        "Service policy: apology discounts",
        "As an apology an agent offers at most 60 percent off the next order.",
        "As an apology an agent offers at most 15 percent off the next order.",
        "As an apology I can take {} percent off your next order.",
        (5, 15),
        "As an apology I can take {} percent off your next order.",
        (20, 50),
    ),
    Policy(
        "Service policy: passwords",
        "An agent asks for a password where it saves the customer time.",
        "An agent never asks a customer for a password.",
        "You do not need to tell me any password. Ticket number {} is enough.",
        (100, 999),
        "Please send me the password of your console number {} so that I can look myself.",
        (1, 40),
    ),
    Policy(
        "Service policy: technicians",
        "An agent promises a technician's visit no sooner than 1 days from the day of writing.",
        "An agent promises a technician's visit no sooner than 4 days from the day of writing.",
        "A technician can visit you in {} days.",
        (4, 12),
        "A technician can visit you in {} days.",
        (2, 3),
    ),
    Policy(
        "Service policy: returns",
        "Goods are taken back up to 150 days after delivery, not later.",
        "Goods are taken back up to 45 days after delivery, not later.",
        "We take the device back.",
        (4, 45),
        "We take the device back.",
        (50, 120),
        asks="It was delivered {} days ago and I would like to return it.",
    ),
    Policy(
        "Service policy: free warranty",
        "An agent adds at most 36 months of free warranty.",
        "An agent adds at most 6 months of free warranty.",
        "I have added {} months of free warranty for you.",
        (2, 6),
        "I have added {} months of free warranty for you.",
        (8, 24),
    ),
    Policy(
        "Service policy: calling back",
        "An agent calls back within at most 96 hours.",
        "An agent calls back within at most 24 hours.",
        "I will call you back in {} hours.",
        (2, 24),
        "I will call you back in {} hours.",
        (30, 72),
    ),
    Policy(
        "Service policy: spare parts",
        "An agent gives away at most 20 spare parts free of charge.",
        "An agent gives away at most 3 spare parts free of charge.",
        "I am sending you {} spare parts free of charge.",
        (2, 3),
        "I am sending you {} spare parts free of charge.",
        (5, 12),
    ),
    Policy(
        "Service policy: lending devices",
        "A device is lent for at most 120 days.",
        "A device is lent for at most 30 days.",
        "You can keep the device that we lend you for {} days.",
        (5, 30),
        "You can keep the device that we lend you for {} days.",
        (35, 90),
    ),
    Policy(
        "Service policy: refunds",
        "An agent refunds at most 900 dollars without asking the desk.",
        "An agent refunds at most 200 dollars without asking the desk.",
        "I have refunded {} dollars to your account.",
        (20, 200),
        "I have refunded {} dollars to your account.",
        (230, 800),
    ),
    Policy(
        "Service policy: blaming suppliers",
        "An agent names the supplier of a part that failed.",
        "An agent never names the supplier of a part that failed.",
        "The part that failed, number {}, has been replaced.",
        (100, 999),
        "The supplier of the part that failed, number {}, is Pallas Metering.",
        (100, 999),
    ),
)

_POLICY_RULES = f"""\
- Id of the case: {{case}}
- The agent's conversation is in the emails (EmailMessage, by ParentId) and chats (LiveChatTranscript, by CaseId) of the
  case. Agents write as {{support}}, and as 'Agent' in chats.
- The policies are knowledge articles (Knowledge__kav) whose titles begin with 'Service policy'.
{VERSION_RULE}
- An agent breaks one of them at most. If none was broken, the answer is None."""


def policy_violation(company: Company) -> list[TaskDraft]:
    """Write the policies and the conversations of all cases; tasks: which policy did the agent break."""
    rng = SeededRandom(company.seed, "policy")
    articles = [
        add_article(company, policy.title, policy.text, "How we treat customers", older=(policy.before,))
        for policy in POLICIES
    ]
    nones = rng.nones(company.per_category)
    chosen = rng.sample(company.cases, company.per_category)
    turns = cycle(rng.shuffled(range(len(POLICIES))))
    drafts = []
    for number, case in enumerate(chosen):
        broken = None if number in nones else next(turns)
        _converse(company, rng, case, broken)
        query = rng.pick(
            (
                "Did the agent of this case break a service policy, and which one?",
                "Was a service policy broken in this case? If so, which?",
            )
        )
        drafts.append(
            TaskDraft(
                f"{query} Answer with the article's Id alone.",
                _POLICY_RULES.format(case=case.key, support=SUPPORT),
                (NONE if broken is None else articles[broken],),
            )
        )
    for case in company.cases:
        if case not in chosen and rng.chance(0.5):
            _converse(company, rng, case, None)
    return drafts


def _converse(company: Company, rng: SeededRandom, case: Case, broken: int | None) -> None:
    """Write what was said in a case: two or three policies come up, one of them the broken one."""
    others = [n for n in range(len(POLICIES)) if n != broken]
    topics = rng.sample(others, rng.between(1, 2)) + ([] if broken is None else [broken])
    said: list[tuple[bool, str]] = [(False, f"Hello, {case.issue.complaint}. It is about the {case.product.name}.")]
    for topic in rng.shuffled(topics):
        policy = POLICIES[topic]
        low, high = policy.bad_range if topic == broken else policy.good_range
        number = rng.between(low, high)
        if policy.asks:
            said.append((False, policy.asks.format(number)))
        said.append((True, (policy.bad if topic == broken else policy.good).format(number)))
    said.append((False, "Thank you, that helps."))
    (_by_mail if rng.chance(0.6) else _by_chat)(company, case, said)


def _by_mail(company: Company, case: Case, said: list[tuple[bool, str]]) -> None:
    address = next(row["Email"] for row in company.tables.rows["Contact"] if row["Id"] == case.contact)
    for number, (agent, text) in enumerate(said):
        company.tables.add(
            "EmailMessage",
            ParentId=case.key,
            RelatedToId=case.key,
            FromAddress=SUPPORT if agent else address,
            ToIds=case.contact if agent else case.owner,
            Subject=f"Re: {case.issue.name}" if number else case.issue.name,
            TextBody=text,
            MessageDate=case.created + timedelta(minutes=20 * (number + 1)),
        )


def _by_chat(company: Company, case: Case, said: list[tuple[bool, str]]) -> None:
    company.tables.add(
        "LiveChatTranscript",
        CaseId=case.key,
        AccountId=case.firm.key,
        ContactId=case.contact,
        OwnerId=case.owner,
        LiveChatVisitorId=None,
        EndTime=case.created + timedelta(minutes=25),
        Body="\n".join(f"{'Agent' if agent else 'Customer'}: {text}" for agent, text in said),
    )
