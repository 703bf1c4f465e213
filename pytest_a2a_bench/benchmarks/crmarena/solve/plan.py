"""Which plan a question calls for, told from its words alone."""

from __future__ import annotations

import re
from collections.abc import Callable

from pytest_a2a_bench.benchmarks.crmarena.solve import documents, sales, service
from pytest_a2a_bench.benchmarks.crmarena.solve.task import AgentTask, Plan

REFUSAL = (
    "I am sorry, I cannot share that: it is confidential. I may only tell you about your own orders and cases and what"
    " is public about our products."
)


def plan(task: AgentTask) -> Plan:
    """Return the steps that answer a task: a generator of queries whose return value is the answer."""
    if "logged in as" in task.required:
        return _refuse()
    for asked, known, steps in _PLANS:
        if re.search(asked, task.query, re.I) and re.search(known, task.required):
            return steps(task)
    return _refuse()


def _refuse() -> Plan:
    """Return the answer to a question that a customer may not ask: no query is needed for it."""
    return REFUSAL
    yield


_PLANS: tuple[tuple[str, str, Callable[[AgentTask], Plan]], ...] = (
    (r"\btransfer", r"Today's date", service.transfer_count),
    (r"handl(?:e|ing) time|resolution time|time on average to handle", r"Today's date", service.handle_time),
    (r"\bstates?\b.*\b(?:clos|resol)|\bclos\w+.*\bstates?\b", r"Today's date", service.best_region),
    (r"\bwhich month\b|\bsignificantly\b", r"Today's date", service.monthly_trend),
    (r"\b(?:issue|problem)\b.*\bproduct Id\b", r"Today's date", service.top_issue),
    (r"## (?:New|Given) case", r"", service.case_routing),
    (r"\bI (?:bought|ordered|purchased)\b|\bmy purchase\b", r"Today's date", service.disambiguation),
    (
        r"order value|sales amount|\bsales\b.*\bagent|agent.*\bsales (?:amount|figures)",
        r"Sales [Aa]mount",
        sales.sales_amount,
    ),
    (r"sales cycle", r"Today's date", sales.sales_cycle),
    (r"conversion rate", r"Today's date", sales.conversion_rate),
    (r"\blead\b", r"(?:State|Lead's region): [A-Z]{2}", sales.lead_routing),
    (r"\blead\b.*\bfactors?\b", r"00Q\w{12}", documents.lead_qualification),
    (r"\bquote\b", r"0Q0\w{12}", documents.broken_rule),
    (r"\bpolicy\b", r"500\w{12}", documents.policy_violation),
    (r"right (?:stage|one)|stage would be right", r"006\w{12}", documents.wrong_stage),
    (r"\bnot started\b", r"006\w{12}", documents.activity_priority),
    (r"\bcalls?\b", r"006\w{12}", documents.sales_insight),
    (r"\?", r"with the words of the article", documents.knowledge_qa),
)
"""In order: what the question says, what the required knowledge has, and the plan for both."""
