"""What an agent is told of a query's outcome, in the form in which upstream's environment tells it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from pytest_a2a_bench.benchmarks.crmarena.org.base import OrgError, QueryResult

LABEL = "Salesforce instance output: "
"""What stands before every observation."""

_ATTRIBUTES = "attributes"


def visible_records(records: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return records as the agent sees them: without ``attributes`` and without columns that are null in all of them.

    Only the outermost level is tidied, as upstream does: nested parents and children keep their ``attributes``.
    A column counts if the first record has it; upstream's records all have the same columns.
    """
    columns = [key for key in (records[0] if records else ()) if key != _ATTRIBUTES]
    empty = {key for key in columns if all(record.get(key) is None for record in records)}
    return [{k: v for k, v in record.items() if k != _ATTRIBUTES and k not in empty} for record in records]


def render_result(result: QueryResult) -> str:
    """Write what a query found, never truncated.

    ``SELECT COUNT()`` has no records, so it reads ``[]`` as upstream's does, although the prompt cannot say so without
    giving a query away; agents count with ``COUNT(Id)``.
    """
    return f"{LABEL}{visible_records(result.records)}"


def render_error(error: OrgError) -> str:
    """Write why the org refuses a query: ``{code}: {message}``."""
    return f"{LABEL}{error.code}: {error.message}"
