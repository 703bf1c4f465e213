"""Schemas of the benchmark's 27 objects, and published schemas completed by them.

Types, relationships, key prefixes and descriptions of our own are in ``data/standard_fields.json``. The fields that
such an object also has on a real org, of which agents are not told, are in ``data/hidden_fields.json`` (``*`` are those
of every object): a query may name them, as on Salesforce. Each entry has the parameters of :class:`~.schema.Field`;
``longtext`` can be neither filtered, sorted nor grouped by there. Both files are read when they are first asked for,
because collection imports this module and needs neither.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import replace
from functools import cache
from importlib import resources
from typing import Any, get_args

from pytest_a2a_bench.benchmarks.crmarena.org.schema import Field, FieldType, Formula, OrgSchema, SObject

#: Fields that upstream's schema files call otherwise than its org and its databases do: queries know the latter.
_MISNAMED = {
    ("Issue__c", "IssueDescription__c"): "Description__c",
    ("VoiceCallTranscript__c", "TranscriptBody__c"): "Body__c",
}


@cache
def standard_schema() -> OrgSchema:
    """Return every object of the benchmark with descriptions of our own; the mini org has exactly these."""
    return OrgSchema(tuple(_read_object(name, entry) for name, entry in _load("standard_fields.json").items()))


def read_published(published: Iterable[Mapping[str, Any]]) -> OrgSchema:
    """Read a schema as CRMArena publishes it, and add what is known of Salesforce's objects.

    What is not known of a field makes it text.

    :param published: ``[{"object": name, "fields": {name: description}}, ...]``.
    """
    return OrgSchema(tuple(describe_object(str(each["object"]), each["fields"]) for each in published))


def outside_object(name: str) -> SObject | None:
    """Return an object that the benchmark's objects refer to and that every real org has, or None for other names.

    No table holds it: of its records nothing is known (``User.Profile``, ``ProductCategory.Catalog``).
    """
    # Just enough for what the benchmark's queries select of them.
    told = dict.fromkeys(("Id", "Name", "DeveloperName", "Description"), "")
    return _unknown_object(name, told) if name in _outside_names() else None


def describe_object(name: str, descriptions: Mapping[str, str]) -> SObject:
    """Return an object with the published fields and descriptions, and with the facts known of it.

    :param descriptions: the descriptions of fields that the agent sees, by name.
    """
    known = standard_schema().object(name)
    if known is None:
        return _unknown_object(name, descriptions)
    fields = tuple(
        _describe_field(known, _MISNAMED.get((known.name, field), field), text) for field, text in descriptions.items()
    )
    published = {field.name.lower() for field in fields}
    # Hidden: an agent may name these as on a real org, and does not see them.
    rest = tuple(field for field in known.all_fields if field.name.lower() not in published)
    return SObject(name, fields, known.key_prefix, rest)


@cache
def _load(name: str) -> dict[str, Any]:
    text = (resources.files(__package__) / "data" / name).read_text(encoding="utf-8")
    loaded: dict[str, Any] = json.loads(text)
    return loaded


def _read_object(name: str, entry: Mapping[str, Any]) -> SObject:
    fields = tuple(_read_field(each, facts) for each, facts in entry["fields"].items())
    return SObject(name, fields, entry["key_prefix"], _hidden_fields(fields, name))


def _read_field(name: str, facts: Mapping[str, Any]) -> Field:
    field_type: FieldType = facts["type"]
    if field_type not in get_args(FieldType):
        raise ValueError(f"field {name}: no such type as {field_type}")
    formula = facts.get("formula")
    return Field(
        name,
        facts.get("description", ""),
        field_type,
        tuple(facts.get("refers_to", ())),
        facts.get("relationship"),
        facts.get("children"),
        formula=Formula(formula["kind"], tuple(formula["operands"])) if formula else None,
    )


def _hidden_fields(published: tuple[Field, ...], name: str) -> tuple[Field, ...]:
    known = {field.name.lower() for field in published}
    hidden = _load("hidden_fields.json")
    # An object's own entry is the better one where every object has such a field (CreatedById of an email).
    every = {each.lower(): (each, facts) for each, facts in [*hidden["*"].items(), *hidden.get(name, {}).items()]}
    return tuple(_read_field(*entry) for lower, entry in every.items() if lower not in known)


@cache
def _outside_names() -> frozenset[str]:
    schema = standard_schema()
    named = {name for each in schema.objects for field in each.all_fields for name in field.refers_to}
    return frozenset(name for name in named if schema.object(name) is None)


def _describe_field(sobject: SObject, name: str, description: str) -> Field:
    known = sobject.field(name)
    return replace(known, name=name, description=description) if known else Field(name, description)


def _unknown_object(name: str, descriptions: Mapping[str, str]) -> SObject:
    fields = tuple(
        Field(field, text, "id" if field.lower() == "id" else "text") for field, text in descriptions.items()
    )
    return SObject(name, fields, hidden=_hidden_fields(fields, name))
