"""Whether a live org is the one that tasks are about: compared before the first conversation."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from pytest_a2a_bench.benchmarks.crmarena.org.base import Org, OrgError
from pytest_a2a_bench.benchmarks.crmarena.org.schema import OrgSchema, SObject
from pytest_a2a_bench.errors import ConfigurationError, TransportError

_SHOWN = 5
_ABSENT = ("INVALID_TYPE", "INVALID_FIELD")
"""What an org says of an object or a field that it has not."""


def check_likeness(org: Org, schema: OrgSchema, counts: Mapping[str, int]) -> None:
    """Ask an org for every object and field that its tasks' agents are told of, and for its numbers of records.

    Two requests for each object. An org may have more records than the tasks' tables, as one cannot be without its own
    users and products, but never fewer.

    :param counts: records by object in the tasks' own tables; objects that are missing are not counted.
    :raises ConfigurationError: if it is another org.
    :raises InfrastructureError: if it cannot be asked.
    """
    found = list(_differences(org, schema, counts))
    if found:
        more = f", and {len(found) - _SHOWN} more" if len(found) > _SHOWN else ""
        raise ConfigurationError(
            f"{org.name} is not the org that the tasks are about: {'; '.join(found[:_SHOWN])}{more}; fill it with "
            "upstream's data, or leave out --a2a-crm-org salesforce"
        )


def _differences(org: Org, schema: OrgSchema, counts: Mapping[str, int]) -> Iterator[str]:
    for sobject in schema.objects:
        try:
            org.run(_all_fields(sobject))
            there = org.run(f"SELECT COUNT() FROM {sobject.name}").total_size
        except OrgError as refusal:
            if refusal.code not in _ABSENT:
                # A query that took too long says nothing of what is there.
                raise TransportError(f"{org.name} cannot be compared with the tasks: {refusal}") from refusal
            yield f"{sobject.name}: {refusal.message.strip().splitlines()[-1].split('. ')[0]}"
            continue
        wanted = counts.get(sobject.name, 0)
        if there < wanted:
            yield f"{sobject.name} has {there} records, the tasks' tables have {wanted}"


def _all_fields(sobject: SObject) -> str:
    return f"SELECT {', '.join(field.name for field in sobject.fields)} FROM {sobject.name} LIMIT 1"
