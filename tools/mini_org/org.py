"""The mini org as a whole: building it, its tasks, and its tables as SQLite."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date
from functools import lru_cache
from pathlib import Path
from typing import Any

from mini_org import (
    articles,
    calls,
    deals,
    orders,
    privacy,
    quotes,
    routing,
    sales,
    service,
)
from mini_org.building import SeededRandom, TaskDraft
from mini_org.company import Company, add_basics
from mini_org.ids import task_id
from mini_org.words import COMPANY, PERSONAS
from pytest_a2a_bench.benchmarks.crmarena.org import NUMERIC_TYPES, OrgSchema, SObject, standard_schema
from pytest_a2a_bench.benchmarks.crmarena.tasks import CATEGORIES, NONE, CrmTask

VERSION = "3"
"""Counts up when the same seed gives another org or other tasks."""
DEFAULT_SEED = 1
DEFAULT_TASKS = 10
TODAY = date(2024, 1, 15)

_OPTIONAL = f"""\
## About the company
- {COMPANY} sells measuring and control devices to factories. Agents are users of the org; customers are contacts.
## Words for time
- Q1 is January to March, Q2 April to June, Q3 July to September, Q4 October to December.
- Spring is March to May, summer June to August, autumn September to November. Winter begins in December and is named
  by the year of that December.
- The past N quarters are the 3 x N months before today, counted from today's day of the month."""


@dataclass(frozen=True, slots=True)
class MiniOrg:
    """The org that was built.

    :param rows: by object, in the shape of the official tables; every field of the schema is in every row.
    :param tasks: by category in the order of the categories, with golds.
    :param today: the day that relative dates in queries (``LAST_MONTH`` ...) are counted from; each task names its own
        in its required knowledge.
    """

    seed: int
    tasks_per_category: int
    rows: Mapping[str, Sequence[Mapping[str, Any]]]
    tasks: tuple[CrmTask, ...]
    today: date = TODAY
    schema: OrgSchema = field(default_factory=standard_schema)

    @property
    def name(self) -> str:
        """Generator, version and seed, as results name the source."""
        return f"mini-{VERSION}, seed {self.seed}"

    def write_sqlite(self, path: Path) -> None:
        """Write the tables to a new SQLite file.

        :raises FileExistsError: if there is a file already.
        """
        if path.exists():
            raise FileExistsError(f"{path} is there already; the mini org is only written to new files")
        connection = sqlite3.connect(path)
        try:
            fill(connection, self.rows, self.schema)
        finally:
            connection.close()

    def publish(self, folder: Path, tasks: Sequence[CrmTask], *, rows: bool = True) -> None:
        """Write some tasks, the schema and the tables as upstream publishes those of its b2b org."""
        folder.mkdir(exist_ok=True)
        numbered = [task_row(task) | {"idx": number} for number, task in enumerate(tasks)]
        (folder / "b2b_tasks.json").write_text(json.dumps(numbered))
        (folder / "b2b_schema.json").write_text(json.dumps(schema_rows(self.schema)))
        if rows:
            self.write_sqlite(folder / "crmarenapro_b2b_data.db")


def task_row(task: CrmTask) -> dict[str, Any]:
    """Return a task in the published form."""
    return {
        "idx": task.task_id,
        "answer": [None if answer == NONE else answer for answer in task.answers],
        "task": task.category,
        "persona": task.persona,
        "metadata": {"required": task.required, "optional": task.optional},
        "reward_metric": task.metric,
        "query": task.query,
    }


def schema_rows(schema: OrgSchema) -> list[dict[str, Any]]:
    """Return a schema in the published form."""
    return [{"object": o.name, "fields": {f.name: f.description for f in o.fields}} for o in schema.objects]


@lru_cache(maxsize=4)
def build(*, seed: int = DEFAULT_SEED, tasks_per_category: int = DEFAULT_TASKS) -> MiniOrg:
    """Build the org and its tasks; the same arguments give the same org everywhere."""
    company = Company(seed, tasks_per_category)
    drafts = _grow(company)
    # Every field of the schema, as in an export of a real org: nothing shows by its absence which rows a task is about.
    rows = {
        sobject.name: _complete(sobject, company.tables.rows[sobject.name]) for sobject in standard_schema().objects
    }
    return MiniOrg(seed, tasks_per_category, rows, _number(company, drafts))


def _grow(company: Company) -> dict[str, list[TaskDraft]]:
    """Make all rows first and only then the tasks that count them, because every row may count."""
    add_basics(company)
    orders.make_orders(company)
    service.make_cases(company)
    sales.make_leads(company)
    sales.make_deals(company)
    book = quotes.write_rules(company)
    drafts = {
        "quote_approval": quotes.quote_approval(company, book),
        "invalid_config": quotes.invalid_config(company, book),
        "wrong_stage_rectification": deals.wrong_stage(company),
        "activity_priority": deals.activity_priority(company),
        "lead_qualification": calls.lead_qualification(company),
        "sales_insight_mining": calls.sales_insight(company),
        "knowledge_qa": articles.knowledge_qa(company),
    }
    quotes.fill_quotes(company, book)
    quotes.plant_lead_ties(company, book)
    routing.plant_case_ties(company)
    routing.plant_lead_workloads(company)
    calls.fill_calls(company)
    deals.fill_activities(company)
    drafts["policy_violation_identification"] = articles.policy_violation(company)
    return drafts | {name: make(company) for name, make in _COUNTING.items()}


_COUNTING: dict[str, Callable[[Company], list[TaskDraft]]] = {
    "handle_time": service.handle_time,
    "transfer_count": service.transfer_count,
    "best_region_identification": service.best_region,
    "top_issue_identification": service.top_issue,
    "monthly_trend_analysis": service.monthly_trend,
    "case_routing": routing.case_routing,
    "named_entity_disambiguation": orders.disambiguation,
    "sales_amount_understanding": orders.sales_amount,
    "sales_cycle_understanding": sales.sales_cycle,
    "conversion_rate_comprehension": sales.conversion_rate,
    "lead_routing": routing.lead_routing,
    "private_customer_information": privacy.private_information,
    "internal_operation_data": privacy.internal_data,
    "confidential_company_knowledge": privacy.company_secrets,
}


def _number(company: Company, drafts: Mapping[str, Sequence[TaskDraft]]) -> tuple[CrmTask, ...]:
    rng = SeededRandom(company.seed, "personas")
    return tuple(
        CrmTask(
            task_id=task_id(name, number, company.per_category),
            category=name,
            query=draft.query,
            metric=category.metric,
            answers=draft.answers,
            persona=rng.pick(PERSONAS),
            required=draft.required,
            optional=_OPTIONAL,
            twin=draft.twin,
        )
        for name, category in CATEGORIES.items()
        for number, draft in enumerate(drafts[name])
    )


def _complete(sobject: SObject, rows: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    columns = [field.name for field in sobject.fields]
    return [{column: row.get(column) for column in columns} for row in rows]


def fill(connection: sqlite3.Connection, rows: Mapping[str, Sequence[Mapping[str, Any]]], schema: OrgSchema) -> None:
    """Create the schema's tables in an empty database and put the rows into them."""
    with connection:
        for sobject in schema.objects:
            kinds = {
                field.name: "REAL" if field.type in NUMERIC_TYPES else "INTEGER" if field.type == "boolean" else "TEXT"
                for field in sobject.fields
            }
            columns = ", ".join(
                f'"{name}" {kind}{" PRIMARY KEY" if name == "Id" else ""}' for name, kind in kinds.items()
            )
            connection.execute(f'CREATE TABLE "{sobject.name}" ({columns})')
            marks = ", ".join("?" for _ in kinds)
            made = ([row[name] for name in kinds] for row in rows.get(sobject.name, ()))
            connection.executemany(f'INSERT INTO "{sobject.name}" VALUES ({marks})', made)
