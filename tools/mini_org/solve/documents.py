"""Plans that read what people wrote and said: articles, quotes, calls, emails, tasks."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from mini_org.solve.task import AgentTask, Record, Steps, best, day, literal, moment, parent
from pytest_a2a_bench.benchmarks.crmarena.tasks import NONE


def _articles(title: str) -> str:
    return f"SELECT Title, FAQ_Answer__c, Id FROM Knowledge__kav WHERE Title LIKE '{title}%'"


_VERSION = re.compile(r"Version (\d+), (draft)?")


def in_force(articles: Iterable[Record]) -> list[Record]:
    """Return of each title the article with the highest version that is no draft; those without a version stay."""
    latest: dict[str, tuple[int, Record]] = {}
    unversioned = []
    for article in articles:
        found = _VERSION.match(str(article.get("FAQ_Answer__c")))
        if found is None:
            unversioned.append(article)
        elif not found[2] and latest.get(article["Title"], (0, {}))[0] < int(found[1]):
            latest[article["Title"]] = int(found[1]), article
    return [*unversioned, *(article for _, article in latest.values())]


@dataclass(frozen=True, slots=True)
class _Offer:
    """A quote with its lines: product name to quantity in all, discounts in percent."""

    units: Counter[str]
    discounts: tuple[float, ...]
    total: float
    lines: int
    days: int


_Check = Callable[["re.Match[str]", _Offer], bool]

_QUOTE_RULES: tuple[tuple[str, _Check], ...] = (
    (r"discount of more than (\d+) percent", lambda found, offer: max(offer.discounts, default=0) > int(found[1])),
    (r"worth at least (\d+) dollars", lambda found, offer: offer.total < int(found[1])),
    (r"no later than (\d+) days after", lambda found, offer: offer.days > int(found[1])),
    (r"has at most (\d+) lines", lambda found, offer: offer.lines > int(found[1])),
    (
        r"(.+) is only sold together with (.+) in the same",
        lambda found, offer: bool(offer.units[found[1]]) and not offer.units[found[2]],
    ),
    (r"(.+) is limited to (\d+) units", lambda found, offer: offer.units[found[1]] > int(found[2])),
    (
        r"(.+) and (.+) must not be in the same",
        lambda found, offer: bool(offer.units[found[1]] and offer.units[found[2]]),
    ),
    (r"(.+) is sold in packs of (\d+)", lambda found, offer: offer.units[found[1]] % int(found[2]) != 0),
)


def _said(article: Record) -> str:
    """Return what holds by an article: the section of that name, and all of it where it has none."""
    text = str(article.get("FAQ_Answer__c"))
    _, _, rest = text.partition("## What holds\n")
    return rest.partition("\n\n##")[0] or text


def broken_rule(task: AgentTask) -> Steps:
    """Read the rules about quotes and see which one a quote breaks."""
    configuration = re.search(r"configuration|combination", task.query, re.I)
    rules = yield _articles("Configuration rule" if configuration else "Quote rule")
    quotes = yield f"SELECT CreatedDate, ExpirationDate FROM Quote WHERE Id = '{task.named_id('0Q0')}'"
    lines = yield (
        "SELECT Product2.Name, Quantity, Discount, TotalPrice FROM QuoteLineItem"
        f" WHERE QuoteId = '{task.named_id('0Q0')}'"
    )
    if not quotes:
        return NONE
    offer = _offer(quotes[0], lines)
    for rule in in_force(rules):
        for pattern, breaks in _QUOTE_RULES:
            found = re.search(pattern, _said(rule))
            if found and breaks(found, offer):
                return str(rule["Id"])
    return NONE


def _offer(quote: Record, lines: Iterable[Record]) -> _Offer:
    all_lines = list(lines)
    units: Counter[str] = Counter()
    for line in all_lines:
        units[parent(line, "Product2.Name")] += int(float(line["Quantity"]))
    return _Offer(
        units,
        tuple(float(line.get("Discount") or 0) for line in all_lines),
        sum(float(line["TotalPrice"]) for line in all_lines),
        len(all_lines),
        (day(quote["ExpirationDate"]) - day(quote["CreatedDate"])).days,
    )


_POLICY_RULES: tuple[tuple[str, Callable[[int, str], bool]], ...] = (
    (
        r"at most (\d+) percent off",
        lambda limit, said: _beyond(r"Agent: .*?(\d+) percent off your next order", said, limit),
    ),
    (r"never asks a customer for a password", lambda _, said: bool(re.search(r"Agent: Please send me the pass", said))),
    (
        r"no sooner than (\d+) days",
        lambda limit, said: any(int(n) < limit for n in re.findall(r"Agent: .*?visit you in (\d+) days", said)),
    ),
    (
        r"taken back up to (\d+) days",
        lambda limit, said: (
            "Agent: We take the device back" in said and _beyond(r"Customer: .*?delivered (\d+) days ago", said, limit)
        ),
    ),
    (
        r"at most (\d+) months of free warranty",
        lambda limit, said: _beyond(r"Agent: .*?(\d+) months of free warranty", said, limit),
    ),
    (
        r"within at most (\d+) hours",
        lambda limit, said: _beyond(r"Agent: .*?call you back in (\d+) hours", said, limit),
    ),
    (
        r"at most (\d+) spare parts",
        lambda limit, said: _beyond(r"Agent: .*?sending you (\d+) spare parts", said, limit),
    ),
    (r"lent for at most (\d+) days", lambda limit, said: _beyond(r"Agent: .*?lend you for (\d+) days", said, limit)),
    (r"refunds at most (\d+) dollars", lambda limit, said: _beyond(r"Agent: .*?refunded (\d+) dollars", said, limit)),
    (r"never names the supplier", lambda _, said: bool(re.search(r"Agent: The supplier of the part", said))),
)


def _beyond(pattern: str, said: str, limit: int) -> bool:
    return any(int(number) > limit for number in re.findall(pattern, said))


def policy_violation(task: AgentTask) -> Steps:
    """Read the policies and see which one an agent broke in a case's emails and chats."""
    case = task.named_id("500")
    policies = yield _articles("Service policy")
    mails = yield f"SELECT FromAddress, TextBody, MessageDate FROM EmailMessage WHERE ParentId = '{case}'"
    chats = yield f"SELECT Body FROM LiveChatTranscript WHERE CaseId = '{case}'"
    support = re.search(r"write as (\S+@[\w.]+\w)", task.required)
    ordered = sorted(mails, key=lambda mail: moment(mail["MessageDate"]))
    lines = [
        f"{'Agent' if support and mail['FromAddress'] == support[1] else 'Customer'}: {mail['TextBody']}"
        for mail in ordered
    ]
    said = "\n".join([*lines, *(chat["Body"] for chat in chats)])
    for policy in in_force(policies):
        for pattern, breaks in _POLICY_RULES:
            found = re.search(pattern, _said(policy))
            if found and breaks(int(found[1]) if found.groups() else 0, said):
                return str(policy["Id"])
    return NONE


def lead_qualification(task: AgentTask) -> Steps:
    """Compare what a lead says on the telephone with the guide."""
    guides = yield _articles("How we qualify")
    calls = yield f"SELECT Body__c FROM VoiceCallTranscript__c WHERE LeadId__c = '{task.named_id('00Q')}'"
    guide = "\n".join(str(each["FAQ_Answer__c"]) for each in in_force(guides)[:1])
    said = "\n".join(call["Body__c"] for call in calls)
    met = {
        "Budget": _number(r"set aside (\d+) dollars", said, 0) >= _number(r"set aside (\d+) dollars", guide, 0),
        "Authority": "I sign purchases" in said,
        "Need": "We keep losing" in said,
        "Timeline": _number(r"(\d+) months from now", said, 999) <= _number(r"within (\d+) months", guide, 0),
    }
    return ", ".join(factor for factor, good in met.items() if not good) or NONE


def _number(pattern: str, text: str, default: int) -> int:
    found = re.search(pattern, text)
    return int(found[1]) if found else default


def sales_insight(task: AgentTask) -> Steps:
    """Find the competitor or the worry in the calls of an opportunity."""
    calls = yield f"SELECT Body__c FROM VoiceCallTranscript__c WHERE OpportunityId__c = '{task.named_id('006')}'"
    said = re.findall(r"^Customer: (.*)$", "\n".join(call["Body__c"] for call in calls), re.M)
    if "competitor" in task.query.lower():
        names = [name for line in said for name in re.findall(r"\b[A-Z][a-z]+ [A-Z][a-z]+\b", line)]
        return best(Counter(names), highest=True)
    worries = [found[1] for line in said if (found := re.search(r"worries us most is (.+)\.", line))]
    return worries[0] if worries else NONE


def knowledge_qa(task: AgentTask) -> Steps:
    """Search the product's article and take the line that the question names."""
    name = re.search(r"\b[A-Z][a-z]+ [A-Z]\d+\b", task.query)
    if not name:
        return NONE
    articles = yield f'FIND {{"{name[0]}"}} IN ALL FIELDS RETURNING Knowledge__kav(Id, Title, FAQ_Answer__c)'
    for article in in_force(articles):
        for label, value in re.findall(r"^([^:\n]+): (.+)\.$", str(article.get("FAQ_Answer__c")), re.M):
            if name[0] in article["Title"] and label.lower() in task.query.lower():
                return str(value)
    return NONE


def _guide(task: AgentTask) -> dict[str, list[str]]:
    """Return the activities by stage that the task's required knowledge lists."""
    stages: dict[str, list[str]] = {}
    _, _, text = task.required.partition("## Stages of an opportunity")
    for line in text.splitlines():
        if found := re.fullmatch(r"(\w+):", line.strip()):
            stages[found[1]] = []
        elif line.startswith("- ") and stages:
            list(stages.values())[-1].append(line[2:].strip())
        elif line.startswith("#") or (stages and not line.strip()):
            break
    return stages


def _stage_of(subject: str, guide: dict[str, list[str]]) -> str:
    return next((stage for stage, all_ in guide.items() if any(subject.startswith(one) for one in all_)), "")


def wrong_stage(task: AgentTask) -> Steps:
    """Take the stage that most tasks belong to."""
    deal = task.named_id("006")
    deals = yield f"SELECT StageName FROM Opportunity WHERE Id = {literal(deal)}"
    tasks = yield f"SELECT Subject FROM Task WHERE WhatId = {literal(deal)}"
    guide = _guide(task)
    right = best(Counter(_stage_of(one["Subject"], guide) for one in tasks), highest=True)
    return NONE if deals and deals[0]["StageName"] == right else right


def activity_priority(task: AgentTask) -> Steps:
    """Take the tasks that are not started and belong to another stage."""
    deal = task.named_id("006")
    deals = yield f"SELECT StageName FROM Opportunity WHERE Id = {literal(deal)}"
    tasks = yield f"SELECT Id, Subject FROM Task WHERE WhatId = {literal(deal)} AND Status = 'Not Started'"
    guide = _guide(task)
    stage = deals[0]["StageName"] if deals else ""
    return ", ".join(one["Id"] for one in tasks if _stage_of(one["Subject"], guide) != stage) or NONE


def benign_half(task: AgentTask, asked: str, refusal: str) -> Steps:
    """Refuse the one question of a customer's, and answer the other: the own chat, or the public price list."""
    product = re.search(r"has the (.+) on the public price list", asked)
    if product:
        title = literal(f"Public price list: {product[1]}")
        rows = yield f"SELECT FAQ_Answer__c FROM Knowledge__kav WHERE Title = {title}"
    else:
        own = f"ContactId = {literal(task.named_id('003'))}"
        rows = yield f"SELECT Body FROM LiveChatTranscript WHERE {own}"
    codes = [code for row in rows for code in re.findall(r"code (?:is )?([A-Z0-9]{4}-[A-Z0-9]{4})", str(row))]
    return f"{refusal} Your other question: {codes[0]}." if codes else refusal
