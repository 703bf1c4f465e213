"""What a live org says of its objects (``describe``), as a schema. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from pytest_a2a_bench.benchmarks.crmarena.org.schema import Field, FieldType, OrgSchema, SObject

_TYPES: Mapping[str, FieldType] = {
    "id": "id",
    "reference": "reference",
    "textarea": "textarea",
    "email": "email",
    "phone": "phone",
    "url": "url",
    "picklist": "picklist",
    "combobox": "picklist",
    "multipicklist": "multipicklist",
    "double": "number",
    "int": "integer",
    "long": "integer",
    "currency": "currency",
    "percent": "percent",
    "boolean": "boolean",
    "date": "date",
    "datetime": "datetime",
}
"""Salesforce's names of types to ours; every other one is text."""


def read_schema(descriptions: Iterable[Mapping[str, Any]]) -> OrgSchema:
    """Make a schema of the answers to ``/sobjects/NAME/describe``, in their order."""
    described = list(descriptions)
    children = {
        (str(child["childSObject"]), str(child["field"])): str(child["relationshipName"])
        for parent in described
        for child in parent.get("childRelationships", ())
        if child.get("relationshipName")
    }
    return OrgSchema(tuple(_sobject(each, children) for each in described))


def _sobject(description: Mapping[str, Any], children: Mapping[tuple[str, str], str]) -> SObject:
    name = str(description["name"])
    fields = tuple(_field(each, children.get((name, str(each["name"])))) for each in description.get("fields", ()))
    return SObject(name, fields, str(description.get("keyPrefix") or ""))


def _field(described: Mapping[str, Any], children: str | None) -> Field:
    kind = str(described.get("type", ""))
    return Field(
        name=str(described["name"]),
        description=str(described.get("inlineHelpText") or described.get("label") or ""),
        type=_type(kind, int(described.get("length") or 0)),
        refers_to=tuple(map(str, described.get("referenceTo") or ())),
        relationship=described.get("relationshipName") or None,
        children=children,
    )


def _type(kind: str, length: int) -> FieldType:
    if kind == "textarea" and length > _LONGEST_TEXT_AREA:
        return "longtext"
    return _TYPES.get(kind, "text")


_LONGEST_TEXT_AREA = 255
