"""Whether a conversation looked where an answer would have been: what makes None an answer, and not a guess. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

from pytest_a2a_bench.benchmarks.crmarena.actions import Execute, Respond, read_action
from pytest_a2a_bench.benchmarks.crmarena.tasks import CrmTask
from pytest_a2a_bench.model import AgentSaid, Turn

NEEDED: Mapping[str, tuple[str, ...]] = {
    "handle_time": ("Case",),
    "transfer_count": ("CaseHistory__c",),
    "best_region_identification": ("Case",),
    "top_issue_identification": ("Case", "OrderItem"),
    "monthly_trend_analysis": ("Case", "OrderItem"),
    "case_routing": ("Case",),
    "named_entity_disambiguation": ("OrderItem",),
    "policy_violation_identification": ("Knowledge__kav",),
    "knowledge_qa": ("Knowledge__kav",),
    "sales_amount_understanding": ("OrderItem",),
    "sales_cycle_understanding": ("Opportunity",),
    "conversion_rate_comprehension": ("Lead",),
    "lead_routing": ("Territory2",),
    "lead_qualification": ("VoiceCallTranscript__c",),
    "quote_approval": ("Quote", "Knowledge__kav"),
    "invalid_config": ("QuoteLineItem", "Knowledge__kav"),
    "wrong_stage_rectification": ("Task",),
    "activity_priority": ("Task", "Opportunity"),
    "sales_insight_mining": ("VoiceCallTranscript__c",),
}
"""Category -> objects without which nobody can tell the answer, by whichever way: a related object's field, too."""

_NEARBY: Mapping[str, tuple[str, ...]] = {
    "transfer_count": ("Case",),
    "top_issue_identification": (),
    "monthly_trend_analysis": (),
    "case_routing": ("Product2", "Issue__c"),
    "named_entity_disambiguation": ("Order",),
    "sales_amount_understanding": ("Order",),
    "sales_cycle_understanding": ("Contract",),
    "lead_routing": ("UserTerritory2Association",),
    "activity_priority": (),
}
"""Categories in which it is enough that one of the needed objects, or of these, has nothing: no order, no item."""

COUNTED = frozenset(
    {"handle_time", "transfer_count", "best_region_identification", "top_issue_identification"}
    | {"monthly_trend_analysis", "sales_amount_understanding", "sales_cycle_understanding"}
    | {"conversion_rate_comprehension"}
)
"""Categories that ask for the most or the least of something, each of a period."""

_DATE = re.compile(
    r"\b\d{4}-\d{2}-\d{2}|\b(?:LAST|NEXT|THIS)_\w+|\b(?:TODAY|YESTERDAY)\b|\bN_\w+_AGO\b"
    r"|\b(?:CALENDAR|FISCAL|WEEK_IN|DAY_IN)_\w+\s*\(",
    re.I,
)
# What names no object: text that is looked for, and how rows are sorted (there is an object Order).
_NAMELESS = re.compile(r"'(?:\\.|[^'\\\n])*'|\{(?:\\.|[^{}\\\n])*\}|\bORDER\s+BY\b", re.I)
_ID = re.compile(r"\b(?=[A-Za-z]*\d)[0-9A-Za-z]{15}(?:[0-9A-Za-z]{3})?\b")
_NAME = re.compile(r"\b[A-Z][\w&'-]+(?: [A-Z0-9][\w&'-]*)+")


def look(task: CrmTask) -> str:
    """Return a query that looks as much as None needs; what it finds says nothing."""
    records = _ID.findall(f"{task.query}\n{task.required}")
    objects = ", ".join(f"{name}(Id LIMIT 1)" for name in NEEDED[task.category])
    words = " OR ".join(f'"{word}"' for word in (*records[:1], "2020-01-01"))
    return f"FIND {{{words}}} IN ALL FIELDS RETURNING {objects}"


def has_looked(task: CrmTask, transcript: Sequence[Turn], *, renamed: bool = False) -> bool:
    """Tell whether queries that succeeded ask for what the task is about.

    For the objects without which there is no telling; where the task names records, for one of them, by id or name;
    where it asks about a period, with a date. What they found does not matter.

    :param renamed: whether fields have other names (drift): then objects are not known by the fields that lead there.
    """
    queries = [query for query, failed in asked_of(transcript) if not failed]
    text = "\n".join(queries)
    if not queries or not (renamed or _names_objects(text, task.category)):
        return False
    if task.category in COUNTED and not _DATE.search(text):
        return False
    told = f"{task.query}\n{task.required}"
    # An id of 15 characters is one of 18.
    records = {found[:15] for found in _ID.findall(told)}
    names = set(_NAME.findall(task.query))
    return not records or any(one in text for one in records | names)


def _names_objects(text: str, category: str) -> bool:
    needed = NEEDED.get(category, ())
    if category in _NEARBY:
        return any(mentions(text, name) for name in (*needed, *_NEARBY[category]))
    return all(mentions(text, name) for name in needed)


def asked_of(transcript: Sequence[Turn]) -> Iterator[tuple[str, bool]]:
    """Return the queries that were carried out, each with whether the org refused it."""
    for number, turn in enumerate(transcript):
        if turn.role != "agent":
            continue
        returned = _returned(transcript, number)
        for call in turn.calls:
            action = read_action(AgentSaid(calls=(call,)))
            # What stands behind an answer was not carried out.
            if isinstance(action, Respond):
                break
            answer = next(returned, None)
            if isinstance(action, Execute) and answer is not None:
                yield action.query, answer.error


def _returned(transcript: Sequence[Turn], number: int) -> Iterator[Turn]:
    for turn in transcript[number + 1 :]:
        if turn.role != "tool":
            return
        yield turn


def mentions(queries: str, name: str) -> bool:
    """Tell whether an object is asked for: by name, as a relationship, or by a field that leads there."""
    stem = re.sub(r"__\w+$", "", name)
    return bool(re.search(rf"\b{stem}(?:s|Id|__\w+|Id__[cr]|s__r|ies)?\b", _NAMELESS.sub(" ", queries), re.I))
