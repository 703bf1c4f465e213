"""How Salesforce words a refusal: codes, texts, and the frame that points at the place in the query."""

from __future__ import annotations

from pytest_a2a_bench.benchmarks.crmarena.org.base import OrgError

#: How much of the query's line the frame shows before and after the place.
_BEFORE = 41
_AFTER = 44


def locate(query: str, position: int) -> tuple[int, int]:
    """Return row and column of a position, both from 1."""
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
    start = max(0, at - _BEFORE)
    if start:
        cut = max(line.find(" ", start, at), line.find(",", start, at) if line.find(" ", start, at) < 0 else -1)
        start = cut + 1 if cut >= 0 else start
    end = min(len(line), at + _AFTER)
    if end < len(line):
        cut = max(line.rfind(" ", at + 1, end), line.rfind(",", at + 1, end))
        end = cut if cut > at else end
    return start, end


def refuse(code: str, query: str, position: int, text: str) -> OrgError:
    """Return a refusal with its frame."""
    return OrgError(code, frame(query, position) + text)


def unexpected_token(query: str, position: int, token: str, *, code: str = "MALFORMED_QUERY") -> OrgError:
    """Return the refusal of a token that cannot stand where it does."""
    return refuse(code, query, position, f"unexpected token: '{token}'")


def no_such_column(query: str, position: int, name: str, entity: str) -> OrgError:
    """Return the refusal of a field that the object does not have."""
    return refuse(
        "INVALID_FIELD",
        query,
        position,
        f"No such column '{name}' on entity '{entity}'. If you are attempting to use a custom field, be sure to append "
        "the '__c' after the custom field name. Please reference your WSDL or the describe call for the appropriate "
        "names.",
    )


def no_such_relationship(query: str, position: int, name: str) -> OrgError:
    """Return the refusal of a parent relationship that the object does not have."""
    return refuse(
        "INVALID_FIELD",
        query,
        position,
        f"Didn't understand relationship '{name}' in field path. If you are attempting to use a custom relationship, "
        "be sure to append the '__r' after the custom relationship name. Please reference your WSDL or the describe "
        "call for the appropriate names.",
    )


def no_such_children(query: str, position: int, name: str) -> OrgError:
    """Return the refusal of a child relationship that the object does not have."""
    return refuse(
        "INVALID_TYPE",
        query,
        position,
        f"Didn't understand relationship '{name}' in FROM part of query call. If you are attempting to use a custom "
        "relationship, be sure to append the '__r' after the custom relationship name. Please reference your WSDL or "
        "the describe call for the appropriate names.",
    )


def no_such_object(query: str, position: int, name: str) -> OrgError:
    """Return the refusal of an object that the org does not have."""
    return refuse(
        "INVALID_TYPE",
        query,
        position,
        f"sObject type '{name}' is not supported. If you are attempting to use a custom object, be sure to append the "
        "'__c' after the entity name. Please reference your WSDL or the describe call for the appropriate names.",
    )
