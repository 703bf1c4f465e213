"""Objects, fields and record ids of an org: the vocabulary of the agent's prompt and of the query engine.

A record id has 15 characters with case, or 18 that also survive where case is lost.
"""

from __future__ import annotations

import re
import string
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

FieldType = Literal[
    "id",
    "reference",
    "text",
    "textarea",
    "longtext",
    "email",
    "phone",
    "url",
    "picklist",
    "multipicklist",
    "number",
    "integer",
    "currency",
    "percent",
    "boolean",
    "date",
    "datetime",
]

NUMERIC_TYPES: frozenset[str] = frozenset({"number", "integer", "currency", "percent"})
#: Types whose values are words; ``longtext`` is text that Salesforce can neither filter, sort nor group by.
TEXT_TYPES: frozenset[str] = frozenset(
    {"text", "textarea", "longtext", "email", "phone", "url", "picklist", "multipicklist"}
)
ID_TYPES: frozenset[str] = frozenset({"id", "reference"})


@dataclass(frozen=True, slots=True)
class Formula:
    """How a field that no table stores gets its value.

    :param kind: ``constant`` (the first operand), ``words`` (the named fields joined by a blank) or ``among`` (whether
        the field named first has one of the values after it).
    """

    kind: Literal["constant", "words", "among"]
    operands: tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class Field:
    """A field of an object.

    :param refers_to: for references: names of the objects that it may point at.
    :param relationship: the name by which a query walks to that parent (``Owner`` for ``OwnerId``).
    :param children: the name by which the parent walks back to these records (``Contacts`` on Account).
    :param column: the column that stores it, where that is not its name: schema drift renames fields, not tables.
    :param formula: the value's source where no column stores the field.
    """

    name: str
    description: str = ""
    type: FieldType = "text"
    refers_to: tuple[str, ...] = ()
    relationship: str | None = None
    children: str | None = None
    column: str | None = None
    formula: Formula | None = None

    @property
    def stored_as(self) -> str:
        """Name of the column that holds the field."""
        return self.column or self.name

    @property
    # Salesforce's own sign of it.
    def custom(self) -> bool:
        """Whether it is a custom field of the org."""
        return self.name.lower().endswith("__c")


@dataclass(frozen=True)
class SObject:
    """An object of the org.

    :param fields: the fields that the agent sees.
    :param hidden: fields that such an object also has on a real org, which the agent does not see: queries may name
        them, and get null where no table stores them.
    :param key_prefix: the first three characters of its records' ids.
    """

    name: str
    fields: tuple[Field, ...]
    key_prefix: str = ""
    hidden: tuple[Field, ...] = ()

    @property
    def custom(self) -> bool:
        """Whether it is a custom object of the org."""
        return self.name.lower().endswith("__c")

    @cached_property
    def all_fields(self) -> tuple[Field, ...]:
        """Fields and hidden fields."""
        return self.fields + self.hidden

    @cached_property
    def _by_name(self) -> dict[str, Field]:
        # Reversed, so that of two fields of one name the first wins: a published field before a hidden one.
        return {field.name.lower(): field for field in reversed(self.all_fields)}

    @cached_property
    def _by_relationship(self) -> dict[str, Field]:
        return {field.relationship.lower(): field for field in reversed(self.all_fields) if field.relationship}

    def field(self, name: str) -> Field | None:
        """Return the field of that name in any case, or None."""
        return self._by_name.get(name.lower())

    def parent(self, relationship: str) -> Field | None:
        """Return the reference that a relationship name walks along, or None."""
        return self._by_relationship.get(relationship.lower())


@dataclass(frozen=True)
class ChildRelationship:
    """The way from a parent to its children: the children's object and their field that points at the parent."""

    name: str
    child: SObject
    field: Field


@dataclass(frozen=True)
class OrgSchema:
    """The objects of an org, in the order in which they are presented."""

    objects: tuple[SObject, ...]

    @cached_property
    def _by_name(self) -> dict[str, SObject]:
        return {sobject.name.lower(): sobject for sobject in self.objects}

    @cached_property
    def _children(self) -> dict[tuple[str, str], ChildRelationship]:
        found: dict[tuple[str, str], ChildRelationship] = {}
        for child in self.objects:
            for field in child.all_fields:
                # A reference to several objects makes a child of each of them.
                for parent in field.refers_to if field.children else ():
                    relationship = ChildRelationship(str(field.children), child, field)
                    found[parent.lower(), relationship.name.lower()] = relationship
        return found

    def object(self, name: str) -> SObject | None:
        """Return the object of that name in any case, or None."""
        return self._by_name.get(name.lower())

    def children(self, parent: SObject, name: str) -> ChildRelationship | None:
        """Return the child relationship of that name in any case, or None."""
        return self._children.get((parent.name.lower(), name.lower()))

    def to_json(self) -> list[dict[str, Any]]:
        """Return the schema in the published shape, without hidden fields, as an agent sees it."""
        return [
            {"object": sobject.name, "fields": {field.name: field.description for field in sobject.fields}}
            for sobject in self.objects
        ]


# Each of the three added characters stands for five of the others: bit by bit, which of these are capitals.
_SUFFIX = "ABCDEFGHIJKLMNOPQRSTUVWXYZ012345"
_OTHERS = re.compile("[^A-Z]")
_CAPITALS = str.maketrans(string.ascii_uppercase, "1" * 26)
_ID = re.compile(r"[0-9A-Za-z]{15}(?:[0-9A-Za-z]{3})?", re.ASCII)


# Only the form: an id of no record finds nothing and is no error.
def is_record_id(text: str) -> bool:
    """Return whether a text has the form of a record id."""
    return _ID.fullmatch(text) is not None


def checksum(record_id: str) -> str:
    """Return the three characters that say which of the first fifteen are capitals.

    :param record_id: at least 15 characters.
    """
    bits = _OTHERS.sub("0", record_id).translate(_CAPITALS)
    # The first character is the lowest bit.
    return _SUFFIX[int(bits[4::-1], 2)] + _SUFFIX[int(bits[9:4:-1], 2)] + _SUFFIX[int(bits[14:9:-1], 2)]


def spellings(record_id: str) -> tuple[str, ...]:
    """Return how the id of a record may be stored: with 18 characters, and with 15.

    :param record_id: an id of either length. One of 18 with a wrong checksum is left as it is.
    """
    if len(record_id) == 15:
        return record_id + checksum(record_id), record_id
    if record_id[15:] == checksum(record_id[:15]):
        return record_id, record_id[:15]
    return (record_id,)
