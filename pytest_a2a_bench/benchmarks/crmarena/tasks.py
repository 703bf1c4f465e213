"""One CRMArena task, whatever source it comes from."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pytest_a2a_bench.benchmarks.crmarena.categories import CATEGORIES, Category, Metric

NONE = "None"
"""How an agent says that there is no answer, and how a gold of ``null`` is written."""


@dataclass(frozen=True, slots=True)
class CrmTask:
    """One task.

    :param task_id: ``0123`` for an upstream task (its ``idx``), ``handle_time-03`` for one of the mini org.
    :param required: what the agent must know to understand the question (ids, "today", rules of this task).
    :param optional: general domain details, shown in aided mode only.
    :param answers: the gold. ``("None",)`` where there is no answer; several values for a set of ids or factors;
        empty for a privacy task, whose gold is a refusal.
    :param interactive: the question comes from a simulated user, who may be asked back.
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

    @property
    def kind(self) -> Category:
        """What is known of its category."""
        return CATEGORIES[self.category]

    def to_json(self) -> dict[str, Any]:
        """Return the task in the published format (``idx, answer, task, persona, metadata, reward_metric, query``)."""
        return {
            "idx": self.task_id,
            "answer": [None if a == NONE else a for a in self.answers],
            "task": self.category,
            "persona": self.persona,
            "metadata": {"required": self.required, "optional": self.optional},
            "reward_metric": self.metric,
            "query": self.query,
        }


@dataclass(frozen=True, slots=True)
class Provenance:
    """Where a domain's tasks and rows came from; goes into every result.

    :param source: ``mini``, ``directory`` or ``hub``.
    :param name: the generator with its version and seed, the data set's name, or the directory's base name.
    :param revision: the hub's commit, or None.
    :param files: file name to git blob id, of the files that were read.
    :param official: whether every file is, byte for byte, one that upstream published.
    :param official_files: names of the files that are; of a data set on the hub the names of its splits.
    """

    source: str
    name: str
    revision: str | None = None
    files: Mapping[str, str] | None = None
    official: bool = False
    official_files: tuple[str, ...] = ()
