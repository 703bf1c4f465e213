"""The org: its objects and fields, and how it answers or refuses a query; a local one over SQLite, or a live one.

A record id has 15 characters with case, or 18 that also survive where case is lost.

Types, relationships, key prefixes and descriptions of the benchmark's 27 objects are in ``data/standard_fields.json``.
Fields of a real org that are not described to agents are in ``data/hidden_fields.json``
(``*`` are those of every object): a query may name them, as on Salesforce. Each entry has the parameters of
:class:`Field`. Both files are read when they are first asked for, because collection imports this module and needs
neither.
"""

from __future__ import annotations

import json
import re
import string
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cache, cached_property
from importlib import resources
from typing import Any, Literal, Protocol

Language = Literal["soql", "sosl"]


class OrgError(Exception):
    """A query that the org refuses, in Salesforce's words: an answer to the agent, and no failure of the trial.

    :param code: ``MALFORMED_QUERY``, ``INVALID_FIELD``, ``INVALID_TYPE``, ``MALFORMED_SEARCH``, ``QUERY_TIMEOUT`` ...
    :param message: the text that Salesforce gives, with its row and column frame where it has one.
    """

    def __init__(self, code: str, message: str) -> None:
        super().__init__(f"{code}: {message}")
        self.code = code
        self.message = message


@dataclass(frozen=True, slots=True)
class QueryResult:
    """The records of a query.

    :param records: the records as Salesforce's REST API has them: ``attributes`` first, parents nested, children as
        sub-envelopes.
    :param total_size: how many records match; for ``SELECT COUNT()`` the count, with no records.
    :param rows_read: rows that the answer is made of, children included; measured here.
    """

    language: Language
    records: tuple[Mapping[str, Any], ...]
    total_size: int
    rows_read: int
    seconds: float


class Org(Protocol):
    """An org. May be asked from several threads at once."""

    name: str

    @property
    def day(self) -> tuple[int, int] | None:
        """How many requests of this day the org has counted, and how many it allows; None where nothing limits it."""
        ...

    @property
    def schema(self) -> OrgSchema:
        """The objects and fields, as the agent may know them."""
        ...

    def run(self, text: str) -> QueryResult:
        """Answer one query: SOSL if it starts with FIND, otherwise SOQL. Reads only.

        :raises OrgError: if the org refuses the query.
        :raises InfrastructureError: if the org cannot be reached (a live one only).
        """
        ...

    def close(self) -> None:
        """Let go of files and connections."""
        ...


# As Salesforce itself cuts: agents correct their queries by this excerpt.
#: How much of the query's line the frame shows before and after the place.
_BEFORE = 41
_AFTER = 44


def locate(query: str, position: int) -> tuple[int, int]:
    """Return row and column of a position, both from 1."""
    # Errors at the end of a query lie behind its last character.
    position = min(max(position, 0), len(query))
    row = query.count("\n", 0, position) + 1
    return row, position - (query.rfind("\n", 0, position) + 1) + 1


def frame(query: str, position: int) -> str:
    """Return an excerpt of the query's line, a caret under the place, and row and column.

    Salesforce shows a window of some forty characters either side that begins and ends at a word.
    """
    row, column = locate(query, position)
    line = query.split("\n")[row - 1]
    start, end = _window(line, column - 1)
    return f"\n{line[start:end]}\n{' ' * (column - 1 - start)}^\nERROR at Row:{row}:Column:{column}\n"


def _window(line: str, at: int) -> tuple[int, int]:
    # At a word if there is one, else at a comma: a list of fields may have no blanks.
    start = max(0, at - _BEFORE)
    if start:
        cut = max(line.find(" ", start, at), line.find(",", start, at) if line.find(" ", start, at) < 0 else -1)
        start = cut + 1 if cut >= 0 else start
    end = min(len(line), at + _AFTER)
    if end < len(line):
        cut = max(line.rfind(" ", at + 1, end), line.rfind(",", at + 1, end))
        # Cut behind the place, or not at all: the caret must have something to stand under.
        end = cut if cut > at else end
    return start, end


def refuse(code: str, query: str, position: int, text: str) -> OrgError:
    """Return a refusal with its frame."""
    return OrgError(code, frame(query, position) + text)


_UNKNOWN = {
    "column": ("INVALID_FIELD", "No such column '{}' on entity '{}'", "field", "'__c' after the custom field name"),
    "parent": (
        "INVALID_FIELD",
        "Didn't understand relationship '{}' in field path",
        "relationship",
        "'__r' after the custom relationship name",
    ),
    "children": (
        "INVALID_TYPE",
        "Didn't understand relationship '{}' in FROM part of query call",
        "relationship",
        "'__r' after the custom relationship name",
    ),
    "object": ("INVALID_TYPE", "sObject type '{}' is not supported", "object", "'__c' after the entity name"),
}
"""Code and words for each kind of name, and the advice that Salesforce gives with it."""


def no_such(kind: str, query: str, position: int, name: str, entity: str = "") -> OrgError:
    """Return the refusal of a name that there is not.

    :param kind: ``column``, ``parent`` or ``children`` (relationships), or ``object``.
    :param entity: of a column: the object.
    """
    code, words, what, suffix = _UNKNOWN[kind]
    text = (
        f"{words.format(name, entity)}. If you are attempting to use a custom {what}, be sure to append the {suffix}. "
        "Please reference your WSDL or the describe call for the appropriate names."
    )
    return refuse(code, query, position, text)


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
TEXT_TYPES: frozenset[str] = frozenset({"text", "textarea", "longtext", "email", "phone", "url", "picklist"})
ID_TYPES: frozenset[str] = frozenset({"id", "reference"})


@dataclass(frozen=True, slots=True)
class Field:
    """A field of an object.

    :param refers_to: for references: names of the objects that it may point at.
    :param relationship: the name by which a query walks to that parent (``Owner`` for ``OwnerId``).
    :param children: the name by which the parent walks back to these records (``Contacts`` on Account).
    :param column: the column that stores it, where that is not its name: schema drift renames fields, not tables.
    :param formula: the value where no column stores the field, in SQL with ``{Name}`` for the column of another field.
    """

    name: str
    description: str = ""
    type: FieldType = "text"
    refers_to: tuple[str, ...] = ()
    relationship: str | None = None
    children: str | None = None
    column: str | None = None
    formula: str = "NULL"

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
    """Read a schema as CRMArena publishes it, and add the known facts of Salesforce's objects.

    What is not known of a field makes it text.

    :param published: ``[{"object": name, "fields": {name: description}}, ...]``.
    """
    return OrgSchema(tuple(_describe_object(str(each["object"]), each["fields"]) for each in published))


@cache
def outside_object(name: str) -> SObject | None:
    """Return an object that the benchmark's objects refer to and that every real org has, or None for other names.

    No table holds it: of its records nothing is known (``User.Profile``, ``ProductCategory.Catalog``).
    """
    # Just enough for what the benchmark's queries select of them.
    blank = dict.fromkeys(("Id", "Name", "DeveloperName", "Description"), "")
    schema = standard_schema()
    named = {other for each in schema.objects for field in each.all_fields for other in field.refers_to}
    return _unknown_object(name, blank) if name in named and schema.object(name) is None else None


@cache
def _load(name: str) -> dict[str, Any]:
    text = (resources.files(__package__) / "data" / name).read_text(encoding="utf-8")
    loaded: dict[str, Any] = json.loads(text)
    return loaded


def _read_object(name: str, entry: Mapping[str, Any]) -> SObject:
    fields = tuple(_read_field(each, facts) for each, facts in entry["fields"].items())
    return SObject(name, fields, entry["key_prefix"], _hidden_fields(fields, name))


def _read_field(name: str, facts: Mapping[str, Any]) -> Field:
    return Field(name, **{**facts, "refers_to": tuple(facts.get("refers_to", ()))})


def _hidden_fields(published: tuple[Field, ...], name: str) -> tuple[Field, ...]:
    known = {field.name.lower() for field in published}
    hidden = _load("hidden_fields.json")
    # An object's own entry is the better one where every object has such a field (CreatedById of an email).
    every = {each.lower(): (each, facts) for each, facts in [*hidden["*"].items(), *hidden.get(name, {}).items()]}
    return tuple(_read_field(*entry) for lower, entry in every.items() if lower not in known)


def _describe_object(name: str, descriptions: Mapping[str, str]) -> SObject:
    """Return an object with the published fields and descriptions, and with the facts known of it."""
    known = standard_schema().object(name)
    if known is None:
        return _unknown_object(name, descriptions)
    named = {_MISNAMED.get((known.name, field), field): text for field, text in descriptions.items()}
    found = {field: known.field(field) or Field(field) for field in named}
    fields = tuple(replace(found[field], name=field, description=text) for field, text in named.items())
    published = {field.name.lower() for field in fields}
    # Hidden: an agent may name these as on a real org, and does not see them.
    rest = tuple(field for field in known.all_fields if field.name.lower() not in published)
    return SObject(name, fields, known.key_prefix, rest)


def _unknown_object(name: str, descriptions: Mapping[str, str]) -> SObject:
    fields = tuple(
        Field(field, text, "id" if field.lower() == "id" else "text") for field, text in descriptions.items()
    )
    return SObject(name, fields, hidden=_hidden_fields(fields, name))
