"""CRMArena's 22 task categories, one task of any source, and the 220 tasks of our own small org with its rows.

``tools/mini_org`` of the repository makes the data of that org.
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import date
from functools import cache
from importlib import resources
from typing import Any, Literal

Metric = Literal["exact_match", "fuzzy_match", "privacy_rejection"]

AnswerKind = Literal["id", "ids", "month", "state", "bant", "stage", "text", "refusal"]
"""The kind of a gold answer: one record id or several, a month's name, a state's two letters, BANT factors, a stage,
free text, or a refusal. Every kind but text and refusal may also be "None"."""


MONTHS = (
    *("January", "February", "March", "April", "May", "June"),
    *("July", "August", "September", "October", "November", "December"),
)
STAGES = ("Qualification", "Discovery", "Quote", "Negotiation", "Closed")
"""Values of an opportunity's ``StageName``, in the order in which a sale goes through them."""
BANT_FACTORS = ("Budget", "Authority", "Need", "Timeline")
"""By which a lead is qualified."""


@dataclass(frozen=True, slots=True)
class Category:
    """One category.

    :param key_prefix: first three characters of the ids that answers are made of, where they are ids.
    :param external: asked by a customer, who may see public data only.
    """

    name: str
    answer: AnswerKind
    metric: Metric = "exact_match"
    key_prefix: str = ""
    external: bool = False


# Metrics as upstream publishes them; a prefix tells what kind of record an id is of.
_ALL = (
    Category("handle_time", "id", key_prefix="005"),
    Category("transfer_count", "id", key_prefix="005"),
    Category("best_region_identification", "state"),
    Category("top_issue_identification", "id", key_prefix="a03"),
    Category("monthly_trend_analysis", "month"),
    Category("case_routing", "id", key_prefix="005"),
    Category("named_entity_disambiguation", "id", key_prefix="01t", external=True),
    Category("policy_violation_identification", "id", key_prefix="ka0"),
    Category("knowledge_qa", "text", "fuzzy_match", external=True),
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


NONE = "None"
"""How an agent says that there is no answer, and how a gold of ``null`` is written."""


@dataclass(frozen=True, slots=True)
class Twin:
    """The benign side of a question that must be refused: who refuses everything fails it.

    :param query: a question that this customer may ask, as much about a code as the other question.
    :param answer: the code that is to be said.
    :param secret: the code that the other question is about; it stands in one row of the org and nowhere else.
    """

    query: str
    answer: str
    secret: str


@dataclass(frozen=True, slots=True)
class CrmTask:
    """One task.

    :param task_id: ``0123`` for an upstream task (its ``idx``), ``handle_time-03`` for one of the mini org.
    :param required: facts that the agent needs to understand the question (ids, "today", rules of this task).
    :param optional: general domain details, shown in aided mode only.
    :param answers: the gold. ``("None",)`` where there is no answer; several values for a set of ids or factors;
        empty for a privacy task, whose gold is a refusal.
    :param interactive: the question comes from a simulated user, who may be asked back.
    :param twin: of a privacy task of the mini org: to be asked beside the question where the profile is ``strict``.
    """

    task_id: str
    category: str
    query: str
    metric: Metric
    answers: tuple[str, ...] = ()
    persona: str = ""
    required: str = ""
    optional: str = ""
    interactive: bool = False
    twin: Twin | None = None

    def with_twin(self) -> CrmTask:
        """Return the task with both questions in one, the benign one last; itself where it has no twin."""
        if self.twin is None:
            return self
        return replace(self, query=f"I have two questions. {self.query.strip()} {self.twin.query}")

    @property
    def asked_twin(self) -> Twin | None:
        """The twin, where the question asks for it, too."""
        return self.twin if self.twin is not None and self.query.endswith(self.twin.query) else None

    @property
    def kind(self) -> Category:
        """The facts of its category."""
        return CATEGORIES[self.category]


@dataclass(frozen=True, slots=True)
class Provenance:
    """Where a domain's tasks and rows came from; goes into every result.

    :param source: ``mini`` or ``directory``.
    :param name: the mini org with its version, or the directory's base name.
    :param files: file name to git blob id, of the files that were read.
    :param official: whether every file is, byte for byte, one that upstream published.
    :param official_files: names of the files that are.
    """

    source: str
    name: str
    files: Mapping[str, str] | None = None
    official: bool = False
    official_files: tuple[str, ...] = ()


ROWS = "mini_rows.json.gz"
TASKS = "mini_tasks.json.gz"
ROT = "mini_rot.json.gz"

Rows = dict[str, list[dict[str, Any]]]
"""Records by object."""


@dataclass(frozen=True, slots=True)
class MiniTasks:
    """The tasks.

    :param name: the org with the version of its data.
    :param today: the day that relative dates in queries (``LAST_MONTH`` ...) are counted from.
    """

    name: str
    today: date
    tasks: tuple[CrmTask, ...]


@dataclass(frozen=True, slots=True)
class Rot:
    """Distractor rows, none of which changes a right answer.

    :param shortcuts: names of the shortcuts that the rows are made for -> such an agent's act, behind "one who".
    :param traps: by task and shortcut the wrong answer that the shortcut gives.
    """

    rows: Rows
    shortcuts: Mapping[str, str]
    traps: Mapping[str, Mapping[str, str]]


@cache
def read_tasks() -> MiniTasks:
    """Return the tasks, by category in the order of the categories."""
    data = _load(TASKS)
    return MiniTasks(
        data["name"], date.fromisoformat(data["today"]), tuple(_task(each, data["optional"]) for each in data["tasks"])
    )


def read_rows() -> Rows:
    """Return the org's records."""
    return _records(_load(ROWS))


@cache
def read_rot() -> Rot:
    """Return the distractor rows and their purpose."""
    data = _load(ROT)
    return Rot(_records(data["rows"]), data["shortcuts"], data["traps"])


def _load(name: str) -> Any:
    return json.loads(gzip.decompress((resources.files(__package__) / "data" / name).read_bytes()))


def _records(objects: Mapping[str, Mapping[str, Any]]) -> Rows:
    return {
        name: [dict(zip(each["columns"], row, strict=True)) for row in each["rows"]] for name, each in objects.items()
    }


def _task(entry: Mapping[str, Any], optional: str) -> CrmTask:
    category = entry["id"].rpartition("-")[0]
    return CrmTask(
        task_id=entry["id"],
        category=category,
        query=entry["query"],
        metric=CATEGORIES[category].metric,
        answers=tuple(entry["answers"]),
        persona=entry["persona"],
        required=entry["required"],
        optional=optional,
        twin=Twin(*entry["twin"]) if "twin" in entry else None,
    )
