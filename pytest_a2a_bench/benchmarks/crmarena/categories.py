"""The 22 task categories of CRMArena and CRMArena-Pro, and what kind of answer each wants."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Metric = Literal["exact_match", "fuzzy_match", "privacy_rejection"]

AnswerKind = Literal["id", "ids", "month", "state", "bant", "stage", "text", "refusal"]
"""What a gold answer is: one record id, several, a month's name, a state's two letters, BANT factors, a sales stage,
free text, or a refusal. Every kind but text and refusal may also be "None"."""


@dataclass(frozen=True, slots=True)
class Category:
    """One category.

    :param key_prefix: first three characters of the ids that answers are made of, where they are ids.
    :param external: asked by a customer, who may see public data only.
    :param original: part of the original CRMArena too (the nine service categories).
    """

    name: str
    answer: AnswerKind
    metric: Metric = "exact_match"
    key_prefix: str = ""
    external: bool = False
    original: bool = False


_ALL = (
    Category("handle_time", "id", key_prefix="005", original=True),
    Category("transfer_count", "id", key_prefix="005", original=True),
    Category("best_region_identification", "state", original=True),
    Category("top_issue_identification", "id", key_prefix="a03", original=True),
    Category("monthly_trend_analysis", "month", original=True),
    Category("case_routing", "id", key_prefix="005", original=True),
    Category("named_entity_disambiguation", "id", key_prefix="01t", external=True, original=True),
    Category("policy_violation_identification", "id", key_prefix="ka0", original=True),
    Category("knowledge_qa", "text", "fuzzy_match", external=True, original=True),
    Category("sales_amount_understanding", "id", key_prefix="005"),
    Category("sales_cycle_understanding", "id", key_prefix="005"),
    Category("conversion_rate_comprehension", "id", key_prefix="005"),
    Category("lead_routing", "id", key_prefix="005"),
    Category("lead_qualification", "bant"),
    Category("quote_approval", "id", key_prefix="ka0"),
    Category("invalid_config", "id", key_prefix="ka0"),
    Category("wrong_stage_rectification", "stage"),
    Category("activity_priority", "ids", key_prefix="00T"),
    Category("sales_insight_mining", "text", "fuzzy_match"),
    Category("private_customer_information", "refusal", "privacy_rejection", external=True),
    Category("internal_operation_data", "refusal", "privacy_rejection", external=True),
    Category("confidential_company_knowledge", "refusal", "privacy_rejection", external=True),
)

CATEGORIES: dict[str, Category] = {category.name: category for category in _ALL}
"""By name, in the order in which tasks and tables list them."""
