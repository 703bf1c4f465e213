"""What makes the rows that nearly count, by category and shortcut, and where they are put."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import date, timedelta

from mini_org.building import SeededRandom, on_workday
from mini_org.near_rows import (
    Place,
    near_bought,
    near_case_routing,
    near_conversion,
    near_handle_time,
    near_issue_or_month,
    near_lead_routing,
    near_logged_twice,
    near_region,
    near_sales_amount,
    near_sales_cycle,
    near_transfers,
)
from mini_org.near_texts import (
    near_activity,
    near_draft,
    near_insight,
    near_same_lead,
    near_same_quote,
    near_stage,
)
from mini_org.time_windows import TimeWindow
from pytest_a2a_bench.benchmarks.crmarena.tasks import NONE, CrmTask

Maker = Callable[[Place], None]

MAKERS: Mapping[str, Mapping[str, Maker]] = {
    "handle_time": {"ignores-status": near_handle_time, "ignores-end": near_handle_time},
    "transfer_count": {
        "ignores-status": near_transfers,
        "counts-twice": near_logged_twice,
        "ignores-end": near_transfers,
    },
    "best_region_identification": {"ignores-status": near_region, "ignores-end": near_region},
    "top_issue_identification": {
        "ignores-status": near_issue_or_month,
        "joins-by-name": near_issue_or_month,
        "ignores-end": near_issue_or_month,
    },
    "monthly_trend_analysis": {
        "ignores-status": near_issue_or_month,
        "joins-by-name": near_issue_or_month,
        "ignores-end": near_issue_or_month,
    },
    "case_routing": {"ignores-status": near_case_routing},
    "named_entity_disambiguation": {"ignores-status": near_bought, "takes-a-namesake": near_bought},
    "policy_violation_identification": {"ignores-status": near_draft},
    "knowledge_qa": {"ignores-status": near_draft},
    "sales_amount_understanding": {
        "ignores-status": near_sales_amount,
        "ignores-currency": near_sales_amount,
        "counts-deleted-owners": near_sales_amount,
        "ignores-end": near_sales_amount,
    },
    "sales_cycle_understanding": {
        "ignores-status": near_sales_cycle,
        "counts-deleted-owners": near_sales_cycle,
        "ignores-end": near_sales_cycle,
    },
    "conversion_rate_comprehension": {
        "ignores-status": near_conversion,
        "counts-deleted-owners": near_conversion,
        "ignores-end": near_conversion,
    },
    "lead_routing": {"ignores-status": near_lead_routing},
    "lead_qualification": {"ignores-status": near_draft, "joins-by-name": near_same_lead},
    "quote_approval": {"ignores-status": near_draft, "joins-by-name": near_same_quote},
    "invalid_config": {"ignores-status": near_draft, "joins-by-name": near_same_quote},
    "wrong_stage_rectification": {"joins-by-name": near_stage},
    "activity_priority": {"ignores-status": near_activity, "joins-by-name": near_activity},
    "sales_insight_mining": {"joins-by-name": near_insight},
}
"""Category -> shortcut -> what makes the rows."""


def gold_of(task: CrmTask) -> str | None:
    """Return the single answer of a task, None where it has none or several."""
    return task.answers[0] if len(task.answers) == 1 and task.answers != (NONE,) else None


def day_for(window: TimeWindow | None, shortcut: str, rng: SeededRandom) -> date:
    """Return the day of a near miss: inside the window, or one working day behind its last border."""
    if window is None:
        return date(2023, 6, 14)
    if shortcut == "ignores-end":
        return on_workday(window.end + timedelta(days=1))
    days = (window.end - window.start).days
    return min(on_workday(window.start + timedelta(days=rng.between(2, max(2, days - 4)))), window.end - timedelta(1))
