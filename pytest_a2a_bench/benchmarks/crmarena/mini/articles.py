"""Knowledge articles, what customers ask of them, and service policies of which an agent breaks one, if any."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta

from pytest_a2a_bench.benchmarks.crmarena.mini import words
from pytest_a2a_bench.benchmarks.crmarena.mini.building import SeededRandom, TaskDraft
from pytest_a2a_bench.benchmarks.crmarena.mini.company import Case, Company
from pytest_a2a_bench.benchmarks.crmarena.tasks import NONE


def add_article(company: Company, title: str, answer: str, summary: str) -> str:
    """Write one article and return its id."""
    return company.tables.add(
        "Knowledge__kav",
        Title=title,
        FAQ_Answer__c=answer,
        Summary=summary,
        UrlName="-".join("".join(char if char.isalnum() else " " for char in title.lower()).split()),
    )


_ANSWER_RULES = """\
- Answer from the knowledge articles (Knowledge__kav), with the words of the article and nothing else: a phrase, no
  sentence around it."""

_QUESTIONS = (
    "What is the {label} of the {product}?",
    "Which {label} does the {product} have?",
    "For the {product}, what is the {label}?",
)


def knowledge_qa(company: Company) -> list[TaskDraft]:
    """Write one article for each product and ask about what they say."""
    rng = SeededRandom(company.seed, "knowledge")
    facts: list[tuple[str, str, str]] = []
    for product in company.products:
        chosen = {label: rng.pick(values) for label, values in words.FACTS}
        lines = [f"{label.capitalize()}: {value}." for label, value in chosen.items()]
        add_article(
            company,
            f"Data sheet: {product.name}",
            f"The {product.name} is a {product.kind}.\n" + "\n".join(lines),
            f"What the {product.kind} {product.name} can do and what it needs",
        )
        facts += [(product.name, label, value) for label, value in chosen.items()]
    drafts = []
    for product_name, label, value in rng.sample(facts, company.per_category):
        query = rng.pick(_QUESTIONS).format(label=label, product=product_name)
        drafts.append(TaskDraft(query, _ANSWER_RULES, (value,)))
    return drafts


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

_POLICY_RULES = """\
- Id of the case: {case}
- The agent's conversation is in the emails (EmailMessage, by ParentId) and chats (LiveChatTranscript, by CaseId) of the
  case. Agents write as {support}, and as 'Agent' in chats.
- The policies are knowledge articles (Knowledge__kav) whose titles begin with 'Service policy'.
- An agent breaks one of them at most. If none was broken, the answer is None."""


def policy_violation(company: Company) -> list[TaskDraft]:
    """Write the policies and the conversations of all cases; tasks: which policy did the agent break."""
    rng = SeededRandom(company.seed, "policy")
    articles = [add_article(company, policy.title, policy.text, "How we treat customers") for policy in POLICIES]
    nones = rng.nones(company.per_category)
    chosen = rng.sample(company.cases, company.per_category)
    drafts = []
    for number, case in enumerate(chosen):
        broken = None if number in nones else rng.below(len(POLICIES))
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
