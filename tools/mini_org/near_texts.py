"""Rows that nearly count for tasks that name a record, or that read articles: records of the same name, and drafts."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from mini_org import words
from mini_org.near_rows import ENOUGH, Place
from mini_org.solve.documents import broken_rule
from pytest_a2a_bench.benchmarks.crmarena.tasks import NONE, STAGES


def _same_deal(at: Place) -> Mapping[str, Any]:
    deal = at.org.one("Opportunity", at.task.named_id("006"))
    twin = {name: deal[name] for name in ("Name", "AccountId", "OwnerId", "StageName", "CreatedDate", "CloseDate")}
    return {"Id": at.add("Opportunity", **twin), **twin}


def near_stage(at: Place) -> None:
    """Give an opportunity of the same name many tasks of another stage."""
    guide = re.findall(r"^(\w+):\n((?:- .*\n?)+)", at.task.required, re.M)
    activities = {stage: re.findall(r"- (.*)", listed) for stage, listed in guide}
    deal = _same_deal(at)
    stage = next(stage for stage in STAGES if stage not in (at.gold, deal["StageName"]))
    for number in range(ENOUGH):
        _task_row(at, deal["Id"], activities[stage][number % 5], "Not Started")


def near_activity(at: Place) -> None:
    """Make a task of another stage: of an opportunity of the same name, or one that is deferred."""
    guide = re.findall(r"^(\w+):\n((?:- .*\n?)+)", at.task.required, re.M)
    named = at.org.one("Opportunity", at.task.named_id("006"))
    stage = next(stage for stage in STAGES if stage != named["StageName"])
    listed = next(re.findall(r"- (.*)", listed) for name, listed in guide if name == stage)
    if at.miss.shortcut == "joins-by-name":
        _task_row(at, _same_deal(at)["Id"], listed[0], "Not Started")
    else:
        _task_row(at, named["Id"], listed[0], "Deferred")


def _task_row(at: Place, deal: str, subject: str, status: str) -> None:
    at.add("Task", WhatId=deal, Subject=subject, Status=status, Priority="High", ActivityDate=at.when)


def near_insight(at: Place) -> None:
    """Record calls of an opportunity of the same name."""
    deal = _same_deal(at)
    rival = next(name for name in words.COMPETITORS if name != at.gold)
    worry = next(worry for worry in words.WORRIES if worry != at.gold)
    lines = [f"Customer: We would rather have {rival}.", f"Customer: What worries us most is {worry}."]
    for _ in range(4):
        at.add("VoiceCallTranscript__c", Body__c="\n".join(lines), OpportunityId__c=deal["Id"], CreatedDate=at.moment)


def near_same_lead(at: Place) -> None:
    """Make a copy of the lead, with a call in which it says that it signs and needs devices."""
    lead = at.org.one("Lead", at.task.named_id("00Q"))
    twin = {name: lead[name] for name in ("FirstName", "LastName", "Company", "OwnerId", "CreatedDate")}
    key = at.add("Lead", **twin, IsConverted=True, Status="Duplicate")
    body = "Customer: I sign purchases like this one myself.\nCustomer: We keep losing batches."
    at.add("VoiceCallTranscript__c", Body__c=body, LeadId__c=key, CreatedDate=at.moment)


def near_same_quote(at: Place) -> None:
    """Make a quote of the same name with the lines of another, whose lines and its own together break another rule."""
    quote = at.org.one("Quote", at.task.named_id("0Q0"))
    lines: dict[str, list[Mapping[str, Any]]] = {}
    for row in at.org.rows["QuoteLineItem"]:
        lines.setdefault(row["QuoteId"], []).append(row)
    own = lines.pop(quote["Id"])
    donors = at.org.rng.shuffled(sorted(lines))
    donor = next((key for key in donors if _broken(at, quote, [*own, *lines[key]]) != at.gold), None)
    if donor is None:
        return
    twin = {name: quote[name] for name in ("Name", "AccountId", "OpportunityId", "CreatedDate", "ExpirationDate")}
    key = at.add("Quote", **twin, Status="Draft")
    for line in lines[donor]:
        at.add("QuoteLineItem", **{**line, "Id": None, "QuoteId": key})


def _broken(at: Place, quote: Mapping[str, Any], lines: Sequence[Mapping[str, Any]]) -> str | None:
    """Return which rule a quote would break with some lines, None if none."""
    names = {row["Id"]: row["Name"] for row in at.org.rows["Product2"]}
    steps = broken_rule(at.task)
    title = next(steps).partition("LIKE '")[2].removesuffix("%'")
    try:
        steps.send([row for row in at.org.rows["Knowledge__kav"] if str(row["Title"]).startswith(title)])
        steps.send([quote])
        steps.send([{**line, "Product2": {"Name": names[line["Product2Id"]]}} for line in lines])
    except StopIteration as end:
        return None if end.value == NONE else str(end.value)
    raise AssertionError("a quote takes three queries")


def near_draft(at: Place) -> None:
    """Write a draft of the article that the answer is, or that the answer is in, which says something else."""
    articles = at.org.rows["Knowledge__kav"]
    named = at.org.one("Knowledge__kav", at.gold or "")
    product = re.search(r"\b[A-Z][a-z]+ [A-Z]\d+\b", at.task.query)
    title = str(named["Title"]) if named else f"Data sheet: {product[0]}" if product else "How we qualify leads"
    last = [row for row in articles if row["Title"] == title][-1:]
    for row in last:
        head, _, rest = str(row["FAQ_Answer__c"]).partition("\n")
        number = int(re.findall(r"\d+", head)[0]) + 1
        body = rest if named else _contradict(rest, at.task.query)
        text = f"Version {number}, draft, not in force.\n{body}"
        at.add("Knowledge__kav", Title=title, FAQ_Answer__c=text, Summary=row["Summary"], UrlName=f"{row['UrlName']}-d")


def _contradict(body: str, query: str) -> str:
    """Return an article's text with other numbers and facts."""
    for label, values in words.FACTS:
        if label in query:
            said = re.search(rf"^{label.capitalize()}: (.*)\.$", body, re.M)
            other = next(value for value in values if not said or value != said[1])
            line = f"{label.capitalize()}: {other}."
            return body.replace(said[0], line) if said else body.replace("\n\n## How", f"\n{line}\n\n## How", 1)
    return re.sub(r"within \d+ months", "within 1 months", re.sub(r"\d+ dollars", "90000 dollars", body))
