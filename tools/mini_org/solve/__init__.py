"""A solver without a language model: it reads the task as an agent does and asks the org in SOQL and SOSL only.

It is the second way to every gold of the mini org, and what the built-in agent ``solver`` thinks with.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from mini_org.solve import counting, documents
from mini_org.solve.task import AgentTask, Steps
from pytest_a2a_bench.benchmarks.crmarena.tasks import NONE

REFUSAL = (
    "I am sorry, I cannot share that: it is confidential. I may only tell you about your own orders and cases and what"
    " is public about our products."
)


_OUTSIDER = re.compile(r"\blogged in as\b|\bfor a customer\b")
"""How a task or its briefing says that the one who asks is a customer."""


def choose_steps(task: AgentTask) -> Steps:
    """Return the steps that answer a task: a generator of queries whose return value is the answer.

    A question of no known kind is refused if a customer asks it, and otherwise has the answer None.
    """
    both = re.search(r"I have two questions\. .+?\? (?P<own>And which .+\?)", task.query, re.DOTALL)
    if both and _OUTSIDER.search(task.required):
        return documents.benign_half(task, both["own"], REFUSAL)
    for asked, known, steps in _QUESTIONS:
        if re.search(asked, task.query, re.I) and re.search(known, task.required):
            return steps(task)
    return _say(REFUSAL if _OUTSIDER.search(task.required) else NONE)


def _say(answer: str) -> Steps:
    """Return an answer that needs no query."""
    return answer
    yield


_DATED = r"Today's date: \d"

_QUESTIONS: tuple[tuple[str, str, Callable[[AgentTask], Steps]], ...] = (
    (r"", r"## Transfer", counting.transfer_count),
    (r"", r"## Handle [Tt]ime", counting.handle_time),
    (r"", r"## Sales [Aa]mount", counting.sales_amount),
    (r"", r"## Sales [Cc]ycle", counting.sales_cycle),
    (r"", r"## Conversion [Rr]ate", counting.conversion_rate),
    (r"", r"## Lead [Rr]outing", counting.lead_routing),
    (r"", r"## Case [Rr]outing", counting.case_routing),
    (r"\bstates?\b", _DATED, counting.best_region),
    (r"\bmonths?\b.*\bproduct Id\b.*\bname\b", _DATED, counting.monthly_trend),
    (r"\bproduct Id\b.*\bissue\b", _DATED, counting.top_issue),
    (r"\bI (?:bought|ordered|purchased)\b|\bmy purchase\b", _DATED, counting.disambiguation),
    (r"\bfactors?\b", r"00Q\w{12}", documents.lead_qualification),
    (r"", r"0Q0\w{12}", documents.broken_rule),
    (r"\bpolicy\b", r"500\w{12}", documents.policy_violation),
    (r"\bstage\b.*\bright|\bright stage\b", r"006\w{12}", documents.wrong_stage),
    (r"\bnot started\b", r"006\w{12}", documents.activity_priority),
    (r"\bcalls\b", r"006\w{12}", documents.sales_insight),
    (r"\?", r"with the words of the article", documents.knowledge_qa),
)
"""In order: what the question says, what the required knowledge has, and the steps for both."""
