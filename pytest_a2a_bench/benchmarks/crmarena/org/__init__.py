"""Orgs that answer SOQL and SOSL: a local one over SQLite, and a live one over Salesforce's REST API."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, Protocol

from pytest_a2a_bench.benchmarks.crmarena.org.schema import OrgSchema

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
    """What a query found.

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
        """What objects and fields there are, as the agent may know them."""
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
