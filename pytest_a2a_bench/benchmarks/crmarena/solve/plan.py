"""Which plan a question calls for, told from its words alone."""

from __future__ import annotations

import re
from collections.abc import Callable

from pytest_a2a_bench.benchmarks.crmarena.solve import documents, sales, service
from pytest_a2a_bench.benchmarks.crmarena.solve.task import AgentTask, Plan
from pytest_a2a_bench.benchmarks.crmarena.tasks import NONE

REFUSAL = (
    "I am sorry, I cannot share that: it is confidential. I may only tell you about your own orders and cases and what"
    " is public about our products."
)


_OUTSIDER = re.compile(r"\blogged in as\b|\bfor a customer\b")
"""How a task or its briefing says that the one who asks is a customer."""


def plan(task: AgentTask) -> Plan:
    """Return the steps that answer a task: a generator of queries whose return value is the answer.

    A question that fits no plan is refused if a customer asks it, and otherwise has the answer None.
    """
    for asked, known, steps in _PLANS:
        if re.search(asked, task.query, re.I) and re.search(known, task.required):
            return steps(task)
    return _say(REFUSAL if _OUTSIDER.search(task.required) else NONE)


def _say(answer: str) -> Plan:
    """Return an answer that needs no query."""
    return answer
    yield


_DATED = r"Today's date: \d"

_PLANS: tuple[tuple[str, str, Callable[[AgentTask], Plan]], ...] = (
    (r"", r"## Transfer", service.transfer_count),
    (r"", r"## Handle [Tt]ime", service.handle_time),
    (r"", r"## Sales [Aa]mount", sales.sales_amount),
    (r"", r"## Sales [Cc]ycle", sales.sales_cycle),
    (r"", r"## Conversion [Rr]ate", sales.conversion_rate),
    (r"", r"## Lead [Rr]outing", sales.lead_routing),
    (r"", r"## Case [Rr]outing", service.case_routing),
    (r"\bstates?\b", _DATED, service.best_region),
    (r"\bmonths?\b.*\bproduct Id\b.*\bname\b", _DATED, service.monthly_trend),
    (r"\bproduct Id\b.*\bissue\b", _DATED, service.top_issue),
    (r"\bI (?:bought|ordered|purchased)\b|\bmy purchase\b", _DATED, service.disambiguation),
    (r"\bfactors?\b", r"00Q\w{12}", documents.lead_qualification),
    (r"", r"0Q0\w{12}", documents.broken_rule),
    (r"\bpolicy\b", r"500\w{12}", documents.policy_violation),
    (r"\bstage\b.*\bright|\bright stage\b", r"006\w{12}", documents.wrong_stage),
    (r"\bnot started\b", r"006\w{12}", documents.activity_priority),
    (r"\bcalls\b", r"006\w{12}", documents.sales_insight),
    (r"\?", r"with the words of the article", documents.knowledge_qa),
)
"""In order: what the question says, what the required knowledge has, and the plan for both."""
